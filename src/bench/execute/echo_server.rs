//! An MCP server with one tool, which answers after the milliseconds that it is given. Only what a client needs.

use std::io::{BufRead, Write};
use std::time::Duration;

use serde_json::{Value, json};

/// Serves on standard input and output until the input ends.
pub fn serve() -> anyhow::Result<()> {
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let Some(id) = request.get("id").cloned() else { continue };
        let wait = Duration::from_millis(request["params"]["arguments"]["ms"].as_u64().unwrap_or(0));
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result(&request)});
        if wait.is_zero() {
            send(&answer)?;
        } else {
            // Calls that take time are answered at the same time.
            std::thread::spawn(move || {
                std::thread::sleep(wait);
                send(&answer)
            });
        }
    }
    Ok(())
}

fn send(answer: &Value) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{answer}")?;
    out.flush()
}

fn result(request: &Value) -> Value {
    match request["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": request["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "echo", "version": "1"},
        }),
        Some("tools/list") => json!({"tools": [{
            "name": "echo", "description": "Answer after some milliseconds", "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "properties": {"ms": {"type": "integer"}, "text": {"type": "string"}}},
        }]}),
        _ => json!({"content": [{"type": "text", "text": "done"}]}),
    }
}
