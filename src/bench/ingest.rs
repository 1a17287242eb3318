//! Events per second into the durable log, next to raw redb group commits of the same bytes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{StreamExt, stream};
use redb::{Database, TableDefinition};

use super::{Case, Stopwatch, median, workload};
use crate::actors::execution::Verdict;
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::{NewRecord, cloud, stored};
use crate::gateway;
use crate::runtime::Runtime;

/// Events per call of the client, and calls under way at once.
const CHUNK_EVENTS: usize = 256;
const CHUNKS_IN_FLIGHT: usize = 64;
/// Events per HTTP request, as the case is named, and connections.
const BATCH_EVENTS: usize = 100;
const CONNECTIONS: usize = 32;
/// Runs of each measurement; the median counts.
const RUNS: usize = 3;

/// Measures in directories below `scratch`.
pub async fn run(config: &Config, scratch: &Path, events: usize) -> anyhow::Result<Vec<Case>> {
    let (mut floors, mut embedded, mut http) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..RUNS {
        let clock = Clock::system();
        let facts: Vec<NewRecord> = workload::published(&clock).take(events).collect();
        let place = |name: &str| scratch.join(format!("{name}-{run}"));
        floors.push(raw_group_commits(&place("floor"), &facts, config.log.group_records_max, &clock)?);
        embedded.push(through_the_client(config, &place("embedded"), facts).await?);
        let facts: Vec<NewRecord> = workload::published(&clock).take(events).collect();
        http.push(through_http(config, &place("http"), &facts).await?);
    }
    let floor = median(floors);
    Ok(vec![Case::rate("embedded", median(embedded), floor), Case::rate("http_batch100", median(http), floor)])
}

/// The floor: the same bytes under increasing keys, as many per durable transaction as pml's writer takes at most.
fn raw_group_commits(directory: &Path, facts: &[NewRecord], group: usize, clock: &Clock) -> anyhow::Result<f64> {
    const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("events");
    std::fs::create_dir_all(directory)?;
    let values: Vec<Vec<u8>> = facts.iter().map(|fact| stored::encode(fact, clock.now())).collect();
    let database = Database::create(directory.join("raw.redb"))?;
    let watch = Stopwatch::start();
    let mut key = 0;
    for values in values.chunks(group) {
        let transaction = database.begin_write()?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for value in values {
                key += 1;
                table.insert(key, value.as_slice())?;
            }
        }
        transaction.commit()?;
    }
    Ok(watch.rate(facts.len()))
}

/// From the call of the client until the last event is acknowledged as durable. Traces are assembled and folded meanwhile.
async fn through_the_client(config: &Config, directory: &Path, facts: Vec<NewRecord>) -> anyhow::Result<f64> {
    let config = Config { data_dir: directory.to_owned(), ..config.clone() };
    let runtime = Runtime::start(&config, Clock::system()).await?;
    let count = facts.len();
    let mut chunks = Vec::with_capacity(count / CHUNK_EVENTS + 1);
    let mut facts = facts.into_iter();
    loop {
        let chunk: Vec<NewRecord> = facts.by_ref().take(CHUNK_EVENTS).collect();
        if chunk.is_empty() {
            break;
        }
        chunks.push(chunk);
    }
    let watch = Stopwatch::start();
    let mut answers = stream::iter(chunks).map(|chunk| runtime.publisher.publish(chunk)).buffered(CHUNKS_IN_FLIGHT);
    let mut accepted = 0;
    while let Some(verdicts) = answers.next().await {
        accepted += verdicts?.iter().filter(|verdict| matches!(verdict, Verdict::Accepted { .. })).count();
    }
    let rate = watch.rate(count);
    drop(answers);
    anyhow::ensure!(accepted == count, "{accepted} of {count} events were accepted");
    runtime.stop().await;
    Ok(rate)
}

/// The same over loopback HTTP, from threads that share this machine with the server.
async fn through_http(config: &Config, directory: &Path, facts: &[NewRecord]) -> anyhow::Result<f64> {
    let mut config = Config { data_dir: directory.to_owned(), ..config.clone() };
    config.http.listen.set_port(0);
    let runtime = Runtime::start(&config, Clock::system()).await?;
    let (server, address) = gateway::serve(&runtime, &config.http)?;
    let handle = server.handle();
    let serving = actix_rt::spawn(server);
    let batch = |chunk: &[NewRecord]| chunk.iter().map(cloud::to_structured).collect::<serde_json::Value>().to_string();
    let bodies: Arc<Vec<String>> = Arc::new(facts.chunks(BATCH_EVENTS).map(batch).collect());
    let url = format!("http://{address}/v1/events");
    let watch = Stopwatch::start();
    let next = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (bodies, next, url) = (Arc::clone(&bodies), Arc::clone(&next), url.clone());
            std::thread::spawn(move || post_until_done(&url, &bodies, &next))
        })
        .collect();
    let accepted = actix_rt::task::spawn_blocking(move || {
        clients.into_iter().map(|client| client.join().expect("a client thread does not panic")).sum::<anyhow::Result<usize>>()
    });
    let accepted = accepted.await??;
    let rate = watch.rate(facts.len());
    anyhow::ensure!(accepted == facts.len(), "{accepted} of {} events were accepted", facts.len());
    handle.stop(true).await;
    serving.await??;
    runtime.stop().await;
    Ok(rate)
}

fn post_until_done(url: &str, bodies: &[String], next: &AtomicUsize) -> anyhow::Result<usize> {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let mut accepted = 0;
    while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
        let mut response = agent.post(url).header("content-type", cloud::BATCH).send(body)?;
        let text = response.body_mut().read_to_string()?;
        anyhow::ensure!(response.status() == 202, "the server answered {}: {text}", response.status());
        accepted += text.matches("\"status\":\"accepted\"").count();
    }
    Ok(accepted)
}
