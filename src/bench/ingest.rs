//! Measures events per second into the durable log. The floor is a raw redb group commit of the same bytes: the same number of
//! producers, each waiting for its own acknowledgement, and one writer thread that commits all waiting batches.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use futures_util::{StreamExt, stream};
use redb::{Database, TableDefinition};
use tokio::sync::{mpsc, oneshot};

use super::client::Connection;
use super::{Case, Stopwatch, workload};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::{NewRecord, cloud, stored};
use crate::publisher::Verdict;
use crate::runtime::Runtime;

/// Concurrent agents; each publishes the events of one execution and waits for the answer.
const PRODUCERS: usize = 256;
/// Events per HTTP request, which the name of the case repeats, and connections.
const BATCH_EVENTS: usize = 100;
const CONNECTIONS: usize = 16;
/// Repetitions of each measurement; the one with the median ratio counts.
const RUNS: usize = 3;

/// Measures with data directories below `scratch`.
pub async fn run(config: &Config, scratch: &Path, events: usize) -> anyhow::Result<Vec<Case>> {
    let (mut embedded, mut folded, mut http) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..RUNS {
        let clock = Clock::system();
        let place = |name: &str| scratch.join(format!("{name}-{run}"));
        let runs = workload::runs(&clock, events);
        let floor = raw_group_commit(config, &place("embedded-floor"), &runs, PRODUCERS).await?;
        let (acknowledged, caught_up) = publish_in_process(config, &place("embedded"), runs).await?;
        embedded.push((acknowledged, floor));
        folded.push((caught_up, floor));
        let batches = workload::batches(&clock, events, BATCH_EVENTS);
        let floor = raw_group_commit(config, &place("http-floor"), &batches, CONNECTIONS).await?;
        http.push((publish_over_http(config, &place("http"), &batches).await?, floor));
    }
    Ok(vec![case("embedded", embedded), case("embedded_folded", folded), case("http_batch100", http)])
}

/// The repetition with the median ratio.
pub(super) fn case(name: &'static str, mut runs: Vec<(f64, f64)>) -> Case {
    runs.sort_by(|(rate, floor), (other_rate, other_floor)| (rate / floor).total_cmp(&(other_rate / other_floor)));
    let (rate, floor) = runs[runs.len() / 2];
    Case::rate(name, rate, floor)
}

pub(super) type Acknowledged = oneshot::Sender<Result<(), redb::Error>>;

/// The floor: events per second of a raw group commit.
async fn raw_group_commit(
    config: &Config,
    directory: &Path,
    batches: &[Vec<NewRecord>],
    producers: usize,
) -> anyhow::Result<f64> {
    std::fs::create_dir_all(directory)?;
    let clock = Clock::system();
    let encode = |batch: &Vec<NewRecord>| batch.iter().map(|fact| stored::encode(fact, clock.now())).collect::<Vec<_>>();
    let values: Vec<Vec<Vec<u8>>> = batches.iter().map(encode).collect();
    let count: usize = values.iter().map(Vec::len).sum();
    let database = Database::create(directory.join("raw.redb"))?;
    let (sender, receiver) = mpsc::channel(config.log.queue_appends_max);
    let group_max = config.log.group_records_max;
    let watch = Stopwatch::start();
    let writer = std::thread::spawn(move || run_writer(&database, receiver, group_max));
    let sender = &sender;
    let mut answers = stream::iter(values)
        .map(|batch| async move {
            let (done, answer) = oneshot::channel();
            sender.send((batch, done)).await?;
            Ok::<(), anyhow::Error>(answer.await??)
        })
        .buffer_unordered(producers);
    while let Some(answer) = answers.next().await {
        answer?;
    }
    let rate = watch.rate(count);
    drop(answers);
    drop(writer);
    Ok(rate)
}

/// Commits all waiting batches together, up to `group_max` records, until the queue is closed.
pub(super) fn run_writer(database: &Database, mut queue: mpsc::Receiver<(Vec<Vec<u8>>, Acknowledged)>, group_max: usize) {
    let mut key = 0;
    while let Some((mut values, done)) = queue.blocking_recv() {
        let mut waiting = vec![done];
        while values.len() < group_max {
            let Ok((more, done)) = queue.try_recv() else { break };
            values.extend(more);
            waiting.push(done);
        }
        let outcome = commit(database, &values, &mut key);
        for done in waiting {
            drop(done.send(outcome.as_ref().copied().map_err(|error| redb::Error::Corrupted(error.to_string()))));
        }
    }
}

fn commit(database: &Database, values: &[Vec<u8>], key: &mut u64) -> Result<(), redb::Error> {
    const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("events");
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(TABLE)?;
        for value in values {
            *key += 1;
            table.insert(*key, value.as_slice())?;
        }
    }
    Ok(transaction.commit()?)
}

/// Events per second from the first publish until the last event is acknowledged as durable, and until it is in a view. Traces are
/// completed and folded meanwhile; the second number shows how much of that work was left at the acknowledgement.
async fn publish_in_process(config: &Config, directory: &Path, runs: Vec<Vec<NewRecord>>) -> anyhow::Result<(f64, f64)> {
    let config = Config { data_dir: directory.to_owned(), ..config.clone() };
    let runtime = Runtime::start(&config, Clock::system()).await?;
    let count: usize = runs.iter().map(Vec::len).sum();
    let watch = Stopwatch::start();
    let mut answers = stream::iter(runs).map(|run| runtime.publisher.publish(run)).buffer_unordered(PRODUCERS);
    let mut accepted = 0;
    while let Some(verdicts) = answers.next().await {
        accepted += verdicts?.iter().filter(|verdict| matches!(verdict, Verdict::Accepted { .. })).count();
    }
    let acknowledged = watch.rate(count);
    let tail = *runtime.log.tail().borrow();
    anyhow::ensure!(runtime.views.at_least(tail).await.is_some(), "the fold stopped");
    let folded = watch.rate(count);
    drop(answers);
    anyhow::ensure!(accepted == count, "{accepted} of {count} events were accepted");
    runtime.stop().await;
    Ok((acknowledged, folded))
}

/// Events per second over loopback HTTP, from threads that share this machine with the server.
async fn publish_over_http(config: &Config, directory: &Path, batches: &[Vec<NewRecord>]) -> anyhow::Result<f64> {
    let mut config = Config { data_dir: directory.to_owned(), ..config.clone() };
    config.http.listen.set_port(0);
    let runtime = Runtime::start(&config, Clock::system()).await?;
    let (server, address) = runtime.serve_http(&config.http)?;
    let handle = server.handle();
    let serving = actix_rt::spawn(server);
    let count: usize = batches.iter().map(Vec::len).sum();
    let body = |batch: &Vec<NewRecord>| batch.iter().map(cloud::to_structured).collect::<serde_json::Value>().to_string();
    let bodies: Arc<Vec<String>> = Arc::new(batches.iter().map(body).collect());
    let watch = Stopwatch::start();
    let next = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (bodies, next) = (Arc::clone(&bodies), Arc::clone(&next));
            std::thread::spawn(move || post_until_done(address, &bodies, &next))
        })
        .collect();
    let accepted = actix_rt::task::spawn_blocking(move || {
        clients.into_iter().map(|client| client.join().expect("a client thread does not panic")).sum::<anyhow::Result<usize>>()
    });
    let accepted = accepted.await??;
    let rate = watch.rate(count);
    anyhow::ensure!(accepted == count, "{accepted} of {count} events were accepted");
    handle.stop(true).await;
    serving.await??;
    runtime.stop().await;
    Ok(rate)
}

fn post_until_done(address: SocketAddr, bodies: &[String], next: &AtomicUsize) -> anyhow::Result<usize> {
    let mut connection = Connection::open(address)?;
    let mut accepted = 0;
    while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
        let (status, text) = connection.post("/v1/events", cloud::BATCH, body)?;
        anyhow::ensure!(status == 202, "the server answered {status}: {text}");
        // The answer begins with the counts of its results.
        let count = text.strip_prefix("{\"accepted\":").and_then(|rest| rest.split(',').next()?.parse::<usize>().ok());
        accepted += count.with_context(|| format!("the answer does not say how many events were accepted: {text}"))?;
    }
    Ok(accepted)
}
