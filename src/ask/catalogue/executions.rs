//! The list of executions: those under way, then the latest completed ones, found by words, callee, outcome and time.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Refused;
use crate::ask::handles::Mentions;
use crate::ask::request::named_callee;
use crate::core::capability::Structure;
use crate::core::event::TraceCompleted;
use crate::core::id::{Callee, CapabilityId, ExecutionId};
use crate::core::state::State;
use crate::core::time::Timestamp;
use crate::core::trace::OpenExecution;

const LISTED_DEFAULT: usize = 50;
const LISTED_MAX: usize = 500;
/// Completed executions that one question looks at; the answer says where to go on.
const EXAMINED_MAX: usize = 20_000;
/// Callees named per entry.
const CALLEES_MAX: usize = 12;

/// Which executions are wanted.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecutionsQuery {
    /// Words that the intent or the id must hold, all of them.
    q: Option<String>,
    /// A tool or capability that it called.
    tool: Option<String>,
    /// The capability whose procedure it followed.
    capability: Option<String>,
    /// success, failure, abandoned or open.
    outcome: Option<String>,
    /// Started at or after, and before, these times.
    since: Option<String>,
    until: Option<String>,
    /// Go on after this execution.
    after: Option<String>,
    limit: Option<usize>,
}

/// What an execution must be to be listed.
struct Wanted {
    words: Vec<String>,
    callee: Option<Callee>,
    capability: Option<CapabilityId>,
    outcome: Option<Outcome>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Open,
    Success,
    Failure,
    Abandoned,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Open, Self::Success, Self::Failure, Self::Abandoned];

    const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Abandoned => "abandoned",
        }
    }

    fn of(trace: &TraceCompleted) -> Self {
        match (trace.abandoned, trace.success) {
            (true, _) => Self::Abandoned,
            (false, true) => Self::Success,
            (false, false) => Self::Failure,
        }
    }
}

impl Wanted {
    fn new(view: &State, query: &ExecutionsQuery) -> Result<Self, Refused> {
        let time = |field, text: Option<&String>| {
            text.map(|text| text.parse::<Timestamp>().map_err(|problem| Refused::invalid(field, problem))).transpose()
        };
        let callee = |field, text: Option<&String>| text.map(|text| named_callee(view, field, text)).transpose();
        let outcome = |text: &String| {
            let found = Outcome::ALL.into_iter().find(|outcome| outcome.name() == text);
            found.ok_or_else(|| Refused::invalid("outcome", format!("'{text}' is not open, success, failure or abandoned")))
        };
        let capability = match callee("capability", query.capability.as_ref())? {
            Some(Callee::Capability(id)) => Some(id),
            Some(Callee::Tool(tool)) => return Err(Refused::invalid("capability", format!("'{tool}' is a tool"))),
            None => None,
        };
        Ok(Self {
            words: query.q.iter().flat_map(|text| text.split_whitespace()).map(str::to_lowercase).collect(),
            callee: callee("tool", query.tool.as_ref())?,
            capability,
            outcome: query.outcome.as_ref().map(outcome).transpose()?,
            since: time("since", query.since.as_ref())?,
            until: time("until", query.until.as_ref())?,
        })
    }

    fn includes(&self, view: &State, trace: &TraceCompleted, outcome: Outcome) -> bool {
        self.outcome.is_none_or(|wanted| wanted == outcome)
            && self.since.is_none_or(|since| trace.started >= since)
            && self.until.is_none_or(|until| trace.started < until)
            && self.callee.as_ref().is_none_or(|callee| trace.steps.iter().any(|step| step.tool == *callee))
            && self.has_words(trace)
            && self.capability.is_none_or(|id| follows(view, trace, id))
    }

    fn has_words(&self, trace: &TraceCompleted) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let text = format!("{} {}", trace.intent, trace.execution).to_lowercase();
        self.words.iter().all(|word| text.contains(word.as_str()))
    }
}

/// Whether a run followed the procedure of a capability.
fn follows(view: &State, trace: &TraceCompleted, id: CapabilityId) -> bool {
    let named = trace.code.as_deref().and_then(|code| view.capabilities.that_ran(code));
    if named.is_some() {
        return named == Some(id);
    }
    let Some(capability) = view.capabilities.get(id) else { return false };
    // Most runs differ in the number of calls already, and identifying a run costs more.
    let callees: Vec<&Callee> = trace.steps.iter().map(|step| &step.tool).collect();
    callees.len() == capability.structure.calls.len() && Structure::canonical(&callees, &trace.data_flow()).0 == id
}

/// One execution of the list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListedExecution")]
pub(crate) struct ExecutionDto {
    execution: String,
    /// open, success, failure or abandoned.
    outcome: &'static str,
    intent: String,
    started: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
    steps: usize,
    failed_steps: usize,
    /// The first tools and capabilities that it called.
    tools: Vec<String>,
}

impl ExecutionDto {
    fn new(trace: &TraceCompleted, outcome: Outcome, mentions: &Mentions<'_>) -> Self {
        Self {
            execution: trace.execution.to_string(),
            outcome: outcome.name(),
            intent: trace.intent.clone(),
            started: trace.started.to_string(),
            ended: (outcome != Outcome::Open).then(|| trace.ended.to_string()),
            steps: trace.steps.len(),
            failed_steps: trace.steps.iter().filter(|step| !step.success).count(),
            tools: trace.steps.iter().take(CALLEES_MAX).map(|step| mentions.callee(&step.tool)).collect(),
        }
    }
}

/// The executions that fit, the latest first. Reads up to [`EXAMINED_MAX`] traces: call it on a thread that may block.
pub(crate) fn executions(view: &State, query: &ExecutionsQuery) -> Result<Value, Refused> {
    let wanted = Wanted::new(view, query)?;
    let limit = query.limit.unwrap_or(LISTED_DEFAULT);
    if !(1..=LISTED_MAX).contains(&limit) {
        return Err(Refused::invalid("limit", format!("is {limit}, it must be from 1 to {LISTED_MAX}")));
    }
    let after: Option<ExecutionId> =
        query.after.as_ref().map(|text| text.parse()).transpose().map_err(|problem| Refused::invalid("after", problem))?;
    let mentions = Mentions::new(view);
    let is_open = |id: &ExecutionId| view.executions.get(id).is_some();
    let (after_open, after) = after.map_or((None, None), |id| if is_open(&id) { (Some(id), None) } else { (None, Some(id)) });
    let open = if after.is_none() { open(view, &wanted, after_open.as_ref()) } else { Vec::new() };
    let mut listed: Vec<_> = open.iter().take(limit).map(|trace| ExecutionDto::new(trace, Outcome::Open, &mentions)).collect();
    let closed = view.executions.closed().newest_first(after.as_ref());
    let Some(closed) = closed else {
        return Err(Refused::unknown("after", "is no execution that is still kept; begin again without it"));
    };
    let (mut last, mut examined, mut is_more) = (listed.last().map(|last| last.execution.clone()), 0, open.len() > limit);
    if wanted.outcome != Some(Outcome::Open) {
        for trace in closed {
            if listed.len() >= limit || examined == EXAMINED_MAX {
                is_more = true;
                break;
            }
            examined += 1;
            let outcome = Outcome::of(&trace);
            if wanted.includes(view, &trace, outcome) {
                listed.push(ExecutionDto::new(&trace, outcome, &mentions));
            }
            last = Some(trace.execution.to_string());
        }
    }
    Ok(json!({
        "executions": listed,
        "next": last.filter(|_| is_more),
        "kept": view.executions.traces_len(),
        "handles": mentions.handles(),
        "based_on_seq": view.applied().0,
    }))
}

/// The executions under way, the latest first; those that come after one of them, if it is named.
fn open(view: &State, wanted: &Wanted, after: Option<&ExecutionId>) -> Vec<TraceCompleted> {
    if wanted.outcome.is_some_and(|outcome| outcome != Outcome::Open) || wanted.capability.is_some() {
        return Vec::new();
    }
    let latest_first = |trace: &TraceCompleted| (Reverse(trace.started), trace.execution.clone());
    let so_far = |(execution, open): (&ExecutionId, &OpenExecution)| open.complete(execution, true);
    let after = after.and_then(|id| view.executions.get(id).map(|open| latest_first(&open.complete(id, true))));
    let fits = |trace: &TraceCompleted| {
        wanted.includes(view, trace, Outcome::Open) && after.as_ref().is_none_or(|after| latest_first(trace) > *after)
    };
    let mut found: Vec<TraceCompleted> = view.executions.iter().map(so_far).filter(fits).collect();
    found.sort_by_key(latest_first);
    found
}
