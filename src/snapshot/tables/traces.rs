//! The table `traces` holds the most recently closed executions, oldest first. `steps` holds their steps, in the order of the traces.
//!
//! A start reads only their ids: [`TraceFiles`] keeps both files encoded and decodes the pages of one trace when it is needed.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, LargeStringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, BooleanArray, LargeStringArray, ListArray, RecordBatch, TimestampMicrosecondArray, UInt32Array, UInt64Array,
};

use super::super::columns::{Columns, TableRows, TextLists, text_at, times};
use super::super::error::{Unreadable, Unusable};
use super::super::parquet::EncodedTable;
use crate::core::event::{TraceCompleted, TraceStep};
use crate::core::id::{SessionId, StepId};
use crate::core::state::State;
use crate::core::time::Timestamp;
use crate::core::trace::closed::{ClosedExecutions, PackedTraces, TracePack};

pub(in super::super) const TRACES: &str = "traces";
pub(in super::super) const STEPS: &str = "steps";

/// The traces that are still packed since the state was restored, without forgotten ones, then those folded since.
pub(super) fn traces(state: &State) -> Vec<RecordBatch> {
    let closed = state.executions.closed();
    let kept = TraceFiles::from_closed(closed).map(|(packed, gone)| {
        let batch = packed.traces.read(&[]).expect("it was read when the state was restored");
        batch.slice(gone, batch.num_rows() - gone)
    });
    kept.into_iter().chain([trace_rows(closed.folded())]).collect()
}

pub(super) fn steps(state: &State) -> Vec<RecordBatch> {
    let closed = state.executions.closed();
    let kept = TraceFiles::from_closed(closed).map(|(packed, gone)| {
        let batch = packed.steps.read(&[]).expect("it was read when the state was restored");
        let gone = packed.first_step[gone];
        batch.slice(gone, batch.num_rows() - gone)
    });
    kept.into_iter().chain([step_rows(closed.folded())]).collect()
}

/// Builds the rows trace by trace, not column by column, so that each trace, which may be anywhere in memory, is read once.
fn trace_rows(traces: impl Iterator<Item = TraceCompleted>) -> RecordBatch {
    let mut texts: [LargeStringBuilder; 5] = Default::default();
    let mut flags: [BooleanBuilder; 2] = Default::default();
    let (mut started, mut ended, mut counts) = (Vec::new(), Vec::new(), UInt32Builder::new());
    for trace in traces {
        let [execution, session, agent, intent, code] = &mut texts;
        execution.append_value(trace.execution.as_str());
        session.append_option(trace.session.as_ref().map(SessionId::as_str));
        agent.append_option(trace.agent.as_deref());
        intent.append_value(&trace.intent);
        code.append_option(trace.code.as_deref());
        flags[0].append_value(trace.success);
        flags[1].append_value(trace.abandoned);
        started.push(trace.started);
        ended.push(trace.ended);
        counts.append_value(u32::try_from(trace.steps.len()).expect("executions have far fewer than 2^32 steps"));
    }
    let [execution, session, agent, intent, code] = texts.map(|mut texts| texts.finish());
    let [success, abandoned] = flags.map(|mut flags| flags.finish());
    Columns::default()
        .with("execution", execution)
        .with_optional("session", session)
        .with_optional("agent", agent)
        .with("intent", intent)
        .with("success", success)
        .with("started", times(started.into_iter()))
        .with("ended", times(ended.into_iter()))
        .with("abandoned", abandoned)
        .with_optional("code", code)
        .with("steps", counts.finish())
        .batch()
}

fn step_rows(traces: impl Iterator<Item = TraceCompleted>) -> RecordBatch {
    let mut texts: [LargeStringBuilder; 4] = Default::default();
    let (mut positions, mut durations) = (UInt32Builder::new(), UInt64Builder::new());
    let (mut successes, mut depends_on) = (BooleanBuilder::new(), TextLists::default());
    for trace in traces {
        for (position, row) in (0..).zip(&trace.steps) {
            let [execution, step, tool, error_kind] = &mut texts;
            execution.append_value(trace.execution.as_str());
            step.append_value(row.step.as_str());
            tool.append_value(row.tool.text());
            error_kind.append_option(row.error_kind.as_deref());
            positions.append_value(position);
            depends_on.append(row.depends_on.iter().map(StepId::as_str));
            successes.append_value(row.success);
            durations.append_option(row.duration_ms);
        }
    }
    let [execution, step, tool, error_kind] = texts.map(|mut texts| texts.finish());
    Columns::default()
        .with("execution", execution)
        .with("position", positions.finish())
        .with("step", step)
        .with("tool", tool)
        .with("depends_on", depends_on.finish())
        .with("success", successes.finish())
        .with_optional("duration_ms", durations.finish())
        .with_optional("error_kind", error_kind)
        .batch()
}

/// The files of both tables, and the first step of each trace.
#[derive(Debug)]
pub(in super::super) struct TraceFiles {
    traces: EncodedTable,
    steps: EncodedTable,
    /// One entry per trace and one for the end.
    first_step: Vec<usize>,
}

impl TraceFiles {
    /// The packed traces of a state and how many of them are forgotten.
    fn from_closed(closed: &ClosedExecutions) -> Option<(&Self, usize)> {
        let (packed, gone) = closed.pack()?;
        let packed: &dyn Any = packed;
        Some((packed.downcast_ref().expect("only snapshots pack traces"), gone))
    }

    /// Decodes the traces of neighbouring rows.
    fn range(&self, rows: Range<usize>) -> Result<Vec<TraceCompleted>, Unusable> {
        let parquet = |source| Unusable::Parquet { file: format!("{TRACES}.parquet"), source };
        let traces = TableRows::new(TRACES, self.traces.read_range(rows.start, rows.end).map_err(parquet)?);
        let first = self.first_step[rows.start];
        let steps = TableRows::new(STEPS, self.steps.read_range(first, self.first_step[rows.end]).map_err(parquet)?);
        let trace = |row: usize| {
            let steps = read_steps(&steps, self.first_step[row] - first, self.first_step[row + 1] - first)?;
            Ok(read_trace(&traces, row - rows.start, steps)?)
        };
        rows.clone().map(trace).collect()
    }

    /// Decodes every trace, oldest first.
    pub(in super::super) fn all(&self) -> Result<Vec<TraceCompleted>, Unusable> {
        self.range(0..self.first_step.len() - 1)
    }
}

impl PackedTraces for TraceFiles {
    fn unpack(&self, row: usize) -> TraceCompleted {
        self.unpack_rows(row..row + 1).pop().expect("one trace per row")
    }

    fn unpack_rows(&self, rows: Range<usize>) -> Vec<TraceCompleted> {
        self.range(rows).expect("the files are unchanged: their hashes were checked")
    }
}

/// Makes the closed executions from both files; only ids and step counts are read.
pub(in super::super) fn pack(traces: EncodedTable, steps: EncodedTable) -> Result<ClosedExecutions, Unusable> {
    let parquet = |source| Unusable::Parquet { file: format!("{TRACES}.parquet"), source };
    let rows = TableRows::new(TRACES, traces.read(&["execution", "steps"]).map_err(parquet)?);
    let (executions, counts) = (rows.column::<LargeStringArray>("execution")?, rows.column::<UInt32Array>("steps")?);
    let mut first_step = Vec::with_capacity(rows.len() + 1);
    first_step.push(0);
    for count in counts.values() {
        first_step.push(first_step.last().expect("it begins with a zero") + *count as usize);
    }
    if first_step.last() != Some(&steps.rows()) {
        return Err(rows
            .unreadable("steps", format!("does not add up to the {} rows of {STEPS}.parquet", steps.rows()))
            .into());
    }
    let ids = String::from_utf8(executions.value_data().to_vec()).map_err(|error| rows.unreadable("execution", error))?;
    let ends = executions.value_offsets()[1..].iter().map(|end| usize::try_from(*end).unwrap_or(0)).collect();
    Ok(ClosedExecutions::packed(TracePack::new(ids, ends, Arc::new(TraceFiles { traces, steps, first_step }))))
}

/// Every trace of a state, oldest first.
pub(in super::super) fn all(state: &State) -> Result<Vec<TraceCompleted>, Unusable> {
    let closed = state.executions.closed();
    let mut traces = match TraceFiles::from_closed(closed) {
        Some((packed, gone)) => packed.all()?.split_off(gone),
        None => Vec::new(),
    };
    traces.extend(closed.folded());
    Ok(traces)
}

fn read_trace(rows: &TableRows, row: usize, steps: Vec<TraceStep>) -> Result<TraceCompleted, Unreadable> {
    let text = |name| rows.column::<LargeStringArray>(name);
    let flag = |name| Ok(rows.column::<BooleanArray>(name)?.value(row));
    let time = |name| Ok(Timestamp::from_micros(rows.column::<TimestampMicrosecondArray>(name)?.value(row)));
    let session = text_at(text("session")?, row).map(str::parse).transpose();
    Ok(TraceCompleted {
        execution: text("execution")?.value(row).parse().map_err(|problem| rows.unreadable("execution", problem))?,
        session: session.map_err(|problem| rows.unreadable("session", problem))?,
        agent: text_at(text("agent")?, row).map(str::to_owned),
        intent: text("intent")?.value(row).to_owned(),
        steps,
        success: flag("success")?,
        started: time("started")?,
        ended: time("ended")?,
        abandoned: flag("abandoned")?,
        code: text_at(text("code")?, row).map(str::to_owned),
    })
}

fn read_steps(rows: &TableRows, from: usize, to: usize) -> Result<Vec<TraceStep>, Unreadable> {
    let text = |name| rows.column::<LargeStringArray>(name);
    let (ids, tools, error_kinds) = (text("step")?, text("tool")?, text("error_kind")?);
    let depends_on = rows.column::<ListArray>("depends_on")?;
    let (successes, durations) = (rows.column::<BooleanArray>("success")?, rows.column::<UInt64Array>("duration_ms")?);
    let id = |text: &str| text.parse::<StepId>().map_err(|problem| rows.unreadable("step", problem));
    let step = |row: usize| {
        let on = depends_on.value(row);
        Ok(TraceStep {
            step: id(ids.value(row))?,
            tool: tools.value(row).parse().map_err(|problem| rows.unreadable("tool", problem))?,
            depends_on: on.as_string::<i64>().iter().flatten().map(id).collect::<Result<_, Unreadable>>()?,
            success: successes.value(row),
            duration_ms: durations.is_valid(row).then(|| durations.value(row)),
            error_kind: text_at(error_kinds, row).map(str::to_owned),
        })
    };
    (from..to).map(step).collect()
}
