//! `predict`: the next call, given an intent, the calls so far, both or neither.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::handles::{Handles, Mentions};
use super::request::context_callees;
use super::{AskError, Asker, ItemType, checked_limit};
use crate::core::event::{Outcome, whole};
use crate::core::graph::NodeKind;
use crate::core::id::{Callee, RecordId};
use crate::core::predict::asked::prediction_id;
use crate::core::predict::candidates::Candidate;
use crate::core::predict::strategic::{Underway, underway};
use crate::core::predict::threshold::Mode;
use crate::core::predict::{Contribution, Prediction, PredictionQuery, Ranked, predict};
use crate::core::state::State;
use crate::core::time::Timestamp;

const LIMIT: usize = 5;
const LIMIT_MAX: usize = 50;
/// Told instead of a prediction.
const NOTHING_LEARNT: &str = "nothing is known yet that could come next; publish or import runs of agents, or register tools";

/// A question for the next call.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictRequest {
    /// The task in words; may be left out.
    #[serde(default)]
    pub intent: String,
    /// The tools and capabilities called so far, in order; none at the start.
    #[serde(default, alias = "context_tools")]
    pub context: Vec<String>,
    #[serde(default, alias = "k", deserialize_with = "whole::optional")]
    pub limit: Option<usize>,
    /// Only tools or only capabilities.
    #[serde(default)]
    pub only: ItemType,
    #[serde(default)]
    pub mode: PredictMode,
}

/// Why a prediction is requested: the more is at stake, the higher the threshold. The wire form of [`Mode`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum PredictMode {
    /// An agent asks and decides itself.
    #[default]
    Asked,
    /// The answer is shown without an agent having asked.
    Passive,
    /// The call is to be run before an agent asks.
    Speculation,
}

impl From<PredictMode> for Mode {
    fn from(mode: PredictMode) -> Self {
        match mode {
            PredictMode::Asked => Self::Asked,
            PredictMode::Passive => Self::Passive,
            PredictMode::Speculation => Self::Speculation,
        }
    }
}

impl Asker {
    /// Ranks tools, capabilities and "done", each with its probability and reasons.
    pub fn predict(&self, request: PredictRequest) -> Result<PredictAnswer, AskError> {
        let limit = checked_limit(request.limit, LIMIT, LIMIT_MAX)?;
        let state = self.views.current();
        let context = context_callees(&state, "context", &request.context)?;
        let question = self.question(&state.vectors, self.checked_intent(&request.intent)?)?;
        // Everything is ranked, then filtered: what is left out keeps its share of the probability.
        let query =
            PredictionQuery { context: &context, k: usize::MAX, mode: request.mode.into(), seed: seed(&state, &request) };
        let mut prediction = predict(&state, &question, &query);
        prediction.ranked.retain(|ranked| is_wanted(&ranked.outcome, request.only));
        prediction.ranked.truncate(limit);
        let mut answer = PredictAnswer::new(&state, &prediction, usize::MAX);
        let first = prediction.ranked.first().filter(|_| prediction.is_informed);
        let first = first.and_then(|first| Candidate::find(&state, &first.outcome));
        answer.prediction = first.map(|first| prediction_id(first.symbol(), &request.intent, &context).to_string());
        let given = request.context.iter().zip(&context);
        answer.unknown = given.filter(|(_, callee)| state.find(callee).is_none()).map(|(text, _)| text.clone()).collect();
        if request.only == ItemType::Capability {
            let found = underway(&state, &self.measures.current(), &context, limit);
            let mentions = Mentions::new(&state);
            answer.underway = Some(found.iter().map(|found| UnderwayDto::new(&mentions, found)).collect());
            answer.handles.add(mentions.handles());
        }
        Ok(answer)
    }
}

/// The seed of the threshold's sample: the same request on the same state gives the same threshold.
pub(super) fn seed(state: &State, request: &PredictRequest) -> RecordId {
    let based_on = state.applied().to_string();
    let mut parts = vec!["predict", &based_on, &request.intent];
    parts.extend(request.context.iter().map(String::as_str));
    RecordId::derived(Timestamp::from_micros(0), &parts)
}

fn is_wanted(outcome: &Outcome, only: ItemType) -> bool {
    match (only, outcome) {
        (ItemType::All, _)
        | (ItemType::Tool, Outcome::Call(Callee::Tool(_)) | Outcome::Done)
        | (ItemType::Capability, Outcome::Call(Callee::Capability(_))) => true,
        (ItemType::Tool | ItemType::Capability, _) => false,
    }
}

/// The answer to a [`PredictRequest`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PredictAnswer {
    /// Names the prediction for `feedback.given`; a streamed one has the id of its impression instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    prediction: Option<String>,
    /// The most likely first; empty while nothing is known that could come next, which `note` says.
    ranked: Vec<RankedDto>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    /// The probability that the first one had to reach; `decision` is `emit` if it did, else `hold`.
    threshold: f64,
    decision: &'static str,
    model: String,
    /// The last record folded into the state that answered.
    based_on_seq: u64,
    /// Calls of the context that the state does not know; they say nothing about what follows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
    /// If only capabilities were asked for: those that the calls so far are part of, the best first.
    #[serde(skip_serializing_if = "Option::is_none")]
    underway: Option<Vec<UnderwayDto>>,
    /// The handles of the capabilities that stand in the answer by id alone.
    #[serde(skip_serializing_if = "Handles::is_empty")]
    handles: Handles,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Underway")]
struct UnderwayDto {
    item: String,
    handle: String,
    name: String,
    /// Overlap times (1 + boost).
    score: f64,
    /// The share of its calls that were made.
    overlap: f64,
    /// For belonging to the community of the calls so far.
    boost: f64,
    /// Its members not called yet.
    missing: Vec<String>,
}

impl UnderwayDto {
    fn new(mentions: &Mentions<'_>, found: &Underway) -> Self {
        let state = mentions.state;
        let NodeKind::Capability(position) = found.capability.kind() else { unreachable!("only capabilities are under way") };
        Self {
            item: state.callee(found.capability).to_string(),
            handle: state.capabilities.at(position).handle.to_string(),
            name: state.capabilities.at(position).name.clone(),
            score: found.score,
            overlap: found.overlap,
            boost: found.boost,
            missing: mentions.nodes(&found.missing),
        }
    }
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Ranked")]
struct RankedDto {
    /// A tool, `capability:<id>`, or `done`.
    item: String,
    r#type: &'static str,
    p: f64,
    /// What each signal adds, the largest absolute amount first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<ReasonDto>,
    /// The handle and the name of a capability; `tools` are its callees.
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<String>>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Reason")]
pub(super) struct ReasonDto {
    signal: &'static str,
    value: f64,
    /// The mean of the values over all outcomes.
    typical: f64,
    weight: f64,
    /// Weight times the difference of value and typical: above zero it speaks for the outcome, below against it.
    adds: f64,
}

impl PredictAnswer {
    /// The answer with at most `reasons_max` reasons per outcome.
    pub(super) fn new(state: &State, prediction: &Prediction, reasons_max: usize) -> Self {
        let ranked = if prediction.is_informed { prediction.ranked.as_slice() } else { &[] };
        let mentions = Mentions::new(state);
        Self {
            prediction: None,
            ranked: ranked.iter().map(|ranked| RankedDto::new(&mentions, ranked, reasons_max)).collect(),
            note: (!prediction.is_informed).then_some(NOTHING_LEARNT),
            threshold: prediction.threshold,
            decision: prediction.decision.name(),
            model: prediction.model.clone(),
            based_on_seq: prediction.based_on_seq.0,
            unknown: Vec::new(),
            underway: None,
            handles: mentions.handles(),
        }
    }
}

/// The wire name of an outcome: a tool, `capability:<id>`, or `done`.
pub(super) fn item_name(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Call(callee) => callee.to_string(),
        Outcome::Done => "done".to_owned(),
    }
}

impl RankedDto {
    fn new(mentions: &Mentions<'_>, ranked: &Ranked, reasons_max: usize) -> Self {
        let state = mentions.state;
        let r#type = match &ranked.outcome {
            Outcome::Call(Callee::Tool(_)) => "tool",
            Outcome::Call(Callee::Capability(_)) => "capability",
            Outcome::Done => "done",
        };
        let reasons = ranked.contributions().into_iter().take(reasons_max).map(ReasonDto::from).collect();
        let mut dto =
            Self { item: item_name(&ranked.outcome), r#type, p: ranked.p, reasons, handle: None, name: None, tools: None };
        if let Outcome::Call(callee) = &ranked.outcome
            && let Some(NodeKind::Capability(position)) = state.find(callee).map(crate::core::graph::Node::kind)
        {
            let capability = state.capabilities.at(position);
            dto.handle = Some(capability.handle.to_string());
            dto.name = Some(capability.name.clone());
            dto.tools = Some(mentions.nodes(&capability.members));
        }
        dto
    }
}

impl From<Contribution> for ReasonDto {
    fn from(part: Contribution) -> Self {
        let adds = part.amount();
        Self { signal: part.signal.name(), value: part.value, typical: part.typical, weight: part.weight, adds }
    }
}
