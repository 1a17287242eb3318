//! Suggestions: from an intent to a plan, a DAG of tools with a confidence (ALGORITHMS 8 and 14).
//!
//! ```text
//!  Index + PlanModel + question --Asked--> tool probabilities --candidates--> sets of tools --quality--> winner, alternatives
//!                                                                                  |
//!                                     past runs near and far --wiring--> order, data flow, layers
//! ```
//!
//! A suggestion is a function of its sources and the question. Nothing here needs trained parts; those that serve add features to
//! [`probability`] and rank the steps of the beam search.

mod arguments;
mod asked;
mod beam;
mod candidates;
mod declared;
pub mod feedback;
mod fit;
mod model;
mod past_runs;
pub mod planner;
mod probability;
mod quality;
mod regression;
mod weights;
mod wiring;

#[cfg(test)]
mod tests;

use super::graph::Node;
use super::graph::adjacency::Adjacency;
use super::id::{Callee, RecordId, Seq};
use super::paths::PathIndex;
use super::paths::cover::covering;
use super::paths::dag::Dag;
use super::paths::prerequisites::Measure;
use super::rank::signals::Signals;
use super::rank::{Index, Question};
pub use arguments::Argument;
use asked::Asked;
pub(crate) use asked::HeldOut;
pub use candidates::PlanOrigin;
use candidates::{Candidate, distinct_sets, matching_capabilities};
use feedback::plan_id;
pub use model::PlanModel;
pub(crate) use model::fit_held_out;
pub use probability::ToolProbability;
use probability::{tool_features, tool_probabilities};
use quality::{QUALITY_FEATURES, f1, quality_features};
pub(crate) use weights::NamedTable;
pub use weights::PlanWeights;
use wiring::{FlowModel, Wiring};

/// Confidence from which a suggestion is made without reserve. No source gives a number; at one half more is right than wrong.
pub const SURE_MIN: f64 = 0.5;
/// Alternatives, at most, and the overlap (F1 of the tools) above which two plans are the same in essence.
const ALTERNATIVES_MAX: usize = 3;
const OVERLAP_MAX: f64 = 0.8;

/// What suggestions are computed from: all derived from the same log, not necessarily at the same record.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    pub index: &'a Index,
    pub paths: &'a PathIndex,
    pub graph: &'a Adjacency,
    pub model: &'a PlanModel,
}

/// One call of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct SuggestedTask {
    pub callee: Callee,
    /// The probability that the intent needs it.
    pub p: f64,
    /// Positions of the tasks whose output it uses, ascending.
    pub depends_on: Vec<usize>,
    /// Tasks of one layer can run side by side; layer 0 depends on no task.
    pub layer: usize,
    /// Whether past runs mostly called it again with its own output.
    pub is_repeated: bool,
    pub arguments: Vec<Argument>,
}

/// A plan: tasks, each after all it depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct SuggestedPlan {
    /// Names the tools and the intent; feedback refers to it.
    pub id: RecordId,
    pub tasks: Vec<SuggestedTask>,
    /// The expected F1 score of its tools, 0 to 1, moved by feedback on the same plan.
    pub confidence: f64,
    pub origin: PlanOrigin,
    /// Why this plan, in sentences.
    pub rationale: Vec<String>,
}

/// Something that a plan needs and does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub callee: Callee,
    /// The task that needs it.
    pub needed_by: Callee,
    /// Whether it could be called: it is known and not removed.
    pub is_callable: bool,
}

/// The answer to an intent.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggestion {
    /// The best plan; `None` if nothing is known that fits. A guess if `is_sure` is false.
    pub best: Option<SuggestedPlan>,
    /// Whether the confidence reaches [`SURE_MIN`].
    pub is_sure: bool,
    /// Plans with other tools, the best first, at most three.
    pub alternatives: Vec<SuggestedPlan>,
    pub missing: Vec<Missing>,
    /// Capabilities that could be called instead of a part of the best plan, the longest first.
    pub suggested_capabilities: Vec<Callee>,
    /// The last record in the state that answered.
    pub based_on_seq: Seq,
}

/// Suggests plans for a question, given the calls made already.
pub fn suggest(sources: Sources<'_>, question: &Question, context: &[Callee]) -> Suggestion {
    let Sources { index, paths, model, .. } = sources;
    let state = index.state();
    let context: Vec<Node> = context.iter().filter_map(|callee| state.find(callee)).collect();
    let weights = &model.weights;
    let asked = Asked::new(state, &model.runs, question, context, model.ranking());
    let mut signals = Signals::without_parts(index, question, None);
    let (head, target) = asked.evidence.parts();
    signals.add_parts(index, head, target);
    let beams = beam::search(&asked);
    let probabilities = tool_probabilities(&tool_features(index, &signals, &asked, &beams), &weights.tools);
    let mut candidates = candidates::collect(&asked, &beams, &probabilities, weights.caution);
    candidates.extend(candidates::capabilities(&asked, paths, &matching_capabilities(index, &signals)));
    let candidates = distinct_sets(candidates);
    let features = quality_features(&candidates, &probabilities, weights.caution);
    let rate = |(features, candidate): (&[f64; QUALITY_FEATURES], Candidate)| {
        let callees: Vec<Callee> = candidate.nodes.iter().map(|node| state.callee(*node)).collect();
        let id = plan_id(&question.intent, callees.iter());
        let expected = weights.confidence(features, asked.familiarity());
        let confidence = state.predictor.feedback.adjusted(id, expected);
        Rated { id, merit: weights.merit(features) * confidence / expected, confidence, candidate }
    };
    let mut rated: Vec<Rated> = features.iter().zip(candidates).map(rate).collect();
    // A stable sort: of equals the earlier candidate.
    rated.sort_by(|a, b| b.merit.total_cmp(&a.merit));
    let drawn: Vec<Drawn> = differing(rated).into_iter().map(|rated| draw(sources, &asked, &probabilities, rated)).collect();
    let mut plans = drawn.into_iter();
    let mut best = plans.next();
    let alternatives: Vec<SuggestedPlan> = plans.map(|drawn| drawn.plan).collect();
    if let Some(best) = &mut best {
        explain_order(&mut best.plan, &alternatives);
    }
    let is_sure = best.as_ref().is_some_and(|best| best.plan.confidence >= SURE_MIN);
    let capabilities = best.as_ref().map_or_else(Vec::new, |best| covering(paths, &best.dag));
    Suggestion {
        missing: best.as_ref().map_or_else(Vec::new, |best| missing(sources, &asked, best.dag.nodes())),
        best: best.map(|best| best.plan),
        is_sure,
        alternatives,
        suggested_capabilities: capabilities.into_iter().map(|node| state.callee(node)).collect(),
        based_on_seq: state.applied(),
    }
}

/// Says why a plan is the best one although an alternative has the higher confidence: plans are chosen by tools and data flow, and the
/// confidence is about the tools alone.
fn explain_order(best: &mut SuggestedPlan, alternatives: &[SuggestedPlan]) {
    if alternatives.iter().any(|other| other.confidence > best.confidence) {
        best.rationale.push("an alternative has likelier tools; the data flow of this plan is likelier".to_owned());
    }
}

/// A candidate with how good it is expected to be.
struct Rated {
    id: RecordId,
    /// What it is chosen by.
    merit: f64,
    confidence: f64,
    candidate: Candidate,
}

/// The best candidate and those after it that differ from all before.
fn differing(rated: Vec<Rated>) -> Vec<Rated> {
    let mut kept: Vec<Rated> = Vec::new();
    for rated in rated {
        let is_new = kept.iter().all(|other| f1(&rated.candidate.nodes, &other.candidate.nodes) <= OVERLAP_MAX);
        if is_new && kept.len() <= ALTERNATIVES_MAX {
            kept.push(rated);
        }
    }
    kept
}

/// A plan with its DAG.
struct Drawn {
    plan: SuggestedPlan,
    dag: Dag,
}

/// Orders the tools of a candidate, joins them and describes them.
fn draw(sources: Sources<'_>, asked: &Asked<'_>, probabilities: &[ToolProbability], rated: Rated) -> Drawn {
    let (state, weights) = (asked.state, &sources.model.weights);
    let Rated { id, candidate, confidence, .. } = rated;
    let wiring = Wiring::new(asked, &candidate.nodes);
    let keeps_order = candidate.is_ordered
        && weights.flow.is_none_or(|flow| match candidate.origin {
            PlanOrigin::Beam { .. } => flow.keeps_beam_order,
            _ => flow.keeps_copied_order,
        });
    let order: Vec<usize> = if keeps_order { (0..candidate.nodes.len()).collect() } else { wiring.order(&weights.order) };
    let nodes: Vec<Node> = order.iter().map(|position| candidate.nodes[*position]).collect();
    let flow = weights.flow.or_else(|| wiring.knows_flow().then_some(FlowModel::PRIOR));
    let dag = match &flow {
        Some(flow) => Dag::unreduced(nodes, wiring.joined(&order, flow)),
        None => Dag::by_paths(sources.graph, &nodes),
    };
    let (layers, p) =
        (dag.layers(), |node: &Node| probabilities.iter().find(|tool| tool.tool == *node).map_or(0.0, |tool| tool.p));
    let task = |(position, node): (usize, &Node)| {
        let depends_on: Vec<usize> = dag
            .dependencies()
            .iter()
            .filter(|dependency| dependency.to == position)
            .map(|dependency| dependency.from)
            .collect();
        let mut feeding: Vec<(usize, Node)> = depends_on.iter().map(|from| (*from, dag.nodes()[*from])).collect();
        let times = |from: usize| wiring.times_fed(order[from], order[position]);
        feeding.sort_by(|a, b| times(b.0).total_cmp(&times(a.0)).then(a.0.cmp(&b.0)));
        let arguments = arguments::arguments(state, *node, &feeding);
        SuggestedTask {
            callee: state.callee(*node),
            p: p(node),
            depends_on,
            layer: layers[position],
            is_repeated: wiring.is_repeated(order[position]),
            arguments,
        }
    };
    let tasks = dag.nodes().iter().enumerate().map(task).collect();
    let rationale = rationale(asked, &candidate.origin, confidence);
    Drawn { plan: SuggestedPlan { id, tasks, confidence, origin: candidate.origin, rationale }, dag }
}

/// What the tasks need besides each other and what is done already.
fn missing(sources: Sources<'_>, asked: &Asked<'_>, nodes: &[Node]) -> Vec<Missing> {
    let state = asked.state;
    let mut missing: Vec<Missing> = Vec::new();
    for node in nodes {
        let available: Vec<Node> = asked.context.iter().chain(nodes.iter().filter(|other| *other != node)).copied().collect();
        let plan = sources.paths.prerequisites(*node, &available, Measure::Work);
        let tasks = plan.tasks.iter().map(|task| (task.node, true)).filter(|(needed, _)| needed != node);
        for (needed, is_callable) in tasks.chain(plan.missing.iter().map(|needed| (*needed, false))) {
            let entry = Missing { callee: state.callee(needed), needed_by: state.callee(*node), is_callable };
            if missing.iter().all(|known| known.callee != entry.callee) {
                missing.push(entry);
            }
        }
    }
    missing
}

fn rationale(asked: &Asked<'_>, origin: &PlanOrigin, confidence: f64) -> Vec<String> {
    let state = asked.state;
    let name = |node: Node| match state.callee(node) {
        Callee::Capability(id) => {
            state.capabilities.get(id).map_or_else(|| id.to_string(), |capability| capability.name.clone())
        }
        Callee::Tool(id) => id.to_string(),
    };
    let found = match origin {
        PlanOrigin::Memory { number, similarity } => {
            let intent = state.memory.get(*number).map_or("", |entry| &*entry.intent);
            format!("a past intent is {similarity:.2} similar and ran these tools: {intent}")
        }
        PlanOrigin::Beam { log_p } => {
            format!("each call is a likely next one; the whole has probability {:.2}", libm::exp(*log_p))
        }
        PlanOrigin::Tools => "these tools are the likeliest for the intent, as many as pay".to_owned(),
        PlanOrigin::Capability { capability, fit } => {
            format!("the capability '{}' matches the intent ({fit:.2})", name(*capability))
        }
        PlanOrigin::Prerequisites { capability } => format!("the capability '{}' needs these calls", name(*capability)),
    };
    let sure = if confidence >= SURE_MIN { "expected" } else { "not sure: expected" };
    vec![found, format!("{sure} F1 of the tools {confidence:.2}")]
}
