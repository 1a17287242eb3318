//! Evaluation of plans: the tools and the data flow suggested for the intent of every test trace, beside those of the trace itself.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::ask::question;
use crate::core::graph::adjacency::Adjacency;
use crate::core::id::{Callee, ToolId};
use crate::core::predict::evidence::Evidence;
use crate::core::rank::Question;
use crate::core::suggest::planner::Planner;
use crate::core::suggest::{SURE_MIN, SuggestedPlan};
use crate::dataset::TraceLine;
use crate::embed::{EmbedError, Embedder};

/// The names of pml and of the baseline, in the order of the table.
pub const PLANNERS: [&str; 2] = ["pml", "copy_nearest"];

/// Bins of the calibration error, of equal width.
const BINS: usize = 10;

/// Means over the test traces.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct PlanScores {
    /// F1 of the sets of tools.
    pub node_f1: f64,
    /// F1 of the pairs (from tool, to tool), over traces with at least one pair.
    pub edge_f1: f64,
    /// The share of traces with the same set of tools.
    pub exact: f64,
    /// Tools per plan.
    pub size: f64,
    pub n: usize,
    /// Traces with at least one pair.
    pub n_edges: usize,
    /// The share of plans given without reserve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sure: Option<f64>,
    /// Expected calibration error of the confidence as an estimate of node-F1, 10 bins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ece: Option<f64>,
}

/// A plan as it is scored.
#[derive(Clone, Debug, Default)]
struct Plan {
    tools: BTreeSet<ToolId>,
    edges: BTreeSet<(ToolId, ToolId)>,
    confidence: Option<f64>,
}

/// Sums over the traces so far.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    node_f1: f64,
    edge_f1: f64,
    exact: f64,
    size: f64,
    sure: f64,
    /// By tenth of the confidence: the sum of the differences from node-F1.
    calibration: [f64; BINS],
    n: usize,
    n_edges: usize,
}

/// Scores the plans of pml, and the baseline that copies the run of the most similar training intent.
pub fn plan(
    planner: &Planner,
    graph: &Adjacency,
    embedder: &dyn Embedder,
    split: &super::Split,
) -> Result<BTreeMap<&'static str, PlanScores>, EmbedError> {
    let by_intent: BTreeMap<&str, &TraceLine> = split.train.iter().map(|trace| (trace.intent.trim(), trace)).collect();
    let mut sums: BTreeMap<&'static str, Sums> = BTreeMap::new();
    for trace in &split.test {
        let right = Plan::of_trace(trace);
        if right.tools.is_empty() {
            continue;
        }
        let question = question(Some(embedder), trace.intent.clone())?;
        let suggested = planner.suggest(graph, &question, &[]).best.as_ref().map(Plan::suggested).unwrap_or_default();
        let copied = nearest(planner, &question, &by_intent).map(Plan::of_trace).unwrap_or_default();
        for (name, plan) in PLANNERS.into_iter().zip([suggested, copied]) {
            sums.entry(name).or_default().add(&plan, &right);
        }
    }
    let scores = |(name, sums): (&'static str, Sums)| (name, sums.scores(name == PLANNERS[0]));
    Ok(sums.into_iter().map(scores).collect())
}

/// The training trace with the most similar intent; of equal intents the last.
fn nearest<'a>(planner: &Planner, question: &Question, by_intent: &BTreeMap<&str, &'a TraceLine>) -> Option<&'a TraceLine> {
    let evidence = Evidence::for_question(planner.index().state(), question);
    evidence.near.iter().find_map(|near| by_intent.get(near.entry.intent.trim()).copied())
}

impl Plan {
    fn of_trace(trace: &TraceLine) -> Self {
        Self { tools: trace.tools().collect(), edges: trace.edges().collect(), confidence: None }
    }

    fn suggested(plan: &SuggestedPlan) -> Self {
        let tool = |callee: &Callee| match callee {
            Callee::Tool(id) => Some(id.clone()),
            Callee::Capability(_) => None,
        };
        let edges = plan.tasks.iter().enumerate().flat_map(|(at, task)| {
            let again = task.is_repeated.then_some(at);
            let from = task.depends_on.iter().copied().chain(again).filter_map(|from| tool(&plan.tasks[from].callee));
            from.filter_map(|from| Some((from, tool(&task.callee)?)))
        });
        let tools = plan.tasks.iter().filter_map(|task| tool(&task.callee)).collect();
        Self { edges: edges.collect(), tools, confidence: Some(plan.confidence) }
    }
}

#[expect(clippy::cast_precision_loss, reason = "plans and test sets are small")]
impl Sums {
    fn add(&mut self, plan: &Plan, right: &Plan) {
        let node_f1 = f1(&plan.tools, &right.tools);
        self.node_f1 += node_f1;
        if let Some(confidence) = plan.confidence {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to BINS")]
            let bin = ((confidence * BINS as f64) as usize).min(BINS - 1);
            self.calibration[bin] += confidence - node_f1;
        }
        self.exact += f64::from(u8::from(plan.tools == right.tools));
        self.size += plan.tools.len() as f64;
        self.sure += f64::from(u8::from(plan.confidence.is_some_and(|confidence| confidence >= SURE_MIN)));
        self.n += 1;
        if !right.edges.is_empty() {
            self.edge_f1 += f1(&plan.edges, &right.edges);
            self.n_edges += 1;
        }
    }

    fn scores(&self, is_suggested: bool) -> PlanScores {
        let n = self.n.max(1) as f64;
        PlanScores {
            node_f1: self.node_f1 / n,
            edge_f1: self.edge_f1 / self.n_edges.max(1) as f64,
            exact: self.exact / n,
            size: self.size / n,
            n: self.n,
            n_edges: self.n_edges,
            sure: is_suggested.then_some(self.sure / n),
            ece: is_suggested.then(|| self.calibration.iter().map(|sum| sum.abs()).sum::<f64>() / n),
        }
    }
}

/// The F1 score of a set beside the right one.
#[expect(clippy::cast_precision_loss, reason = "plans are small")]
fn f1<T: Ord>(found: &BTreeSet<T>, right: &BTreeSet<T>) -> f64 {
    2.0 * found.intersection(right).count() as f64 / (found.len() + right.len()).max(1) as f64
}

/// Means over the folds of a cross-validation, all with equal weight.
#[expect(clippy::cast_precision_loss, reason = "a handful of folds")]
pub fn mean(folds: &[BTreeMap<&'static str, PlanScores>]) -> BTreeMap<&'static str, PlanScores> {
    let mean_of = |name: &'static str| {
        let parts: Vec<PlanScores> = folds.iter().filter_map(|fold| fold.get(name).copied()).collect();
        let count = parts.len().max(1) as f64;
        let mean = |value: fn(&PlanScores) -> f64| parts.iter().map(value).sum::<f64>() / count;
        let scores = PlanScores {
            node_f1: mean(|part| part.node_f1),
            edge_f1: mean(|part| part.edge_f1),
            exact: mean(|part| part.exact),
            size: mean(|part| part.size),
            n: parts.iter().map(|part| part.n).sum(),
            n_edges: parts.iter().map(|part| part.n_edges).sum(),
            sure: (name == PLANNERS[0]).then(|| mean(|part| part.sure.unwrap_or(0.0))),
            ece: (name == PLANNERS[0]).then(|| mean(|part| part.ece.unwrap_or(0.0))),
        };
        (!parts.is_empty()).then_some((name, scores))
    };
    PLANNERS.into_iter().filter_map(mean_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_count_only_where_there_are_some() {
        let id = |tool: &str| tool.parse::<ToolId>().unwrap();
        let right = Plan { tools: [id("a:a"), id("b:b")].into(), edges: [(id("a:a"), id("b:b"))].into(), confidence: None };
        let loose = Plan { tools: [id("a:a")].into(), ..Plan::default() };
        let guess = Plan { confidence: Some(0.7), ..right.clone() };
        let mut sums = Sums::default();
        sums.add(&right, &right);
        sums.add(&right, &loose);
        let scores = sums.scores(false);
        let close = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value} {expected}");
        close(scores.node_f1, f64::midpoint(1.0, 2.0 / 3.0));
        close(scores.edge_f1, 1.0);
        close(scores.exact, 0.5);
        close(scores.size, 2.0);
        assert_eq!((scores.n, scores.n_edges), (2, 1));
        let mut calibrated = Sums::default();
        calibrated.add(&guess, &right);
        calibrated.add(&Plan { confidence: Some(0.72), ..loose.clone() }, &right);
        close(calibrated.scores(true).ece.unwrap(), (0.3 - (0.72 - 2.0 / 3.0)) / 2.0);
    }
}
