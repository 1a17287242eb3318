//! The records of a training run. Their ids are derived from the version and the last record that it was trained on, so a run that
//! is recorded twice is in the log once.

use std::sync::Arc;

use crate::core::event::{Event, ModelVersion, NewRecord, Record};
use crate::core::id::RecordId;
use crate::core::invariant::promoted_models_are_complete;
use crate::core::time::Timestamp;
use crate::core::train::TrainedPart;

const SOURCE: &str = "pml/trainer";

/// What is recorded of a run, all parts in order. `through` is the last record that the run was trained on.
pub(crate) fn training_records(parts: &[TrainedPart], through: &Record, now: Timestamp) -> Vec<Arc<NewRecord>> {
    let record = |event: Event| {
        let id = event_id(&event, through);
        Arc::new(NewRecord { id, time: now, source: SOURCE.into(), causation: Some(through.fact.id), envelope: None, event })
    };
    let records: Vec<_> = parts.iter().flat_map(TrainedPart::events).map(record).collect();
    debug_assert_eq!(promoted_models_are_complete(records.iter().map(Arc::as_ref)), Ok(()));
    records
}

/// The id of the record that promotes a version after the run that ended at `through`.
pub(crate) fn promotion_id(version: &ModelVersion, through: &Record) -> RecordId {
    derived("model.promoted", version.as_str(), 0, through)
}

fn event_id(event: &Event, through: &Record) -> RecordId {
    match event {
        Event::ModelPromoted(promoted) => promotion_id(&promoted.version, through),
        Event::ModelParameters(piece) => derived(event.kind().name(), piece.version.as_str(), piece.piece, through),
        Event::ModelTrained(trained) => derived(event.kind().name(), trained.version.as_str(), 0, through),
        Event::ModelRolledBack(rolled_back) => derived(event.kind().name(), rolled_back.part.name(), 0, through),
        other => unreachable!("a training run records no {}", other.kind()),
    }
}

fn derived(kind: &str, version: &str, piece: u32, through: &Record) -> RecordId {
    RecordId::derived(through.fact.time, &[kind, version, &piece.to_string(), &through.seq.to_string()])
}
