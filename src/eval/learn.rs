//! Learning a dataset so that the same traces give the same log, byte for byte, on every run.
//!
//! What is learnt depends on the order of the records, and in a running pml that order depends on when the actors get to their work:
//! whether the vectors of an intent come before the next trace or after it. Here it is fixed: templates, tools, then trace by trace,
//! each closed and its texts embedded before the next one is told, under a clock that starts at [`START`]. Everything that decides what
//! becomes a record is the ordinary path's own (`core::intake`, `core::execution`, `OpenExecution::closing_record`, `embedding_record`); only the mail
//! between the actors is left out. `tests/it/eval.rs` holds the log against that of the actors.

use std::sync::Arc;

use crate::actors::embedding::{APPEND_TEXTS_MAX, embedding_record};
use crate::core::event::{Event, NewRecord, Record, TemplateLoaded};
use crate::core::execution::admit;
use crate::core::intake::{self, Limits};
use crate::core::refusal::Refusal;
use crate::core::state::State;
use crate::core::time::Timestamp;
use crate::dataset::TraceLine;
use crate::embed::{EmbedError, Embedder};
use crate::templates::template_record;

/// When the first event happens: 2026-01-01, midnight UTC.
pub const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// Tools that are told at once.
const TOOLS_AT_ONCE: usize = 500;

#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    #[error("the event {id} was refused: {refusal}")]
    Refused { id: String, refusal: Refusal },
    #[error("a text cannot be embedded")]
    Embed(#[from] EmbedError),
}

/// A state that learns in a canonical order. Each call answers the records that it wrote.
pub struct Learner<'a> {
    state: State,
    embedder: &'a dyn Embedder,
    limits: Limits,
    /// Later than everything that has happened.
    now: Timestamp,
}

impl<'a> Learner<'a> {
    pub fn new(embedder: &'a dyn Embedder, limits: Limits) -> Self {
        Self { state: State::default(), embedder, limits, now: START }
    }

    /// The templates that a start of pml loads.
    pub fn templates(&mut self, templates: Vec<TemplateLoaded>) -> Vec<Record> {
        let now = self.now;
        templates.into_iter().map(|template| self.append(template_record(template, now))).collect()
    }

    pub fn tools(&mut self, tools: &[NewRecord]) -> Result<Vec<Record>, LearnError> {
        let mut written = Vec::new();
        for some in tools.chunks(TOOLS_AT_ONCE) {
            written.extend(self.tell(some.to_vec())?);
        }
        Ok(written)
    }

    /// A trace as an agent would have told it.
    pub fn trace(&mut self, trace: &TraceLine) -> Result<Vec<Record>, LearnError> {
        self.tell(trace.events(self.now).expect("ids were checked when the dataset was read"))
    }

    pub fn finish(self) -> State {
        self.state
    }

    /// Publishes, closes what is finished, embeds what lacks a vector.
    fn tell(&mut self, facts: Vec<NewRecord>) -> Result<Vec<Record>, LearnError> {
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
            // What came before something it refers to is looked at again, as long as that helps.
            if let Some((id, refusal)) = refusal.filter(|_| held.len() == before) {
                return Err(LearnError::refused(id, refusal));
            }
            waiting = held;
        }
        self.close(&mut written);
        self.embed(&mut written)?;
        Ok(written)
    }

    /// The record of an event that is admitted; none if the log held its id already.
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
