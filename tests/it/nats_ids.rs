//! The index of record ids of a process on NATS: a start follows only what the index does not cover, and knows all that was written before.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::DeliverPolicy;
use futures_util::TryStreamExt;
use pml::clock::Clock;
use pml::config::{AppendMode, Nats as Settings};
use pml::core::id::Seq;
use pml::log::{Appended, EventLog, JetStreamLog, StreamOptions, contract};
use tempfile::TempDir;

use crate::faulty_proxy::FaultyProxy;
use crate::nats_serve::eventually_async;
use crate::nats_server::{NatsServer, connect, settings};

async fn open(url: String, append: AppendMode, directory: Option<&Path>) -> JetStreamLog {
    let settings = Settings { append, ..settings(&[url]) };
    let options = StreamOptions { directory: directory.map(Path::to_owned), ..crate::nats_log::options() };
    JetStreamLog::open(connect(&settings).await, options, Clock::system()).await.unwrap()
}

async fn append(log: &JetStreamLog, numbers: std::ops::Range<u64>) {
    for from in numbers.clone().step_by(1_000) {
        log.append((from..numbers.end.min(from + 1_000)).map(contract::fact).collect()).await.unwrap();
    }
}

fn told(answer: &[Appended]) -> Vec<(u64, bool)> {
    answer.iter().map(|one| (one.seq.0, one.duplicate)).collect()
}

/// The consumers of the log stream: their names and where they begin.
async fn consumers(server: &NatsServer) -> Vec<(String, u64)> {
    let jetstream = async_nats::jetstream::new(async_nats::connect(server.url()).await.unwrap());
    let stream = jetstream.get_stream("pml_default_log").await.unwrap();
    let found: Vec<_> = stream.consumers().try_collect().await.unwrap();
    let begin = |policy: DeliverPolicy| match policy {
        DeliverPolicy::ByStartSequence { start_sequence } => start_sequence,
        other => panic!("a consumer begins with {other:?}"),
    };
    found.into_iter().map(|consumer| (consumer.name, begin(consumer.config.deliver_policy))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_with_an_index_follows_only_the_tail_and_knows_every_id() {
    for mode in [AppendMode::Atomic, AppendMode::Pipelined] {
        let (server, home) = (NatsServer::start(), TempDir::new().unwrap());
        let first = open(server.url(), mode, Some(home.path())).await;
        append(&first, 0..20_000).await;
        drop(first);
        let other = open(server.url(), mode, None).await;
        append(&other, 20_000..20_001).await;
        drop(other);

        let before: BTreeSet<String> = consumers(&server).await.into_iter().map(|(name, _)| name).collect();
        let proxy = FaultyProxy::start(&server);
        let second = open(proxy.url(), mode, Some(home.path())).await;
        assert_eq!(second.find(contract::fact(20_000).id).await.unwrap(), Some(Seq(20_001)), "written by another meanwhile");
        let begun = eventually_async(async || {
            let new: Vec<u64> = consumers(&server)
                .await
                .into_iter()
                .filter(|(name, _)| !before.contains(name))
                .map(|(_, begin)| begin)
                .collect();
            (!new.is_empty()).then_some(new)
        });
        assert_eq!(begun.await, [20_001], "nothing that the index covers is read again");
        let oldest = second.read(Seq::ZERO, 3).await.unwrap();
        assert_eq!(oldest.iter().map(|record| record.fact.id).collect::<Vec<_>>(), [0, 1, 2].map(|n| contract::fact(n).id));

        // The server does not answer any more, so it is not the server that recognises them.
        proxy.swallow_answers();
        let answer = second.append([7, 20_000, 7, 19_999].map(contract::fact).into());
        let answer = tokio::time::timeout(Duration::from_secs(5), answer).await.expect("the index knows them").unwrap();
        assert_eq!(told(&answer), [(8, true), (20_001, true), (8, true), (20_000, true)]);
        proxy.cut();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_a_crash_has_set_back_is_completed_from_the_stream() {
    let (server, home) = (NatsServer::start(), TempDir::new().unwrap());
    let (file, kept) = (home.path().join("stream-ids-1.redb"), home.path().join("kept"));
    let log = open(server.url(), AppendMode::Pipelined, Some(home.path())).await;
    append(&log, 0..10_000).await;
    drop(log);
    std::fs::copy(&file, &kept).unwrap();
    let log = open(server.url(), AppendMode::Pipelined, Some(home.path())).await;
    append(&log, 10_000..15_000).await;
    drop(log);
    std::fs::copy(&kept, &file).unwrap();
    for round in 0..2 {
        let log = Arc::new(open(server.url(), AppendMode::Pipelined, Some(home.path())).await);
        let answer = log.append([5, 12_000].map(contract::fact).into()).await.unwrap();
        assert_eq!(told(&answer), [(6, true), (12_001, true)], "round {round}");
        let answer = log.append(vec![contract::fact(15_000 + round)]).await.unwrap();
        assert_eq!(told(&answer), [(15_001 + round, false)]);
        drop(log);
        // Without the file everything is read again.
        std::fs::remove_file(&file).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_index_of_a_stream_is_not_used_for_another() {
    let home = TempDir::new().unwrap();
    for from in [0, 10] {
        let server = NatsServer::start();
        let log = open(server.url(), AppendMode::Atomic, Some(home.path())).await;
        append(&log, from..from + 20).await;
        assert_eq!(log.find(contract::fact(0).id).await.unwrap().is_some(), from == 0);
        assert_eq!(*log.tail().borrow(), Seq(20), "the ids of the other stream are new here");
    }
}
