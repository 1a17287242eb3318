//! Deterministic learning of a dataset: the same traces give the same log, byte for byte, on every run.
//!
//! The state depends on the order of the records, and in a running pml that order depends on how the actors are scheduled: the
//! vectors of an intent may be recorded before the next trace or after it. Here the order is fixed: templates, tools, then trace by
//! trace, each closed and its texts embedded before the next, under a clock that starts at [`START`]. The records themselves are made
//! by the code of the server (`core::intake`, `core::execution`, `OpenExecution::closing_record`, `embedding_record`), without its
//! actors. `tests/it/eval.rs` compares the log with that of the actors.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::actors::embedding::{APPEND_TEXTS_MAX, embedding_record};
use crate::core::event::{Event, NewRecord, Record, TemplateLoaded};
use crate::core::execution::admit;
use crate::core::id::RecordId;
use crate::core::intake::{self, Limits};
use crate::core::refusal::Refusal;
use crate::core::state::State;
use crate::core::time::Timestamp;
use crate::core::train::{self, TrainSettings, TrainedPart};
use crate::dataset::TraceLine;
use crate::embed::{EmbedError, Embedder};
use crate::templates::template_record;

/// The time of the first event: 2026-01-01, midnight UTC.
pub const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// Tools published per batch.
const BATCH_TOOLS: usize = 500;

/// A dataset that cannot be learnt.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    #[error("the event {id} was refused: {refusal}")]
    Refused { id: String, refusal: Refusal },
    #[error("a text cannot be embedded")]
    Embed(#[from] EmbedError),
}

/// `Learner` folds a dataset into a state in the canonical order. Each call returns the records that it appended.
#[derive(Clone)]
pub struct Learner<'a> {
    state: State,
    embedder: &'a dyn Embedder,
    limits: Limits,
    /// Later than the time of every record so far.
    now: Timestamp,
}

impl<'a> Learner<'a> {
    pub fn new(embedder: &'a dyn Embedder, limits: Limits) -> Self {
        Self { state: State::default(), embedder, limits, now: START }
    }

    /// Appends the templates, as the start of a server does.
    pub fn load_templates(&mut self, templates: Vec<TemplateLoaded>) -> Vec<Record> {
        let now = self.now;
        templates.into_iter().map(|template| self.append(template_record(template, now))).collect()
    }

    /// Publishes the registrations of tools.
    pub fn register_tools(&mut self, tools: &[NewRecord]) -> Result<Vec<Record>, LearnError> {
        let mut written = Vec::new();
        for batch in tools.chunks(BATCH_TOOLS) {
            written.extend(self.publish_all(batch.to_vec())?);
        }
        Ok(written)
    }

    /// Publishes the events of one trace, as an agent would.
    pub fn learn_trace(&mut self, trace: &TraceLine) -> Result<Vec<Record>, LearnError> {
        self.publish_all(trace.events(self.now).expect("ids were checked when the dataset was read"))
    }

    /// Trains the model on everything learnt so far and records the result, as the trainer does. Returns each part with its verdict.
    pub fn train(&mut self, settings: &TrainSettings) -> Vec<TrainedPart> {
        let seed = train::seed(&self.state);
        let parts = train::train(&self.state, settings, seed, &mut |_| ControlFlow::Continue(())).expect("nobody stops it");
        for (number, event) in (0..).zip(parts.iter().flat_map(TrainedPart::events)) {
            let (now, source) = (self.now, "pml/trainer".into());
            let id = RecordId::from_parts(now, number);
            self.append(NewRecord { id, time: now, source, causation: None, envelope: None, event });
        }
        parts
    }

    /// Returns the state folded from all records so far.
    pub fn into_state(self) -> State {
        self.state
    }

    /// Publishes facts, then closes the executions they finished and embeds the texts that have no vector.
    fn publish_all(&mut self, facts: Vec<NewRecord>) -> Result<Vec<Record>, LearnError> {
        let mut written = Vec::new();
        let mut waiting = facts;
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut refusal = None;
            let mut held = Vec::new();
            for fact in waiting {
                match self.publish(fact) {
                    Ok(record) => written.extend(record),
                    Err(refused) => {
                        let (fact, refused) = *refused;
                        if !refused.may_be_out_of_order() {
                            return Err(LearnError::refused(fact.id, refused));
                        }
                        refusal.get_or_insert((fact.id, refused));
                        held.push(fact);
                    }
                }
            }
            // A fact may refer to a later one of the batch: the rest is tried again until none of it is admitted.
            if let Some((id, refusal)) = refusal.filter(|_| held.len() == before) {
                return Err(LearnError::refused(id, refusal));
            }
            waiting = held;
        }
        self.close(&mut written);
        self.embed(&mut written)?;
        Ok(written)
    }

    /// Appends a fact if it is admitted. Returns no record if the log already holds its id.
    fn publish(&mut self, mut fact: NewRecord) -> Result<Option<Record>, Box<(NewRecord, Refusal)>> {
        if self.state.knows(fact.id) {
            return Ok(None);
        }
        let checked = intake::check(&mut fact, &self.limits);
        match checked.and_then(|()| admit(&self.state.executions, &fact.event, &self.limits)) {
            Ok(()) => Ok(Some(self.append(fact))),
            Err(refusal) => Err(Box::new((fact, refusal))),
        }
    }

    fn close(&mut self, written: &mut Vec<Record>) {
        let ended = |record: &Record| match record.event() {
            Event::ExecutionFinished(finished) => Some(finished.execution.clone()),
            _ => None,
        };
        for execution in written.iter().filter_map(ended).collect::<Vec<_>>() {
            if let Some(open) = self.state.executions.get(&execution) {
                let closing = open.closing_record(&execution);
                written.push(self.append(closing));
            }
        }
    }

    fn embed(&mut self, written: &mut Vec<Record>) -> Result<(), EmbedError> {
        let embedder = self.embedder;
        let model = embedder.model().as_str();
        loop {
            let lacking = self.state.vectors.lacking(model, APPEND_TEXTS_MAX);
            if lacking.is_empty() {
                return Ok(());
            }
            let texts: Vec<&str> = lacking.iter().map(|(_, text)| &**text).collect();
            let (wanted_at, now) = (self.state.applied(), self.now);
            for ((hash, _), vector) in lacking.iter().zip(embedder.embed(&texts)?) {
                written.push(self.append(embedding_record(*hash, model, vector, wanted_at, now)));
            }
        }
    }

    fn append(&mut self, fact: NewRecord) -> Record {
        self.now = self.now.max(fact.time.plus_micros(1));
        let record = Record { seq: self.state.applied().next(), recorded_at: fact.time, fact: Arc::new(fact) };
        self.state.apply(&record);
        record
    }
}

impl LearnError {
    fn refused(id: crate::core::id::RecordId, refusal: Refusal) -> Self {
        Self::Refused { id: id.to_string(), refusal }
    }
}
