//! `speculate`: the calls that may be run before an agent asks for them, from a known plan or by prediction.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::handles::{Handles, Mentions};
use super::predict::seed;
use super::request::{context_callees, named_callees};
use super::{AskError, Asker, PredictMode, PredictRequest};
use crate::core::event::whole;
use crate::core::predict::{PredictionQuery, predict};
use crate::core::speculate::{NextCall, NotAhead, PlannedCall, next_layer, predicted_call};
use crate::core::state::State;

/// Calls of a plan in a request, at most.
const CALLS_MAX: usize = 256;

/// A question for the calls that may be run ahead: the next layer of `plan` if it is given, else the call that is predicted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeculateRequest {
    /// The task in words; used for a prediction.
    #[serde(default)]
    pub intent: String,
    /// The tools and capabilities called so far, in order; used for a prediction.
    #[serde(default)]
    pub context: Vec<String>,
    /// A known plan, for example the tasks of a suggestion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlannedTask>,
    /// The positions in the plan that are done.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty", deserialize_with = "whole::list")]
    pub done: BTreeSet<usize>,
}

/// A task of a plan. Other fields of a suggested task may be left in.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PlannedTask {
    pub tool: String,
    #[serde(default, deserialize_with = "whole::list")]
    pub depends_on: Vec<usize>,
}

impl Asker {
    /// The calls that come next, divided into those that may be run ahead and those that have to wait.
    pub fn speculate(&self, request: SpeculateRequest) -> Result<SpeculateAnswer, AskError> {
        if !request.plan.is_empty() {
            let state = self.views.current();
            let plan = checked_plan(&state, &request)?;
            return Ok(SpeculateAnswer::new(&state, next_layer(&state, &plan, &request.done)));
        }
        if !request.done.is_empty() {
            return Err(AskError::invalid("done", "names tasks of a plan, and there is no plan; give the calls as context"));
        }
        let state = self.views.current();
        let context = context_callees(&state, "context", &request.context)?;
        let question = self.question(&state.vectors, self.checked_intent(&request.intent)?)?;
        let asked = PredictRequest {
            intent: request.intent,
            context: request.context,
            mode: PredictMode::Speculation,
            ..PredictRequest::default()
        };
        let query = PredictionQuery { context: &context, k: 1, mode: asked.mode.into(), seed: seed(&state, &asked) };
        let prediction = predict(&state, &question, &query);
        let mut answer = SpeculateAnswer::new(&state, predicted_call(&state, &prediction).into_iter().collect());
        answer.p = prediction.ranked.first().map(|first| first.p);
        answer.threshold = Some(prediction.threshold);
        Ok(answer)
    }
}

fn checked_plan(state: &State, request: &SpeculateRequest) -> Result<Vec<PlannedCall>, AskError> {
    let SpeculateRequest { plan, done, .. } = request;
    if plan.len() > CALLS_MAX {
        return Err(AskError::invalid("plan", format!("has {} tasks, the limit is {CALLS_MAX}", plan.len())));
    }
    let named = plan.iter().flat_map(|task| &task.depends_on).chain(done);
    if let Some(position) = named.copied().find(|position| *position >= plan.len()) {
        return Err(AskError::invalid("plan", format!("has {} tasks, and {position} is not one of them", plan.len())));
    }
    let callees = named_callees(state, "plan", &plan.iter().map(|task| task.tool.clone()).collect::<Vec<_>>())?;
    let call = |(callee, task): (_, &PlannedTask)| PlannedCall { callee, depends_on: task.depends_on.clone() };
    Ok(callees.into_iter().zip(plan).map(call).collect())
}

/// The answer to a [`SpeculateRequest`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SpeculateAnswer {
    /// May be run ahead: harmless, and for a prediction likely enough.
    run: Vec<CallDto>,
    /// Come next and have to wait until somebody asks.
    wait: Vec<CallDto>,
    /// The probability of the predicted call, and what it had to reach; missing for a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    /// The handles of the capabilities that stand in the answer by id alone.
    #[serde(skip_serializing_if = "Handles::is_empty")]
    handles: Handles,
    /// The last record folded into the state that answered.
    based_on_seq: u64,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "SpeculatedCall")]
struct CallDto {
    tool: String,
    /// The position in the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<usize>,
    /// Why it has to wait: unknown, removed, `may_change_something` or unlikely.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

impl SpeculateAnswer {
    fn new(state: &State, calls: Vec<NextCall>) -> Self {
        let mentions = Mentions::new(state);
        let call = |call: NextCall| CallDto {
            tool: mentions.callee(&call.callee),
            task: call.position,
            why: call.verdict.err().map(NotAhead::name),
        };
        let (run, wait) = calls.into_iter().map(call).partition(|call| call.why.is_none());
        let handles = mentions.handles();
        Self { run, wait, p: None, threshold: None, handles, based_on_seq: state.applied().0 }
    }
}
