//! Code mode through the official clients of MCP: a program is handed in, learnt, found by another intent, and run with other arguments.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::mcp_clients::run;
use crate::outside::installed;
use crate::server::eventually;
use crate::upstreams::WithServers;

fn here(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn program(left: &str) -> Value {
    let code = format!(
        "const {{ text }} = await tools.fake.upper({{ text: '{left}' }});\nreturn await tools.fake.join({{ left: text, right: '!' }});"
    );
    json!({"code": code, "intent": "shout a word"})
}

/// Hands in programs and runs what was learnt, with the client that `command` starts.
fn learn_find_and_run(command: impl Fn() -> Command) {
    let Some(pml) = WithServers::start(&[("fake", &[])], &[("TEMPLATES__PATH", "")]) else { return };
    pml.server("fake", &["ready"]);
    let target = json!([{"url": format!("{}/mcp", pml.pml.url()), "mode": "auto"}]);
    let visit = |calls: Value| {
        let report = run(command(), &json!({"targets": target, "calls": calls}));
        report["seen"][0]["answers"].as_array().unwrap().iter().map(|answer| answer["structured"].clone()).collect::<Vec<_>>()
    };
    let ran = visit(json!([["pml_execute", program("ab")], ["pml_execute", program("cd")]]));
    assert_eq!(
        (&ran[0]["status"], &ran[0]["result"], &ran[1]["result"]),
        (&json!("succeeded"), &json!("AB!"), &json!("CD!")),
        "{ran:?}"
    );
    let asked = json!({"intent": "write a name in capital letters with an exclamation mark", "filter": {"type": "capability"}});
    let found = eventually("the capability to be found", || {
        let answer = visit(json!([["pml_discover", asked]])).remove(0);
        let first = answer["results"][0].clone();
        (first["usage_count"] == 2).then_some(first)
    });
    let snippet = found["code_snippet"].as_str().unwrap();
    assert!(snippet.contains("await tools.fake.upper({ text: args.text })"), "{found}");
    assert_eq!((found["success_rate"].as_f64(), &found["id"]), (Some(1.0), &ran[1]["capability"]), "{found}");
    assert_eq!(found["input_schema"]["properties"]["text"]["examples"], json!(["ab", "cd"]));
    let again = visit(json!([["pml_execute", {"capability": found["id"], "arguments": {"text": "other words"}}]]));
    assert_eq!(again[0]["result"], "OTHER WORDS!", "{again:?}");
}

#[test]
fn a_program_of_the_official_python_client_is_learnt_found_and_run_again() {
    let Some(python) = installed("PML_TEST_PYTHON") else { return };
    learn_find_and_run(|| {
        let mut command = Command::new(&python);
        command.arg(here("tests/mcp/client.py"));
        command
    });
}

#[test]
fn a_program_of_the_official_typescript_client_is_learnt_found_and_run_again() {
    let Some(node) = installed("PML_TEST_NODE") else { return };
    learn_find_and_run(|| {
        let mut command = Command::new(&node);
        command.arg(here("tests/mcp/client.mjs")).arg("@modelcontextprotocol/sdk");
        command
    });
}
