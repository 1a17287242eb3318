//! `pml import` and `pml export`: read and write dataset directories. An import publishes ordinary events.

use std::path::PathBuf;

use clap::Args;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::output::Output;
use super::publish::PublishReport;
use super::remote::Remote;
use super::source::{Source, connect};
use super::{LogLocation, Outcome};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::{NewRecord, cloud};
use crate::core::id::Seq;
use crate::dataset::{Dataset, Exporter, TRAIN};
use crate::nats::{Queued, Repeats};
use crate::publisher::Publisher;
use crate::publisher::{PublishError, Verdict};
use crate::runtime::Runtime;

/// Events per request.
const CHUNK_EVENTS: usize = 500;
/// Requests under way at once.
const CHUNKS_IN_FLIGHT: usize = 8;
/// Lines and refusals shown to people, at most.
const SHOWN_MAX: usize = 10;

#[derive(Args)]
pub(super) struct ImportArguments {
    /// Directory with tools.jsonl and traces
    directory: PathBuf,
    /// File of the directory that holds the traces
    #[arg(long, default_value = TRAIN, value_name = "FILE")]
    traces: String,
    #[command(flatten)]
    location: LogLocation,
}

/// Counts of the verdicts on imported events.
#[derive(Default)]
pub(super) struct ImportCounts {
    pub(super) accepted: usize,
    pub(super) duplicate: usize,
    pub(super) refused: Vec<String>,
}

pub(super) async fn import(arguments: ImportArguments, config: Config, output: &Output) -> Outcome {
    let clock = Clock::system();
    let dataset = Dataset::load(&arguments.directory, &arguments.traces, clock.now())?;
    let traces = dataset.traces.len();
    let skipped: Vec<String> = dataset.skipped.iter().map(ToString::to_string).collect();
    for line in skipped.iter().take(SHOWN_MAX) {
        output.say(format!("skipped: {line}"));
    }
    let events = dataset_events(dataset, &clock);
    if let Some(urls) = &arguments.location.nats {
        return enqueue(urls, (traces, skipped), &events, &config, output).await;
    }
    let bar = output.progress("importing", events.len() as u64);
    let counts = match &arguments.location.data {
        Some(directory) => {
            let mut config = config.embedded_in(directory);
            // A training run would be stopped with the import; `pml train` or the server that starts next trains.
            config.trainer.enabled = false;
            let runtime = Runtime::start(&config, clock).await?;
            let counts = publish_all(&runtime.publisher, events, |count| bar.inc(count)).await?;
            runtime.settled().await;
            runtime.stop().await;
            counts
        }
        None => publish_remote(&Remote::new(&arguments.location, &config), events, |count| bar.inc(count))?,
    };
    bar.finish_and_clear();
    output.json(&json!({
        "traces": traces, "accepted": counts.accepted, "duplicate": counts.duplicate, "refused": counts.refused.len(),
        "errors": counts.refused, "skipped": skipped,
    }));
    for refused in counts.refused.iter().take(SHOWN_MAX) {
        output.say(format!("refused: {refused}"));
    }
    output.say(format!(
        "{traces} traces: {} events accepted, {} already known, {} refused; {} lines skipped",
        counts.accepted,
        counts.duplicate,
        counts.refused.len(),
        skipped.len()
    ));
    Ok(if counts.refused.is_empty() && skipped.is_empty() { 0 } else { 3 })
}

/// Puts the events on the work queue, as an agent on NATS would. The process that reads the queue admits or refuses them.
async fn enqueue(
    urls: &str,
    (traces, skipped): (usize, Vec<String>),
    events: &[NewRecord],
    config: &Config,
    output: &Output,
) -> Outcome {
    let nats = connect(urls, config).await?;
    nats.provision(&config.dead).await.map_err(anyhow::Error::from)?;
    let bar = output.progress("importing", events.len() as u64);
    let mut total = Queued::default();
    for chunk in events.chunks(CHUNK_EVENTS) {
        total += nats.enqueue(chunk, Repeats::Dropped).await.map_err(anyhow::Error::from)?;
        bar.inc(chunk.len() as u64);
    }
    bar.finish_and_clear();
    let Queued { queued, duplicate } = total;
    output.json(&json!({"traces": traces, "queued": queued, "duplicate": duplicate, "skipped": skipped}));
    output.say(format!(
        "{traces} traces: {queued} events put on the work queue, {duplicate} already there; {} lines skipped",
        skipped.len()
    ));
    output.say("the process with the role 'execution' reads them; `pml dead list` shows the events it refuses");
    Ok(if skipped.is_empty() { 0 } else { 3 })
}

/// Returns the events of a dataset: the tools, then every trace as an agent would publish it.
pub(super) fn dataset_events(dataset: Dataset, clock: &Clock) -> Vec<NewRecord> {
    let traces = dataset.traces.iter().flat_map(|trace| {
        // Each event of a trace has its own microsecond; the clock moves on by as many.
        trace.events(clock.now()).expect("ids were checked when the dataset was read")
    });
    dataset.tools.into_iter().chain(traces).collect()
}

/// Publishes in this process, in order, with several chunks under way at once.
pub(super) async fn publish_all(
    publisher: &Publisher,
    events: Vec<NewRecord>,
    progress: impl Fn(u64),
) -> anyhow::Result<ImportCounts> {
    let chunks: Vec<Vec<NewRecord>> = events.chunks(CHUNK_EVENTS).map(<[NewRecord]>::to_vec).collect();
    let mut answers = stream::iter(chunks).map(|chunk| publish_with_retry(publisher, chunk)).buffered(CHUNKS_IN_FLIGHT);
    let mut counts = ImportCounts::default();
    while let Some(verdicts) = answers.next().await {
        let verdicts = verdicts?;
        progress(verdicts.len() as u64);
        for verdict in verdicts {
            match verdict {
                Verdict::Accepted { .. } => counts.accepted += 1,
                Verdict::Duplicate { .. } => counts.duplicate += 1,
                Verdict::Refused(refusal) => counts.refused.push(refusal.to_string()),
            }
        }
    }
    Ok(counts)
}

async fn publish_with_retry(publisher: &Publisher, chunk: Vec<NewRecord>) -> Result<Vec<Verdict>, PublishError> {
    loop {
        match publisher.publish(chunk.clone()).await {
            Err(PublishError::Busy) => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            answer => return answer,
        }
    }
}

fn publish_remote(remote: &Remote, events: Vec<NewRecord>, progress: impl Fn(u64)) -> anyhow::Result<ImportCounts> {
    let mut report = PublishReport::default();
    for chunk in events.chunks(CHUNK_EVENTS) {
        let batch: Value = chunk.iter().map(cloud::to_structured).collect();
        let (status, answer) = remote.post("/v1/events", cloud::BATCH, batch.to_string().as_bytes())?;
        report.add(status, answer)?;
        progress(chunk.len() as u64);
    }
    Ok(ImportCounts { accepted: report.count("accepted"), duplicate: report.count("duplicate"), refused: report.refusals() })
}

#[derive(Args)]
pub(super) struct ExportArguments {
    /// Directory to write to
    directory: PathBuf,
    /// Share of the traces, the latest ones, to write to `traces_test.jsonl`
    #[arg(long, default_value_t = 0.2)]
    test_share: f64,
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn export(arguments: ExportArguments, config: Config, output: &Output) -> Outcome {
    let source = Source::open(&arguments.location, &config).await?;
    let bar = output.progress("reading", source.tail()?.0);
    let mut exporter = Exporter::default();
    let reading = source.visit(Seq::ZERO, |record| {
        exporter.add_record(&record);
        bar.inc(1);
        Ok(true)
    });
    reading.await?;
    bar.finish_and_clear();
    let written = exporter.write(&arguments.directory, arguments.test_share)?;
    output.json(&json!(written));
    let directory = arguments.directory.display();
    output.say(format!("{directory}: {} tools, {} training and {} test traces", written.tools, written.train, written.test));
    Ok(0)
}
