//! The table `parameters` holds the weights and the curvature of the ranker. `thresholds` holds the hits and misses of each outcome.
//! `predictions`, `open_predictions` and `scores` hold the impressions, those not yet scored, and the scores. `plan_feedback` holds the
//! verdicts about suggested plans.

use arrow_array::builder::{ListBuilder, UInt32Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type};
use arrow_array::{Float64Array, LargeStringArray, ListArray, RecordBatch, UInt32Array, UInt64Array};

use super::super::columns::{Columns, TableRows, number_lists, optional_texts, text_at, text_lists, texts};
use super::super::error::Unreadable;
use super::graph::symbol_name;
use crate::core::graph::transition::Symbol;
use crate::core::id::{ExecutionId, RecordId, Seq};
use crate::core::predict::logit::{Logit, StepLogit};
use crate::core::predict::quality::Quality;
use crate::core::predict::score::{Impression, ImpressionScores, ScoredImpression};
use crate::core::predict::signals::{LIVE_SIGNALS, SIGNALS, Signal, StepKind};
use crate::core::predict::threshold::{Posterior, Thresholds};
use crate::core::state::State;
use crate::core::suggest::feedback::{Judged, PlanFeedback};

pub(in super::super) const PARAMETERS: &str = "parameters";
pub(in super::super) const THRESHOLDS: &str = "thresholds";
pub(in super::super) const PREDICTIONS: &str = "predictions";
pub(in super::super) const OPEN_PREDICTIONS: &str = "open_predictions";
pub(in super::super) const SCORES: &str = "scores";
pub(in super::super) const PLAN_FEEDBACK: &str = "plan_feedback";

const WEIGHT: &str = "weight";
const CURVATURE: &str = "curvature";

/// For each kind of step one row per weight, then one per cell of the curvature.
pub(super) fn parameters(state: &State) -> Vec<RecordBatch> {
    let logit = &state.predictor.logit;
    let mut rows: Vec<(StepKind, &str, Signal, Option<Signal>, f64)> = Vec::new();
    for step in StepKind::ALL {
        let part = logit.step(step);
        let weights = Signal::ALL.into_iter().zip(part.weights());
        rows.extend(weights.map(|(signal, value)| (step, WEIGHT, signal, None, *value)));
        for (row, values) in Signal::LIVE.into_iter().zip(part.curvature()) {
            let cells = Signal::LIVE.into_iter().zip(values);
            rows.extend(cells.map(|(column, value)| (step, CURVATURE, row, Some(column), *value)));
        }
    }
    let columns = Columns::default()
        .with("step", texts(rows.iter().map(|row| row.0.name())))
        .with("parameter", texts(rows.iter().map(|row| row.1)))
        .with("signal", texts(rows.iter().map(|row| row.2.name())))
        .with_optional("other_signal", optional_texts(rows.iter().map(|row| row.3.map(Signal::name))))
        .with("value", Float64Array::from_iter_values(rows.iter().map(|row| row.4)));
    vec![columns.batch()]
}

/// `examples` are the examples that the weights of first and of later steps were learnt from.
pub(in super::super) fn read_parameters(rows: &TableRows, examples: [u64; 2]) -> Result<Logit, Unreadable> {
    let [first, later] = examples;
    Ok(Logit { first: read_step(rows, StepKind::First, first)?, later: read_step(rows, StepKind::Later, later)? })
}

/// Reads the rows of one kind of step.
fn read_step(rows: &TableRows, step: StepKind, examples: u64) -> Result<StepLogit, Unreadable> {
    let text = |name| rows.column::<LargeStringArray>(name);
    let (steps, parameters) = (text("step")?, text("parameter")?);
    let (signals, others) = (text("signal")?, text("other_signal")?);
    let values = rows.column::<Float64Array>("value")?;
    let signal = |name: &str| {
        let found = Signal::ALL.into_iter().find(|signal| signal.name() == name);
        found.ok_or_else(|| rows.unreadable("signal", format!("holds '{name}', which this program does not know")))
    };
    let live_index = |signal: Signal| Signal::LIVE.into_iter().position(|live| live == signal);
    let (mut weights, mut curvature) = ([0.0; SIGNALS], [[0.0; LIVE_SIGNALS]; LIVE_SIGNALS]);
    for row in (0..rows.len()).filter(|row| steps.value(*row) == step.name()) {
        let first = signal(signals.value(row))?;
        let slot = match text_at(others, row) {
            Some(other) => live_index(first).zip(live_index(signal(other)?)).map(|(at, other)| &mut curvature[at][other]),
            None => Some(&mut weights[first as usize]),
        };
        let unknown = || rows.unreadable("parameter", format!("holds '{}' where it does not belong", parameters.value(row)));
        *slot.ok_or_else(unknown)? = values.value(row);
    }
    Ok(StepLogit::from_rows(weights, curvature, examples))
}

pub(super) fn thresholds(state: &State) -> Vec<RecordBatch> {
    let rows = || state.predictor.thresholds.iter();
    let columns = Columns::default()
        .with("outcome_symbol", UInt32Array::from_iter_values(rows().map(|(symbol, _)| symbol.to_bits())))
        .with("outcome", texts(rows().map(|(symbol, _)| symbol_name(state, symbol))))
        .with("alpha", Float64Array::from_iter_values(rows().map(|(_, posterior)| posterior.alpha)))
        .with("beta", Float64Array::from_iter_values(rows().map(|(_, posterior)| posterior.beta)));
    vec![columns.batch()]
}

pub(in super::super) fn read_thresholds(rows: &TableRows) -> Result<Thresholds, Unreadable> {
    let symbols = rows.column::<UInt32Array>("outcome_symbol")?;
    let (alpha, beta) = (rows.column::<Float64Array>("alpha")?, rows.column::<Float64Array>("beta")?);
    let posterior = |row: usize| Posterior { alpha: alpha.value(row), beta: beta.value(row) };
    Ok(Thresholds::from_rows((0..rows.len()).map(|row| (Symbol::from_bits(symbols.value(row)), posterior(row)))))
}

pub(super) fn predictions(state: &State) -> Vec<RecordBatch> {
    let rows = || state.predictor.scores.impressions().map(|(_, served)| served);
    let mut symbols = ListBuilder::new(UInt32Builder::new());
    for served in rows() {
        for (symbol, _) in &served.ranked {
            symbols.values().append_option(symbol.map(Symbol::to_bits));
        }
        symbols.append(true);
    }
    let name = |(symbol, _): &(Option<Symbol>, f64)| symbol.map_or_else(String::new, |symbol| symbol_name(state, symbol));
    let columns = Columns::default()
        .with("prediction", texts(state.predictor.scores.impressions().map(|(id, _)| id.to_string())))
        .with_optional("execution", optional_texts(rows().map(|served| served.execution.as_ref().map(ExecutionId::as_str))))
        .with("based_on_seq", UInt64Array::from_iter_values(rows().map(|served| served.based_on_seq.0)))
        .with("calls", UInt64Array::from_iter_values(rows().map(|served| served.calls as u64)))
        .with("ranked_symbols", symbols.finish())
        .with("ranked", text_lists(rows().map(|served| served.ranked.iter().map(name))))
        .with("ranked_p", number_lists::<Float64Type>(rows().map(|served| served.ranked.iter().map(|(_, p)| *p))));
    vec![columns.batch()]
}

fn id_at(rows: &TableRows, column: &LargeStringArray, row: usize) -> Result<RecordId, Unreadable> {
    column.value(row).parse().map_err(|problem| rows.unreadable("prediction", problem))
}

fn read_served(rows: &TableRows) -> Result<Vec<(RecordId, Impression)>, Unreadable> {
    let (ids, executions) = (rows.column::<LargeStringArray>("prediction")?, rows.column::<LargeStringArray>("execution")?);
    let (based_on, calls) = (rows.column::<UInt64Array>("based_on_seq")?, rows.column::<UInt64Array>("calls")?);
    let (symbols, chances) = (rows.column::<ListArray>("ranked_symbols")?, rows.column::<ListArray>("ranked_p")?);
    let served = |row: usize| {
        let (symbols, chances) = (symbols.value(row), chances.value(row));
        let symbols = symbols.as_primitive::<UInt32Type>().iter().map(|bits| bits.map(Symbol::from_bits));
        let execution = text_at(executions, row).map(str::parse).transpose();
        let served = Impression {
            execution: execution.map_err(|problem| rows.unreadable("execution", problem))?,
            based_on_seq: Seq(based_on.value(row)),
            calls: usize::try_from(calls.value(row)).map_err(|problem| rows.unreadable("calls", problem))?,
            ranked: symbols.zip(chances.as_primitive::<Float64Type>().values().iter().copied()).collect(),
        };
        Ok((id_at(rows, ids, row)?, served))
    };
    (0..rows.len()).map(served).collect()
}

pub(super) fn open_predictions(state: &State) -> Vec<RecordBatch> {
    let rows = || state.predictor.scores.open();
    let columns = Columns::default()
        .with("execution", texts(rows().map(|(execution, _)| execution.as_str())))
        .with("prediction", texts(rows().map(|(_, prediction)| prediction.to_string())));
    vec![columns.batch()]
}

fn read_open(rows: &TableRows) -> Result<Vec<(ExecutionId, RecordId)>, Unreadable> {
    let (executions, ids) = (rows.column::<LargeStringArray>("execution")?, rows.column::<LargeStringArray>("prediction")?);
    let open = |row: usize| {
        let execution = executions.value(row).parse().map_err(|problem| rows.unreadable("execution", problem))?;
        Ok((execution, id_at(rows, ids, row)?))
    };
    (0..rows.len()).map(open).collect()
}

pub(super) fn scores(state: &State) -> Vec<RecordBatch> {
    let rows = || state.predictor.scores.scored();
    let columns = Columns::default()
        .with("seq", UInt64Array::from_iter_values(rows().map(|scored| scored.seq.0)))
        .with("p", Float64Array::from_iter_values(rows().map(|scored| scored.p)))
        .with("rank", UInt32Array::from_iter_values(rows().map(|scored| scored.rank)))
        .with("p_right", Float64Array::from_iter_values(rows().map(|scored| scored.p_right)));
    vec![columns.batch()]
}

pub(in super::super) fn read_scores(
    served: &TableRows,
    open: &TableRows,
    rows: &TableRows,
    total: u64,
    quality: Quality,
) -> Result<ImpressionScores, Unreadable> {
    let (seqs, ranks) = (rows.column::<UInt64Array>("seq")?, rows.column::<UInt32Array>("rank")?);
    let (p, p_right) = (rows.column::<Float64Array>("p")?, rows.column::<Float64Array>("p_right")?);
    let scored = |row: usize| ScoredImpression {
        seq: Seq(seqs.value(row)),
        p: p.value(row),
        rank: ranks.value(row),
        p_right: p_right.value(row),
    };
    Ok(ImpressionScores::from_rows(read_served(served)?, read_open(open)?, (0..rows.len()).map(scored), total, quality))
}

pub(super) fn plan_feedback(state: &State) -> Vec<RecordBatch> {
    let rows = || state.predictor.feedback.iter();
    let columns = Columns::default()
        .with("plan", texts(rows().map(|(plan, _)| plan.to_string())))
        .with("accepted", UInt32Array::from_iter_values(rows().map(|(_, judged)| judged.accepted)))
        .with("rejected", UInt32Array::from_iter_values(rows().map(|(_, judged)| judged.rejected)))
        .with("seq", UInt64Array::from_iter_values(rows().map(|(_, judged)| judged.seq.0)));
    vec![columns.batch()]
}

pub(in super::super) fn read_plan_feedback(rows: &TableRows) -> Result<PlanFeedback, Unreadable> {
    let (plans, seqs) = (rows.column::<LargeStringArray>("plan")?, rows.column::<UInt64Array>("seq")?);
    let (accepted, rejected) = (rows.column::<UInt32Array>("accepted")?, rows.column::<UInt32Array>("rejected")?);
    let judged = |row: usize| {
        let judged = Judged { accepted: accepted.value(row), rejected: rejected.value(row), seq: Seq(seqs.value(row)) };
        Ok((plans.value(row).parse().map_err(|problem| rows.unreadable("plan", problem))?, judged))
    };
    Ok(PlanFeedback::from_rows((0..rows.len()).map(judged).collect::<Result<Vec<_>, Unreadable>>()?))
}
