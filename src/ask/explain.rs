//! `explain`: why an outcome was predicted, and the records that taught it. Asked about a prediction that was served, or about a
//! question as `predict` takes it.

use serde::{Deserialize, Serialize};

use super::predict::{AskedMode, PredictAnswer, PredictRequest, ReasonDto, item_name, seed};
use super::{AskError, Asker, request};
use crate::core::event::Outcome;
use crate::core::id::{Callee, RecordId};
use crate::core::predict::Asked;
use crate::core::predict::evidence::Evidence;
use crate::core::predict::explain::{Explanation, Taught, explain};
use crate::core::predict::score::Served;
use crate::core::rank::Question;
use crate::core::state::State;

/// Outcomes shown beside the explained one.
const RANKED: usize = 5;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainRequest {
    /// The id of a prediction that was served; the question is then the one it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<String>,
    #[serde(default)]
    pub intent: String,
    #[serde(default, alias = "context_tools")]
    pub context: Vec<String>,
    #[serde(default)]
    pub mode: AskedMode,
    /// What is to be explained: a tool, `capability:<id>` or `done`; the first outcome if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
}

#[derive(Serialize)]
pub struct ExplainAnswer {
    item: String,
    p: f64,
    /// From 1.
    rank: usize,
    /// All that speaks for it and against it, the strongest first; together they are its score.
    reasons: Vec<ReasonDto>,
    score: f64,
    /// The part of the intent that it fits best.
    #[serde(skip_serializing_if = "Option::is_none")]
    clause: Option<String>,
    /// Completed traces that taught the signals, the strongest signal first.
    taught: Vec<TaughtDto>,
    intent: String,
    context: Vec<String>,
    /// What the same question is answered now.
    now: PredictAnswer,
    /// The prediction as it was served.
    #[serde(skip_serializing_if = "Option::is_none")]
    served: Option<ServedDto>,
}

#[derive(Serialize)]
struct TaughtDto {
    signal: &'static str,
    seq: u64,
    execution: String,
    intent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<f32>,
}

#[derive(Serialize)]
struct ServedDto {
    prediction: String,
    execution: Option<String>,
    based_on_seq: u64,
    /// The probability it gave to the explained outcome, if it listed it.
    p: Option<f64>,
}

/// What is explained: the same question, where it came from, and what is asked about it.
struct About {
    intent: String,
    context: Vec<Callee>,
    seed: RecordId,
    mode: AskedMode,
    served: Option<(RecordId, Served)>,
}

impl Asker {
    /// By what is known now: reasons of a prediction that was served long ago may have changed since, and `served` says what they
    /// came to then.
    pub fn explain(&self, request: ExplainRequest) -> Result<ExplainAnswer, AskError> {
        let state = self.views.current();
        let item = request.item.as_deref().map(outcome).transpose()?;
        let about = match &request.prediction {
            Some(prediction) => served(&state, prediction)?,
            None => self.asked(&state, request)?,
        };
        let question = self.question(state.vectors.model(), about.intent.clone())?;
        let evidence = Evidence::of(&state, &question);
        let asked = Asked { context: &about.context, k: RANKED, mode: about.mode.into(), seed: about.seed };
        let first = about.served.as_ref().and_then(|(_, served)| served.ranked.first()).and_then(|(first, _)| *first);
        let first = first.map(|symbol| symbol.node().map_or(Outcome::Done, |node| Outcome::Call(state.callee(node))));
        let found = explain(&state, &evidence, &asked, item.as_ref().or(first.as_ref())).ok_or_else(|| {
            AskError::invalid("item", "is not among the outcomes that were weighed; `predict` with a higher limit lists them")
        })?;
        Ok(ExplainAnswer::new(&state, found, &question, about))
    }

    fn asked(&self, state: &State, request: ExplainRequest) -> Result<About, AskError> {
        let ExplainRequest { intent, context, mode, .. } = request;
        let asked = PredictRequest { intent: self.checked(&intent)?, context, mode, ..PredictRequest::default() };
        let seed = seed(state, &asked);
        Ok(About { context: request::callees("context", &asked.context)?, intent: asked.intent, seed, mode, served: None })
    }
}

/// The question that a served prediction answered.
fn served(state: &State, prediction: &str) -> Result<About, AskError> {
    let invalid = |problem: &str| AskError::invalid("prediction", format!("'{prediction}' {problem}"));
    let id: RecordId = prediction.parse().map_err(|problem| AskError::invalid("prediction", format!("{problem}")))?;
    let served = state.predictor.scores.served(id).ok_or_else(|| invalid("was not served, or is no longer kept"))?;
    let gone = || invalid("belongs to an execution that is no longer kept; ask with its intent and context");
    let execution = served.execution.as_ref().ok_or_else(gone)?;
    let (intent, calls) = match (state.executions.get(execution), state.executions.trace(execution)) {
        (Some(open), _) => (open.intent().unwrap_or_default().to_owned(), open.calls()),
        (None, Some(trace)) => (trace.intent.clone(), trace.steps.iter().map(|step| step.tool.clone()).collect()),
        (None, None) => return Err(gone()),
    };
    Ok(About {
        intent: intent.trim().to_owned(),
        context: calls.into_iter().take(served.calls).collect(),
        seed: id,
        mode: AskedMode::Passive,
        served: Some((id, served.clone())),
    })
}

fn outcome(item: &str) -> Result<Outcome, AskError> {
    if item == "done" {
        return Ok(Outcome::Done);
    }
    item.parse().map(Outcome::Call).map_err(|problem| AskError::invalid("item", format!("'{item}' {problem}")))
}

impl ExplainAnswer {
    fn new(state: &State, found: Explanation, question: &Question, about: About) -> Self {
        let contributions = found.ranked.contributions();
        let symbol = match &found.ranked.outcome {
            Outcome::Call(callee) => state.find(callee).map(crate::core::graph::transition::Symbol::call),
            Outcome::Done => Some(crate::core::graph::transition::Symbol::END),
        };
        let served = about.served.map(|(id, served)| ServedDto {
            prediction: id.to_string(),
            execution: served.execution.as_ref().map(ToString::to_string),
            based_on_seq: served.based_on_seq.0,
            p: served.ranked.iter().find(|(listed, _)| listed.is_some() && *listed == symbol).map(|(_, p)| *p),
        });
        Self {
            item: item_name(&found.ranked.outcome),
            p: found.ranked.p,
            rank: found.rank,
            score: contributions.iter().map(crate::core::predict::Contribution::amount).sum(),
            reasons: contributions.into_iter().map(ReasonDto::from).collect(),
            clause: found.clause.and_then(|clause| question.clauses.get(clause)).map(|clause| clause.text.clone()),
            taught: found.taught.into_iter().map(TaughtDto::from).collect(),
            intent: about.intent,
            context: about.context.iter().map(ToString::to_string).collect(),
            now: PredictAnswer::new(state, &found.prediction, 0),
            served,
        }
    }
}

impl From<Taught> for TaughtDto {
    fn from(taught: Taught) -> Self {
        Self {
            signal: taught.signal.name(),
            seq: taught.seq.0,
            execution: taught.execution.to_string(),
            intent: taught.intent.to_string(),
            similarity: taught.similarity,
        }
    }
}
