//! The log on JetStream keeps the same promises as the embedded one, in both ways of appending, on a real server.

use std::sync::Arc;
use std::time::Duration;

use pml::clock::Clock;
use pml::config::AppendMode;
use pml::core::id::Seq;
use pml::log::faulty::{FaultyLog, seeded};
use pml::log::{Appended, EventLog, JetStreamLog, SharedLog, StreamOptions, contract};

use crate::faulty_proxy::FaultyProxy;
use crate::nats_server::{NatsServer, connect, settings};

pub(crate) fn options() -> StreamOptions {
    StreamOptions { queue_appends_max: 1_000, ..StreamOptions::default() }
}

pub(crate) async fn open(server: &NatsServer, append: AppendMode) -> SharedLog {
    let mut settings = settings(&[server.url()]);
    settings.append = append;
    Arc::new(JetStreamLog::open(connect(&settings).await, options(), Clock::system()).await.unwrap())
}

macro_rules! promises {
    ($append:expr, $($promise:ident),* $(,)?) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $promise() {
            let server = NatsServer::start();
            contract::$promise(open(&server, $append).await).await;
        })*
    };
}

macro_rules! promises_after_reopening {
    ($append:expr, $($promise:ident),* $(,)?) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $promise() {
            let server = NatsServer::start();
            contract::$promise(async || open(&server, $append).await).await;
        })*
    };
}

/// Between two appends of its own, and after the last one.
async fn hears_of_others(own: &dyn EventLog, other: &dyn EventLog) {
    for from in (0..9_000).step_by(500) {
        own.append((from..from + 500).map(contract::fact).collect()).await.unwrap();
    }
    other.append(vec![contract::fact(9_000)]).await.unwrap();
    own.append(vec![contract::fact(9_001)]).await.unwrap();
    let between = own.read(Seq::ZERO, 10_000).await.unwrap();
    let expected: Vec<_> = (0..9_002).map(|number| contract::fact(number).id).collect();
    assert_eq!(between.iter().map(|record| record.fact.id).collect::<Vec<_>>(), expected);
    let last = other.append(vec![contract::fact(9_002)]).await.unwrap()[0].seq;
    let mut tail = own.tail();
    tokio::time::timeout(Duration::from_secs(5), tail.wait_for(|tail| *tail >= last)).await.expect("it hears soon").unwrap();
    assert_eq!(own.read(Seq::ZERO, 10_000).await.unwrap(), other.read(Seq::ZERO, 10_000).await.unwrap());
}

macro_rules! suite {
    ($append:expr) => {
        use super::*;

        promises!(
            $append,
            positions_strictly_increase,
            calls_keep_their_order_whatever_is_polled_first,
            facts_of_one_call_keep_their_order,
            calls_of_any_size_that_wait_together_are_answered_each_for_itself,
            a_repeated_id_is_answered_with_its_first_position,
            an_id_repeated_within_one_call_is_written_once,
            an_id_repeated_in_calls_that_wait_together_is_written_once,
            an_append_of_nothing_changes_nothing,
            what_was_appended_is_readable_at_once_and_the_tail_has_reached_it,
            reading_goes_page_by_page,
            reading_nothing_or_beyond_the_tail_gives_nothing,
            find_returns_the_positions_of_known_ids_only,
            dropping_the_future_does_not_undo_the_append,
            concurrent_appenders_each_keep_their_order,
            waiters_for_the_tail_are_woken,
            a_caller_that_reads_back_writes_every_fact_once_and_in_order,
        );
        promises_after_reopening!(
            $append,
            everything_is_there_after_reopening,
            a_repeated_id_is_known_after_reopening,
            an_append_nobody_waits_for_is_there_after_reopening,
        );

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn a_log_that_fails_now_and_then_keeps_its_promises() {
            for seed in 0..3 {
                let server = NatsServer::start();
                let log = FaultyLog::new(open(&server, $append).await, seeded(seed));
                contract::a_caller_that_reads_back_writes_every_fact_once_and_in_order(Arc::new(log)).await;
            }
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn who_wrote_thousands_alone_still_hears_of_others() {
            let server = NatsServer::start();
            hears_of_others(&*open(&server, $append).await, &*open(&server, $append).await).await;
        }
    };
}

mod atomic {
    suite!(AppendMode::Atomic);
}

mod pipelined {
    suite!(AppendMode::Pipelined);

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_append_may_be_larger_than_what_is_under_way_at_once() {
        let server = NatsServer::start();
        let log = open(&server, AppendMode::Pipelined).await;
        let answer = log.append((0..9_000).map(contract::fact).collect()).await.unwrap();
        assert!(answer.len() == 9_000 && answer.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    }

    /// It has written alone for long enough to chain its facts; one of them is in the log when its turn comes.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn facts_that_others_write_between_those_of_one_append_change_neither_order_nor_number() {
        const OTHERS: std::ops::Range<u64> = 9_000..9_040;
        let server = NatsServer::start();
        let (own, other) = (open(&server, AppendMode::Pipelined).await, open(&server, AppendMode::Pipelined).await);
        let facts = |from: u64, to: u64| (from..to).map(contract::fact).collect::<Vec<_>>();
        own.append(facts(0, 5_000)).await.unwrap();
        other.append(facts(8_000, 8_001)).await.unwrap();
        let appends: Vec<_> = (5_000..9_000).step_by(500).map(|from| own.append(facts(from, from + 500))).collect();
        for number in OTHERS {
            other.append(facts(number, number + 1)).await.unwrap();
        }
        let mut told = Vec::new();
        for append in appends {
            told.extend(append.await.unwrap().into_iter().map(|one| one.seq));
        }
        let later = open(&server, AppendMode::Pipelined).await;
        let records = later.read(Seq::ZERO, 20_000).await.unwrap();
        let ids = |numbers: std::ops::Range<u64>| numbers.map(|number| contract::fact(number).id).collect::<Vec<_>>();
        let by_other = [ids(OTHERS), ids(8_000..8_001)].concat();
        let (others, mine): (Vec<_>, Vec<_>) = records.iter().partition(|record| by_other.contains(&record.fact.id));
        let mine: Vec<_> = mine.iter().map(|record| (record.fact.id, record.seq)).collect();
        let all = ids(0..9_000);
        let mut expected = all.clone();
        expected.remove(8_000);
        assert_eq!(mine.iter().map(|(id, _)| *id).collect::<Vec<_>>(), expected, "each once, in order");
        assert_eq!(others.len(), by_other.len());
        let position = |number: usize| records.iter().find(|record| record.fact.id == all[number]).unwrap().seq;
        for number in [5_000, 5_127, 5_128, 7_999, 8_000, 8_001, 8_999] {
            assert_eq!(told[number - 5_000], position(number), "fact {number}");
        }
        assert_eq!(own.read(Seq::ZERO, 20_000).await.unwrap(), records);
    }
}

/// Acknowledgements that never arrive: both appends have to read back, and only the first of them stored the fact.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fact_repeated_while_its_acknowledgement_is_lost_is_a_duplicate() {
    let server = NatsServer::start();
    let proxy = FaultyProxy::start(&server);
    let mut settings = settings(&[proxy.url()]);
    settings.append = AppendMode::Pipelined;
    let log = JetStreamLog::open(connect(&settings).await, options(), Clock::system()).await.unwrap();
    proxy.swallow_answers();
    let appends = [log.append(vec![contract::fact(1)]), log.append([1, 2, 1].map(contract::fact).into())];
    let direct = open(&server, AppendMode::Pipelined).await;
    direct.tail().wait_for(|tail| *tail >= Seq(2)).await.expect("the server stores both facts");
    proxy.cut();
    let [first, second] = appends.map(|append| async move { append.await.expect("both are stored") });
    let (first, second) = tokio::join!(first, second);
    let told = |answer: &[Appended]| answer.iter().map(|one| (one.seq.0, one.duplicate)).collect::<Vec<_>>();
    assert_eq!(told(&first), [(1, false)]);
    assert_eq!(told(&second), [(1, true), (2, false), (1, true)]);
}

/// How long it may take until a log has what was lost with a connection: the client connects again within a second.
const RECOVERY_PATIENCE: Duration = Duration::from_secs(5);

async fn open_behind(proxy: &FaultyProxy, append: AppendMode) -> JetStreamLog {
    let mut settings = settings(&[proxy.url()]);
    settings.append = append;
    JetStreamLog::open(connect(&settings).await, options(), Clock::system()).await.unwrap()
}

/// Waits until the proxy has thrown away a message of the server that is sent from now on.
async fn wait_until_swallowed(proxy: &FaultyProxy, before: u64) {
    crate::nats_serve::eventually_async(async || (proxy.swallowed() > before).then_some(())).await;
}

/// The server has stored the append; its answer and the record that it delivers are lost, and nobody else writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_whose_answer_was_lost_with_the_connection_is_answered_soon() {
    for append in [AppendMode::Atomic, AppendMode::Pipelined] {
        let server = NatsServer::start();
        let proxy = FaultyProxy::start(&server);
        let (log, direct) = (open_behind(&proxy, append).await, open(&server, append).await);
        // Its consumer is there.
        direct.append(vec![contract::fact(1)]).await.unwrap();
        log.tail().wait_for(|tail| *tail >= Seq(1)).await.unwrap();
        let before = proxy.swallowed();
        proxy.swallow_answers();
        let appending = log.append(vec![contract::fact(2)]);
        direct.tail().wait_for(|tail| *tail >= Seq(2)).await.expect("the server stores it");
        // The answer and the record.
        wait_until_swallowed(&proxy, before + 1).await;
        proxy.cut();
        let answer = tokio::time::timeout(RECOVERY_PATIENCE, appending).await.expect("it is answered soon");
        assert_eq!(answer.expect("it is stored"), [Appended { seq: Seq(2), duplicate: false }], "{append:?}");
    }
}

/// A consumer delivers a record once. If it was on its way when the connection was lost, and no other record follows, nobody would miss it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_was_on_its_way_when_the_connection_was_lost_arrives_soon() {
    let server = NatsServer::start();
    let proxy = FaultyProxy::start(&server);
    let (log, direct) = (open_behind(&proxy, AppendMode::Atomic).await, open(&server, AppendMode::Atomic).await);
    // Its consumer is there.
    direct.append(vec![contract::fact(1)]).await.unwrap();
    log.tail().wait_for(|tail| *tail >= Seq(1)).await.unwrap();
    let before = proxy.swallowed();
    proxy.swallow_answers();
    direct.append(vec![contract::fact(2)]).await.unwrap();
    wait_until_swallowed(&proxy, before).await;
    proxy.cut();
    let mut tail = log.tail();
    let arrived = tokio::time::timeout(RECOVERY_PATIENCE, tail.wait_for(|tail| *tail >= Seq(2))).await;
    arrived.expect("it arrives soon").expect("the log is open");
    assert_eq!(log.read(Seq::ZERO, 10).await.unwrap(), direct.read(Seq::ZERO, 10).await.unwrap());
}

/// Puts messages into the stream that are no records: the kinds that people and agents put there by mistake.
async fn disturb(server: &NatsServer) {
    let jetstream = async_nats::jetstream::new(async_nats::connect(server.url()).await.unwrap());
    let event = contract::fact(1_000_000);
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Nats-Msg-Id", event.id.to_string().as_str());
    headers.insert("content-type", "application/cloudevents+json");
    let event = pml::core::event::cloud::to_structured(&event).to_string();
    jetstream.publish("pml.default.log.hello", "hello".into()).await.unwrap().await.unwrap();
    let subject = format!("pml.default.log.{}", contract::fact(1_000_000).event.kind());
    jetstream.publish_with_headers(subject, headers, event.into()).await.unwrap().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_messages_are_skipped_by_who_writes_who_follows_and_who_reads_it_all_later() {
    for append in [AppendMode::Atomic, AppendMode::Pipelined] {
        let server = NatsServer::start();
        let (writer, follower) = (open(&server, append).await, open(&server, append).await);
        let mut expected = Vec::new();
        for number in 0..5 {
            disturb(&server).await;
            let appended = writer.append(vec![contract::fact(number)]).await.unwrap();
            assert!(!appended[0].duplicate);
            expected.push((appended[0].seq, contract::fact(number).id));
            let read = writer.read(Seq::ZERO, 100).await.unwrap();
            assert_eq!(read.iter().map(|record| (record.seq, record.fact.id)).collect::<Vec<_>>(), expected);
        }
        disturb(&server).await;
        let last = expected[4].0;
        tokio::time::timeout(Duration::from_secs(5), follower.tail().wait_for(|tail| *tail >= last)).await.unwrap().unwrap();
        let later = open(&server, append).await;
        assert_eq!(*later.tail().borrow(), last, "the last position is nobody's record");
        for log in [&follower, &later] {
            let read = log.read(Seq::ZERO, 100).await.unwrap();
            assert_eq!(read.iter().map(|record| (record.seq, record.fact.id)).collect::<Vec<_>>(), expected);
            assert_eq!(log.read(last, 100).await.unwrap(), []);
            assert_eq!(log.find(contract::fact(1_000_000).id).await.unwrap(), None);
        }
        // The server takes the second kind once: it knows the id.
        let counted = async || (later.foreign().count == 7).then_some(());
        crate::nats_serve::eventually_async(counted).await;
    }
}
