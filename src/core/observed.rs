//! Executions made from calls that pass through, of agents that publish nothing.
//!
//! The calls of one session belong to one execution until the session is idle or another intent is asked for. Its intent is what was
//! asked before the first call. Its data flow is found in the values (`flow`). It succeeds if its last call did: what an agent wanted
//! is not known, but an agent that goes on after a failed call has found another way.

use std::collections::BTreeMap;

use super::event::{Event, ExecutionFinished, ExecutionStarted, Json, StepFinished, StepStarted};
use super::flow::{Call, Values};
use super::id::{Callee, ExecutionId, SessionId, StepId, ToolId};

/// The limits of an [`Observer`].
#[derive(Clone, Copy, Debug)]
pub struct ObserverLimits {
    /// Sessions kept; the one that was idle for longest goes first.
    pub sessions_max: usize,
    /// An execution ends, and an intent is forgotten, after this long without a call.
    pub idle_ms: u64,
    /// Calls in one execution; the next one begins another.
    pub steps_max: usize,
}

/// `Observer` turns the calls of sessions into events. Times are milliseconds of a clock that is never set.
#[derive(Debug)]
pub struct Observer {
    limits: ObserverLimits,
    sessions: BTreeMap<SessionId, Session>,
}

#[derive(Debug, Default)]
struct Session {
    /// The intent that was asked for last.
    intent: Option<String>,
    group: Option<Group>,
    /// The last time that anything happened.
    active_ms: u64,
}

/// The calls of an execution that has not ended.
#[derive(Debug)]
struct Group {
    execution: ExecutionId,
    /// What was asked for; `None` if the intent is a description of the first call.
    intent: Option<String>,
    calls: Call,
    under_way: u32,
    last_succeeded: bool,
    values: Values,
}

/// A call that is about to be made.
#[derive(Debug)]
pub struct BegunCall<'a> {
    pub tool: &'a ToolId,
    /// The arguments as they are recorded.
    pub arguments: Option<Json>,
    /// The texts and numbers among the arguments.
    pub values: &'a [String],
    /// What the client says the call is for.
    pub intent: Option<&'a str>,
    /// The intent if nobody has said one.
    pub described: &'a str,
    pub agent: Option<&'a str>,
}

/// What a call came to.
#[derive(Debug)]
pub struct EndedCall<'a> {
    pub success: bool,
    pub duration_ms: u64,
    pub error_kind: Option<&'a str>,
    pub result_summary: Option<String>,
    /// The texts and numbers of the result.
    pub values: &'a [String],
}

/// A call under way. It must be given back to [`Observer::end_call`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTicket {
    session: SessionId,
    execution: ExecutionId,
    call: Call,
    tool: ToolId,
    depends_on: Vec<StepId>,
    arguments: Option<Json>,
}

impl CallTicket {
    pub fn execution(&self) -> &ExecutionId {
        &self.execution
    }
}

impl Observer {
    pub fn new(limits: ObserverLimits) -> Self {
        Self { limits, sessions: BTreeMap::new() }
    }

    /// Notes that `intent` was asked for. It ends an execution with another intent.
    pub fn ask(&mut self, session: &SessionId, intent: &str, now_ms: u64) -> Vec<Event> {
        let mut events = self.make_room(session);
        let Some(known) = self.session(session, now_ms) else { return events };
        let is_other = |group: &Group| group.intent.as_deref() != Some(intent) && group.under_way == 0;
        if known.group.as_ref().is_some_and(is_other) {
            events.extend(known.group.take().map(Group::finished));
        }
        known.intent = Some(intent.to_owned());
        events
    }

    /// Notes a call that is about to be made. `execution` is used if it begins an execution. Without a ticket, the call is not observed,
    /// because there are too many sessions.
    pub fn begin_call(
        &mut self,
        session: &SessionId,
        call: BegunCall<'_>,
        execution: ExecutionId,
        now_ms: u64,
    ) -> (Vec<Event>, Option<CallTicket>) {
        let mut events = self.make_room(session);
        let steps_max = self.limits.steps_max;
        let Some(known) = self.session(session, now_ms) else { return (events, None) };
        if let Some(intent) = call.intent {
            known.intent = Some(intent.to_owned());
        }
        let is_over = |group: &Group| group.calls as usize >= steps_max || group.intent != known.intent;
        if known.group.as_ref().is_some_and(|group| group.under_way == 0 && is_over(group)) {
            events.extend(known.group.take().map(Group::finished));
        }
        let group = known.group.get_or_insert_with(|| {
            let group = Group::new(execution, known.intent.clone());
            events.push(Event::ExecutionStarted(ExecutionStarted {
                execution: group.execution.clone(),
                intent: known.intent.clone().unwrap_or_else(|| call.described.to_owned()),
                session: Some(session.clone()),
                agent: call.agent.map(str::to_owned),
                parent: None,
            }));
            group
        });
        let ticket = group.begin(session, call.tool, call.values, call.arguments.clone());
        events.push(Event::StepStarted(StepStarted {
            execution: ticket.execution.clone(),
            step: step_id(ticket.call),
            tool: Callee::Tool(ticket.tool.clone()),
            arguments: call.arguments,
        }));
        (events, Some(ticket))
    }

    /// Notes what a call came to.
    pub fn end_call(&mut self, ticket: CallTicket, ended: EndedCall<'_>, now_ms: u64) -> Event {
        let known = self.sessions.get_mut(&ticket.session);
        let group = known.and_then(|known| {
            known.active_ms = now_ms;
            known.group.as_mut().filter(|group| group.execution == ticket.execution)
        });
        if let Some(group) = group {
            group.under_way -= 1;
            group.last_succeeded = ended.success;
            if ended.success {
                group.values.add_returned(ticket.call, ended.values.iter().map(String::as_str));
            }
        }
        Event::StepFinished(StepFinished {
            execution: ticket.execution,
            step: step_id(ticket.call),
            tool: Callee::Tool(ticket.tool),
            depends_on: ticket.depends_on,
            success: ended.success,
            duration_ms: Some(ended.duration_ms),
            error_kind: ended.error_kind.map(str::to_owned),
            arguments: ticket.arguments,
            result_summary: ended.result_summary,
        })
    }

    /// Ends the executions of sessions that have been idle for long enough, and forgets those sessions.
    pub fn end_idle(&mut self, now_ms: u64) -> Vec<Event> {
        let idle_ms = self.limits.idle_ms;
        self.end_where(|session| now_ms.saturating_sub(session.active_ms) >= idle_ms && session.is_quiet())
    }

    /// Ends all executions, also those with a call under way.
    pub fn end_all(&mut self) -> Vec<Event> {
        self.end_where(|_| true)
    }

    fn end_where(&mut self, is_over: impl Fn(&Session) -> bool) -> Vec<Event> {
        let over: Vec<SessionId> =
            self.sessions.iter().filter(|(_, session)| is_over(session)).map(|(id, _)| id.clone()).collect();
        let ended = over.iter().filter_map(|id| self.sessions.remove(id)?.group);
        ended.map(Group::finished).collect()
    }

    /// Ends the session that has been idle for longest if another one would be too many.
    fn make_room(&mut self, wanted: &SessionId) -> Vec<Event> {
        if self.sessions.contains_key(wanted) || self.sessions.len() < self.limits.sessions_max {
            return Vec::new();
        }
        let quiet = self.sessions.iter().filter(|(_, session)| session.is_quiet());
        let oldest = quiet.min_by_key(|(_, session)| session.active_ms).map(|(id, _)| id.clone());
        let ended = oldest.and_then(|id| self.sessions.remove(&id)?.group);
        ended.map(Group::finished).into_iter().collect()
    }

    /// The session, new if it is not known and there is room.
    fn session(&mut self, id: &SessionId, now_ms: u64) -> Option<&mut Session> {
        if !self.sessions.contains_key(id) && self.sessions.len() >= self.limits.sessions_max {
            return None;
        }
        let session = self.sessions.entry(id.clone()).or_default();
        session.active_ms = now_ms;
        Some(session)
    }
}

impl Session {
    fn is_quiet(&self) -> bool {
        self.group.as_ref().is_none_or(|group| group.under_way == 0)
    }
}

impl Group {
    fn new(execution: ExecutionId, intent: Option<String>) -> Self {
        let mut values = Values::default();
        values.add_written(intent.as_deref());
        Self { execution, intent, calls: 0, under_way: 0, last_succeeded: true, values }
    }

    fn begin(&mut self, session: &SessionId, tool: &ToolId, values: &[String], arguments: Option<Json>) -> CallTicket {
        let given = || values.iter().map(String::as_str);
        let depends_on = self.values.sources(given()).into_iter().map(step_id).collect();
        self.values.add_written(given());
        self.calls += 1;
        self.under_way += 1;
        let (session, execution) = (session.clone(), self.execution.clone());
        CallTicket { session, execution, call: self.calls, tool: tool.clone(), depends_on, arguments }
    }

    fn finished(self) -> Event {
        Event::ExecutionFinished(ExecutionFinished {
            execution: self.execution,
            success: self.last_succeeded,
            error: None,
            code: None,
        })
    }
}

fn step_id(call: Call) -> StepId {
    format!("call-{call}").parse().expect("it is short and printable")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ObserverLimits = ObserverLimits { sessions_max: 2, idle_ms: 100, steps_max: 3 };

    /// An observer with a session per test, and what it made as one line per event.
    struct Watched {
        observer: Observer,
        executions: u32,
        lines: Vec<String>,
    }

    impl Watched {
        fn new() -> Self {
            Self { observer: Observer::new(LIMITS), executions: 0, lines: Vec::new() }
        }

        fn note(&mut self, events: impl IntoIterator<Item = Event>) {
            let steps = |steps: &[StepId]| steps.iter().map(StepId::as_str).collect::<Vec<_>>().join(",");
            for event in events {
                self.lines.push(match event {
                    Event::ExecutionStarted(event) => format!("{} for '{}'", event.execution, event.intent),
                    Event::StepStarted(event) => format!("{} calls {}", event.execution, event.tool),
                    Event::StepFinished(event) => format!("{} uses [{}]", event.step, steps(&event.depends_on)),
                    Event::ExecutionFinished(event) => format!("{} ends {}", event.execution, event.success),
                    other => panic!("{other:?}"),
                });
            }
        }

        fn begin(&mut self, session: &str, argument: &str, now_ms: u64) -> Option<CallTicket> {
            self.executions += 1;
            let execution = format!("e{}", self.executions).parse().unwrap();
            let tool = "fs:read".parse().unwrap();
            let values = [argument.to_owned()];
            let call =
                BegunCall { tool: &tool, arguments: None, values: &values, intent: None, described: "read", agent: None };
            let (events, ticket) = self.observer.begin_call(&session.parse().unwrap(), call, execution, now_ms);
            self.note(events);
            ticket
        }

        fn end(&mut self, ticket: CallTicket, result: &str, now_ms: u64) {
            let (success, values) = (!result.is_empty(), [result.to_owned()]);
            let ended = EndedCall { success, duration_ms: 1, error_kind: None, result_summary: None, values: &values };
            let event = self.observer.end_call(ticket, ended, now_ms);
            self.note([event]);
        }

        fn call(&mut self, session: &str, argument: &str, result: &str, now_ms: u64) {
            let ticket = self.begin(session, argument, now_ms).unwrap();
            self.end(ticket, result, now_ms);
        }

        fn ask(&mut self, session: &str, intent: &str, now_ms: u64) {
            let events = self.observer.ask(&session.parse().unwrap(), intent, now_ms);
            self.note(events);
        }

        fn idle(&mut self, now_ms: u64) {
            let events = self.observer.end_idle(now_ms);
            self.note(events);
        }
    }

    #[test]
    fn calls_of_a_session_are_one_execution_until_it_is_idle() {
        let mut watched = Watched::new();
        watched.ask("a", "mail the report", 0);
        watched.call("a", "list", "found /srv/data/report.pdf", 1);
        watched.call("a", "/srv/data/report.pdf", "sent", 90);
        watched.idle(189);
        watched.idle(190);
        watched.call("a", "/srv/data/report.pdf", "sent", 200);
        let expected = [
            "e1 for 'mail the report'",
            "e1 calls fs:read",
            "call-1 uses []",
            "e1 calls fs:read",
            "call-2 uses [call-1]",
            "e1 ends true",
            "e3 for 'read'",
            "e3 calls fs:read",
            "call-1 uses []",
        ];
        assert_eq!(watched.lines, expected);
    }

    #[test]
    fn another_intent_begins_another_execution_and_the_same_one_does_not() {
        let mut watched = Watched::new();
        watched.ask("a", "first", 0);
        watched.call("a", "x", "y", 1);
        watched.ask("a", "first", 2);
        watched.ask("a", "second", 3);
        watched.call("a", "x", "", 4);
        assert_eq!(watched.lines[3..5], ["e1 ends true", "e2 for 'second'"]);
        watched.idle(104);
        assert_eq!(watched.lines.last().unwrap(), "e2 ends false", "its last call failed");
    }

    #[test]
    fn an_execution_with_a_call_under_way_is_not_ended() {
        let mut watched = Watched::new();
        let slow = watched.begin("a", "x", 0).unwrap();
        watched.idle(1_000);
        watched.ask("a", "another", 1_001);
        assert!(!watched.lines.iter().any(|line| line.contains("ends")));
        watched.end(slow, "y", 1_002);
        watched.idle(1_102);
        assert_eq!(watched.lines.last().unwrap(), "e1 ends true");
    }

    #[test]
    fn a_long_execution_is_continued_by_another() {
        let mut watched = Watched::new();
        for at_ms in 0..4 {
            watched.call("a", "x", "y", at_ms);
        }
        assert_eq!(watched.lines.iter().filter(|line| line.contains(" for ")).count(), 2);
    }

    #[test]
    fn the_oldest_session_makes_room_unless_all_are_busy() {
        let mut watched = Watched::new();
        watched.call("a", "x", "y", 0);
        watched.call("b", "x", "y", 1);
        watched.call("c", "x", "y", 2);
        assert!(watched.lines.contains(&"e1 ends true".to_owned()));
        let busy = [watched.begin("b", "x", 3), watched.begin("c", "x", 3)];
        assert!(busy.iter().all(Option::is_some));
        assert_eq!(watched.begin("d", "x", 4), None);
        assert_eq!(watched.observer.sessions.len(), LIMITS.sessions_max);
    }

    #[test]
    fn a_failed_call_gives_no_values() {
        let mut watched = Watched::new();
        watched.call("a", "x", "y", 0);
        let failed = watched.begin("a", "x", 1).unwrap();
        let values = ["/srv/data/report.pdf".to_owned()];
        let ended =
            EndedCall { success: false, duration_ms: 1, error_kind: Some("tool"), result_summary: None, values: &values };
        let event = watched.observer.end_call(failed, ended, 2);
        watched.note([event]);
        watched.call("a", "/srv/data/report.pdf", "y", 3);
        assert_eq!(watched.lines.last().unwrap(), "call-3 uses []");
    }
}
