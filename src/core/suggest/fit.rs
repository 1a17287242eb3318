//! Fits the weights of suggestions to past runs. Every past intent that teaches is left out of the memory that answers it, and trained
//! parts that answer have not seen it, so the fit sees what a user would see.
//!
//! Only intents with a successful run teach, as long as there are enough: a plan should be what works.

use pml_model::TrainError;

use super::asked::{Asked, HeldOut};
use super::beam::{self, BeamPlan};
use super::candidates::{Candidate, PlanOrigin, TOOLS_MAX, best_set, collect, distinct_sets};
use super::past_runs::{PastRun, PastRuns};
use super::probability::{TOOL_FEATURES, TOOL_PRIOR, ToolFeatures, tool_features, tool_probabilities};
use super::quality::{QUALITY_FEATURES, QUALITY_PRIOR, f1, quality_features};
use super::regression::{Case, Linear};
use super::weights::PlanWeights;
use super::wiring::{FLOW_FEATURES, FLOW_PRIOR, FlowModel, FlowRule, ORDER_FEATURES, ORDER_PRIOR, Wiring};
use crate::graph::{Node, NodeKind};
use crate::rank::Index;
use crate::rank::calibrate::past_question;
use crate::rank::signals::Signals;
use crate::train::Tick;

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

/// By number of a past intent: what trained parts that have not seen it say; `None` if it is not to be an example.
pub(crate) type HeldOutOf<'a> = dyn Fn(u64) -> Option<HeldOut<'a>> + 'a;

/// Fits the weights to the past intents of `index`; the priors where there are too few. Without `held_out`, trained parts do not
/// answer. Takes about three discovers and a beam search per example; `tick` is called before each of these.
pub(super) fn fit(
    index: &Index,
    runs: &PastRuns,
    held_out: Option<&HeldOutOf<'_>>,
    tick: &mut Tick<'_>,
) -> Result<PlanWeights, TrainError> {
    let mut weights = PlanWeights::default();
    let entries = examples(index, runs, held_out);
    if entries.len() < EXAMPLES_MIN {
        return Ok(weights);
    }
    let ask = |entry: &Example| Asked::past(index, runs, entry.entry, held_out.and_then(|of| of(entry.number)));
    let mut lessons: Vec<Lesson<'_>> = Vec::new();
    for entry in &entries {
        tick()?;
        lessons.extend(ask(entry).and_then(|asked| Lesson::new(index, &asked, entry, held_out)));
    }
    fit_tools(&mut weights, &lessons);
    let order: Vec<Case<ORDER_FEATURES>> = lessons.iter().flat_map(|lesson| lesson.order.iter().copied()).collect();
    weights.order = ORDER_PRIOR.fit_logistic(&order, PULL);
    weights.flow = fit_flow(&lessons);
    let mut rated: Vec<Rated> = Vec::new();
    for lesson in &lessons {
        tick()?;
        rated.extend(ask(lesson.example).into_iter().flat_map(|asked| lesson.rate(&asked, &weights)));
    }
    fit_quality(&mut weights, &rated);
    weights.familiar = quantile(lessons.iter().map(|lesson| lesson.familiarity).collect(), UNFAMILIAR);
    Ok(weights)
}

/// A past intent that teaches.
struct Example<'a> {
    entry: usize,
    number: u64,
    /// Its successful runs, or all if none succeeded.
    runs: Vec<&'a PastRun>,
}

/// Evenly spaced past intents with runs that called tools.
fn examples<'a>(index: &Index, runs: &'a PastRuns, held_out: Option<&HeldOutOf<'_>>) -> Vec<Example<'a>> {
    let example = |entry: usize| {
        let number = index.state().memory.number(index.intents().entry(entry).hash)?;
        held_out.is_none_or(|of| of(number).is_some()).then_some(())?;
        let with_tools = || runs.runs(number).iter().filter(|run| !tools(run).is_empty());
        let succeeded: Vec<&PastRun> = with_tools().filter(|run| run.succeeded).collect();
        let runs = if succeeded.is_empty() { with_tools().collect() } else { succeeded };
        (!runs.is_empty()).then_some(Example { entry, number, runs })
    };
    let all: Vec<Example<'a>> = (0..index.intents().len()).filter_map(example).collect();
    let succeeded = all.iter().filter(|example| example.runs[0].succeeded).count();
    let all: Vec<Example<'a>> =
        all.into_iter().filter(|example| succeeded < EXAMPLES_MIN || example.runs[0].succeeded).collect();
    let step = all.len().div_ceil(EXAMPLES_MAX).max(1);
    all.into_iter().step_by(step).collect()
}

fn tools(run: &PastRun) -> Vec<Node> {
    let is_tool = |node: &Node| matches!(node.kind(), NodeKind::Tool(_));
    run.nodes.iter().copied().filter(is_tool).take(TOOLS_MAX).collect()
}

/// A past intent with what does not depend on the fitted weights.
struct Lesson<'a> {
    example: &'a Example<'a>,
    /// By run: its tools, in order.
    targets: Vec<Vec<Node>>,
    beams: Vec<BeamPlan>,
    features: Vec<ToolFeatures>,
    order: Vec<Case<ORDER_FEATURES>>,
    /// The true tools in their true order.
    flows: Vec<FlowPlan>,
    familiarity: f64,
}

/// An ordered plan as flow sees it: each pair with whether data flowed in the true run, and how many true flows there are.
struct FlowPlan {
    pairs: Vec<Case<FLOW_FEATURES>>,
    truths: usize,
}

/// A candidate of a lesson beside the true runs.
struct Rated {
    features: [f64; QUALITY_FEATURES],
    /// The F1 score of the tools, mean over the runs.
    nodes: f64,
    /// The F1 scores of the data flow in its own order and in that of all past runs; `None` if no data flowed.
    edges: Option<[f64; 2]>,
    origin: Option<Ordered>,
}

/// Where an order came from.
#[derive(Clone, Copy, PartialEq)]
enum Ordered {
    Copied,
    Beam,
}

impl<'a> Lesson<'a> {
    fn new(index: &Index, asked: &Asked<'_>, example: &'a Example<'a>, held_out: Option<&HeldOutOf<'_>>) -> Option<Self> {
        let mut signals = Signals::compute(index, &past_question(index, example.entry), Some(example.entry));
        if let Some(held) = held_out.and_then(|of| of(example.number)) {
            signals.add_parts(index, &held.scores.head, &held.scores.target);
        }
        let beams = beam::search(asked);
        let features = tool_features(index, &signals, asked, &beams);
        let targets: Vec<Vec<Node>> = example.runs.iter().map(|run| tools(run)).collect();
        let (mut order, mut flows) = (Vec::new(), Vec::new());
        for (run, tools) in example.runs.iter().zip(&targets) {
            let wiring = Wiring::new(asked, tools);
            for (first, second) in (0..tools.len()).flat_map(|second| (0..second).map(move |first| (first, second))) {
                order.push(Case { features: wiring.precedence(first, second), outcome: 1.0 });
                order.push(Case { features: wiring.precedence(second, first), outcome: 0.0 });
            }
            let flow = run.flow.as_ref().filter(|flow| !flow.is_empty());
            flows.extend(flow.map(|flow| FlowPlan::new(&wiring, tools, flow)));
        }
        (!features.is_empty()).then(|| Self {
            example,
            targets,
            beams,
            features,
            order,
            flows,
            familiarity: asked.familiarity(),
        })
    }

    /// The mean over the true runs.
    #[expect(clippy::cast_precision_loss, reason = "an intent has few runs")]
    fn mean(&self, score: impl Fn(&[Node]) -> f64) -> f64 {
        self.targets.iter().map(|tools| score(tools)).sum::<f64>() / self.targets.len() as f64
    }

    /// Every candidate with how good it is. Capabilities are left out: that of the run itself would give the answer away.
    fn rate(&self, asked: &Asked<'_>, weights: &PlanWeights) -> Vec<Rated> {
        let probabilities = tool_probabilities(&self.features, &weights.tools);
        let candidates = distinct_sets(collect(asked, &self.beams, &probabilities, weights.caution));
        let features = quality_features(&candidates, &probabilities, weights.caution);
        let flows: Vec<&Vec<(Node, Node)>> =
            self.example.runs.iter().filter_map(|run| run.flow.as_ref()).filter(|flow| !flow.is_empty()).collect();
        let rated = |(candidate, features): (Candidate, [f64; QUALITY_FEATURES])| Rated {
            features,
            nodes: self.mean(|tools| f1(&candidate.nodes, tools)),
            edges: weights.flow.filter(|_| !flows.is_empty()).map(|flow| edges(asked, &candidate, weights, &flow, &flows)),
            origin: match candidate.origin {
                PlanOrigin::Memory { .. } => Some(Ordered::Copied),
                PlanOrigin::Beam { .. } => Some(Ordered::Beam),
                PlanOrigin::Tools | PlanOrigin::Capability { .. } | PlanOrigin::Prerequisites { .. } => None,
            },
        };
        candidates.into_iter().zip(features).map(rated).collect()
    }
}

/// The F1 scores of a candidate's data flow in its own order and in that of all past runs, means over the true ones.
#[expect(clippy::cast_precision_loss, reason = "an intent has few runs")]
fn edges(
    asked: &Asked<'_>,
    candidate: &Candidate,
    weights: &PlanWeights,
    flow: &FlowModel,
    truths: &[&Vec<(Node, Node)>],
) -> [f64; 2] {
    let wiring = Wiring::new(asked, &candidate.nodes);
    let own = (0..candidate.nodes.len()).collect::<Vec<_>>();
    let again = wiring.order(&weights.order);
    let orders = [if candidate.is_ordered { &own } else { &again }, &again];
    orders.map(|order| {
        let joined = wiring.edges(order, flow);
        truths.iter().map(|truth| f1(&joined, truth)).sum::<f64>() / truths.len() as f64
    })
}

impl FlowPlan {
    fn new(wiring: &Wiring<'_>, nodes: &[Node], flow: &[(Node, Node)]) -> Self {
        let order: Vec<usize> = (0..nodes.len()).collect();
        let case = |(from, to, features): (usize, usize, [f64; FLOW_FEATURES])| {
            let pair = (nodes[from], nodes[to]);
            Case { features, outcome: f64::from(u8::from(flow.binary_search(&pair).is_ok())) }
        };
        let truths = flow.iter().filter(|(from, to)| from != to).count();
        Self { pairs: wiring.pairs(&order).into_iter().map(case).collect(), truths }
    }

    /// The F1 score of the flow that the model sees in the plan.
    #[expect(clippy::cast_precision_loss, reason = "plans are small")]
    fn f1(&self, model: &FlowModel) -> f64 {
        let joined: Vec<_> = self.pairs.iter().filter(|pair| model.joins(&pair.features).is_some()).collect();
        let right = joined.iter().filter(|pair| pair.outcome > 0.5).count();
        2.0 * right as f64 / (joined.len() + self.truths).max(1) as f64
    }
}

fn fit_tools(weights: &mut PlanWeights, lessons: &[Lesson<'_>]) {
    let case = |lesson: &Lesson<'_>, (tool, features): &ToolFeatures| Case {
        features: *features,
        outcome: lesson.mean(|tools| f64::from(u8::from(tools.contains(tool)))),
    };
    let cases: Vec<Case<TOOL_FEATURES>> =
        lessons.iter().flat_map(|lesson| lesson.features.iter().map(|tool| case(lesson, tool))).collect();
    weights.tools = TOOL_PRIOR.fit_logistic(&cases, PULL);
    let rated: Vec<_> = lessons.iter().map(|lesson| (lesson, tool_probabilities(&lesson.features, &weights.tools))).collect();
    weights.caution = best(CAUTIONS, |caution| {
        let quality = |(lesson, probabilities): &(&Lesson<'_>, Vec<_>)| {
            let set = best_set(probabilities, caution);
            lesson.mean(|tools| f1(&set, tools))
        };
        rated.iter().map(quality).sum()
    });
}

/// Fits data flow to the true tools of the runs in their true order; `None` if no data flowed.
fn fit_flow(lessons: &[Lesson<'_>]) -> Option<FlowModel> {
    let plans = || lessons.iter().flat_map(|lesson| &lesson.flows);
    let cases: Vec<Case<FLOW_FEATURES>> = plans().flat_map(|plan| plan.pairs.iter().copied()).collect();
    plans().next()?;
    let probability = FLOW_PRIOR.fit_logistic(&cases, PULL);
    let model = |rule| FlowModel { probability, rule, keeps_copied_order: true, keeps_beam_order: true };
    let quality = |rule| plans().map(|plan| plan.f1(&model(rule))).sum::<f64>();
    let least = best(FLOW_LEAST, |least| quality(FlowRule::Above(least)));
    let rule =
        if quality(FlowRule::Chain) > quality(FlowRule::Above(least)) { FlowRule::Chain } else { FlowRule::Above(least) };
    Some(model(rule))
}

fn fit_quality(weights: &mut PlanWeights, rated: &[Rated]) {
    let keeps = |origin: Ordered| {
        let edges = || rated.iter().filter(|rated| rated.origin == Some(origin)).filter_map(|rated| rated.edges);
        edges().map(|[own, _]| own).sum::<f64>() >= edges().map(|[_, again]| again).sum::<f64>()
    };
    let (copied, beam) = (keeps(Ordered::Copied), keeps(Ordered::Beam));
    if let Some(flow) = &mut weights.flow {
        (flow.keeps_copied_order, flow.keeps_beam_order) = (copied, beam);
    }
    let nodes: Vec<Case<QUALITY_FEATURES>> =
        rated.iter().map(|rated| Case { features: rated.features, outcome: rated.nodes }).collect();
    weights.nodes = QUALITY_PRIOR.fit_squares(&nodes, PULL);
    let edges = |rated: &Rated| {
        let [own, again] = rated.edges?;
        let keeps = rated.origin.is_some_and(|origin| if origin == Ordered::Beam { beam } else { copied });
        Some(Case { features: rated.features, outcome: if keeps { own } else { again } })
    };
    let edges: Vec<Case<QUALITY_FEATURES>> = rated.iter().filter_map(edges).collect();
    weights.edges = (!edges.is_empty()).then(|| Linear([0.0; QUALITY_FEATURES]).fit_squares(&edges, PULL));
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
