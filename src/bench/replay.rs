//! Measures records per second from the log into the state. The floor is a raw scan that decodes every record and drops it.

use std::path::Path;
use std::sync::Arc;

use redb::Database;

use super::startup::Started;
use super::{Case, Stopwatch, median, workload};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::{EmbeddingComputed, Event, NewRecord, Record, stored};
use crate::core::id::{RecordId, Seq};
use crate::core::state::State;
use crate::core::trace::Executions;
use crate::data_dir::open_log;
use crate::embed::{self, Embedder};
use crate::log::{Appended, EventLog, RedbLog, scan};
use crate::runtime::Runtime;

const APPEND_EVENTS: usize = 8_192;
const RUNS: usize = 3;

/// Writes a log of `events` records below `scratch`, then measures a start of the program on it.
pub async fn run(config: &Config, scratch: &Path, events: usize) -> anyhow::Result<Vec<Case>> {
    let directory = scratch.join("replay");
    let mut config = Config { data_dir: directory.clone(), ..config.clone() };
    // Loading templates would append records; a start from a snapshot of the run before would fold nothing.
    config.templates.path = String::new();
    (config.snapshots.every_records, config.snapshots.every_s) = (0, 0);
    let records = write_history(&open_log(&config, &directory, Clock::system())?, events).await?;
    let (mut floors, mut folds) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        floors.push(scan_and_decode(&directory, records)?);
        folds.push(start_and_fold(&config, records).await?);
    }
    let mut cases = vec![Case::rate("fold", median(folds), median(floors))];
    // In a process of its own: this one has what writing the log and the floor have left.
    if let Some(value) = Started::without_snapshot(&config)?.stop(&config)?.peak_memory_mb {
        cases.push(Case { case: "fold_peak_memory", value, unit: "MB", floor: None, ratio: None });
    }
    Ok(cases)
}

/// Appends a history of about `events` records. Returns how many.
pub(super) async fn write_history(log: &dyn EventLog, events: usize) -> anyhow::Result<usize> {
    History::new().grow(log, events).await
}

/// A history like that of a server: the events of agents, the completed traces, and the vectors of texts.
pub(super) struct History {
    clock: Clock,
    embedder: Arc<dyn Embedder>,
    published: Box<dyn Iterator<Item = NewRecord>>,
    open: Executions,
    state: State,
    written: usize,
}

impl History {
    pub(super) fn new() -> Self {
        let clock = Clock::system();
        let published = Box::new(workload::published(&clock));
        Self { clock, embedder: embed::builtin(), published, open: Executions::default(), state: State::default(), written: 0 }
    }

    /// Appends records until there are about `events`. Returns how many there are.
    pub(super) async fn grow(&mut self, log: &dyn EventLog, events: usize) -> anyhow::Result<usize> {
        let mut batch = Vec::with_capacity(APPEND_EVENTS);
        while self.written < events {
            let Some(fact) = self.published.next().map(Arc::new) else { break };
            self.open.apply(&fact);
            let trace = completed(&fact, &self.open, &self.clock);
            batch.push(fact);
            if let Some(trace) = trace {
                self.open.apply(&trace);
                batch.push(trace);
            }
            if batch.len() >= APPEND_EVENTS || self.written + batch.len() >= events {
                self.written += append(log, std::mem::take(&mut batch), &mut self.state).await?;
                let vectors = vectors(&self.state, self.embedder.as_ref(), &self.clock)?;
                self.written += append(log, vectors, &mut self.state).await?;
            }
        }
        Ok(self.written)
    }
}

async fn append(log: &dyn EventLog, facts: Vec<Arc<NewRecord>>, state: &mut State) -> anyhow::Result<usize> {
    let appended = log.append(facts.clone()).await?;
    for (fact, Appended { seq, .. }) in facts.into_iter().zip(&appended) {
        state.apply(&Record { seq: *seq, recorded_at: fact.time, fact });
    }
    Ok(appended.len())
}

/// The facts that the embedding actor would append now.
fn vectors(state: &State, embedder: &dyn Embedder, clock: &Clock) -> anyhow::Result<Vec<Arc<NewRecord>>> {
    let model = embedder.model().as_str();
    let lacking = state.vectors.lacking(model, usize::MAX);
    let texts: Vec<&str> = lacking.iter().map(|(_, text)| &**text).collect();
    let computed = lacking.iter().zip(embedder.embed(&texts)?).map(|((hash, _), vector)| {
        let event = EmbeddingComputed { text_hash: hash.to_string(), model: model.to_owned(), vector };
        let (id, time, source) = (clock.fresh_id(), clock.now(), "pml/embedding".into());
        Arc::new(NewRecord { id, time, source, causation: None, envelope: None, event: Event::EmbeddingComputed(event) })
    });
    Ok(computed.collect())
}

fn completed(fact: &NewRecord, open: &Executions, clock: &Clock) -> Option<Arc<NewRecord>> {
    let Event::ExecutionFinished(finished) = &fact.event else { return None };
    let trace = open.get(&finished.execution)?.complete(&finished.execution, false);
    let id: RecordId = clock.fresh_id();
    let event = Event::TraceCompleted(trace);
    Some(Arc::new(NewRecord { id, time: fact.time, source: "pml/trace".into(), causation: None, envelope: None, event }))
}

/// The floor: records per second of one pass over the stored bytes that decodes every record and drops it.
fn scan_and_decode(directory: &Path, records: usize) -> anyhow::Result<f64> {
    let database = Database::open(directory.join(RedbLog::FILE_NAME))?;
    let mut read = 0;
    let watch = Stopwatch::start();
    scan(&database, Seq::ZERO, usize::MAX, |seq, bytes| {
        let record = stored::decode(seq, bytes).map_err(|source| crate::log::ReadError::Corrupt { seq, source })?;
        read += usize::from(std::hint::black_box(record).seq > Seq::ZERO);
        Ok(())
    })?;
    let rate = watch.rate(records);
    anyhow::ensure!(read == records, "read {read} of {records} records");
    Ok(rate)
}

/// Records per second of a start: the fold catches up with the whole log.
async fn start_and_fold(config: &Config, records: usize) -> anyhow::Result<f64> {
    let watch = Stopwatch::start();
    let runtime = Runtime::start(config, Clock::system()).await?;
    let rate = watch.rate(records);
    let folded = runtime.views.current().events();
    runtime.stop().await;
    anyhow::ensure!(folded == records as u64, "folded {folded} of {records} records");
    Ok(rate)
}
