//! Hooks of Claude Code: one event on standard input per call of a tool, per prompt, and at the end of a session. What has to be known from
//! one call to the next is an [`OpenRun`], which the caller keeps.

use std::borrow::Cow;

use pml_core::event::{Event, ExecutionFinished, ExecutionStarted, NewRecord, StepFinished};
use pml_core::id::{Callee, ExecutionId, RecordId, SessionId, StepId};
use pml_core::redact::Redactor;
use pml_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::claude_code::AGENT;
use crate::conversation::{clean_arguments, clean_line, execution_id, session_id};
use crate::cues::{self, Cue};
use crate::outcome::Outcome;
use crate::{intent, json, tool};

/// The source of events that hooks make.
pub const SOURCE: &str = "pml/hook";
/// The events that `pml hook` reads.
pub const EVENTS: [&str; 4] = ["UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "SessionEnd"];
/// Most calls of one run; further ones are left out.
const STEPS_MAX: u32 = 1_000;

/// An input that is no event of a hook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    #[error("the input is not an event of a Claude Code hook: {0}")]
    Malformed(String),
    #[error("'{0}' is not one of UserPromptSubmit, PostToolUse, PostToolUseFailure, SessionEnd")]
    Kind(String),
}

/// The run of a session that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRun {
    execution: String,
    steps: u32,
    /// Whether the last call succeeded.
    success: bool,
    last_us: i64,
}

/// A hook's event, read.
pub struct Hook<'a> {
    given: Given<'a>,
    session: SessionId,
}

#[derive(Deserialize)]
struct Given<'a> {
    #[serde(borrow)]
    hook_event_name: Cow<'a, str>,
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    /// Only in sub-agents, whose calls are not those of the session.
    #[serde(borrow, default)]
    agent_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    prompt: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_use_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(default)]
    duration_ms: Option<f64>,
}

impl<'a> Hook<'a> {
    pub fn read(input: &'a [u8], redactor: &Redactor) -> Result<Self, HookError> {
        let given: Given<'_> = serde_json::from_slice(input).map_err(|error| HookError::Malformed(error.to_string()))?;
        if !EVENTS.contains(&&*given.hook_event_name) {
            return Err(HookError::Kind(clean_line(&given.hook_event_name, redactor)));
        }
        let session = session_id(&given.session_id, redactor);
        let session = session.ok_or_else(|| HookError::Malformed("session_id is empty".to_owned()))?;
        Ok(Self { given, session })
    }

    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Returns the events that the hook's event amounts to, and the run that is open after it.
    pub fn events(&self, open: Option<OpenRun>, now: Timestamp, redactor: &Redactor) -> (Option<OpenRun>, Vec<NewRecord>) {
        if self.given.agent_id.as_ref().is_some_and(|agent| !agent.is_empty()) {
            return (open, Vec::new());
        }
        match &*self.given.hook_event_name {
            "UserPromptSubmit" => self.prompted(open, now, redactor),
            "SessionEnd" => {
                let end = open.map(|mut open| open.finish(None, now));
                (None, end.into_iter().collect())
            }
            _ => match open {
                Some(mut open) => {
                    let step = self.called(&mut open, now, redactor);
                    (Some(open), step.into_iter().collect())
                }
                None => (None, Vec::new()),
            },
        }
    }

    fn prompted(&self, open: Option<OpenRun>, now: Timestamp, redactor: &Redactor) -> (Option<OpenRun>, Vec<NewRecord>) {
        let prompt = self.given.prompt.as_deref().unwrap_or_default();
        let Some(intent) = intent::request(prompt, redactor) else { return (open, Vec::new()) };
        let cue = cues::judge(&intent).cue;
        if cue == Cue::Continues && open.is_some() {
            return (open, Vec::new());
        }
        let mut events = Vec::new();
        let mut begin = now;
        if let Some(mut before) = open {
            let said = match cue {
                Cue::Objects => Some(false),
                Cue::Approves => Some(true),
                Cue::Continues | Cue::Silent => None,
            };
            events.push(before.finish(said, now));
            begin = Timestamp::from_micros(before.last_us).plus_micros(1).max(now);
        }
        let execution = execution_id(&["hook", self.session.as_str(), &begin.to_string()]);
        let started = ExecutionStarted {
            execution: execution.clone(),
            intent,
            session: Some(self.session.clone()),
            agent: Some(AGENT.to_owned()),
            parent: None,
        };
        events.push(record(&["started", execution.as_str()], begin, Event::ExecutionStarted(started)));
        let open = OpenRun { execution: execution.to_string(), steps: 0, success: true, last_us: begin.micros() };
        (Some(open), events)
    }

    fn called(&self, open: &mut OpenRun, now: Timestamp, redactor: &Redactor) -> Option<NewRecord> {
        let given = &self.given;
        if open.steps >= STEPS_MAX {
            return None;
        }
        let arguments = given.tool_input.filter(|raw| !json::is_null(raw)).map(RawValue::get);
        let tool = tool::named(AGENT, given.tool_name.as_deref()?, arguments, redactor)?;
        let error = given.error.map(json::text);
        let has_failed = given.hook_event_name == "PostToolUseFailure";
        let outcome = Outcome::flagged(has_failed, error.as_deref().unwrap_or_default());
        open.steps += 1;
        open.success = outcome.success;
        let id = given.tool_use_id.as_deref().and_then(|id| id.parse().ok().filter(|_| redactor.text(id).is_none()));
        let step: StepId = id.unwrap_or_else(|| format!("call-{}", open.steps).parse().expect("a short printable id"));
        let time = open.next_time(now);
        let execution: ExecutionId = open.execution.parse().ok()?;
        let (of_execution, of_step) = (execution.to_string(), step.to_string());
        let summary = error.filter(|_| has_failed).map(|error| clean_line(&error, redactor)).filter(|text| !text.is_empty());
        let finished = StepFinished {
            execution,
            step,
            tool: Callee::Tool(tool),
            depends_on: Vec::new(),
            success: outcome.success,
            duration_ms: given.duration_ms.map(whole_ms),
            error_kind: outcome.error_kind,
            arguments: arguments.and_then(|arguments| clean_arguments(arguments, redactor)),
            result_summary: summary,
        };
        Some(record(&["step", &of_execution, &of_step], time, Event::StepFinished(finished)))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a conversion of floats saturates")]
fn whole_ms(ms: f64) -> u64 {
    ms.max(0.0) as u64
}

impl OpenRun {
    /// Ends the run: as the user says, else as its last call did.
    fn finish(&mut self, said: Option<bool>, now: Timestamp) -> NewRecord {
        let success = said.unwrap_or(self.success);
        let basis = if said.is_some() { "said by the user" } else { "last call" };
        let time = self.next_time(now);
        let finished = ExecutionFinished {
            execution: self.execution.parse().unwrap_or_else(|_| execution_id(&["hook", &self.execution])),
            success,
            error: (!success).then(|| format!("inferred: {basis}")),
            code: None,
        };
        record(&["finished", &self.execution], time, Event::ExecutionFinished(finished))
    }

    /// Times within an execution order its steps, so they increase.
    fn next_time(&mut self, now: Timestamp) -> Timestamp {
        self.last_us = now.micros().max(self.last_us.saturating_add(1));
        Timestamp::from_micros(self.last_us)
    }
}

fn record(parts: &[&str], time: Timestamp, event: Event) -> NewRecord {
    let id = RecordId::derived(Timestamp::from_micros(0), &[&["hook"], parts].concat());
    NewRecord { id, time, source: SOURCE.into(), causation: None, envelope: None, event }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_772_000_000_000_000);

    /// Feeds events to one session. Returns what they amount to, one line each.
    fn fed(inputs: &[&str]) -> (Option<OpenRun>, Vec<String>) {
        let redactor = Redactor::builtin();
        let (mut open, mut shown, mut times) = (None, Vec::new(), Vec::new());
        for input in inputs {
            let with_session = input.replacen('{', r#"{"session_id":"s1","cwd":"/srv","#, 1);
            let hook = Hook::read(with_session.as_bytes(), &redactor).unwrap();
            let (next, events) = hook.events(open, NOW, &redactor);
            open = next;
            for event in events {
                times.push(event.time);
                shown.push(match event.event {
                    Event::ExecutionStarted(started) => format!("start {}", started.intent),
                    Event::StepFinished(step) => {
                        let arguments = step.arguments.as_ref().map_or("-", |arguments| arguments.as_str());
                        format!("{} {} {arguments} {} {:?}", step.step, step.tool, step.success, step.error_kind)
                    }
                    Event::ExecutionFinished(end) => format!("end {} {:?}", end.success, end.error),
                    other => panic!("{other:?}"),
                });
            }
        }
        assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
        (open, shown)
    }

    #[test]
    fn a_session_becomes_runs() {
        let (open, events) = fed(&[
            r#"{"hook_event_name":"PostToolUse","tool_name":"Read","tool_input":{}}"#,
            r#"{"hook_event_name":"UserPromptSubmit","prompt":"fix the login test"}"#,
            r#"{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"cargo test","token":"ghp_0123456789abcdefghijABCDEFGHIJ012345"},"tool_use_id":"t1","tool_response":{"stdout":"x"}}"#,
            r#"{"hook_event_name":"PostToolUse","agent_id":"a7","tool_name":"Read","tool_input":{},"tool_use_id":"t2"}"#,
            r#"{"hook_event_name":"PostToolUseFailure","tool_name":"mcp__github__search","tool_input":{},"tool_use_id":"t3","error":"request timed out"}"#,
            r#"{"hook_event_name":"UserPromptSubmit","prompt":"no, that's wrong, look at the session store"}"#,
            r#"{"hook_event_name":"PostToolUse","tool_name":"Grep","tool_input":{"pattern":"x"}}"#,
            r#"{"hook_event_name":"SessionEnd","reason":"exit"}"#,
        ]);
        assert_eq!(open, None);
        assert_eq!(
            events,
            [
                "start fix the login test",
                r#"t1 claude-code:bash:cargo {"command":"cargo test","token":"[redacted]"} true None"#,
                r#"t3 github:search {} false Some("timeout")"#,
                r#"end false Some("inferred: said by the user")"#,
                "start no, that's wrong, look at the session store",
                r#"call-1 claude-code:Grep {"pattern":"x"} true None"#,
                "end true None",
            ]
        );
    }

    #[test]
    fn what_is_no_event_is_refused_and_what_is_odd_is_left_out() {
        let redactor = Redactor::builtin();
        let refused = |input: &str| Hook::read(input.as_bytes(), &redactor).map(|_| ()).unwrap_err();
        for input in ["", "{", "[]", "{}", r#"{"hook_event_name":"Stop"}"#, r#"{"hook_event_name":"Stop","session_id":""}"#] {
            refused(input);
        }
        assert_eq!(refused(r#"{"hook_event_name":"Stop","session_id":"s"}"#), HookError::Kind("Stop".to_owned()));
        let (open, events) = fed(&[
            r#"{"hook_event_name":"UserPromptSubmit","prompt":"   "}"#,
            r#"{"hook_event_name":"UserPromptSubmit"}"#,
            r#"{"hook_event_name":"UserPromptSubmit","prompt":"list the files"}"#,
            r#"{"hook_event_name":"PostToolUse"}"#,
            r#"{"hook_event_name":"PostToolUse","tool_name":"Read","tool_input":null,"duration_ms":-1}"#,
        ]);
        assert_eq!(events, ["start list the files", "call-1 claude-code:Read - true None"]);
        assert_eq!(open.map(|open| open.steps), Some(1));
    }
}
