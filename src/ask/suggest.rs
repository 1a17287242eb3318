//! `suggest`: a plan for an intent, as a DAG of tools with a confidence.

use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::handles::{Handles, Mentions};
use super::request::context_callees;
use super::{AskError, Asker, checked_limit};
use crate::core::event::whole;
use crate::core::id::Callee;
use crate::core::rank::Index;
use crate::core::state::State;
use crate::core::suggest::planner::Planner;
use crate::core::suggest::{Argument, Missing, SURE_MIN, SuggestedPlan, SuggestedTask, Suggestion};

/// Alternatives in an answer.
const ALTERNATIVES: usize = 3;

/// A question for a plan.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuggestRequest {
    pub intent: String,
    /// The tools and capabilities called already, in order; they are not suggested again.
    #[serde(default)]
    pub context: Vec<String>,
    /// Alternatives at most, 1 to 3.
    #[serde(default, alias = "limit", deserialize_with = "whole::optional")]
    pub k: Option<usize>,
}

/// The planner of the newest index that was asked for a plan. It is brought up to date by the first question after a change, while
/// other questions for plans wait; [`Planner::update`] says what that costs.
#[derive(Clone, Default)]
pub(super) struct SharedPlanner(Arc<Mutex<Arc<Planner>>>);

impl SharedPlanner {
    fn current(&self, index: Arc<Index>) -> Arc<Planner> {
        // The planner is replaced as a whole, so one that a panic left behind is complete.
        let mut planner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(planner.index(), &index) {
            *planner = Arc::new(planner.update(index));
        }
        Arc::clone(&planner)
    }
}

impl Asker {
    /// Suggests a plan for an intent, and others that differ from it.
    pub fn suggest(&self, request: SuggestRequest) -> Result<SuggestAnswer, AskError> {
        let alternatives = checked_limit(request.k, ALTERNATIVES, ALTERNATIVES)?;
        let context = context_callees(&self.views.current(), "context", &request.context)?;
        let mut suggestion = self.suggestion(request.intent, &context)?;
        suggestion.alternatives.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
        Ok(SuggestAnswer::new(&self.views.current(), suggestion, alternatives))
    }

    /// The best plan for an intent; `None` if nothing fits.
    pub(crate) fn plan(&self, intent: String) -> Result<Option<SuggestedPlan>, AskError> {
        Ok(self.suggestion(intent, &[])?.best)
    }

    fn suggestion(&self, intent: String, context: &[Callee]) -> Result<Suggestion, AskError> {
        self.answer(intent, |asker, index, question| {
            let measures = asker.measures.current();
            let planner = asker.planner.current(Arc::clone(index));
            Ok(planner.suggest(measures.adjacency(), &question, context))
        })
    }
}

/// The answer to a [`SuggestRequest`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SuggestAnswer {
    /// The best plan; a guess unless `sure`, missing if nothing fits.
    plan: Option<PlanDto>,
    /// Whether the confidence reaches `threshold`.
    sure: bool,
    threshold: f64,
    /// Plans with other tools, the best first.
    alternatives: Vec<PlanDto>,
    /// What the plan needs and does not contain.
    missing: Vec<MissingDto>,
    /// Capabilities that could be called instead of a part of the plan, the longest first.
    suggested_capabilities: Vec<String>,
    /// The handles of the capabilities that stand in the answer by id alone.
    #[serde(skip_serializing_if = "Handles::is_empty")]
    handles: Handles,
    /// The last record folded into the state that answered.
    based_on_seq: u64,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Plan")]
struct PlanDto {
    /// Names the plan for `feedback.given`.
    id: String,
    tasks: Vec<TaskDto>,
    /// The expected F1 score of the tools.
    confidence: f64,
    /// memory, beam, tools, capability or prerequisites.
    origin: &'static str,
    rationale: Vec<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PlanTask")]
struct TaskDto {
    tool: String,
    /// The probability that the intent needs it.
    p: f64,
    /// Positions of the tasks whose output it uses.
    depends_on: Vec<usize>,
    /// Tasks of one layer can run side by side.
    layer: usize,
    /// Whether past runs mostly called it again with its own output.
    repeated: bool,
    arguments: Vec<ArgumentDto>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PlanArgument")]
struct ArgumentDto {
    name: String,
    required: bool,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    value_type: Option<String>,
    /// The task that supplies the value; missing if the caller has to.
    #[serde(skip_serializing_if = "Option::is_none")]
    fed_by: Option<usize>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PlanMissing")]
struct MissingDto {
    item: String,
    needed_by: String,
    /// Whether it could be called: it is known and not removed.
    callable: bool,
}

impl SuggestAnswer {
    fn new(state: &State, suggestion: Suggestion, alternatives: usize) -> Self {
        let mentions = Mentions::new(state);
        let plan = |plan: SuggestedPlan| PlanDto::new(plan, &mentions);
        Self {
            plan: suggestion.best.map(plan),
            sure: suggestion.is_sure,
            threshold: SURE_MIN,
            alternatives: suggestion.alternatives.into_iter().take(alternatives).map(plan).collect(),
            missing: suggestion.missing.iter().map(|missing| MissingDto::new(missing, &mentions)).collect(),
            suggested_capabilities: suggestion.suggested_capabilities.iter().map(|callee| mentions.callee(callee)).collect(),
            // The last to be computed: it has what the others mention.
            handles: mentions.handles(),
            based_on_seq: suggestion.based_on_seq.0,
        }
    }
}

impl PlanDto {
    fn new(plan: SuggestedPlan, mentions: &Mentions<'_>) -> Self {
        let origin = plan.origin.name();
        let tasks = plan.tasks.into_iter().map(|task| TaskDto::new(task, mentions)).collect();
        Self { id: plan.id.to_string(), tasks, confidence: plan.confidence, origin, rationale: plan.rationale }
    }
}

impl TaskDto {
    fn new(task: SuggestedTask, mentions: &Mentions<'_>) -> Self {
        Self {
            tool: mentions.callee(&task.callee),
            p: task.p,
            depends_on: task.depends_on,
            layer: task.layer,
            repeated: task.is_repeated,
            arguments: task.arguments.into_iter().map(ArgumentDto::from).collect(),
        }
    }
}

impl From<Argument> for ArgumentDto {
    fn from(argument: Argument) -> Self {
        let Argument { name, required, value_type, fed_by } = argument;
        Self { name, required, value_type, fed_by }
    }
}

impl MissingDto {
    fn new(missing: &Missing, mentions: &Mentions<'_>) -> Self {
        let (item, needed_by) = (mentions.callee(&missing.callee), mentions.callee(&missing.needed_by));
        Self { item, needed_by, callable: missing.is_callable }
    }
}
