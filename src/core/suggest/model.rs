//! What suggestions learn from past runs: how far to trust each signal, how large sets are best, which tools feed each other, and how
//! good a plan will be. Derived from an index, computed beside the fold, never part of the digest.
//!
//! Every past intent that teaches is left out of the memory that answers it, so the fit sees what a user would see.

use super::asked::Asked;
use super::candidates::{TOOLS_MAX, best_set, collect};
use super::past_runs::{PastRun, PastRuns};
use super::probability::{TOOL_FEATURES, TOOL_PRIOR, ToolProbability, tool_features, tool_probabilities};
use super::quality::{QUALITY_FEATURES, QUALITY_PRIOR, f1, quality_features};
use super::regression::{Case, Linear};
use super::wiring::{FLOW_FEATURES, FLOW_PRIOR, FlowRule, Wiring};
use crate::graph::{Node, NodeKind};
use crate::rank::Index;

/// Past intents used as examples, evenly spaced, and how many there must be.
const EXAMPLES_MAX: usize = 240;
const EXAMPLES_MIN: usize = 20;
/// Pull towards the priors, in cases.
const PULL: f64 = 1.0;
/// Values tried for the size of sets (ALGORITHMS 14) and for the least probability of data flow.
const CAUTIONS: [f64; 5] = [0.6, 0.8, 1.0, 1.3, 1.7];
const FLOW_LEAST: [f64; 5] = [0.3, 0.4, 0.5, 0.6, 0.7];

/// The fitted parts of suggestions, and the past runs they are applied to.
#[derive(Clone, Debug)]
pub struct PlanModel {
    pub(super) runs: PastRuns,
    pub(super) tools: Linear<TOOL_FEATURES>,
    pub(super) caution: f64,
    /// `None` until it was fitted; then data flow follows the paths of the graph.
    pub(super) flow: Option<(Linear<FLOW_FEATURES>, FlowRule)>,
    pub(super) quality: Linear<QUALITY_FEATURES>,
}

impl Default for PlanModel {
    fn default() -> Self {
        Self { runs: PastRuns::default(), tools: TOOL_PRIOR, caution: 1.0, flow: None, quality: QUALITY_PRIOR }
    }
}

/// One past intent: its latest run.
struct Lesson<'a> {
    entry: usize,
    run: &'a PastRun,
    /// The tools of the run.
    tools: Vec<Node>,
}

impl PlanModel {
    /// The model with the past runs of `index`; what was fitted is kept.
    #[must_use]
    pub fn update(&self, index: &Index) -> Self {
        let mut next = self.clone();
        next.runs.update(index.state());
        next
    }

    /// The model fitted to the past intents of `index`; the priors where there are too few.
    #[must_use]
    pub fn fitted(&self, index: &Index) -> Self {
        let mut next = Self::default().update(index);
        let runs = next.runs.clone();
        let lessons = lessons(index, &runs);
        if lessons.len() >= EXAMPLES_MIN {
            next.fit_tools(index, &runs, &lessons);
            next.fit_flow(index, &runs, &lessons);
            next.fit_quality(index, &runs, &lessons);
        }
        next
    }

    fn fit_tools(&mut self, index: &Index, runs: &PastRuns, lessons: &[Lesson<'_>]) {
        let mut cases = Vec::new();
        let mut by_lesson = Vec::new();
        for lesson in lessons {
            let Some(asked) = Asked::past(index, runs, lesson.entry) else { continue };
            let features = tool_features(&asked);
            let outcome = |tool: &Node| f64::from(u8::from(lesson.tools.contains(tool)));
            cases.extend(features.iter().map(|(tool, features)| Case { features: *features, outcome: outcome(tool) }));
            by_lesson.push((lesson, features));
        }
        self.tools = TOOL_PRIOR.fit_logistic(&cases, PULL);
        let probabilities: Vec<(&Lesson<'_>, Vec<ToolProbability>)> = by_lesson
            .into_iter()
            .map(|(lesson, features)| {
                let p = |features| self.tools.probability(features);
                let mut tools: Vec<ToolProbability> =
                    features.iter().map(|(tool, features)| ToolProbability { tool: *tool, p: p(features) }).collect();
                tools.sort_by(|a, b| b.p.total_cmp(&a.p).then(a.tool.cmp(&b.tool)));
                (lesson, tools)
            })
            .collect();
        let quality = |caution: f64| -> f64 {
            probabilities.iter().map(|(lesson, tools)| f1(&best_set(tools, caution), &lesson.tools)).sum()
        };
        self.caution = best(CAUTIONS, quality);
    }

    /// Fits data flow to the true tools of the runs in their true order.
    fn fit_flow(&mut self, index: &Index, runs: &PastRuns, lessons: &[Lesson<'_>]) {
        let mut cases = Vec::new();
        let mut plans: Vec<Vec<Case<FLOW_FEATURES>>> = Vec::new();
        for lesson in lessons.iter().filter(|lesson| lesson.tools.len() > 1) {
            let Some((asked, flow)) = Asked::past(index, runs, lesson.entry).zip(lesson.run.flow.as_ref()) else { continue };
            let wiring = Wiring::new(&asked, &lesson.tools);
            let mut plan = Vec::new();
            for (to, second) in lesson.tools.iter().enumerate() {
                for (from, first) in lesson.tools[..to].iter().enumerate() {
                    let outcome = f64::from(u8::from(flow.binary_search(&(*first, *second)).is_ok()));
                    plan.push(Case { features: wiring.features(from, to, to - from), outcome });
                }
            }
            cases.extend(plan.iter().copied());
            plans.push(plan);
        }
        if cases.iter().all(|case| case.outcome == 0.0) {
            return;
        }
        let model = FLOW_PRIOR.fit_logistic(&cases, PULL);
        let above =
            |least: f64| plans.iter().map(|plan| flow_f1(plan, |case| model.probability(&case.features) >= least)).sum();
        let least = best(FLOW_LEAST, above);
        // The feature after that of all runs says whether the two are neighbours.
        let chain: f64 = plans.iter().map(|plan| flow_f1(plan, |case| case.features[ADJACENT] > 0.5)).sum();
        let rule = if chain > above(least) { FlowRule::Chain } else { FlowRule::Above(least) };
        self.flow = Some((model, rule));
    }

    fn fit_quality(&mut self, index: &Index, runs: &PastRuns, lessons: &[Lesson<'_>]) {
        let mut cases = Vec::new();
        for lesson in lessons {
            let Some(asked) = Asked::past(index, runs, lesson.entry) else { continue };
            let probabilities = tool_probabilities(&asked, &self.tools);
            // Without capabilities: that of the run itself would give the answer away.
            let candidates = collect(&asked, &probabilities, self.caution, None);
            let features = quality_features(&candidates, &probabilities, self.caution);
            let outcome = |nodes: &[Node]| f1(nodes, &lesson.tools);
            let with_outcome = candidates.iter().zip(features);
            cases.extend(with_outcome.map(|(candidate, features)| Case { features, outcome: outcome(&candidate.nodes) }));
        }
        self.quality = QUALITY_PRIOR.fit_squares(&cases, PULL);
    }
}

/// The position of the feature "stands right before" in those of data flow.
const ADJACENT: usize = 4;

/// The F1 score of the pairs that `joined` accepts.
fn flow_f1(plan: &[Case<FLOW_FEATURES>], joined: impl Fn(&Case<FLOW_FEATURES>) -> bool) -> f64 {
    let pairs = |accepts: &dyn Fn(&Case<FLOW_FEATURES>) -> bool| -> Vec<usize> {
        plan.iter().enumerate().filter(|(_, case)| accepts(case)).map(|(at, _)| at).collect()
    };
    f1(&pairs(&joined), &pairs(&|case| case.outcome > 0.5))
}

/// The value with the highest quality, the first of equals.
fn best<const N: usize>(values: [f64; N], quality: impl Fn(f64) -> f64) -> f64 {
    let rated = values.map(|value| (quality(value), value));
    rated.into_iter().reduce(|best, next| if next.0 > best.0 { next } else { best }).map_or(1.0, |(_, value)| value)
}

/// The latest run of evenly spaced past intents, if it called tools.
fn lessons<'a>(index: &Index, runs: &'a PastRuns) -> Vec<Lesson<'a>> {
    let step = index.intents().len().div_ceil(EXAMPLES_MAX).max(1);
    let lesson = |entry: usize| {
        let number = index.state().memory.number(index.intents().entry(entry).hash)?;
        let run = runs.runs(number).last()?;
        let is_tool = |node: &Node| matches!(node.kind(), NodeKind::Tool(_));
        let tools: Vec<Node> = run.nodes.iter().copied().filter(is_tool).take(TOOLS_MAX).collect();
        (!tools.is_empty()).then_some(Lesson { entry, run, tools })
    };
    (0..index.intents().len()).step_by(step).filter_map(lesson).collect()
}
