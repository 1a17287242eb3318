//! How much of an agent's context the lists of tools take: pml's own next to those of all servers whose tools it knows.

use serde_json::{Value, json};

use super::Finding;
use crate::cli::remote::Remote;

/// Bytes of JSON per token, roughly.
const BYTES_PER_TOKEN: usize = 4;

/// Compares `tools/list` of a running server with the definitions of all tools.
pub(super) fn check(remote: &Remote) -> Finding {
    match measure(remote) {
        Ok((own, 0, _)) => Finding::Note(format!("tools/list of pml is about {own} tokens; no other tools are known")),
        Ok((own, tools, all)) => {
            Finding::Good(format!("tools/list of pml is about {own} tokens; the {tools} tools it knows are about {all} tokens"))
        }
        Err(_) => Finding::Note("no server to ask".to_owned()),
    }
}

/// Tokens of pml's list; the number of other tools and the tokens of their definitions.
fn measure(remote: &Remote) -> anyhow::Result<(usize, usize, usize)> {
    let listed = remote.ask("/message", &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))?;
    let own = listed["result"]["tools"].to_string().len() / BYTES_PER_TOKEN;
    let (mut count, mut bytes) = (0, 0);
    let mut after = Value::Null;
    loop {
        let path =
            after.as_str().map_or("/v1/tools?limit=1000".to_owned(), |after| format!("/v1/tools?limit=1000&after={after}"));
        let page = remote.get(&path)?;
        for tool in
            page["tools"].as_array().into_iter().flatten().filter(|tool| tool["stub"] == false && tool["removed"] == false)
        {
            let definition =
                json!({"name": tool["name"], "description": tool["description"], "inputSchema": tool["input_schema"]});
            count += 1;
            bytes += definition.to_string().len();
        }
        after = page["next"].clone();
        if after.is_null() {
            return Ok((own, count, bytes / BYTES_PER_TOKEN));
        }
    }
}
