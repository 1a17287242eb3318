//! The tables `open_executions` and `open_steps` hold the executions that are not closed. The facts are stored in the log's own form
//! (`*_record`), so that nothing of them is lost; the other columns are for people.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{Array, LargeBinaryArray, LargeStringArray, RecordBatch, TimestampMicrosecondArray};

use super::super::columns::{Columns, TableRows, optional_texts, optional_times, text_at, texts, time_at};
use super::super::error::Unreadable;
use crate::core::event::{Event, NewRecord, stored};
use crate::core::id::{ExecutionId, Seq};
use crate::core::state::State;
use crate::core::time::Timestamp;
use crate::core::trace::{OpenExecution, OpenStep};

pub(in super::super) const OPEN_EXECUTIONS: &str = "open_executions";
pub(in super::super) const OPEN_STEPS: &str = "open_steps";

/// The open executions sorted by the text of the id, so that the same state gives the same file.
fn sorted(state: &State) -> BTreeMap<&str, &OpenExecution> {
    state.executions.iter().map(|(execution, open)| (execution.as_str(), open)).collect()
}

fn encode_fact(fact: Option<&Arc<NewRecord>>) -> Option<Vec<u8>> {
    // The time of the append is in the log and not part of the state.
    fact.map(|fact| stored::encode(fact, Timestamp::from_micros(0)))
}

pub(super) fn open_executions(state: &State) -> Vec<RecordBatch> {
    let open = sorted(state);
    let rows = || open.values().copied();
    let intent = |row: &OpenExecution| match &row.started.as_ref()?.event {
        Event::ExecutionStarted(started) => Some(started.intent.clone()),
        _ => None,
    };
    let time = |fact: &Option<Arc<NewRecord>>| fact.as_ref().map(|fact| fact.time);
    let columns = Columns::default()
        .with("execution", texts(open.keys()))
        .with_optional("intent", optional_texts(rows().map(intent)))
        .with_optional("started", optional_times(rows().map(|row| time(&row.started))))
        .with_optional("finished", optional_times(rows().map(|row| time(&row.finished))))
        .with_optional("started_record", rows().map(|row| encode_fact(row.started.as_ref())).collect::<LargeBinaryArray>())
        .with_optional("finished_record", rows().map(|row| encode_fact(row.finished.as_ref())).collect::<LargeBinaryArray>());
    vec![columns.batch()]
}

pub(super) fn open_steps(state: &State) -> Vec<RecordBatch> {
    let open = sorted(state);
    let rows = || open.iter().flat_map(|(execution, open)| open.steps.iter().map(move |step| (*execution, step)));
    let columns = Columns::default()
        .with("execution", texts(rows().map(|(execution, _)| execution)))
        .with("step", texts(rows().map(|(_, step)| step.id.as_str())))
        .with("tool", texts(rows().map(|(_, step)| step.tool.text())))
        .with_optional("started", optional_times(rows().map(|(_, step)| step.started.map(|(time, _)| time))))
        .with_optional("started_id", optional_texts(rows().map(|(_, step)| step.started.map(|(_, id)| id.to_string()))))
        .with_optional("finished", optional_times(rows().map(|(_, step)| step.finished.as_ref().map(|fact| fact.time))))
        .with_optional(
            "finished_record",
            rows().map(|(_, step)| encode_fact(step.finished.as_ref())).collect::<LargeBinaryArray>(),
        );
    vec![columns.batch()]
}

fn fact_at(rows: &TableRows, name: &'static str, row: usize) -> Result<Option<Arc<NewRecord>>, Unreadable> {
    let column = rows.column::<LargeBinaryArray>(name)?;
    if column.is_null(row) {
        return Ok(None);
    }
    let record = stored::decode(Seq::ZERO, column.value(row)).map_err(|problem| rows.unreadable(name, problem))?;
    Ok(Some(record.fact))
}

pub(in super::super) fn read_open(
    executions: &TableRows,
    steps: &TableRows,
) -> Result<Vec<(ExecutionId, OpenExecution)>, Unreadable> {
    let mut steps_of = read_open_steps(steps)?;
    let ids = executions.column::<LargeStringArray>("execution")?;
    let mut open = Vec::with_capacity(executions.len());
    for row in 0..executions.len() {
        let id: ExecutionId = ids.value(row).parse().map_err(|problem| executions.unreadable("execution", problem))?;
        let known = OpenExecution {
            started: fact_at(executions, "started_record", row)?,
            steps: steps_of.remove(id.as_str()).unwrap_or_default(),
            finished: fact_at(executions, "finished_record", row)?,
        };
        open.push((id, known));
    }
    Ok(open)
}

/// The open steps by execution. The rows of one execution are sorted by step, like the steps in the state.
fn read_open_steps(rows: &TableRows) -> Result<BTreeMap<&str, Vec<OpenStep>>, Unreadable> {
    let text = |name| rows.column::<LargeStringArray>(name);
    let (executions, ids, tools, started_ids) = (text("execution")?, text("step")?, text("tool")?, text("started_id")?);
    let started = rows.column::<TimestampMicrosecondArray>("started")?;
    let mut steps: BTreeMap<&str, Vec<OpenStep>> = BTreeMap::new();
    for row in 0..rows.len() {
        let started_id = text_at(started_ids, row).map(str::parse).transpose();
        let started_id = started_id.map_err(|problem| rows.unreadable("started_id", problem))?;
        steps.entry(executions.value(row)).or_default().push(OpenStep {
            id: ids.value(row).parse().map_err(|problem| rows.unreadable("step", problem))?,
            tool: tools.value(row).parse().map_err(|problem| rows.unreadable("tool", problem))?,
            started: time_at(started, row).zip(started_id),
            finished: fact_at(rows, "finished_record", row)?,
        });
    }
    Ok(steps)
}
