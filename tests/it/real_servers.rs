//! MCP servers that other people wrote, from npm and from the Python index, driven end to end: found, run as a DAG across servers, learnt,
//! run again by name and by intent.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::outside::installed;
use crate::server::{Server, eventually};

/// The entry of a server from npm.
fn node(node: &Path, package: &str, arguments: &[&str]) -> Value {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside/servers/node_modules/@modelcontextprotocol");
    let program = modules.join(package).join("dist/index.js");
    let arguments: Vec<&str> = [program.to_str().unwrap()].into_iter().chain(arguments.iter().copied()).collect();
    json!({"command": node, "args": arguments})
}

fn ready(pml: &Server, name: &str) -> usize {
    eventually(&format!("{name} to be ready"), || {
        let servers = pml.ask("/v1/servers")["servers"].as_array().unwrap().clone();
        let server = servers.into_iter().find(|server| server["server"] == name).unwrap();
        (server["state"] == "ready").then(|| server["tools"].as_array().unwrap().len())
    })
}

#[test]
fn four_real_servers_are_found_run_as_one_workflow_and_learnt_from() {
    let (Some(node_program), Some(python)) = (installed("PML_TEST_NODE"), installed("PML_TEST_PYTHON")) else { return };
    let home = TempDir::new().unwrap();
    let files = home.path().join("files");
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("notes.txt"), "meet at noon").unwrap();
    let path = files.join("notes.txt").to_str().unwrap().to_owned();
    let mut memory = node(&node_program, "server-memory", &[]);
    memory["env"] = json!({"MEMORY_FILE_PATH": home.path().join("memory.jsonl")});
    let servers = json!({"mcpServers": {
        "filesystem": node(&node_program, "server-filesystem", &[files.to_str().unwrap()]),
        "memory": memory,
        "everything": node(&node_program, "server-everything", &[]),
        "time": {"command": python, "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"]},
    }});
    let file = home.path().join("servers.json");
    std::fs::write(&file, servers.to_string()).unwrap();
    let pml = Server::with(&[("UPSTREAM__FILE", file.to_str().unwrap()), ("EXECUTE__APPROVAL", "never")]);
    for (name, tools_min) in [("filesystem", 8), ("memory", 8), ("everything", 5), ("time", 2)] {
        assert!(ready(&pml, name) >= tools_min, "{name}");
    }
    eventually("the tools to be found", || {
        let found = pml.question("/v1/discover", &json!({"intent": "what time is it in Berlin", "limit": 5})).json();
        let ids: Vec<&str> = found["results"].as_array()?.iter().filter_map(|result| result["id"].as_str()).collect();
        ids.contains(&"time:get_current_time").then_some(())
    });
    let workflow = json!({"tasks": [
        {"id": "read", "tool": "filesystem:read_text_file", "arguments": {"path": path}},
        {"id": "time", "tool": "time:get_current_time", "arguments": {"timezone": "UTC"}},
        {"id": "keep", "tool": "memory:create_entities", "arguments": {"entities": [
            {"name": "note", "entityType": "note", "observations": ["$OUTPUT[read].content", "read at $OUTPUT[time].datetime"]},
        ]}},
    ]});
    let intent = "remember what my notes say";
    let run = pml.question("/v1/execute", &json!({"workflow": workflow, "intent": intent})).json();
    assert_eq!(run["status"], "succeeded", "{run}");
    assert!(run["tasks"][2]["result"].to_string().contains("meet at noon"), "{run}");
    let trace = pml.closed_trace(run["run"].as_str().unwrap());
    assert_eq!(trace["steps"].as_array().unwrap().len(), 3, "{trace}");
    let capability = eventually("the capability", || {
        let listed = pml.ask("/v1/capabilities")["capabilities"].as_array().unwrap().clone();
        listed.into_iter().find(|capability| capability["intents"] == json!([intent]))
    });
    assert_eq!(capability["flow"].as_array().unwrap().len(), 2, "{capability}");
    let note = json!([{"name": "again", "entityType": "note", "observations": ["twice"]}]);
    let again =
        json!({"capability": capability["capability"], "arguments": {"path": path, "timezone": "UTC", "entities": note}});
    let again = pml.question("/v1/execute", &again).json();
    assert_eq!(again["status"], "succeeded", "{again}");
    eventually("the capability to have run twice", || {
        let listed = pml.ask("/v1/capabilities")["capabilities"].as_array().unwrap().clone();
        listed.into_iter().find(|known| known["capability"] == capability["capability"] && known["usage_count"] == 2)
    });
    run_by_intent(&pml, intent, &json!({"path": path, "timezone": "UTC", "entities": note}));
}

/// The procedure once more, asked for by its intent alone.
fn run_by_intent(pml: &Server, intent: &str, arguments: &Value) {
    let suggested = eventually("a sure plan", || {
        let suggested = pml.question("/v1/suggest", &json!({"intent": intent})).json();
        (suggested["sure"] == true).then_some(suggested)
    });
    assert_eq!(suggested["plan"]["tasks"].as_array().unwrap().len(), 3, "{suggested}");
    let incomplete = pml.question("/v1/execute", &json!({"intent": intent})).json();
    assert_eq!(incomplete["status"], "arguments_required", "{incomplete}");
    let run = pml.question("/v1/execute", &json!({"intent": intent, "arguments": arguments})).json();
    assert_eq!(run["status"], "succeeded", "{run}");
    let tools: Vec<&str> = run["tasks"].as_array().unwrap().iter().map(|task| task["tool"].as_str().unwrap()).collect();
    for tool in ["filesystem:read_text_file", "time:get_current_time", "memory:create_entities"] {
        assert!(tools.contains(&tool), "{run}");
    }
}
