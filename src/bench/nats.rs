//! Measures ingest and replay with the log on JetStream. The nats-server is started by the measurement, with default settings: it
//! acknowledges before it syncs, except for atomic batches.
//!
//! | case | measured | floor |
//! |---|---|---|
//! | `end_to_end` | in-process client, execution actor, JetStream, folded state; pipelined appends | raw pipelined publishes of the same bytes |
//! | `end_to_end_durable` | the same with atomic batches, each synced to disk | raw atomic batches of the same bytes |
//! | `from_agents` | from a NATS client through the work queue into the folded state; pipelined | raw pipelined publishes of the same bytes |
//! | `relay_without_pml` | from a NATS client through a work queue into a second stream (`relay`), a bound for `from_agents` | raw pipelined publishes of the same bytes |
//! | `startup_speedup` (snapshot) | a start with a snapshot and an index of ids until it takes writes (`startup`) | a start with neither |
//! | `fold` (replay) | a start: the whole stream into the folded state | a raw ordered consumer that only counts |

mod relay;
pub(super) mod server;
pub mod startup;

use std::path::Path;
use std::sync::Arc;

use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::{self, consumer, stream};
use bytes::Bytes;
use futures_util::{StreamExt, stream as streams};

use super::{Case, Stopwatch, ingest, median, peak_memory_mb, replay, reset_peak_memory, workload};
use crate::clock::Clock;
use crate::config::{AppendMode, Config, Secret};
use crate::core::event::{Kind, NewRecord, cloud};
use crate::core::id::Seq;
use crate::data_dir::stream_options;
use crate::log::{EventLog, JetStreamLog};
use crate::nats::{Nats, StreamKind};
use crate::publisher::Verdict;
use crate::role::Roles;
use crate::runtime::Runtime;
use crate::subject::{Subjects, Workspace};
use server::Server;

/// Messages of one raw publisher that wait for their acknowledgement, at most.
const WINDOW: usize = 4_096;
const BATCH_MESSAGES: usize = 1_000;
const RUNS: usize = 3;

/// Measures ingest with servers that store below `scratch`.
pub async fn ingest(config: &Config, program: &Path, scratch: &Path, events: usize) -> anyhow::Result<Vec<Case>> {
    let (mut pipelined, mut durable, mut agents, mut relayed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for run in 0..RUNS {
        let place = |name: &str| scratch.join(format!("{name}-{run}"));
        let runs = workload::runs(&Clock::system(), events);
        let floor = raw_publishes(config, program, &place("pipelined-floor"), &runs).await?;
        pipelined.push((client_to_state(config, program, &place("pipelined"), runs, AppendMode::Pipelined).await?, floor));
        let runs = workload::runs(&Clock::system(), events);
        agents.push((agents_to_state(config, program, &place("agents"), &runs).await?, floor));
        relayed.push((relay::queue_to_stream(config, program, &place("relay"), &runs).await?, floor));
        let floor = raw_batches(config, program, &place("durable-floor"), &runs).await?;
        durable.push((client_to_state(config, program, &place("durable"), runs, AppendMode::Atomic).await?, floor));
    }
    Ok(vec![
        ingest::case("end_to_end", pipelined),
        ingest::case("end_to_end_durable", durable),
        ingest::case("from_agents", agents),
        ingest::case("relay_without_pml", relayed),
    ])
}

/// The configuration of a pml on `server`.
pub(super) fn config_for(server: &Server, config: &Config, append: AppendMode) -> Config {
    let mut config = config.clone();
    config.nats.servers = vec![Secret::new(server.url())];
    config.nats.append = append;
    config.templates.path = String::new();
    // A snapshot would change what the next start measures.
    config.data_dir = server.directory().join("pml");
    (config.snapshots.url, config.snapshots.every_records, config.snapshots.every_s) = (String::new(), 0, 0);
    config
}

pub(super) async fn connect(config: &Config) -> anyhow::Result<Nats> {
    let workspace: Workspace = config.workspace.parse()?;
    Ok(Nats::connect(&config.nats, Subjects::new(workspace)).await?)
}

/// Id and bytes of every event, as an agent sends them.
fn payloads(runs: &[Vec<NewRecord>]) -> Vec<(String, Bytes)> {
    let message = |fact: &NewRecord| (fact.id.to_string(), cloud::to_structured(fact).to_string().into());
    runs.iter().flatten().map(message).collect()
}

pub(super) async fn raw_stream(nats: &Nats) -> anyhow::Result<()> {
    let config = stream::Config {
        name: "raw".to_owned(),
        subjects: vec!["raw".to_owned()],
        allow_atomic_publish: true,
        ..stream::Config::default()
    };
    nats.jetstream().create_stream(config).await?;
    Ok(())
}

pub(super) fn headers(id: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(NATS_MESSAGE_ID, id);
    headers
}

/// Publishes all messages, each with its id, with up to [`WINDOW`] of them unacknowledged.
async fn publish_all(jetstream: jetstream::Context, subject: &str, messages: Vec<(String, Bytes)>) -> anyhow::Result<()> {
    let (sent, mut waiting) = tokio::sync::mpsc::channel::<jetstream::context::PublishAckFuture>(WINDOW);
    let acknowledged = tokio::spawn(async move {
        while let Some(ack) = waiting.recv().await {
            ack.await?;
        }
        Ok::<(), anyhow::Error>(())
    });
    for (id, payload) in messages {
        sent.send(jetstream.publish_with_headers(subject.to_owned(), headers(&id), payload).await?).await?;
    }
    drop(sent);
    acknowledged.await?
}

async fn raw_publishes(config: &Config, program: &Path, place: &Path, runs: &[Vec<NewRecord>]) -> anyhow::Result<f64> {
    let server = Server::start(program, place)?;
    let nats = connect(&config_for(&server, config, AppendMode::Pipelined)).await?;
    raw_stream(&nats).await?;
    let messages = payloads(runs);
    let count = messages.len();
    let jetstream = nats.jetstream().clone();
    let watch = Stopwatch::start();
    nats.run(async move { publish_all(jetstream, "raw", messages).await }).await?;
    Ok(watch.rate(count))
}

async fn raw_batches(config: &Config, program: &Path, place: &Path, runs: &[Vec<NewRecord>]) -> anyhow::Result<f64> {
    let server = Server::start(program, place)?;
    let nats = connect(&config_for(&server, config, AppendMode::Atomic)).await?;
    raw_stream(&nats).await?;
    let messages = payloads(runs);
    let count = messages.len();
    let client = nats.client().clone();
    let watch = Stopwatch::start();
    nats.run(async move {
        for (number, batch) in messages.chunks(BATCH_MESSAGES).enumerate() {
            publish_batch(&client, &number.to_string(), batch).await?;
        }
        Ok::<(), anyhow::Error>(())
    })
    .await?;
    Ok(watch.rate(count))
}

async fn publish_batch(client: &async_nats::Client, batch: &str, messages: &[(String, Bytes)]) -> anyhow::Result<()> {
    for (at, (id, payload)) in messages.iter().enumerate() {
        let mut headers = headers(id);
        headers.insert("Nats-Batch-Id", batch);
        headers.insert("Nats-Batch-Sequence", (at + 1).to_string().as_str());
        if at + 1 < messages.len() {
            client.publish_with_headers("raw", headers, payload.clone()).await?;
            continue;
        }
        headers.insert("Nats-Batch-Commit", "1");
        let answer = client.request_with_headers("raw", headers, payload.clone()).await?;
        let answer: serde_json::Value = serde_json::from_slice(&answer.payload)?;
        anyhow::ensure!(answer["count"] == messages.len(), "the server answered {answer}");
    }
    Ok(())
}

/// Events per second from the first publish until every event is folded. Traces are completed and folded meanwhile.
async fn client_to_state(
    config: &Config,
    program: &Path,
    place: &Path,
    runs: Vec<Vec<NewRecord>>,
    append: AppendMode,
) -> anyhow::Result<f64> {
    let server = Server::start(program, place)?;
    let runtime = Runtime::start_on_nats(&config_for(&server, config, append), Clock::system(), Roles::all()).await?;
    let count: usize = runs.iter().map(Vec::len).sum();
    // As many unacknowledged events as the raw publisher has.
    let agents = (WINDOW * runs.len()).div_ceil(count.max(1));
    let watch = Stopwatch::start();
    let mut answers = streams::iter(runs).map(|run| runtime.publisher.publish(run)).buffer_unordered(agents);
    let (mut accepted, mut last) = (0, Seq::ZERO);
    while let Some(verdicts) = answers.next().await {
        for verdict in verdicts? {
            if let Verdict::Accepted { seq } = verdict {
                accepted += 1;
                last = last.max(seq);
            }
        }
    }
    drop(answers);
    anyhow::ensure!(accepted == count, "{accepted} of {count} events were accepted");
    anyhow::ensure!(runtime.views.at_least(last).await.is_some(), "the fold stopped");
    let rate = watch.rate(count);
    runtime.stop().await;
    Ok(rate)
}

/// Events per second from the first publish of a NATS client to the work queue until every event is folded.
async fn agents_to_state(config: &Config, program: &Path, place: &Path, runs: &[Vec<NewRecord>]) -> anyhow::Result<f64> {
    let server = Server::start(program, place)?;
    let config = config_for(&server, config, AppendMode::Pipelined);
    let runtime = Runtime::start_on_nats(&config, Clock::system(), Roles::all()).await?;
    let nats = connect(&config).await?;
    let messages = payloads(runs);
    let count = messages.len();
    let jetstream = nats.jetstream().clone();
    let subject = runtime.subjects.input(Kind::StepFinished).to_string();
    let watch = Stopwatch::start();
    nats.run(async move { publish_all(jetstream, &subject, messages).await }).await?;
    let folded = |view: &crate::core::state::State| {
        let count = |kind| usize::try_from(view.count(kind)).unwrap_or(usize::MAX);
        [Kind::ExecutionStarted, Kind::StepStarted, Kind::StepFinished, Kind::ExecutionFinished]
            .map(count)
            .iter()
            .sum::<usize>()
    };
    loop {
        let view = runtime.views.current();
        if folded(&view) == count {
            break;
        }
        anyhow::ensure!(runtime.views.at_least(view.applied().next()).await.is_some(), "the fold stopped");
    }
    let rate = watch.rate(count);
    runtime.stop().await;
    Ok(rate)
}

/// Writes a stream of about `events` records, then measures a start of the program on it.
pub async fn replay(config: &Config, program: &Path, scratch: &Path, events: usize) -> anyhow::Result<Vec<Case>> {
    let server = Server::start(program, &scratch.join("replay"))?;
    let config = config_for(&server, config, AppendMode::Pipelined);
    let nats = connect(&config).await?;
    nats.provision(&config.dead, &config.log).await?;
    let log: Arc<dyn EventLog> =
        Arc::new(JetStreamLog::open(nats.clone(), stream_options(&config, false), Clock::system()).await?);
    let records = replay::write_history(log.as_ref(), events).await?;
    drop(log);
    let (mut floors, mut folds, mut peaks) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..RUNS {
        floors.push(consume_and_count(&nats, records).await?);
        reset_peak_memory();
        // A new data directory each time: the index of ids of the run before would shorten the start.
        let data_dir = config.data_dir.join(run.to_string());
        folds.push(start_and_fold(&Config { data_dir, ..config.clone() }, records).await?);
        peaks.extend(peak_memory_mb("self"));
    }
    let mut cases = vec![Case::rate("fold", median(folds), median(floors))];
    if let Some(value) = peaks.into_iter().reduce(f64::max) {
        cases.push(Case { case: "fold_peak_memory", value, unit: "MB", floor: None, ratio: None });
    }
    Ok(cases)
}

async fn consume_and_count(nats: &Nats, records: usize) -> anyhow::Result<f64> {
    let (jetstream, stream) = (nats.jetstream().clone(), nats.stream_name(StreamKind::Log));
    let watch = Stopwatch::start();
    nats.run(async move {
        let consumer = jetstream.create_consumer_on_stream(consumer::pull::OrderedConfig::default(), stream).await?;
        let mut messages = consumer.messages().await?.take(records);
        while let Some(message) = messages.next().await {
            std::hint::black_box(message?);
        }
        Ok::<(), anyhow::Error>(())
    })
    .await?;
    Ok(watch.rate(records))
}

/// Records per second of a start: the fold catches up with the whole stream.
async fn start_and_fold(config: &Config, records: usize) -> anyhow::Result<f64> {
    let watch = Stopwatch::start();
    let runtime = Runtime::start_on_nats(config, Clock::system(), Roles::all()).await?;
    let rate = watch.rate(records);
    let folded = runtime.views.current().events();
    runtime.stop().await;
    anyhow::ensure!(folded == records as u64, "folded {folded} of {records} records");
    Ok(rate)
}
