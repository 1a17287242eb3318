//! Invariants as predicates (ARCHITECTURE.md): the simulator checks them on whole runs, and debug builds of the product where they are
//! relied on, on what is at hand.
//!
//! Each returns the first violation that it finds, in words.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Event, NewRecord, Record};
use crate::id::{ExecutionId, RecordId, Seq};
use crate::state::State;
use crate::trained::piece_count;

/// I4: positions strictly increase, and all are after `before`.
pub fn positions_increase(before: Seq, positions: impl IntoIterator<Item = Seq>) -> Result<(), String> {
    let mut last = before;
    for position in positions {
        if position <= last {
            return Err(format!("position {position} comes after {last}"));
        }
        last = position;
    }
    Ok(())
}

/// I5, I12: every id is there once.
pub fn ids_are_unique(ids: impl IntoIterator<Item = RecordId>) -> Result<(), String> {
    let mut known = BTreeSet::new();
    match ids.into_iter().find(|id| !known.insert(*id)) {
        Some(id) => Err(format!("{id} is there twice")),
        None => Ok(()),
    }
}

/// I5, I6: what was acknowledged at these positions can be read, because the tail has reached it.
pub fn acknowledged_records_are_readable(positions: impl IntoIterator<Item = Seq>, tail: Seq) -> Result<(), String> {
    match positions.into_iter().find(|position| *position > tail) {
        Some(position) => Err(format!("{position} was acknowledged while the tail was {tail}")),
        None => Ok(()),
    }
}

/// I11: an execution is closed once.
pub fn executions_are_closed_once<'a>(facts: impl IntoIterator<Item = &'a NewRecord>) -> Result<(), String> {
    let mut closed: BTreeMap<&ExecutionId, RecordId> = BTreeMap::new();
    for fact in facts {
        if let Event::TraceCompleted(trace) = &fact.event
            && let Some(first) = closed.insert(&trace.execution, fact.id)
        {
            return Err(format!("'{}' is closed by {first} and again by {}", trace.execution, fact.id));
        }
    }
    Ok(())
}

/// I24: whatever is promoted was trained and is complete before.
pub fn promoted_models_are_complete<'a>(facts: impl IntoIterator<Item = &'a NewRecord>) -> Result<(), String> {
    let mut pieces: BTreeMap<&str, (u64, BTreeSet<u32>)> = BTreeMap::new();
    for fact in facts {
        match &fact.event {
            Event::ModelTrained(trained) if trained.accepted => {
                pieces.entry(trained.version.as_str()).or_default().0 = piece_count(trained.size);
            }
            Event::ModelParameters(piece) => {
                pieces.entry(piece.version.as_str()).or_default().1.insert(piece.piece);
            }
            Event::ModelPromoted(promoted) => {
                let arrived = pieces.get(promoted.version.as_str());
                if arrived.is_none_or(|(expected, arrived)| *expected == 0 || arrived.len() as u64 != *expected) {
                    return Err(format!("'{}' is promoted by {} before it is complete", promoted.version.as_str(), fact.id));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// I27: no step of an execution finishes twice.
pub fn steps_finish_once<'a>(facts: impl IntoIterator<Item = &'a NewRecord>) -> Result<(), String> {
    let mut finished = BTreeSet::new();
    for fact in facts {
        if let Event::StepFinished(step) = &fact.event
            && !finished.insert((&step.execution, &step.step))
        {
            return Err(format!("step '{}' of '{}' finishes again by {}", step.step, step.execution, fact.id));
        }
    }
    Ok(())
}

/// I32: nothing is removed from a log that its archive, which ends at `archived_to`, does not hold.
pub fn removed_records_are_archived(removed_to: Seq, archived_to: Option<Seq>) -> Result<(), String> {
    let archived_to = archived_to.unwrap_or(Seq::ZERO);
    if removed_to <= archived_to {
        Ok(())
    } else {
        Err(format!("records up to {removed_to} are removed, and the archive ends at {archived_to}"))
    }
}

/// I1: the state is the fold of the records up to its position.
pub fn is_fold_of(state: &State, records: &[Record]) -> Result<(), String> {
    let mut fold = State::default();
    for record in records.iter().take_while(|record| record.seq <= state.applied()) {
        fold.apply(record);
    }
    if fold.applied() != state.applied() {
        return Err(format!("the state is at {}, where the log has no record", state.applied()));
    }
    if fold.digest() == state.digest() {
        Ok(())
    } else {
        Err(format!("the state at {} is not the fold of the log", fold.applied()))
    }
}
