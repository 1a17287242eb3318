//! What suggestions learn from past runs: how far to trust each signal, how large sets are best, which tools feed each other, and how
//! good a plan will be. Derived from an index, computed beside the fold, never part of the digest.
//!
//! Every past intent that teaches is left out of the memory that answers it, so the fit sees what a user would see.

use super::asked::Asked;
use super::candidates::{PlanOrigin, TOOLS_MAX, best_set, collect, distinct_sets};
use super::past_runs::{PastRun, PastRuns};
use super::probability::{TOOL_FEATURES, TOOL_PRIOR, ToolFeatures, tool_features, tool_probabilities};
use super::quality::{QUALITY_FEATURES, QUALITY_PRIOR, f1, quality_features};
use super::regression::{Case, Linear};
use super::wiring::{FLOW_FEATURES, FLOW_PRIOR, FlowModel, FlowRule, Wiring};
use crate::graph::{Node, NodeKind};
use crate::rank::Index;
use crate::rank::calibrate::past_question;
use crate::rank::signals::Signals;

/// Past intents used as examples, evenly spaced, and how many there must be.
const EXAMPLES_MAX: usize = 240;
const EXAMPLES_MIN: usize = 20;
/// Pull towards the priors, in cases.
const PULL: f64 = 1.0;
/// Values tried for the size of sets (ALGORITHMS 14) and for the least probability of data flow.
const CAUTIONS: [f64; 5] = [0.6, 0.8, 1.0, 1.3, 1.7];
const FLOW_LEAST: [f64; 5] = [0.3, 0.4, 0.5, 0.6, 0.7];
/// The share of the examples that are less familiar than what counts as familiar.
const UNFAMILIAR: f64 = 0.1;

/// The fitted parts of suggestions, and the past runs they are applied to.
#[derive(Clone, Debug)]
pub struct PlanModel {
    pub(super) runs: PastRuns,
    pub(super) tools: Linear<TOOL_FEATURES>,
    pub(super) caution: f64,
    /// `None` until it was fitted; then data flow follows the paths of the graph.
    pub(super) flow: Option<FlowModel>,
    quality: Linear<QUALITY_FEATURES>,
    /// The similarity of the nearest past intent from which the examples speak for a question.
    familiar: f64,
}

impl Default for PlanModel {
    fn default() -> Self {
        let runs = PastRuns::default();
        Self { runs, tools: TOOL_PRIOR, caution: 1.0, flow: None, quality: QUALITY_PRIOR, familiar: 0.0 }
    }
}

/// One past intent: its latest run, and the features of the tools that any signal points at.
struct Lesson<'a> {
    entry: usize,
    run: &'a PastRun,
    /// The tools of the run, in order.
    tools: Vec<Node>,
    features: Vec<ToolFeatures>,
}

/// An ordered plan as flow sees it: each pair with whether data flowed in the true run, and how many true flows there are.
#[derive(Default)]
struct FlowPlan {
    pairs: Vec<Case<FLOW_FEATURES>>,
    truths: usize,
}

/// What the second look at the lessons collects.
#[derive(Default)]
struct Collected {
    /// The true tools in their true order.
    truths: Vec<FlowPlan>,
    /// The nearest copied run: in its own order, and in the order that all runs suggest.
    copied: Vec<FlowPlan>,
    reordered: Vec<FlowPlan>,
    quality: Vec<Case<QUALITY_FEATURES>>,
    familiarity: Vec<f64>,
}

impl PlanModel {
    /// The model with the past runs of `index`; what was fitted is kept.
    #[must_use]
    pub fn update(&self, index: &Index) -> Self {
        let mut next = self.clone();
        next.runs.update(index.state());
        next
    }

    /// The model fitted to the past intents of `index`; the priors where there are too few. Takes about three discovers per example.
    #[must_use]
    pub fn fitted(&self, index: &Index) -> Self {
        let Self { runs, .. } = self.update(index);
        let mut next = Self::default();
        let lessons = lessons(index, &runs);
        if lessons.len() >= EXAMPLES_MIN {
            next.fit_tools(&lessons);
            let collected = next.collect(index, &runs, &lessons);
            next.flow = fit_flow(&collected);
            next.quality = QUALITY_PRIOR.fit_squares(&collected.quality, PULL);
            next.familiar = quantile(collected.familiarity, UNFAMILIAR);
        }
        Self { runs, ..next }
    }

    /// The expected F1 score of a plan with these features. The examples say nothing about questions that are less familiar than
    /// they are, so there the confidence falls with the familiarity.
    pub(super) fn confidence(&self, features: &[f64; QUALITY_FEATURES], familiarity: f64) -> f64 {
        let known = if familiarity < self.familiar { familiarity / self.familiar } else { 1.0 };
        (self.quality.value(features).clamp(0.0, 1.0) * known).clamp(0.01, 0.99)
    }

    fn fit_tools(&mut self, lessons: &[Lesson<'_>]) {
        let case = |lesson: &Lesson<'_>, (tool, features): &ToolFeatures| Case {
            features: *features,
            outcome: f64::from(u8::from(lesson.tools.contains(tool))),
        };
        let cases: Vec<Case<TOOL_FEATURES>> =
            lessons.iter().flat_map(|lesson| lesson.features.iter().map(|tool| case(lesson, tool))).collect();
        self.tools = TOOL_PRIOR.fit_logistic(&cases, PULL);
        let rated: Vec<_> = lessons.iter().map(|lesson| (lesson, tool_probabilities(&lesson.features, &self.tools))).collect();
        self.caution =
            best(CAUTIONS, |caution| rated.iter().map(|(lesson, tools)| f1(&best_set(tools, caution), &lesson.tools)).sum());
    }

    /// Asks every lesson's question with the fitted probabilities.
    fn collect(&self, index: &Index, runs: &PastRuns, lessons: &[Lesson<'_>]) -> Collected {
        let mut collected = Collected::default();
        for lesson in lessons {
            let Some(asked) = Asked::past(index, runs, lesson.entry) else { continue };
            let probabilities = tool_probabilities(&lesson.features, &self.tools);
            // Without capabilities: that of the run itself would give the answer away.
            let candidates = distinct_sets(collect(&asked, &probabilities, self.caution));
            let features = quality_features(&candidates, &probabilities, self.caution);
            let case = |(nodes, features): (&[Node], &[f64; QUALITY_FEATURES])| Case {
                features: *features,
                outcome: f1(nodes, &lesson.tools),
            };
            collected.quality.extend(candidates.iter().map(|candidate| candidate.nodes.as_slice()).zip(&features).map(case));
            collected.familiarity.push(asked.familiarity());
            let Some(flow) = lesson.run.flow.as_ref().filter(|flow| !flow.is_empty()) else { continue };
            collected.truths.push(flow_plan(&Wiring::new(&asked, &lesson.tools), &lesson.tools, None, flow));
            let copied = candidates.iter().find(|candidate| matches!(candidate.origin, PlanOrigin::Memory { .. }));
            if let Some(nodes) = copied.map(|candidate| candidate.nodes.as_slice()) {
                let wiring = Wiring::new(&asked, nodes);
                collected.copied.push(flow_plan(&wiring, nodes, None, flow));
                collected.reordered.push(flow_plan(&wiring, nodes, Some(wiring.order()), flow));
            }
        }
        collected
    }
}

/// Fits data flow to the true tools of the runs in their true order; `None` if no data flowed.
fn fit_flow(collected: &Collected) -> Option<FlowModel> {
    let cases: Vec<Case<FLOW_FEATURES>> = collected.truths.iter().flat_map(|plan| plan.pairs.iter().copied()).collect();
    if collected.truths.is_empty() {
        return None;
    }
    let probability = FLOW_PRIOR.fit_logistic(&cases, PULL);
    let model = |rule, keeps_copied_order| FlowModel { probability, rule, keeps_copied_order };
    let quality = |plans: &[FlowPlan], model: &FlowModel| plans.iter().map(|plan| plan.f1(model)).sum::<f64>();
    let above = |least: f64| quality(&collected.truths, &model(FlowRule::Above(least), true));
    let least = best(FLOW_LEAST, above);
    let chain = quality(&collected.truths, &model(FlowRule::Chain, true));
    let rule = if chain > above(least) { FlowRule::Chain } else { FlowRule::Above(least) };
    let keep = model(rule, true);
    let keeps_copied_order = quality(&collected.copied, &keep) >= quality(&collected.reordered, &keep);
    Some(model(rule, keeps_copied_order))
}

/// The pairs of a plan in this order, or in that of the nodes, beside the true flow.
fn flow_plan(wiring: &Wiring<'_>, nodes: &[Node], order: Option<Vec<usize>>, flow: &[(Node, Node)]) -> FlowPlan {
    let order = order.unwrap_or_else(|| (0..nodes.len()).collect());
    let case = |(from, to, features): (usize, usize, [f64; FLOW_FEATURES])| {
        let pair = (nodes[order[from]], nodes[order[to]]);
        Case { features, outcome: f64::from(u8::from(flow.binary_search(&pair).is_ok())) }
    };
    FlowPlan { pairs: wiring.pairs(&order).into_iter().map(case).collect(), truths: flow.len() }
}

impl FlowPlan {
    /// The F1 score of the flow that the model sees in the plan.
    #[expect(clippy::cast_precision_loss, reason = "plans are small")]
    fn f1(&self, model: &FlowModel) -> f64 {
        let joined: Vec<_> = self.pairs.iter().filter(|pair| model.joins(&pair.features).is_some()).collect();
        let right = joined.iter().filter(|pair| pair.outcome > 0.5).count();
        2.0 * right as f64 / (joined.len() + self.truths).max(1) as f64
    }
}

/// The value with the highest quality, the first of equals.
fn best<const N: usize>(values: [f64; N], quality: impl Fn(f64) -> f64) -> f64 {
    let rated = values.map(|value| (quality(value), value));
    rated.into_iter().reduce(|best, next| if next.0 > best.0 { next } else { best }).map_or(1.0, |(_, value)| value)
}

/// The value below which this share of the values lies; 0 if there are none.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a position among few"
)]
fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get((values.len() as f64 * share) as usize).copied().unwrap_or(0.0)
}

/// The latest run of evenly spaced past intents, if it called tools.
fn lessons<'a>(index: &Index, runs: &'a PastRuns) -> Vec<Lesson<'a>> {
    let step = index.intents().len().div_ceil(EXAMPLES_MAX).max(1);
    let lesson = |entry: usize| {
        let number = index.state().memory.number(index.intents().entry(entry).hash)?;
        let run = runs.runs(number).last()?;
        let is_tool = |node: &Node| matches!(node.kind(), NodeKind::Tool(_));
        let tools: Vec<Node> = run.nodes.iter().copied().filter(is_tool).take(TOOLS_MAX).collect();
        if tools.is_empty() {
            return None;
        }
        let signals = Signals::compute(index, &past_question(index, entry), Some(entry));
        let features = tool_features(index, &signals, &Asked::past(index, runs, entry)?);
        Some(Lesson { entry, run, tools, features })
    };
    (0..index.intents().len()).step_by(step).filter_map(lesson).collect()
}
