//! Sessions of Claude Code: `~/.claude/projects/*/*.jsonl`. Each line is a message or a note of the program. A request is a message of
//! the user with text, not of a sub-agent (`isSidechain`) and not written by the program (`isMeta`, `isCompactSummary`).

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::content::Content;
use crate::conversation::{Conversation, Output, session_id};
use crate::reader::{PieceReader, Reading};
use crate::run::Options;
use crate::time;

pub(crate) const AGENT: &str = "claude-code";
/// How the program marks a message as the user's interruption.
const INTERRUPTED: &str = "[Request interrupted by user";
/// Lines that say nothing about requests and calls.
const NOTES: [&str; 17] = [
    "summary",
    "system",
    "progress",
    "file-history-snapshot",
    "queue-operation",
    "attachment",
    "custom-title",
    "ai-title",
    "agent-name",
    "agent-color",
    "agent-setting",
    "last-prompt",
    "tag",
    "mode",
    "permission-mode",
    "pr-link",
    "content-replacement",
];

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uuid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "sessionId")]
    session: Option<Cow<'a, str>>,
    #[serde(borrow)]
    cwd: Option<Cow<'a, str>>,
    #[serde(rename = "isSidechain", default)]
    is_sidechain: bool,
    #[serde(rename = "isMeta", default)]
    is_meta: bool,
    #[serde(rename = "isCompactSummary", default)]
    is_compact_summary: bool,
    #[serde(borrow)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

pub(crate) struct ClaudeCode {
    conversation: Conversation,
}

impl ClaudeCode {
    pub(crate) fn new(options: Arc<Options>) -> Self {
        Self { conversation: Conversation::new(AGENT, options) }
    }

    /// Notes where the line belongs. A file may hold several sessions: what is open belongs to the one before.
    fn place(&mut self, line: &Line<'_>, out: &mut Output) {
        let is_new = |session: &&str| self.conversation.session.as_ref().is_none_or(|known| known.as_str() != *session);
        if let Some(session) = line.session.as_deref().filter(is_new) {
            let session = session_id(session, self.conversation.redactor());
            if self.conversation.session != session {
                self.conversation.end(None, out);
                self.conversation.session = session;
            }
        }
        if let Some(cwd) = line.cwd.as_deref() {
            self.conversation.set_project(cwd);
        }
    }
}

impl PieceReader for ClaudeCode {
    fn read(&mut self, piece: &[u8], out: &mut Output) -> Reading {
        let Ok(line) = serde_json::from_slice::<Line<'_>>(piece) else { return Reading::Damaged };
        let kind = line.kind.as_deref().unwrap_or_default();
        if NOTES.contains(&kind) || line.is_sidechain || line.is_meta || line.is_compact_summary {
            return Reading::Ignored;
        }
        if !matches!(kind, "user" | "assistant") {
            return Reading::Unknown(kind.to_owned());
        }
        let Some(content) = Content::read(line.message.as_ref().and_then(|message| message.content)) else {
            return Reading::Damaged;
        };
        self.place(&line, out);
        let time = line.timestamp.as_deref().and_then(time::parse);
        if kind == "assistant" {
            content.add_calls(&mut self.conversation, time, out);
            return Reading::Used;
        }
        let has_answers = content.add_answers(&mut self.conversation, time);
        let text = content.text();
        if text.starts_with(INTERRUPTED) {
            self.conversation.interrupt(out);
        } else if !has_answers {
            self.conversation.request(line.uuid.as_deref(), &text, time, out);
        }
        Reading::Used
    }

    fn finish(&mut self, out: &mut Output) {
        self.conversation.finish(out);
    }
}
