//! Message logs in the style of OpenAI's chat API: conversations as `{"messages": [...]}`, requests and responses of the API, or one
//! message in every line. Messages with Anthropic's content blocks are read as well.
//!
//! A log of requests repeats the conversation so far in each of them. The last run of a conversation is therefore held until a longer
//! version of it comes, or room is needed; runs that were given are remembered for a while.

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use pml_core::id::ExecutionId;
use pml_core::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::content::Content;
use crate::conversation::{Answer, Call, Conversation, Output, execution_id, session_id};
use crate::outcome::{Outcome, result_text};
use crate::reader::{PieceReader, Reading};
use crate::run::{Options, Run};
use crate::{json, time, tool};

/// The agent of a log that names none.
pub(crate) const AGENT: &str = "agent";
/// Runs that may still grow.
const HELD_MAX: usize = 64;
/// Runs that were given, by their ids.
const GIVEN_MAX: usize = 10_000;

#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow)]
    messages: Option<Vec<Message<'a>>>,
    #[serde(borrow)]
    request: Option<Body<'a>>,
    #[serde(borrow)]
    body: Option<Body<'a>>,
    #[serde(borrow)]
    response: Option<Response<'a>>,
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    conversation_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    session_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    thread_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    created: Option<&'a RawValue>,
    #[serde(borrow)]
    role: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    messages: Option<Vec<Message<'a>>>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Option<Cow<'a, str>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<ToolCall<'a>>>,
    #[serde(borrow)]
    function_call: Option<Function<'a>>,
    #[serde(borrow)]
    tool_call_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

pub(crate) struct Messages {
    options: Arc<Options>,
    /// The conversation of a log with one message in every line.
    lines: Conversation,
    held: VecDeque<Run>,
    given: BTreeSet<ExecutionId>,
    given_order: VecDeque<ExecutionId>,
}

impl Messages {
    pub(crate) fn new(options: Arc<Options>) -> Self {
        Self {
            lines: Conversation::new(AGENT, Arc::clone(&options)),
            options,
            held: VecDeque::new(),
            given: BTreeSet::new(),
            given_order: VecDeque::new(),
        }
    }

    fn conversation(&mut self, messages: &[Message<'_>], session: &str, time: Option<Timestamp>, out: &mut Output) {
        let mut conversation = Conversation::new(AGENT, Arc::clone(&self.options));
        conversation.session = session_id(session, &self.options.redactor);
        let mut read = Output::default();
        let mut said = session.to_owned();
        for (at, message) in messages.iter().enumerate() {
            let text = if message.is_request() { message.text() } else { Cow::Borrowed("") };
            if text.is_empty() {
                add(&mut conversation, message, &mut read);
            } else {
                // A request is identified by all that was said up to it, and by what was called first.
                said = execution_id(&[&said, &text]).to_string();
                let id = execution_id(&[&said, &first_call(&messages[at..])]);
                conversation.request(Some(id.as_str()), &text, time, &mut read);
            }
        }
        let ended = read.runs.len();
        conversation.finish(&mut read);
        out.without_calls += read.without_calls;
        out.without_request += read.without_request;
        out.not_wanted += read.not_wanted;
        for (at, mut run) in read.runs.into_iter().enumerate() {
            let is_held = self.held.iter().position(|held| held.execution == run.execution);
            if let Some(shorter) = is_held.and_then(|at| self.held.remove(at)) {
                run.started = shorter.started.or(run.started);
            }
            if at < ended { self.give(run, out) } else { self.hold(run, out) }
        }
    }

    fn hold(&mut self, run: Run, out: &mut Output) {
        self.held.push_back(run);
        if self.held.len() > HELD_MAX
            && let Some(oldest) = self.held.pop_front()
        {
            self.give(oldest, out);
        }
    }

    fn give(&mut self, run: Run, out: &mut Output) {
        if !self.given.insert(run.execution.clone()) {
            return;
        }
        self.given_order.push_back(run.execution.clone());
        if self.given_order.len() > GIVEN_MAX
            && let Some(oldest) = self.given_order.pop_front()
        {
            self.given.remove(&oldest);
        }
        out.runs.push(run);
    }
}

impl Message<'_> {
    fn is_request(&self) -> bool {
        self.role.as_deref() == Some("user")
    }

    fn text(&self) -> Cow<'_, str> {
        Content::read(self.content).map(|content| content.text().into_owned()).unwrap_or_default().into()
    }
}

/// The first call after a request: its id, name and arguments.
fn first_call(messages: &[Message<'_>]) -> String {
    let after = messages.iter().skip(1).take_while(|message| !message.is_request() || message.text().is_empty());
    let call = after.filter_map(|message| message.tool_calls.as_ref()).flatten().next();
    let Some(call) = call else { return String::new() };
    let function = call.function.as_ref();
    let name = function.and_then(|function| function.name.as_deref()).unwrap_or_default();
    let arguments = function.and_then(|function| function.arguments).map_or("", RawValue::get);
    format!("{} {name} {arguments}", call.id.as_deref().unwrap_or_default())
}

/// Adds a message that is not a request.
fn add(conversation: &mut Conversation, message: &Message<'_>, out: &mut Output) {
    match message.role.as_deref().unwrap_or_default() {
        "assistant" => {
            for call in message.tool_calls.iter().flatten() {
                let Some(function) = &call.function else { continue };
                add_call(conversation, call.id.as_deref().unwrap_or_default(), function, out);
            }
            if let Some(function) = &message.function_call {
                add_call(conversation, "", function, out);
            }
            if let Some(content) = Content::read(message.content) {
                content.add_calls(conversation, None, out);
            }
        }
        "tool" | "function" => {
            let text = message.content.map(result_text).unwrap_or_default();
            let call = message.tool_call_id.as_deref().unwrap_or_default();
            conversation.answer(Answer { call, text: &text, outcome: Outcome::of_text(&text), time: None });
        }
        "user" => {
            if let Some(content) = Content::read(message.content) {
                content.add_answers(conversation, None);
            }
        }
        _ => {}
    }
}

fn add_call(conversation: &mut Conversation, id: &str, function: &Function<'_>, out: &mut Output) {
    let Some(name) = &function.name else { return };
    let given = function.arguments.map(json::text);
    let arguments = given.as_deref().filter(|text| json::is_structure(text));
    let Some(tool) = tool::named(conversation.agent(), name, arguments, conversation.redactor()) else { return };
    conversation.call(Call { id, tool, arguments, time: None }, out);
}

impl PieceReader for Messages {
    fn read(&mut self, piece: &[u8], out: &mut Output) -> Reading {
        let Ok(read) = serde_json::from_slice::<Piece<'_>>(piece) else { return Reading::Damaged };
        if read.role.is_some() {
            let Ok(message) = serde_json::from_slice::<Message<'_>>(piece) else { return Reading::Damaged };
            let time = time::from_raw(read.timestamp);
            let text = if message.is_request() { message.text() } else { Cow::Borrowed("") };
            if text.is_empty() {
                add(&mut self.lines, &message, out);
            } else {
                self.lines.request(None, &text, time, out);
            }
            return Reading::Used;
        }
        let body = read.request.or(read.body).and_then(|body| body.messages);
        let Some(mut messages) = read.messages.or(body) else { return Reading::Unknown("no messages".to_owned()) };
        let choices = read.choices.or(read.response.and_then(|response| response.choices));
        messages.extend(choices.into_iter().flatten().next().and_then(|choice| choice.message));
        let session = read.conversation_id.or(read.session_id).or(read.thread_id).unwrap_or_default();
        self.conversation(&messages, &session, time::from_raw(read.timestamp.or(read.created)), out);
        Reading::Used
    }

    fn finish(&mut self, out: &mut Output) {
        self.lines.finish(out);
        while let Some(run) = self.held.pop_front() {
            self.give(run, out);
        }
    }
}
