//! The content of a message: a string, or blocks of text, calls and results, as Anthropic and OpenAI write them.

use std::borrow::Cow;

use pml_core::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::conversation::{Answer, Call, Conversation, Output};
use crate::outcome::{Outcome, result_text};
use crate::{json, tool};

/// One block. Members of other kinds of blocks are ignored.
#[derive(Deserialize)]
pub(crate) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_use_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    is_error: Option<bool>,
}

/// The content of a message, read.
pub(crate) enum Content<'a> {
    Text(Cow<'a, str>),
    Blocks(Vec<Block<'a>>),
}

impl<'a> Content<'a> {
    pub(crate) fn read(raw: Option<&'a RawValue>) -> Option<Self> {
        let raw = raw.filter(|raw| !json::is_null(raw))?;
        if json::is_string(raw) {
            return Some(Self::Text(json::text(raw)));
        }
        serde_json::from_str(raw.get()).ok().map(Self::Blocks)
    }

    /// The texts of all blocks.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Blocks(blocks) => {
                let texts = blocks.iter().filter_map(|block| block.text.filter(|raw| json::is_string(raw)).map(json::text));
                Cow::Owned(texts.collect::<Vec<_>>().join("\n"))
            }
        }
    }

    /// Adds the calls among the blocks of an agent's message.
    pub(crate) fn add_calls(&self, conversation: &mut Conversation, time: Option<Timestamp>, out: &mut Output) {
        let Self::Blocks(blocks) = self else { return };
        for block in blocks {
            let kind = block.kind.as_deref().unwrap_or_default();
            let (true, Some(name)) = (matches!(kind, "tool_use" | "server_tool_use" | "mcp_tool_use"), &block.name) else {
                continue;
            };
            let arguments = block.input.map(RawValue::get);
            let Some(tool) = tool::named(conversation.agent(), name, arguments, conversation.redactor()) else { continue };
            conversation.call(Call { id: block.id.as_deref().unwrap_or_default(), tool, arguments, time }, out);
        }
    }

    /// Adds the results among the blocks. Returns whether there were any.
    pub(crate) fn add_answers(&self, conversation: &mut Conversation, time: Option<Timestamp>) -> bool {
        let Self::Blocks(blocks) = self else { return false };
        let mut any = false;
        for block in blocks.iter().filter(|block| block.kind.as_deref() == Some("tool_result")) {
            let Some(call) = block.tool_use_id.as_deref() else { continue };
            let text = block.content.map(result_text).unwrap_or_default();
            let outcome = Outcome::flagged(block.is_error.unwrap_or(false), &text);
            conversation.answer(Answer { call, text: &text, outcome, time });
            any = true;
        }
        any
    }
}
