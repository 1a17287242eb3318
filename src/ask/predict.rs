//! `predict`: what comes next, asked with or without an intent and with or without calls made so far.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AskError, Asker, ItemType, limited, request};
use crate::core::event::Outcome;
use crate::core::graph::NodeKind;
use crate::core::id::{Callee, RecordId};
use crate::core::predict::threshold::{Decision, Mode};
use crate::core::predict::{Asked, Contribution, Prediction, Ranked, predict};
use crate::core::state::State;
use crate::core::time::Timestamp;

const LIMIT: usize = 5;
const LIMIT_MAX: usize = 50;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictRequest {
    /// What is to be done; may be left out.
    #[serde(default)]
    pub intent: String,
    /// The tools and capabilities called so far, in order; none at the start.
    #[serde(default, alias = "context_tools")]
    pub context: Vec<String>,
    #[serde(alias = "k")]
    pub limit: Option<usize>,
    /// Only tools or only capabilities.
    #[serde(default)]
    pub only: ItemType,
    #[serde(default)]
    pub mode: AskedMode,
}

/// Why somebody asks: the more is at stake, the surer an answer must be before it says to go ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum AskedMode {
    /// An agent asks and decides itself.
    #[default]
    Asked,
    /// Told without being asked.
    Passive,
    /// To be run before anybody asks.
    Speculation,
}

impl From<AskedMode> for Mode {
    fn from(mode: AskedMode) -> Self {
        match mode {
            AskedMode::Asked => Self::Asked,
            AskedMode::Passive => Self::Passive,
            AskedMode::Speculation => Self::Speculation,
        }
    }
}

impl Asker {
    /// Tools, capabilities and "done", each with its probability and why.
    pub fn predict(&self, request: PredictRequest) -> Result<PredictAnswer, AskError> {
        let limit = limited(request.limit, LIMIT, LIMIT_MAX)?;
        let context = request::callees("context", &request.context)?;
        let state = self.views.current();
        let question = self.question(state.vectors.model(), self.checked(&request.intent)?)?;
        // Everything is ranked, then cut: what is left out keeps its share of the probability.
        let asked = Asked { context: &context, k: usize::MAX, mode: request.mode.into(), seed: seed(&state, &request) };
        let mut prediction = predict(&state, &question, &asked);
        prediction.ranked.retain(|ranked| is_wanted(&ranked.outcome, request.only));
        prediction.ranked.truncate(limit);
        let unknown = context.iter().filter(|callee| state.find(callee).is_none()).map(ToString::to_string).collect();
        Ok(PredictAnswer { unknown, ..PredictAnswer::new(&state, &prediction, usize::MAX) })
    }
}

/// Asking the same of the same state gives the same threshold.
fn seed(state: &State, request: &PredictRequest) -> RecordId {
    let based_on = state.applied().to_string();
    let mut parts = vec!["predict", &based_on, &request.intent];
    parts.extend(request.context.iter().map(String::as_str));
    RecordId::derived(Timestamp::from_micros(0), &parts)
}

fn is_wanted(outcome: &Outcome, only: ItemType) -> bool {
    match (only, outcome) {
        (ItemType::All, _) | (ItemType::Tool, Outcome::Call(Callee::Tool(_)) | Outcome::Done) => true,
        (ItemType::Capability, Outcome::Call(Callee::Capability(_))) => true,
        (ItemType::Tool | ItemType::Capability, _) => false,
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct PredictAnswer {
    /// The most likely first.
    ranked: Vec<RankedDto>,
    /// What the first one had to reach, and whether it did: `emit` or `hold`.
    threshold: f64,
    decision: &'static str,
    model: String,
    /// The last record the answer rests on.
    based_on_seq: u64,
    /// Calls of the context that pml has never heard of; they say nothing about what follows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct RankedDto {
    /// A tool, `capability:<id>`, or `done`.
    item: String,
    r#type: &'static str,
    p: f64,
    /// What speaks for it and against it, the strongest first.
    reasons: Vec<ReasonDto>,
    /// What a capability is called and what it calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<String>>,
}

#[derive(Clone, Debug, Serialize)]
struct ReasonDto {
    signal: &'static str,
    value: f64,
    weight: f64,
    /// Weight times value: what it adds to the score.
    adds: f64,
}

impl PredictAnswer {
    /// With at most `reasons_max` reasons for each.
    pub(super) fn new(state: &State, prediction: &Prediction, reasons_max: usize) -> Self {
        Self {
            ranked: prediction.ranked.iter().map(|ranked| RankedDto::new(state, ranked, reasons_max)).collect(),
            threshold: prediction.threshold,
            decision: decision_name(prediction.decision),
            model: prediction.model.clone(),
            based_on_seq: prediction.based_on_seq.0,
            unknown: Vec::new(),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::to_value(self).expect("an answer is JSON")
    }
}

fn decision_name(decision: Decision) -> &'static str {
    match decision {
        Decision::Emit => "emit",
        Decision::Hold => "hold",
    }
}

impl RankedDto {
    fn new(state: &State, ranked: &Ranked, reasons_max: usize) -> Self {
        let (item, r#type) = match &ranked.outcome {
            Outcome::Call(callee @ Callee::Tool(_)) => (callee.to_string(), "tool"),
            Outcome::Call(callee @ Callee::Capability(_)) => (callee.to_string(), "capability"),
            Outcome::Done => ("done".to_owned(), "done"),
        };
        let reasons = ranked.contributions().into_iter().take(reasons_max).map(ReasonDto::from).collect();
        let mut dto = Self { item, r#type, p: ranked.p, reasons, name: None, tools: None };
        if let Outcome::Call(callee) = &ranked.outcome
            && let Some(NodeKind::Capability(position)) = state.find(callee).map(crate::core::graph::Node::kind)
        {
            let capability = state.capabilities.at(position);
            dto.name = Some(capability.name.clone());
            dto.tools = Some(capability.members.iter().map(|member| state.callee(*member).to_string()).collect());
        }
        dto
    }
}

impl From<Contribution> for ReasonDto {
    fn from(part: Contribution) -> Self {
        Self { signal: part.signal.name(), value: part.value, weight: part.weight, adds: part.amount() }
    }
}
