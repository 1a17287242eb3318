//! Rollouts of Codex: `~/.codex/sessions/Y/M/D/rollout-*.jsonl`, lines of `{timestamp, type, payload}`. Older files have the payloads as
//! lines of their own. Outputs are texts; the exit code is in them where there is one.

use std::borrow::Cow;
use std::sync::Arc;

use pml_core::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::content::Content;
use crate::conversation::{Answer, Call, Conversation, Output, session_id};
use crate::outcome::{Outcome, result_text};
use crate::reader::{PieceReader, Reading};
use crate::run::Options;
use crate::{json, time, tool};

pub(crate) const AGENT: &str = "codex";

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    role: Option<Cow<'a, str>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    /// The arguments of a function call: JSON in a string.
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    /// The input of a custom tool: free text.
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    /// The action of the built-in shell and of the search.
    #[serde(borrow)]
    action: Option<&'a RawValue>,
    #[serde(borrow)]
    call_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    #[serde(borrow)]
    cwd: Option<Cow<'a, str>>,
}

pub(crate) struct Codex {
    conversation: Conversation,
}

impl Codex {
    pub(crate) fn new(options: Arc<Options>) -> Self {
        Self { conversation: Conversation::new(AGENT, options) }
    }

    fn item(&mut self, item: &Item<'_>, time: Option<Timestamp>, out: &mut Output) -> Reading {
        match item.kind.as_deref().unwrap_or_default() {
            "message" if item.role.as_deref() == Some("user") => {
                let Some(content) = Content::read(item.content) else { return Reading::Damaged };
                self.conversation.request(None, &content.text(), time, out);
            }
            "function_call" | "custom_tool_call" | "local_shell_call" | "web_search_call" => self.call(item, time, out),
            "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => self.answer(item, time),
            "message" | "reasoning" | "ghost_snapshot" | "compaction" | "compaction_summary" => return Reading::Ignored,
            other => return Reading::Unknown(other.to_owned()),
        }
        Reading::Used
    }

    fn call(&mut self, item: &Item<'_>, time: Option<Timestamp>, out: &mut Output) {
        let kind = item.kind.as_deref().unwrap_or_default();
        let id = item.call_id.as_deref().or(item.id.as_deref()).unwrap_or_default();
        let given = item.arguments.map(json::text);
        let arguments = match &given {
            Some(text) if json::is_structure(text) => Some(text.as_ref()),
            _ => item.input.or(item.action).map(RawValue::get),
        };
        let name = item.name.as_deref().unwrap_or(if kind == "web_search_call" { "web_search" } else { "local_shell" });
        let Some(tool) = tool::named(AGENT, name, arguments, self.conversation.redactor()) else { return };
        self.conversation.call(Call { id, tool, arguments, time }, out);
        if kind == "web_search_call" {
            // Its results are not in the log.
            self.conversation.answer(Answer { call: id, text: "", outcome: Outcome::of_text(""), time: None });
        }
    }

    fn answer(&mut self, item: &Item<'_>, time: Option<Timestamp>) {
        #[derive(Deserialize)]
        struct Output<'a> {
            #[serde(borrow)]
            content: Option<Cow<'a, str>>,
            success: Option<bool>,
        }
        let (Some(call), Some(raw)) = (item.call_id.as_deref(), item.output) else { return };
        if let Ok(Output { content: Some(text), success: Some(success) }) = serde_json::from_str(raw.get()) {
            let outcome = Outcome::flagged(!success, &text);
            self.conversation.answer(Answer { call, text: &text, outcome, time });
            return;
        }
        let text = result_text(raw);
        self.conversation.answer(Answer { call, text: &text, outcome: Outcome::of_text(&text), time });
    }

    fn meta(&mut self, meta: &Item<'_>) {
        if let Some(id) = meta.id.as_deref() {
            self.conversation.session = session_id(id, self.conversation.redactor());
        }
        if let Some(cwd) = meta.cwd.as_deref() {
            self.conversation.set_project(cwd);
        }
    }
}

impl PieceReader for Codex {
    fn read(&mut self, piece: &[u8], out: &mut Output) -> Reading {
        let Ok(line) = serde_json::from_slice::<Line<'_>>(piece) else { return Reading::Damaged };
        let time = line.timestamp.as_deref().and_then(time::parse);
        let kind = line.kind.as_deref().unwrap_or_default();
        if matches!(kind, "turn_context" | "compacted") {
            return Reading::Ignored;
        }
        let payload = line.payload.map_or(piece, |payload| payload.get().as_bytes());
        let Ok(item) = serde_json::from_slice::<Item<'_>>(payload) else { return Reading::Damaged };
        match (kind, item.kind.as_deref()) {
            ("session_meta", _) => self.meta(&item),
            // The first line of older files.
            ("", None) if item.id.is_some() => self.meta(&item),
            ("event_msg", Some("turn_aborted")) => self.conversation.interrupt(out),
            ("event_msg", _) => return Reading::Ignored,
            ("response_item", _) => return self.item(&item, time, out),
            _ if line.payload.is_none() => return self.item(&item, time, out),
            (other, _) => return Reading::Unknown(other.to_owned()),
        }
        Reading::Used
    }

    fn finish(&mut self, out: &mut Output) {
        self.conversation.finish(out);
    }
}
