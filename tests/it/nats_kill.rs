//! Processes and servers are killed while agents publish. Whatever JetStream acknowledged is in the log afterwards, once, every
//! execution is closed once, and every process has folded the same state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::jetstream;
use futures_util::StreamExt;
use pml::archive::{Archive, ArchiveStore, ArchivedRecords};
use pml::clock::Clock;
use pml::config::AppendMode;
use pml::core::event::{Event, NewRecord, Record, cloud};
use pml::core::id::{RecordId, Seq};
use pml::core::state::State;
use pml::log::{EventLog, JetStreamLog, OlderRecords, StreamOptions};
use pml::nats::{Nats, Repeats};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::crash::Random;
use crate::nats_serve::eventually_async;
use crate::nats_server::{NatsServer, cluster, settings, subjects};
use crate::run::whole;
use crate::server::Server;

const SEED: u64 = 0x5eed_0020;
/// Executions under way at once, and the pause after each: a steady load, however long a cluster takes to elect a leader.
const RUNS_UNDER_WAY: usize = 4;
const RUN_PAUSE: Duration = Duration::from_millis(100);

/// Publishes run after run until it is over; every event again and again, under its id, until it is acknowledged.
async fn publish(urls: Vec<String>, over: Arc<AtomicBool>, runs: Arc<AtomicUsize>) -> BTreeSet<RecordId> {
    let addresses: Vec<async_nats::ServerAddr> = urls.iter().map(|url| url.parse().unwrap()).collect();
    let client = async_nats::connect(addresses).await.unwrap();
    let jetstream = jetstream::context::ContextBuilder::new().timeout(Duration::from_secs(2)).build(client);
    let (jetstream, next) = (&jetstream, &AtomicUsize::new(0));
    let runs = &runs;
    let publishing = futures_util::stream::repeat(()).take_while(|()| std::future::ready(!over.load(Ordering::Relaxed))).map(
        |()| async move {
            let run = next.fetch_add(1, Ordering::Relaxed);
            let mut ids = Vec::new();
            for event in whole(&format!("e{run}")).as_array().unwrap() {
                insist(jetstream, event).await;
                ids.push(event["id"].as_str().unwrap().parse::<RecordId>().unwrap());
            }
            runs.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(RUN_PAUSE).await;
            ids
        },
    );
    publishing
        .buffer_unordered(RUNS_UNDER_WAY)
        .fold(BTreeSet::new(), async |mut all, ids| {
            all.extend(ids);
            all
        })
        .await
}

async fn insist(jetstream: &jetstream::Context, event: &Value) {
    let subject = format!("pml.default.in.{}", event["type"].as_str().unwrap().trim_start_matches("pml."));
    loop {
        let message = jetstream::message::PublishMessage::build()
            .payload(event.to_string().into())
            .message_id(event["id"].as_str().unwrap());
        if let Ok(sent) = jetstream.send_publish(subject.clone(), message).await
            && sent.await.is_ok()
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until so many more runs are published.
async fn progress(runs: &AtomicUsize, more: usize) {
    let goal = runs.load(Ordering::Relaxed) + more;
    eventually_async(async || (runs.load(Ordering::Relaxed) >= goal).then_some(())).await;
}

/// Every published event is in the log once, every execution was closed once, nothing else was written but templates.
async fn check(urls: &[String], published: &BTreeSet<RecordId>) -> State {
    check_with(urls, published, &crate::nats_log::options()).await
}

/// The same of a log that is opened with `options`.
async fn check_with(urls: &[String], published: &BTreeSet<RecordId>, options: &StreamOptions) -> State {
    let mut settings = settings(urls);
    settings.append = AppendMode::Pipelined;
    let nats = Nats::connect(&settings, subjects()).await.unwrap();
    let (records, state) = eventually_async(async || {
        let log = JetStreamLog::open(nats.clone(), options.clone(), Clock::system()).await.ok()?;
        let records = log.read(Seq::ZERO, usize::MAX).await.ok()?;
        let mut state = State::default();
        for record in &records {
            state.apply(record);
        }
        let known = published.iter().all(|id| state.knows(*id));
        (known && state.executions.is_empty()).then_some((records, state))
    })
    .await;
    let mut closed: BTreeMap<String, usize> = BTreeMap::new();
    let mut ids: BTreeMap<RecordId, usize> = BTreeMap::new();
    for record in &records {
        *ids.entry(record.fact.id).or_default() += 1;
        if let Event::TraceCompleted(trace) = record.event() {
            *closed.entry(trace.execution.to_string()).or_default() += 1;
            assert_eq!((trace.steps.len(), trace.success), (2, true), "{}", trace.execution);
        }
    }
    assert!(ids.values().all(|times| *times == 1), "no id stands twice");
    assert!(closed.values().all(|times| *times == 1), "every execution is closed once");
    let own = |record: &&Record| record.event().kind().is_publishable();
    assert_eq!(records.iter().filter(own).count(), published.len(), "nothing else was written");
    assert_eq!(closed.len() * 4, published.len());
    assert_eq!((state.duplicates(), state.late()), (0, 0));
    state
}

/// The state a process serves, once it has read the whole log.
async fn served(server: &Server, expected: &State) {
    let digest = eventually_async(async || {
        let state = server.ask("/v1/state");
        (state["applied_seq"] == json!(expected.applied().0)).then(|| state["digest"].clone())
    });
    assert_eq!(digest.await, json!(expected.digest().to_string()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_five_processes_may_be_killed_in_turn_under_load() {
    let nats = NatsServer::start();
    let url = nats.url();
    let start = |roles: &str| Server::serving(&["--nats", &url, "--roles", roles], &[("TRACE__SETTLE_MS", "500")]);
    let mut servers = ["graph-sync", "execution", "trace", "query", "query"].map(start);
    let (over, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let publishing = tokio::spawn(publish(vec![url.clone()], Arc::clone(&over), Arc::clone(&runs)));
    for server in &mut servers {
        progress(&runs, 10).await;
        server.kill9();
        progress(&runs, 10).await;
        server.restart();
    }
    progress(&runs, 10).await;
    over.store(true, Ordering::Relaxed);
    let published = publishing.await.unwrap();
    let state = check(&[url], &published).await;
    for server in &servers {
        served(server, &state).await;
    }
}

/// Runs in the queue when pml starts: many chunks.
const QUEUED_RUNS: usize = 1_500;

/// Kills of a process that moves records, and the longest time from a move to the next kill: a few runs of it.
const TIERING_KILLS: usize = 12;
const TIERING_MS_MAX: u64 = 60;

/// The process moves the oldest records of the stream to the archive again and again, and is killed while it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_while_it_moves_records_of_a_stream_loses_nothing() {
    let (nats, home) = (NatsServer::start(), TempDir::new().unwrap());
    let (url, archive) = (nats.url(), home.path().join("archive"));
    let settings = [("LOG__HOT_RECORDS", "16"), ("LOG__ARCHIVE", archive.to_str().unwrap()), ("TRACE__SETTLE_MS", "500")];
    let mut server = Server::serving(&["--nats", &url], &settings);
    let (over, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let publishing = tokio::spawn(publish(vec![url.clone()], Arc::clone(&over), Arc::clone(&runs)));
    let jetstream = jetstream::new(async_nats::connect(&url).await.unwrap());
    let first_in_stream = async || {
        let stream = jetstream.get_stream("pml_default_log").await.ok()?;
        Some(stream.cached_info().state.first_sequence)
    };
    let store = ArchiveStore::from(archive.as_path());
    let (mut random, mut interrupted) = (Random(SEED), 0);
    for _ in 0..TIERING_KILLS {
        let before = eventually_async(&first_in_stream).await;
        eventually_async(async || first_in_stream().await.filter(|first| *first > before)).await;
        tokio::time::sleep(Duration::from_millis(random.below(TIERING_MS_MAX))).await;
        server.kill9();
        let archived = Archive::open(&store).unwrap().last().map_or(0, |(last, _)| last.0);
        let in_both = archived >= eventually_async(&first_in_stream).await;
        interrupted += usize::from(in_both || archive.join(".events.part").exists());
        server.restart();
    }
    over.store(true, Ordering::Relaxed);
    let published = publishing.await.unwrap();
    let older: Arc<dyn OlderRecords> = Arc::new(ArchivedRecords::new(&store));
    let options = StreamOptions { older: Some(older), ..crate::nats_log::options() };
    let state = check_with(&[url], &published, &options).await;
    served(&server, &state).await;
    assert!(interrupted > 0, "no kill came while records were moved");
}

/// Many chunks of events are submitted at once. pml has room for one of them, so most are refused and submitted again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_come_to_the_log_in_the_order_of_the_queue_however_often_they_are_submitted() {
    let nats = NatsServer::start();
    let url = nats.url();
    let client = crate::nats_server::connect(&settings(std::slice::from_ref(&url))).await;
    let events = (0..QUEUED_RUNS).flat_map(|run| whole(&format!("e{run}")).as_array().unwrap().clone());
    let facts = events.map(|event| cloud::from_structured(event.to_string().as_bytes(), Clock::system().now()).unwrap());
    let facts: Vec<NewRecord> = facts.collect();
    client.enqueue(&facts, Repeats::Dropped).await.unwrap();
    let server = Server::serving(&["--nats", &url], &[("EXECUTION__QUEUE_BYTES_MAX", "1")]);
    let published: BTreeSet<RecordId> = facts.iter().map(|fact| fact.id).collect();
    let state = check(&[url], &published).await;
    served(&server, &state).await;
    let busy =
        server.get("/metrics").text.lines().find_map(|line| line.strip_prefix("pml_requests_busy_total ")?.parse::<u64>().ok());
    assert!(busy > Some(0), "no chunk was refused: {busy:?}");
    let log = JetStreamLog::open(client, crate::nats_log::options(), Clock::system()).await.unwrap();
    let records = log.read(Seq::ZERO, usize::MAX).await.unwrap();
    let own = records.iter().filter(|record| record.event().kind().is_publishable()).map(|record| record.fact.id);
    assert!(own.eq(facts.iter().map(|fact| fact.id)), "in the order of the queue");
}

/// Runs in the queue of a process that is killed between its verdicts and the removal of the events, and how often it is killed.
const KILLED_RUNS: usize = 4_000;
const REMOVAL_KILLS: usize = 3;

/// The process is killed while the log has events that the queue still holds: thousands wait to be removed at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_killed_before_it_has_removed_events_from_the_queue_loses_and_doubles_nothing() {
    let nats = NatsServer::start();
    let url = nats.url();
    let client = crate::nats_server::connect(&settings(std::slice::from_ref(&url))).await;
    let plain = async_nats::connect(&url).await.unwrap();
    let mut purges = plain.subscribe("$JS.API.STREAM.PURGE.pml_default_in").await.unwrap();
    let events = (0..KILLED_RUNS).flat_map(|run| whole(&format!("e{run}")).as_array().unwrap().clone());
    let facts = events.map(|event| cloud::from_structured(event.to_string().as_bytes(), Clock::system().now()).unwrap());
    let facts: Vec<NewRecord> = facts.collect();
    client.enqueue(&facts, Repeats::Dropped).await.unwrap();
    let jetstream = jetstream::new(plain);
    let messages = async |stream: &str| jetstream.get_stream(stream).await.unwrap().cached_info().state.messages;
    let mut server = Server::serving(&["--nats", &url], &[("NATS__APPEND", "pipelined")]);
    let mut interrupted = 0;
    for kill in 1..=REMOVAL_KILLS {
        let goal = 500 * kill as u64;
        eventually_async(async || (messages("pml_default_log").await >= goal).then_some(())).await;
        server.kill9();
        let removed = facts.len() as u64 - messages("pml_default_in").await;
        interrupted += usize::from(removed < messages("pml_default_log").await);
        server.restart();
    }
    let published: BTreeSet<RecordId> = facts.iter().map(|fact| fact.id).collect();
    let state = check(&[url], &published).await;
    served(&server, &state).await;
    eventually_async(async || (messages("pml_default_in").await == 0).then_some(())).await;
    assert!(interrupted > 0, "no kill came before a removal");
    let first = futures_util::FutureExt::now_or_never(purges.next()).flatten();
    assert!(first.is_some(), "many events are removed by one purge");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_a_cluster_may_be_killed_in_turn_under_load() {
    let mut nodes = cluster();
    let urls: Vec<String> = nodes.iter().map(NatsServer::url).collect();
    let settings = [("NATS__REPLICAS", "3"), ("NATS__APPEND", "pipelined")];
    let server = Server::serving(&["--nats", &urls.join(",")], &settings);
    let addresses: Vec<async_nats::ServerAddr> = urls.iter().map(|url| url.parse().unwrap()).collect();
    let client = async_nats::connect(addresses).await.unwrap();
    let mut notices = client.subscribe("pml.default.notify.>").await.unwrap();
    let (over, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let publishing = tokio::spawn(publish(urls.clone(), Arc::clone(&over), Arc::clone(&runs)));
    let jetstream = jetstream::new(client.clone());
    let leader = async || {
        let stream = jetstream.get_stream("pml_default_log").await.ok()?;
        stream.cached_info().cluster.as_ref()?.leader.clone()
    };
    let mut killed = BTreeSet::new();
    for _ in 0..2 {
        progress(&runs, 12).await;
        // The leader first; then another one, which leads by then or not.
        let name = eventually_async(&leader).await;
        let victim = nodes.iter().position(|node| node.name() == name && !killed.contains(&name));
        let victim = victim.unwrap_or_else(|| nodes.iter().position(|node| !killed.contains(node.name())).unwrap());
        killed.insert(nodes[victim].name().to_owned());
        nodes[victim].kill9();
        progress(&runs, 12).await;
        nodes[victim].run();
        progress(&runs, 12).await;
    }
    over.store(true, Ordering::Relaxed);
    let published = publishing.await.unwrap();
    let state = check(&urls, &published).await;
    served(&server, &state).await;

    // Those who listen hear again: a structure nobody has seen teaches a capability.
    while futures_util::FutureExt::now_or_never(notices.next()).flatten().is_some() {}
    let mut run = whole("new");
    run[1]["data"]["tool"] = json!("mail:fetch");
    for event in run.as_array().unwrap() {
        insist(&jetstream, event).await;
    }
    let heard = tokio::time::timeout(Duration::from_secs(30), notices.next()).await.expect("heard in time").unwrap();
    assert!(heard.subject.starts_with("pml.default.notify."), "{}", heard.subject);
}
