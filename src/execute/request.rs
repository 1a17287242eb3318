//! What is asked of the runner: a workflow, a program, a capability with arguments, or an intent, for which a plan is suggested. HTTP, MCP, NATS and
//! the command line ask the same.

use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::work::words;
use super::{Program, RunError, RunOptions, RunStatus, Runner, Work};
use crate::ask::AskError;
use crate::core::id::{Callee, CapabilityId, ExecutionId};
use crate::core::suggest::{SURE_MIN, SuggestedPlan, SuggestedTask};
use crate::core::workflow::expand::{Draft, MissingArguments};
use crate::core::workflow::{Workflow, capability};

/// A request for a run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecuteRequest {
    /// The tasks, as an object with the member `tasks`.
    pub workflow: Option<Value>,
    /// Instead of a workflow: a program in TypeScript.
    pub code: Option<String>,
    /// Instead of a workflow: a capability by name or id.
    pub capability: Option<String>,
    /// The arguments of the program or capability, or of the plan for the intent.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// What the run is for. Without workflow and capability, a plan is suggested for it.
    pub intent: Option<String>,
    pub session: Option<String>,
    pub agent: Option<String>,
    /// Approves all calls beforehand.
    #[serde(default)]
    pub approved: bool,
    /// An earlier run whose finished tasks are taken over.
    pub reuse: Option<String>,
    /// Whether the answer waits for the end of the run.
    #[serde(default = "yes")]
    pub wait: bool,
}

/// A request to go on with a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContinueRequest {
    /// Approves what the run waits for.
    pub token: Option<String>,
    /// Resumes this interrupted or failed run.
    pub run: Option<String>,
    #[serde(default = "yes")]
    pub wait: bool,
}

/// A request to end a run, or to refuse its approval.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AbortRequest {
    pub run: String,
}

fn yes() -> bool {
    true
}

/// The suggestion that a run follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FollowedPlan {
    /// Names the plan for `feedback.given`.
    pub id: crate::core::id::RecordId,
    pub confidence: f64,
}

impl FollowedPlan {
    fn of(plan: &SuggestedPlan) -> Self {
        Self { id: plan.id, confidence: plan.confidence }
    }

    /// Whether the plan is run without asking.
    pub fn is_sure(&self) -> bool {
        self.confidence >= SURE_MIN
    }
}

/// A plan that cannot be run as it is: calls lack arguments.
#[derive(Clone, Debug)]
pub struct IncompletePlan {
    pub intent: String,
    pub plan: FollowedPlan,
    pub draft: Draft,
}

/// What a request came to.
#[derive(Clone, Debug)]
pub enum Begun {
    /// The run was started, or waits for approval.
    Run(ExecutionId),
    /// Nothing was started.
    Incomplete(Box<IncompletePlan>),
}

impl Runner {
    /// Starts what is asked for. A plan for an intent is run if it is sure and has its arguments; a run of one that is not sure waits for
    /// approval.
    pub async fn begin(&self, request: ExecuteRequest) -> Result<Begun, RunError> {
        let mut options = RunOptions {
            intent: request.intent.clone(),
            session: parsed("session", request.session.as_deref())?,
            agent: request.agent.clone(),
            approved: request.approved,
            reuse: parsed("reuse", request.reuse.as_deref())?,
            plan: None,
            capability: None,
            within: None,
        };
        let (parts, tasks_max) = (&self.0.parts, self.0.parts.tasks_max);
        let work: Work = match (&request.workflow, request.code, &request.capability, request.intent) {
            (Some(workflow), None, None, _) => Workflow::from_json(workflow, tasks_max)?.into(),
            (None, Some(code), None, _) => Program::read(code, request.arguments)?.into(),
            (None, None, Some(name), intent) => {
                let view = parts.views.current();
                let found = capability::find(&view, name)?;
                options.intent = intent.or_else(|| Some(words(found)));
                options.capability = Some(found.id);
                Work::found(&view, found, &request.arguments, tasks_max)?
            }
            (None, None, None, Some(intent)) => {
                let (plan, capability, draft) = self.planned(&intent, request.arguments).await?;
                if !draft.missing.is_empty() {
                    return Ok(Begun::Incomplete(Box::new(IncompletePlan { intent, plan, draft })));
                }
                options.plan = Some(plan);
                options.capability = capability;
                Workflow::new(draft.tasks)?.into()
            }
            _ => {
                let problem = "give a workflow (tasks), code or a capability, one of them, or an intent alone".to_owned();
                return Err(RunError::Request { field: "workflow", problem });
            }
        };
        self.start(work, options).map(Begun::Run)
    }

    /// The suggested plan for an intent, the capability that it is, if it is just one, and its tasks.
    async fn planned(
        &self,
        intent: &str,
        arguments: Map<String, Value>,
    ) -> Result<(FollowedPlan, Option<CapabilityId>, Draft), RunError> {
        let (asker, wanted) = (self.0.parts.asker.clone(), intent.to_owned());
        // It computes for some milliseconds.
        let suggested = tokio::task::spawn_blocking(move || asker.plan(wanted)).await.map_err(|_| RunError::Stopping)?;
        let plan = suggested.map_err(|error| match error {
            AskError::Invalid { field, problem } => RunError::Request { field, problem },
            AskError::Embed(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "an intent cannot be embedded");
                RunError::Request { field: "intent", problem: "cannot be embedded".to_owned() }
            }
        })?;
        let plan = plan.filter(|plan| !plan.tasks.is_empty()).ok_or(RunError::NoPlan)?;
        let draft = capability::planned(&self.0.parts.views.current(), &plan, &arguments, self.0.parts.tasks_max);
        let only = match plan.tasks.as_slice() {
            [SuggestedTask { callee: Callee::Capability(id), .. }] => Some(*id),
            _ => None,
        };
        Ok((FollowedPlan::of(&plan), only, draft.map_err(capability::CapabilityError::from)?))
    }

    /// Approves or resumes a run.
    pub fn go_on(&self, request: &ContinueRequest) -> Result<ExecutionId, RunError> {
        match (&request.token, &request.run) {
            (Some(token), None) => self.approve(token),
            (None, Some(run)) => self.resume(&parse("run", run)?),
            _ => Err(RunError::Request { field: "token", problem: "give a token or a run, one of them".to_owned() }),
        }
    }

    /// The run at its end, or as it is if the request does not wait.
    pub async fn answered(&self, run: &ExecutionId, wait: bool) -> Result<Arc<RunStatus>, RunError> {
        if wait { self.wait(run).await } else { self.status(run) }
    }
}

impl IncompletePlan {
    /// The plan as JSON: the tasks with what they have, and what they lack. With that filled in, the tasks can be sent as a workflow.
    pub fn to_json(&self) -> Value {
        let missing = |missing: &MissingArguments| json!({"task": missing.task.as_str(), "tool": missing.tool.as_str(), "arguments": missing.names});
        json!({
            "status": "arguments_required",
            "intent": self.intent,
            "plan": plan_json(&self.plan),
            "tasks": Workflow::tasks_json(&self.draft.tasks),
            "missing": self.draft.missing.iter().map(missing).collect::<Vec<_>>(),
        })
    }
}

/// The suggestion that a run follows, as JSON.
pub(super) fn plan_json(plan: &FollowedPlan) -> Value {
    json!({
        "suggestion": plan.id.to_string(), "confidence": plan.confidence, "threshold": SURE_MIN, "sure": plan.is_sure(),
    })
}

/// Parses an id of a request; the error names the field.
pub fn parse<T>(field: &'static str, text: &str) -> Result<T, RunError>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|problem: T::Err| RunError::Request { field, problem: problem.to_string() })
}

fn parsed<T>(field: &'static str, text: Option<&str>) -> Result<Option<T>, RunError>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    text.map(|text| parse(field, text)).transpose()
}
