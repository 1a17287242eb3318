//! `explain`: why an outcome is predicted, and the traces behind it; for a prediction that was served, or for a question as `predict`
//! takes it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::handles::{Handles, Mentions};
use super::predict::{PredictAnswer, PredictMode, PredictRequest, ReasonDto, item_name, seed};
use super::request::{context_callees, named_callee};
use super::{AskError, Asker};
use crate::core::event::Outcome;
use crate::core::graph::NodeKind;
use crate::core::id::{Callee, RecordId};
use crate::core::predict::PredictionQuery;
use crate::core::predict::evidence::Evidence;
use crate::core::predict::explain::{Explanation, SupportingTrace, explain};
use crate::core::predict::hyperpath::Aim;
use crate::core::predict::score::Impression;
use crate::core::rank::Question;
use crate::core::state::State;

/// Outcomes shown beside the explained one.
const RANKED: usize = 5;

/// A served prediction or a question to explain.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainRequest {
    /// The id of a prediction that was served; its question is explained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<String>,
    #[serde(default)]
    pub intent: String,
    #[serde(default, alias = "context_tools")]
    pub context: Vec<String>,
    #[serde(default)]
    pub mode: PredictMode,
    /// The outcome to explain: a tool, `capability:<id>` or `done`; the first one if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
}

/// The explanation of one outcome.
#[derive(Serialize, JsonSchema)]
pub struct ExplainAnswer {
    item: String,
    p: f64,
    /// From 1.
    rank: usize,
    /// What each signal adds, the largest absolute amount first; together they are its score, measured from the mean outcome.
    reasons: Vec<ReasonDto>,
    score: f64,
    /// The clause of the intent that it fits best.
    #[serde(skip_serializing_if = "Option::is_none")]
    clause: Option<String>,
    /// The capabilities that the intent likely aims at, of those that contain the tool, the likeliest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    targets: Vec<AimDto>,
    /// Completed traces behind the signals, the strongest signal first.
    taught: Vec<SupportingTraceDto>,
    intent: String,
    context: Vec<String>,
    /// The answer to the same question now.
    now: PredictAnswer,
    /// The prediction as it was served.
    #[serde(skip_serializing_if = "Option::is_none")]
    served: Option<ImpressionDto>,
    /// The handles of the capabilities that stand in the answer by id alone.
    #[serde(skip_serializing_if = "Handles::is_empty")]
    handles: Handles,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SupportingTrace")]
struct SupportingTraceDto {
    signal: &'static str,
    seq: u64,
    execution: String,
    intent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<f32>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Aim")]
struct AimDto {
    /// `capability:<id>`.
    item: String,
    handle: String,
    name: String,
    tools: Vec<String>,
    /// `shgat`: the share is the probability that it is the target; `memory`: the share of the similar past intents that used it.
    by: &'static str,
    share: f64,
    /// What comes next on the way to it: its calls that were not made and wait for no other.
    next: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ServedPrediction")]
struct ImpressionDto {
    prediction: String,
    execution: Option<String>,
    based_on_seq: u64,
    /// The probability of the explained outcome, if it was listed.
    p: Option<f64>,
}

/// The question to explain, and the impression that it comes from, if any.
struct ExplainedQuestion {
    intent: String,
    context: Vec<Callee>,
    seed: RecordId,
    mode: PredictMode,
    impression: Option<(RecordId, Impression)>,
}

impl Asker {
    /// Explains an outcome by the newest view: for a prediction served earlier the reasons may have changed since, and `served` has
    /// the probability of that time.
    pub fn explain(&self, request: ExplainRequest) -> Result<ExplainAnswer, AskError> {
        let state = self.views.current();
        let item = request.item.as_deref().map(|item| parse_outcome(&state, item)).transpose()?;
        let explained = match &request.prediction {
            Some(prediction) => question_of_impression(&state, prediction)?,
            None => self.question_of_request(&state, request)?,
        };
        let question = self.question(&state.vectors, explained.intent.clone())?;
        let evidence = Evidence::for_question(&state, &question);
        let query =
            PredictionQuery { context: &explained.context, k: RANKED, mode: explained.mode.into(), seed: explained.seed };
        let first =
            explained.impression.as_ref().and_then(|(_, impression)| impression.ranked.first()).and_then(|(first, _)| *first);
        let first = first.map(|symbol| symbol.node().map_or(Outcome::Done, |node| Outcome::Call(state.callee(node))));
        let found = explain(&state, &evidence, &query, item.as_ref().or(first.as_ref())).ok_or_else(|| {
            AskError::invalid("item", "is not among the outcomes that were weighed; `predict` with a higher limit lists them")
        })?;
        Ok(ExplainAnswer::new(&state, found, &question, explained))
    }

    fn question_of_request(&self, state: &State, request: ExplainRequest) -> Result<ExplainedQuestion, AskError> {
        let ExplainRequest { intent, context, mode, .. } = request;
        let request = PredictRequest { intent: self.checked_intent(&intent)?, context, mode, ..PredictRequest::default() };
        let seed = seed(state, &request);
        let context = context_callees(state, "context", &request.context)?;
        Ok(ExplainedQuestion { context, intent: request.intent, seed, mode, impression: None })
    }
}

/// The question that a served prediction answered.
fn question_of_impression(state: &State, prediction: &str) -> Result<ExplainedQuestion, AskError> {
    let invalid = |problem: &str| AskError::invalid("prediction", format!("'{prediction}' {problem}"));
    let id: RecordId = prediction.parse().map_err(|problem| AskError::invalid("prediction", format!("{problem}")))?;
    let impression = state.predictor.scores.impression(id).ok_or_else(|| invalid("was not served, or is no longer kept"))?;
    let gone = || invalid("belongs to an execution that is no longer kept; ask with its intent and context");
    let execution = impression.execution.as_ref().ok_or_else(gone)?;
    let (intent, calls) = match (state.executions.get(execution), state.executions.trace(execution)) {
        (Some(open), _) => (open.intent().unwrap_or_default().to_owned(), open.calls()),
        (None, Some(trace)) => (trace.intent.clone(), trace.steps.iter().map(|step| step.tool.clone()).collect()),
        (None, None) => return Err(gone()),
    };
    Ok(ExplainedQuestion {
        intent: intent.trim().to_owned(),
        context: calls.into_iter().take(impression.calls).collect(),
        seed: id,
        mode: PredictMode::Passive,
        impression: Some((id, impression.clone())),
    })
}

fn parse_outcome(state: &State, item: &str) -> Result<Outcome, AskError> {
    if item == "done" {
        return Ok(Outcome::Done);
    }
    named_callee(state, "item", item).map(Outcome::Call)
}

impl ExplainAnswer {
    fn new(state: &State, found: Explanation, question: &Question, explained: ExplainedQuestion) -> Self {
        let mentions = Mentions::new(state);
        let contributions = found.ranked.contributions();
        let symbol = match &found.ranked.outcome {
            Outcome::Call(callee) => state.find(callee).map(crate::core::graph::transition::Symbol::call),
            Outcome::Done => Some(crate::core::graph::transition::Symbol::END),
        };
        let served = explained.impression.map(|(id, impression)| ImpressionDto {
            prediction: id.to_string(),
            execution: impression.execution.as_ref().map(ToString::to_string),
            based_on_seq: impression.based_on_seq.0,
            p: impression.ranked.iter().find(|(listed, _)| listed.is_some() && *listed == symbol).map(|(_, p)| *p),
        });
        Self {
            item: match &found.ranked.outcome {
                Outcome::Call(callee) => mentions.callee(callee),
                Outcome::Done => item_name(&Outcome::Done),
            },
            p: found.ranked.p,
            rank: found.rank,
            score: contributions.iter().map(crate::core::predict::Contribution::amount).sum(),
            reasons: contributions.into_iter().map(ReasonDto::from).collect(),
            clause: found.clause.and_then(|clause| question.clauses.get(clause)).map(|clause| clause.text.clone()),
            targets: found.aims.into_iter().filter_map(|aim| AimDto::new(&mentions, aim)).collect(),
            taught: found.supporting.into_iter().map(SupportingTraceDto::from).collect(),
            intent: explained.intent,
            context: explained.context.iter().map(|callee| mentions.callee(callee)).collect(),
            now: PredictAnswer::new(state, &found.prediction, 0),
            served,
            handles: mentions.handles(),
        }
    }
}

impl AimDto {
    fn new(mentions: &Mentions<'_>, Aim { capability, share, is_by_shgat, next }: Aim) -> Option<Self> {
        let NodeKind::Capability(position) = capability.kind() else { return None };
        let known = mentions.state.capabilities.at(position);
        let item = mentions.state.callee(capability).to_string();
        let by = if is_by_shgat { "shgat" } else { "memory" };
        let (tools, next) = (mentions.nodes(&known.members), mentions.nodes(&next));
        Some(Self { item, handle: known.handle.to_string(), name: known.name.clone(), tools, by, share, next })
    }
}

impl From<SupportingTrace> for SupportingTraceDto {
    fn from(trace: SupportingTrace) -> Self {
        Self {
            signal: trace.signal.name(),
            seq: trace.seq.0,
            execution: trace.execution.to_string(),
            intent: trace.intent.to_string(),
            similarity: trace.similarity,
        }
    }
}
