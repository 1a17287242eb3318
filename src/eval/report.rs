//! The report (`pml report`): what predictions would have saved on a history. Every step is predicted before it is learnt.
//!
//! A model decides before each call and once more at the end of a run. A decision could have been skipped if a call was predicted and came; at
//! the end, a predicted call is wrong. A predicted end is never taken, since somebody has to write the answer.

use std::collections::{BTreeMap, BTreeSet};

use super::predictors::{AskedRun, Predictors};
use crate::ask::{embed_lacking, question};
use crate::core::event::{Event, Record, TraceCompleted, TraceStep};
use crate::core::id::{Callee, ToolId};
use crate::core::speculate::may_run_ahead;
use crate::core::state::State;
use crate::embed::{EmbedError, Embedder};
use crate::readers::report::{
    Coverage, DefinitionTokens, Prediction, TimeSaved, TimedStep, coverage, definition_tokens, forward_coverage, time_saved,
};

/// The precisions that are reported.
pub const PRECISIONS: [f64; 3] = [0.90, 0.95, 0.99];
/// Built-in tools of agents that only read, which no server marks.
const READING: [&str; 5] =
    ["claude-code:Read", "claude-code:Grep", "claude-code:Glob", "claude-code:LS", "claude-code:NotebookRead"];
/// Tools that discover shows for a run.
const SHOWN_TOOLS: usize = 10;
/// Characters of a token of a definition; the usual estimate for English and JSON.
const TOKEN_CHARS: usize = 4;
/// How many steps after a failed one are looked at for what worked instead.
const REPAIR_STEPS: usize = 3;
/// Runs of a procedure that make it a habit.
const HABIT_RUNS: u64 = 3;
/// Entries of each list.
const LISTED_MAX: usize = 10;

/// Folds a history and predicts each step before it is learnt.
pub struct Reporter<'a> {
    state: State,
    embedder: &'a dyn Embedder,
    batch_texts_max: usize,
    predictors: Predictors,
    /// By run: its steps, without their predictions.
    timed: Vec<Vec<UnpredictedStep>>,
    runs: Vec<BTreeSet<ToolId>>,
    failures: BTreeMap<ToolId, Failures>,
}

struct UnpredictedStep {
    gap_ms: u64,
    duration_ms: u64,
    is_read_only: bool,
}

#[derive(Default)]
struct Failures {
    calls: u64,
    failed: u64,
    instead: BTreeMap<ToolId, u64>,
}

/// What the history says.
pub struct Report {
    pub runs: usize,
    pub steps: usize,
    /// The decisions in the order of the history: the steps, and the ends of runs.
    pub predictions: Vec<Prediction>,
    /// For each of [`PRECISIONS`]: the threshold chosen with hindsight, and chosen step by step.
    pub coverages: Vec<(Coverage, Coverage)>,
    pub tokens: DefinitionTokens,
    pub tools_defined: usize,
    pub time: TimeSaved,
    pub habits: Vec<Habit>,
    /// How many procedures ran often enough to be habits.
    pub habits_count: usize,
    pub failing: Vec<FailingTool>,
    pub never_used: Vec<ToolId>,
    pub never_used_count: usize,
}

/// A procedure that was repeated.
pub struct Habit {
    pub name: String,
    pub summary: String,
    pub runs: u64,
    pub success: f64,
}

/// A tool that fails, and the tool that worked next most often.
pub struct FailingTool {
    pub tool: ToolId,
    pub calls: u64,
    pub failed: u64,
    pub instead: Option<(ToolId, u64)>,
}

impl<'a> Reporter<'a> {
    pub fn new(embedder: &'a dyn Embedder, batch_texts_max: usize) -> std::io::Result<Self> {
        let (state, predictors, failures) = (State::default(), Predictors::start()?, BTreeMap::new());
        Ok(Self { state, embedder, batch_texts_max, predictors, timed: Vec::new(), runs: Vec::new(), failures })
    }

    /// Applies the next record of the history; predicts its steps first if it completes a trace.
    pub fn apply(&mut self, record: &Record) -> Result<(), EmbedError> {
        if let Event::TraceCompleted(trace) = record.event()
            && !trace.abandoned
            && !self.state.knows(record.fact.id)
        {
            self.predict(trace)?;
            self.count(trace);
        }
        self.state.apply(record);
        Ok(())
    }

    fn predict(&mut self, trace: &TraceCompleted) -> Result<(), EmbedError> {
        embed_lacking(&mut self.state, self.embedder, self.batch_texts_max)?;
        let question = question(Some(self.embedder), trace.intent.clone())?;
        let calls = trace.steps.iter().map(|step| self.state.find(&step.tool)).collect();
        let gap_ms = thinking_ms(trace);
        let timed = |step: &TraceStep| UnpredictedStep {
            gap_ms,
            duration_ms: step.duration_ms.unwrap_or(0),
            is_read_only: self.only_reads(&step.tool),
        };
        let timed: Vec<UnpredictedStep> = trace.steps.iter().map(timed).collect();
        self.timed.push(timed);
        self.predictors.ask(AskedRun { state: self.state.clone(), question, calls });
        Ok(())
    }

    fn only_reads(&self, callee: &Callee) -> bool {
        let is_known = matches!(callee, Callee::Tool(tool) if READING.contains(&tool.as_str()));
        is_known || may_run_ahead(&self.state, callee).is_ok()
    }

    fn count(&mut self, trace: &TraceCompleted) {
        let tool = |at: usize| match &trace.steps.get(at)?.tool {
            Callee::Tool(tool) => Some(tool),
            Callee::Capability(_) => None,
        };
        self.runs.push((0..trace.steps.len()).filter_map(tool).cloned().collect());
        for (at, step) in trace.steps.iter().enumerate() {
            let Some(called) = tool(at) else { continue };
            let failures = self.failures.entry(called.clone()).or_default();
            failures.calls += 1;
            if step.success {
                continue;
            }
            failures.failed += 1;
            let next = (at + 1..=at + REPAIR_STEPS).find(|next| trace.steps.get(*next).is_some_and(|next| next.success));
            if let Some(instead) = next.and_then(tool) {
                *failures.instead.entry(instead.clone()).or_default() += 1;
            }
        }
    }

    /// The number of steps so far.
    pub fn steps(&self) -> usize {
        self.timed.iter().map(Vec::len).sum()
    }

    /// Computes the report. Calls run ahead are those that reach the precision of 90 %.
    pub fn finish(self) -> Report {
        let (mut predictions, mut steps) = (Vec::new(), Vec::new());
        for (timed, decisions) in self.timed.into_iter().zip(self.predictors.finish()) {
            steps.extend(timed.into_iter().zip(&decisions).map(|(step, prediction)| step.predicted(*prediction)));
            predictions.extend(decisions);
        }
        let both = |precision: &f64| (coverage(&predictions, *precision), forward_coverage(&predictions, *precision));
        let coverages: Vec<(Coverage, Coverage)> = PRECISIONS.iter().map(both).collect();
        let threshold = coverages[0].0.threshold.unwrap_or(f64::INFINITY);
        let definitions = definitions(&self.state);
        let (habits_count, habits) = habits(&self.state);
        let never: Vec<&ToolId> =
            definitions.keys().filter(|tool| self.failures.get(*tool).is_none_or(|counted| counted.calls == 0)).collect();
        Report {
            runs: self.runs.len(),
            steps: steps.len(),
            tokens: definition_tokens(&definitions, &self.runs, SHOWN_TOOLS),
            tools_defined: definitions.len(),
            time: time_saved(&steps, threshold),
            coverages,
            habits,
            habits_count,
            failing: failing(self.failures.iter()),
            never_used_count: never.len(),
            never_used: never.into_iter().take(LISTED_MAX).cloned().collect(),
            predictions,
        }
    }
}

impl UnpredictedStep {
    fn predicted(self, prediction: Prediction) -> TimedStep {
        let Self { gap_ms, duration_ms, is_read_only } = self;
        TimedStep { gap_ms, duration_ms, is_read_only, prediction }
    }
}

/// The time between the calls of a run, shared out evenly: traces hold durations and not the times of calls.
fn thinking_ms(trace: &TraceCompleted) -> u64 {
    let calling: u64 = trace.steps.iter().filter_map(|step| step.duration_ms).fold(0, u64::saturating_add);
    trace.ended.millis_since(trace.started).saturating_sub(calling) / (trace.steps.len() as u64).max(1)
}

/// The tokens of each tool that has a definition.
fn definitions(state: &State) -> BTreeMap<ToolId, u64> {
    let tokens = |tool: &crate::core::tool::Tool| {
        let registration = tool.registration.as_ref().filter(|_| tool.is_offered())?;
        let schema = registration.input_schema.as_ref().map_or(0, |schema| schema.as_str().len());
        let chars = registration.name.len() + registration.description.len() + schema;
        Some((tool.id.clone(), chars.div_ceil(TOKEN_CHARS) as u64))
    };
    state.tools.iter().filter_map(tokens).collect()
}

/// The procedures that are habits: how many, and those with the most runs.
fn habits(state: &State) -> (usize, Vec<Habit>) {
    let is_habit = |usage: u64, calls: usize| usage >= HABIT_RUNS && calls > 1;
    let mut found: Vec<_> =
        state.capabilities.iter().filter(|capability| is_habit(capability.usage, capability.members.len())).collect();
    found.sort_by_key(|capability| (std::cmp::Reverse(capability.usage), capability.id));
    let habit = |capability: &crate::core::capability::Capability| Habit {
        name: capability.handle.to_string(),
        summary: capability.structure.summary(),
        runs: capability.usage,
        success: capability.success_rate(),
    };
    (found.len(), found.into_iter().take(LISTED_MAX).map(habit).collect())
}

fn failing<'a>(failures: impl Iterator<Item = (&'a ToolId, &'a Failures)>) -> Vec<FailingTool> {
    let mut found: Vec<FailingTool> = failures
        .filter(|(_, counted)| counted.failed > 0)
        .map(|(tool, counted)| {
            let instead = counted.instead.iter().max_by_key(|(tool, count)| (**count, std::cmp::Reverse(*tool)));
            let instead = instead.map(|(tool, count)| (tool.clone(), *count));
            FailingTool { tool: tool.clone(), calls: counted.calls, failed: counted.failed, instead }
        })
        .collect();
    found.sort_by(|one, other| other.failed.cmp(&one.failed).then_with(|| one.tool.cmp(&other.tool)));
    found.truncate(LISTED_MAX);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::dataset::Dataset;
    use crate::embed;
    use crate::eval::learn::START;
    use crate::eval::prequential::dataset_records;

    #[test]
    fn no_step_is_predicted_from_what_comes_later() {
        let config = Config::load(None, []).unwrap();
        let embedder = embed::open(&config.embedding).unwrap();
        let report = |traces: usize| {
            let mut dataset = Dataset::demo(START);
            dataset.traces.truncate(traces);
            let mut reporter = Reporter::new(&*embedder, 32).unwrap();
            dataset_records(dataset, START).for_each(|record| reporter.apply(&record).unwrap());
            reporter.finish()
        };
        let (short, long) = (report(60), report(120));
        assert_eq!(short.predictions.len(), short.steps + short.runs, "every call and every end");
        assert!(short.steps > 60 && long.predictions.len() > short.predictions.len());
        assert_eq!(short.predictions[..], long.predictions[..short.predictions.len()], "the future changes nothing");
        assert_eq!((short.runs, short.tools_defined), (60, 260));
        assert!(long.tokens.kept_out() > 0 && long.never_used_count > 0);
        for (hindsight, forward) in &long.coverages {
            assert!(hindsight.steps == long.predictions.len() && forward.taken <= hindsight.steps);
        }
    }
}
