//! A session in its order: requests, calls and their results become runs. An execution ends where the next request begins.
//!
//! The calls of an open run are held, at most `steps_max` of them; a longer run is continued by another.

use std::collections::BTreeMap;
use std::sync::Arc;

use pml_core::event::Json;
use pml_core::flow::{Call as CallNumber, Values};
use pml_core::id::{ExecutionId, RecordId, SessionId, StepId, ToolId};
use pml_core::redact::{self, Redactor};
use pml_core::time::Timestamp;

use crate::cues::{self, Cue};
use crate::outcome::Outcome;
use crate::run::{ARGUMENT_STRING_LEN_MAX, ARGUMENTS_LEN_MAX, Basis, Ending, LINE_LEN_MAX, Options, Run, Step};
use crate::{intent, json};

/// Where runs go, with counts of what was left out.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) runs: Vec<Run>,
    pub(crate) without_calls: u64,
    pub(crate) without_request: u64,
    pub(crate) not_wanted: u64,
}

impl Output {
    /// Takes a run if it has calls and is wanted.
    pub(crate) fn push(&mut self, run: Run, options: &Options) {
        if run.steps.is_empty() {
            self.without_calls += 1;
        } else if options.wants(&run) {
            self.runs.push(run);
        } else {
            self.not_wanted += 1;
        }
    }
}

/// The id of an execution, from what identifies its content.
pub(crate) fn execution_id(parts: &[&str]) -> ExecutionId {
    let id = RecordId::derived(Timestamp::from_micros(0), parts).to_string();
    id.parse().expect("a record id is printable and short")
}

/// An id from a log, if it can be one here: short, printable, without a secret.
pub(crate) fn session_id(text: &str, redactor: &Redactor) -> Option<SessionId> {
    if text.is_empty() {
        return None;
    }
    let usable = text.parse().ok().filter(|_| redactor.text(text).is_none());
    usable.or_else(|| execution_id(&["session", text]).as_str().parse().ok())
}

/// A call as a log has it.
pub(crate) struct Call<'a> {
    /// The log's id of the call; empty if it has none.
    pub(crate) id: &'a str,
    pub(crate) tool: ToolId,
    /// The arguments as valid JSON.
    pub(crate) arguments: Option<&'a str>,
    pub(crate) time: Option<Timestamp>,
}

/// The result of a call.
pub(crate) struct Answer<'a> {
    pub(crate) call: &'a str,
    pub(crate) text: &'a str,
    pub(crate) outcome: Outcome,
    pub(crate) time: Option<Timestamp>,
}

/// A session that is being read.
#[derive(Debug)]
pub(crate) struct Conversation {
    options: Arc<Options>,
    agent: Arc<str>,
    pub(crate) session: Option<SessionId>,
    project: Option<Arc<str>>,
    open: Option<OpenRun>,
}

/// A run whose end has not been read.
#[derive(Debug, Default)]
struct OpenRun {
    /// The log's id of the request.
    request: Option<String>,
    /// The log's id of the first call. Logs of several sessions may number their calls alike, so it does not identify a run alone.
    first_call: Option<String>,
    parent: Option<ExecutionId>,
    intent: String,
    intent_inferred: bool,
    started: Option<Timestamp>,
    last: Option<Timestamp>,
    steps: Vec<Step>,
    /// The calls without a result, by the log's id, with the number of their step.
    unanswered: BTreeMap<String, usize>,
    /// The log's ids of the calls so far: a log may repeat a line.
    known: BTreeMap<String, usize>,
    values: Values,
}

impl Conversation {
    pub(crate) fn new(agent: &str, options: Arc<Options>) -> Self {
        Self { options, agent: agent.into(), session: None, project: None, open: None }
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.options.redactor
    }

    pub(crate) fn agent(&self) -> &str {
        &self.agent
    }

    pub(crate) fn set_project(&mut self, project: &str) {
        if self.project.as_deref() != Some(project) {
            self.project = Some(self.options.redactor.text(project).unwrap_or_else(|| project.to_owned()).into());
        }
    }

    /// The user says something. `id` is that of the message, if the log has one.
    pub(crate) fn request(&mut self, id: Option<&str>, message: &str, time: Option<Timestamp>, out: &mut Output) {
        let Some(words) = intent::request(message, &self.options.redactor) else { return };
        let said = cues::judge(&words);
        if said.cue == Cue::Continues && self.open.is_some() {
            return;
        }
        let before = self.open.as_ref().map(|run| run.intent.clone());
        let ending = match said.cue {
            Cue::Objects => Some(Ending { success: false, basis: Basis::Said }),
            Cue::Approves => Some(Ending { success: true, basis: Basis::Said }),
            Cue::Continues | Cue::Silent => None,
        };
        self.end(ending, out);
        // "No, that failed" asks for the same again.
        let asks_again = said.is_bare && said.cue == Cue::Objects;
        let intent = before.filter(|_| asks_again).unwrap_or(words);
        self.begin(id, intent, false, time);
    }

    /// Begins a run whose intent is known or described. The one before must have been ended.
    pub(crate) fn begin(&mut self, request: Option<&str>, intent: String, intent_inferred: bool, time: Option<Timestamp>) {
        let mut values = Values::default();
        values.add_written([intent.as_str()]);
        self.open = Some(OpenRun {
            request: request.filter(|request| !request.is_empty()).map(str::to_owned),
            intent,
            intent_inferred,
            started: time,
            last: time,
            values,
            ..OpenRun::default()
        });
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The agent calls a tool.
    pub(crate) fn call(&mut self, call: Call<'_>, out: &mut Output) {
        if self.open.as_ref().is_some_and(|run| run.steps.len() >= self.options.steps_max) {
            self.continue_in_another(out);
        }
        let options = Arc::clone(&self.options);
        let Some(run) = &mut self.open else {
            out.without_request += 1;
            return;
        };
        run.first_call.get_or_insert_with(|| call.id.to_owned());
        let is_repeated = !call.id.is_empty() && run.known.contains_key(call.id);
        if !is_repeated && !options.excludes(&call.tool) {
            run.add_call(call, &options.redactor);
        }
    }

    /// A call returns.
    pub(crate) fn answer(&mut self, answer: Answer<'_>) {
        if let Some(run) = &mut self.open {
            run.add_answer(answer, &self.options.redactor);
        }
    }

    /// The user interrupts the run.
    pub(crate) fn interrupt(&mut self, out: &mut Output) {
        self.end(Some(Ending { success: false, basis: Basis::Interrupted }), out);
    }

    /// Ends the run; without a given ending, it is concluded from the calls.
    pub(crate) fn end(&mut self, ending: Option<Ending>, out: &mut Output) {
        if let Some(run) = self.open.take() {
            let concluded = run.concluded();
            let run = self.closed(run, ending.unwrap_or(concluded));
            out.push(run, &self.options);
        }
    }

    /// The input ends: what comes next is not known.
    pub(crate) fn finish(&mut self, out: &mut Output) {
        let success = self.open.as_ref().is_some_and(|run| run.concluded().success);
        self.end(Some(Ending { success, basis: Basis::Open }), out);
    }

    fn continue_in_another(&mut self, out: &mut Output) {
        let Some(run) = self.open.take() else { return };
        let (intent, inferred, time) = (run.intent.clone(), run.intent_inferred, run.last);
        let ending = run.concluded();
        let closed = self.closed(run, ending);
        let parent = closed.execution.clone();
        out.push(closed, &self.options);
        self.begin(Some(parent.as_str()), intent, inferred, time);
        self.continue_from(parent);
    }

    /// Says which run the open one continues.
    pub(crate) fn continue_from(&mut self, parent: ExecutionId) {
        if let Some(open) = &mut self.open {
            open.parent = Some(parent);
        }
    }

    fn closed(&self, run: OpenRun, ending: Ending) -> Run {
        let started = run.started.map_or_else(String::new, |time| time.to_string());
        let session = self.session.as_ref().map_or("", SessionId::as_str);
        let execution = match (&run.request, run.first_call.as_deref()) {
            (Some(request), _) => execution_id(&[&self.agent, request]),
            (None, Some(call)) if !call.is_empty() => execution_id(&[&self.agent, call, &run.intent]),
            (None, _) => execution_id(&[&self.agent, session, &run.intent, &started]),
        };
        Run {
            execution,
            parent: run.parent,
            agent: Arc::clone(&self.agent),
            session: self.session.clone(),
            project: self.project.clone(),
            intent: run.intent,
            intent_inferred: run.intent_inferred,
            started: run.started,
            ended: run.last,
            steps: run.steps,
            ending,
        }
    }
}

impl OpenRun {
    fn add_call(&mut self, call: Call<'_>, redactor: &Redactor) {
        let number = self.steps.len();
        let texts = call.arguments.map(json::texts).unwrap_or_default();
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let sources = self.values.sources(texts.iter().copied());
        self.values.add_written(texts);
        let depends_on = sources.into_iter().filter_map(|at| self.steps.get(at as usize)).map(|step| step.id.clone());
        let step = Step {
            id: self.step_id(call.id, redactor),
            tool: call.tool,
            arguments: call.arguments.and_then(|arguments| clean_arguments(arguments, redactor)),
            success: false,
            success_inferred: true,
            error_kind: Some(UNANSWERED.to_owned()),
            error: None,
            time: call.time,
            duration_ms: None,
            depends_on: depends_on.collect(),
        };
        self.steps.push(step);
        self.last = self.last.max(call.time);
        self.unanswered.insert(call.id.to_owned(), number);
        self.known.insert(call.id.to_owned(), number);
    }

    /// The log's id of the call if it can be one here, else its number. Some logs number their calls themselves.
    fn step_id(&self, id: &str, redactor: &Redactor) -> StepId {
        let is_taken = |id: &StepId| self.steps.iter().any(|step| step.id == *id);
        let numbered = |number: usize| format!("call-{number}").parse().expect("a short printable id");
        let given = id.parse().ok().filter(|given| redactor.text(id).is_none() && !is_taken(given));
        given.unwrap_or_else(|| {
            // One of more numbers than there are steps is free.
            let free = (self.steps.len() + 1..=2 * self.steps.len() + 1).map(numbered).find(|id| !is_taken(id));
            free.expect("there are more numbers than steps")
        })
    }

    fn add_answer(&mut self, answer: Answer<'_>, redactor: &Redactor) {
        self.last = self.last.max(answer.time);
        let Some(number) = self.unanswered.remove(answer.call) else { return };
        let step = &mut self.steps[number];
        let measured = answer.time.zip(step.time).map(|(end, start)| end.millis_since(start));
        step.success = answer.outcome.success;
        step.success_inferred = answer.outcome.inferred;
        step.duration_ms = answer.outcome.duration_ms.or(measured);
        step.error_kind = answer.outcome.error_kind;
        if step.success {
            let number = CallNumber::try_from(number).expect("a run has few steps");
            // A result in JSON holds its values as strings, with escapes.
            if json::is_structure(answer.text) {
                self.values.add_returned(number, json::texts(answer.text).iter().map(AsRef::as_ref));
            } else {
                self.values.add_returned(number, [answer.text]);
            }
        } else {
            step.error = Some(clean_line(answer.text, redactor)).filter(|error| !error.is_empty());
        }
    }

    /// A run with a call that was never answered was given up; any other succeeded if its last call did: an agent that goes on after a
    /// failed call has found another way.
    fn concluded(&self) -> Ending {
        if self.unanswered.is_empty() {
            Ending { success: self.steps.last().is_none_or(|step| step.success), basis: Basis::LastCall }
        } else {
            Ending { success: false, basis: Basis::Unanswered }
        }
    }
}

/// The class of failure of a call without a result.
const UNANSWERED: &str = "unanswered";

/// Arguments without secrets and long strings; `None` if they are still too long.
pub(crate) fn clean_arguments(arguments: &str, redactor: &Redactor) -> Option<Json> {
    if arguments.len() > 64 * ARGUMENTS_LEN_MAX || !arguments.trim_start().starts_with(['{', '[', '"']) {
        return None;
    }
    // As it stands it may be nested without bound, or hold numbers out of range, which nothing could parse later; and escapes (`:\/\/`)
    // would hide secrets.
    let value: serde_json::Value = serde_json::from_str(arguments).ok()?;
    let given = Json::from_valid(value.to_string());
    let clean = redactor.json(&given, ARGUMENT_STRING_LEN_MAX).unwrap_or(given);
    Some(clean).filter(|clean| clean.as_str().len() <= ARGUMENTS_LEN_MAX)
}

/// The beginning of a text, without secrets, in one line.
pub(crate) fn clean_line(text: &str, redactor: &Redactor) -> String {
    let beginning = &text[..text.floor_char_boundary(16 * LINE_LEN_MAX)];
    let clean = redactor.text(beginning).unwrap_or_else(|| beginning.to_owned());
    let mut line = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    redact::cut(&mut line, LINE_LEN_MAX);
    line
}

#[cfg(test)]
mod tests;
