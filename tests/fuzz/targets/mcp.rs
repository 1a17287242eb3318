//! Messages of MCP: what clients send to pml, and what servers answer.

use pml::clock::Clock;
use pml::config::Config;
use pml::core::intake::Limits;
use pml::upstream::fuzzing;
use pml_fuzzer::{Form, Target};

use super::process::Process;
use super::{JSON_TREE_MULTIPLE, target};
use crate::samples;

const WORDS: &[&str] = &[
    "jsonrpc",
    "2.0",
    "id",
    "method",
    "params",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "initialize",
    "ping",
    "cursor",
    "name",
    "arguments",
    "_meta",
    "uri",
    "pml_discover",
    "pml_suggest",
    "pml_execute",
    "pml_continue",
    "pml_feedback",
    "pml://tool/fs:read",
    "intent",
    "limit",
    "workflow",
    "code",
    "result",
    "error",
    "content",
    "structuredContent",
    "isError",
    "inputSchema",
    "$ref",
    "#/definitions/a",
    "\u{0}",
];

pub(super) fn messages() -> Target {
    let process = Process::start();
    let mut target =
        target("mcp", Form::Json, vec![br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_vec()], WORDS, move |input| {
            match process.system.block_on(process.runtime.answer_mcp(input)) {
                None => Ok(()),
                Some(answer) if answer.get("result").is_some() => Ok(()),
                Some(answer) => Err(answer["error"]["message"].to_string()),
            }
        });
    // The actors of the process work at the same time: they embed, index and fold.
    (target.memory_fixed, target.memory_multiple) = (64 << 20, JSON_TREE_MULTIPLE);
    target
}

pub(super) fn server_messages() -> Target {
    let ping = br#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_vec();
    let mut target = target("upstream", Form::Json, vec![ping], WORDS, fuzzing::read_server_message);
    target.memory_multiple = JSON_TREE_MULTIPLE;
    target
}

pub(super) fn tool_list() -> Target {
    let (state, clock) = (samples::state(), Clock::system());
    let limits = Limits::from(&Config::load(None, []).unwrap());
    let mut target = target("tools", Form::Json, vec![b"[]".to_vec()], WORDS, move |input| {
        fuzzing::compare_tools(&state, input, &limits, &clock).map(drop)
    });
    (target.memory_fixed, target.memory_multiple) = (256 << 10, JSON_TREE_MULTIPLE);
    target
}
