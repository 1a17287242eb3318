//! Runs over NATS: the service answers where the servers run, and approving has a subject of its own.

use std::time::Duration;

use serde_json::{Value, json};

use crate::nats_serve::eventually_async;
use crate::nats_server::NatsServer;
use crate::server::Server;
use crate::upstreams::WithServers;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workflows_are_run_approved_and_shown_over_nats() {
    let nats = NatsServer::start();
    let url = nats.url();
    let arguments = ["--nats", &url, "--roles", "upstream,execution,trace,graph-sync"];
    let Some(pml) = WithServers::serving(&arguments, &[("fake", &[])], &[]) else { return };
    let _waiting = Server::serving(&["--nats", &url, "--roles", "upstream,query"], &[]);
    tokio::task::block_in_place(|| pml.server("fake", &["ready"]));
    let client = async_nats::ConnectOptions::new().request_timeout(Some(Duration::from_mins(1))).connect(&url).await.unwrap();
    let ask = async |request: &str, asked: Value| {
        let answer = client.request(format!("pml.default.run.{request}"), asked.to_string().into()).await.ok()?;
        Some(serde_json::from_slice::<Value>(&answer.payload).map_err(|_| format!("{:?}", answer.headers)))
    };
    let tasks = json!([
        {"id": "a", "tool": "fake:upper", "arguments": {"text": "x"}},
        {"id": "b", "tool": "fake:echo", "arguments": {"text": "$OUTPUT[a].text"}},
    ]);
    let run = eventually_async(async || ask("execute", json!({"workflow": {"tasks": tasks}})).await).await.unwrap();
    assert_eq!((&run["status"], &run["tasks"][1]["result"]), (&json!("succeeded"), &json!("X")), "{run}");
    let shown = ask("show", json!({"run": run["run"]})).await.unwrap().unwrap();
    assert_eq!(shown, run);
    let piece = ask("show", json!({"run": run["run"], "task": "b"})).await.unwrap().unwrap();
    assert_eq!(piece, json!({"text": "\"X\"", "next": null, "total": 3}));
    // A result that is too long for a message comes in pieces.
    let length = client.server_info().max_payload / 2 + 1;
    let long = json!({"tasks": [{"id": "l", "tool": "fake:echo", "arguments": {"text": "y".repeat(length)}}]});
    let run = ask("execute", json!({"workflow": long})).await.unwrap().unwrap();
    assert_eq!(run["tasks"][0]["result_bytes"], length + 2, "left out of the answer");
    let drop = json!({"workflow": {"tasks": [{"id": "d", "tool": "fake:drop"}]}});
    let waiting = ask("execute", drop.clone()).await.unwrap().unwrap();
    assert_eq!(waiting["status"], "approval_required", "{waiting}");
    let refused = async |request: &str, asked: Value, expected: &str| {
        let refused = ask(request, asked).await.unwrap().unwrap_err();
        assert!(refused.contains(expected), "{request}: {refused}");
    };
    refused("continue", json!({"token": waiting["token"]}), "run.approve").await;
    let mut beforehand = drop.clone();
    beforehand["approved"] = json!(true);
    refused("execute", beforehand, "run.approve").await;
    refused("approve", json!({"run": waiting["run"]}), "run.continue").await;
    refused("execute", json!({"workflow": {"tasks": []}}), "has no tasks").await;
    let done = ask("approve", json!({"token": waiting["token"]})).await.unwrap().unwrap();
    assert_eq!((&done["status"], &done["tasks"][0]["result"]), (&json!("succeeded"), &json!("dropped")), "{done}");
    let waiting = ask("execute", drop).await.unwrap().unwrap();
    let aborted = ask("abort", json!({"run": waiting["run"]})).await.unwrap().unwrap();
    assert_eq!(aborted["status"], "aborted");
    refused("approve", json!({"token": waiting["token"]}), "no run waits").await;
    let failing = json!({"workflow": {"tasks": [{"id": "f", "tool": "fake:fail"}]}});
    let failed = ask("execute", failing).await.unwrap().unwrap();
    let again = ask("continue", json!({"run": failed["run"]})).await.unwrap().unwrap();
    assert_eq!(again["status"], "failed", "{again}");
}
