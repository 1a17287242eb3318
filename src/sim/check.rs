//! What must hold after every run.

use std::collections::{BTreeMap, BTreeSet};

use super::agents::position;
use super::world::World;
use super::{executor, tiering};
use crate::core::event::{Event, Record};
use crate::core::id::{RecordId, Seq};
use crate::core::invariant;
use crate::core::state::State;

/// Checks every invariant on what the run left behind.
pub(super) fn invariants(world: &World) -> Result<(), String> {
    if let Some(problem) = world.shared.problems.lock().first() {
        return Err(problem.clone());
    }
    let records = world.shared.stream.records();
    let facts = || records.iter().map(|record| &*record.fact);
    invariant::positions_increase(Seq::ZERO, records.iter().map(|record| record.seq))?;
    invariant::ids_are_unique(facts().map(|fact| fact.id))?;
    invariant::executions_are_closed_once(facts())?;
    invariant::steps_finish_once(facts())?;
    invariant::promoted_models_are_complete(facts())?;
    acknowledged_events_are_there(world, &records)?;
    refused_events_are_kept(world, &records)?;
    nothing_else_was_written(world, &records)?;
    finished_executions_are_closed(&records)?;
    for process in world.processes.lock().iter().flatten() {
        let view = process.views.current();
        invariant::is_fold_of(&view, &records).map_err(|problem| format!("process {}: {problem}", process.life.number))?;
    }
    executor::answered_calls_are_not_repeated(&world.shared.calls.lock())?;
    tiering::reads_the_same(&world.shared, &records)?;
    snapshots_are_folds(world, &records)
}

/// I5, I6: what was acknowledged is in the log, where it was said to be, as it was sent.
fn acknowledged_events_are_there(world: &World, records: &[Record]) -> Result<(), String> {
    let held: BTreeMap<_, _> = records.iter().map(|record| (record.seq, record)).collect();
    let positions: Vec<Seq> = world.shared.verdicts.lock().iter().filter_map(|(_, verdict)| position(verdict)).collect();
    invariant::acknowledged_records_are_readable(positions, world.shared.stream.tail())?;
    let sent = world.shared.sent.lock();
    for (id, verdict) in &*world.shared.verdicts.lock() {
        let Some(seq) = position(verdict) else { continue };
        let Some(record) = held.get(&seq).filter(|record| record.fact.id == *id) else {
            return Err(format!("{id} was acknowledged at {seq} and is not there"));
        };
        if sent.get(id).is_none_or(|sent| sent.event != record.fact.event) {
            return Err(format!("{id} is in the log with other content"));
        }
    }
    Ok(())
}

/// I12: what was refused is a dead letter, or in the log because it was sent again.
fn refused_events_are_kept(world: &World, records: &[Record]) -> Result<(), String> {
    let held: BTreeSet<RecordId> = records.iter().map(|record| record.fact.id).collect();
    let letters = world.shared.letters.lock();
    for (id, verdict) in &*world.shared.verdicts.lock() {
        let text = id.to_string();
        let is_kept = || letters.iter().any(|letter| String::from_utf8_lossy(&letter.bytes).contains(&text));
        if position(verdict).is_none() && !held.contains(id) && !is_kept() {
            return Err(format!("{id} was refused and left no dead letter"));
        }
    }
    Ok(())
}

/// I11, I24: the log holds what agents sent, traces, and training runs.
fn nothing_else_was_written(world: &World, records: &[Record]) -> Result<(), String> {
    let sent = world.shared.sent.lock();
    let is_expected = |record: &&Record| match record.event() {
        Event::TraceCompleted(_)
        | Event::ModelTrained(_)
        | Event::ModelParameters(_)
        | Event::ModelPromoted(_)
        | Event::ToolOutputInferred(_) => true,
        event => {
            let is_of_run = event.execution().is_some_and(|execution| execution.as_str().starts_with("run-"));
            is_of_run || sent.contains_key(&record.fact.id)
        }
    };
    match records.iter().find(|record| !is_expected(record)) {
        Some(record) => Err(format!("nobody sent the record at {}", record.seq)),
        None => Ok(()),
    }
}

/// Every execution whose end is in the log has a trace, now that everything has settled.
fn finished_executions_are_closed(records: &[Record]) -> Result<(), String> {
    let mut finished = BTreeSet::new();
    let mut closed = BTreeSet::new();
    for record in records {
        match record.event() {
            Event::ExecutionFinished(end) => drop(finished.insert(&end.execution)),
            Event::TraceCompleted(trace) => drop(closed.insert(&trace.execution)),
            _ => {}
        }
    }
    match finished.difference(&closed).next() {
        Some(execution) => Err(format!("'{execution}' has finished and was never closed")),
        None => Ok(()),
    }
}

/// I2: a snapshot and the records after it give the state of a full replay.
fn snapshots_are_folds(world: &World, records: &[Record]) -> Result<(), String> {
    for snapshot in &*world.shared.snapshots.lock() {
        let mut state = State::clone(snapshot);
        for record in records {
            state.apply(record);
        }
        invariant::is_fold_of(&state, records).map_err(|problem| format!("snapshot at {}: {problem}", snapshot.applied()))?;
    }
    Ok(())
}
