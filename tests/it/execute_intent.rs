//! Runs beyond a written workflow: by intent alone, of capabilities that call capabilities, with calls made before their turn, and who may
//! approve them.

use pml::gateway::http::{hash_key, new_key};
use serde_json::{Value, json};

use crate::execute::{start_with as start, three_steps};
use crate::mcp::call;
use crate::run::event;
use crate::server::{Answer, agent, eventually};
use crate::upstreams::WithServers;

const INTENT: &str = "shout two words together";

/// Runs the three steps for the intent and waits until a plan for it is sure.
fn taught(pml: &WithServers) {
    for _ in 0..3 {
        let run = pml.run(&json!({"workflow": three_steps(), "intent": INTENT}));
        assert_eq!(run["status"], "succeeded", "{run}");
        pml.pml.closed_trace(run["run"].as_str().unwrap());
    }
    eventually("a sure plan", || {
        let plan = pml.pml.question("/v1/suggest", &json!({"intent": INTENT})).json();
        (plan["sure"] == true).then_some(())
    });
}

#[test]
fn an_intent_is_run_if_its_plan_is_sure_and_has_its_arguments() {
    let Some(pml) = start(&[]) else { return };
    taught(&pml);
    let incomplete = pml.run(&json!({"intent": INTENT}));
    assert_eq!((&incomplete["status"], &incomplete["plan"]["sure"]), (&json!("arguments_required"), &json!(true)));
    assert!(incomplete.get("run").is_none(), "nothing was started: {incomplete}");
    let missing = incomplete["missing"].as_array().unwrap();
    assert!(missing.iter().any(|missing| missing["arguments"] == json!(["text"])), "{incomplete}");
    let joining = incomplete["tasks"].as_array().unwrap().iter().find(|task| task["tool"] == "fake:join").unwrap();
    let feeding = joining["depends_on"].as_array().unwrap();
    let text = |at: usize| format!("$OUTPUT[{}].text", feeding[at % feeding.len()].as_str().unwrap());
    let arguments = json!({"text": "x", "fake:join": {"left": text(0), "right": text(1)}});
    let run = pml.run(&json!({"intent": INTENT, "arguments": arguments}));
    assert_eq!((&run["status"], &run["intent"]), (&json!("succeeded"), &json!(INTENT)), "{run}");
    let joined = run["tasks"].as_array().unwrap().iter().find(|task| task["tool"] == "fake:join").unwrap();
    assert_eq!(joined["result"], "XX", "{run}");
    let trace = pml.pml.closed_trace(run["run"].as_str().unwrap());
    assert_eq!(trace["intent"], INTENT);
    // The same over MCP, and on the command line.
    let told = call(&pml.pml, "pml_execute", &json!({"intent": INTENT, "arguments": arguments}))["structuredContent"].clone();
    assert_eq!(told["status"], "succeeded", "{told}");
    let told = call(&pml.pml, "pml_execute", &json!({"intent": INTENT}))["structuredContent"].clone();
    assert_eq!(told["status"], "arguments_required", "{told}");
    let command = |more: &[&str]| {
        let output =
            crate::server::pml().env("PML_URL", pml.pml.url()).args(["execute", "--intent", INTENT]).args(more).output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, shown) = command(&["--arguments", &arguments.to_string()]);
    assert!(code == Some(0) && shown.contains("\"XX\""), "{shown}");
    let (code, shown) = command(&[]);
    assert!(code == Some(1) && shown.contains("needs text: give them with --arguments"), "{shown}");
    // What was suggested can be judged.
    let verdict = json!({"suggestion": run["plan"]["suggestion"], "verdict": "accepted"});
    assert_eq!(call(&pml.pml, "pml_feedback", &verdict)["isError"], false);
}

#[test]
fn a_plan_that_is_not_sure_waits_for_approval_and_nothing_fits_nothing() {
    let Some(pml) = start(&[]) else { return };
    let (intent, arguments) = ("prepare the quarterly accounts", json!({"text": "x", "ms": 1, "left": "<", "right": ">"}));
    let waiting = eventually("a plan", || {
        let answer = pml.pml.question("/v1/execute", &json!({"intent": intent, "arguments": arguments}));
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!((&waiting["status"], &waiting["plan"]["sure"]), (&json!("approval_required"), &json!(false)), "{waiting}");
    let tasks = waiting["tasks"].as_array().unwrap().len();
    assert_eq!(waiting["approve"].as_array().unwrap().len(), tasks, "all of a guess: {waiting}");
    let done = pml.pml.question("/v1/execute/continue", &json!({"token": waiting["token"]})).json();
    assert!(done["status"] == "succeeded" || done["status"] == "failed", "it ran: {done}");
    let blank = pml.pml.question("/v1/execute", &json!({"intent": "  "}));
    assert!(blank.status == 400 && blank.text.contains("intent: is blank"), "{blank:?}");
    let neither = pml.pml.question("/v1/execute", &json!({}));
    assert!(neither.status == 400 && neither.text.contains("or an intent alone"), "{neither:?}");
}

#[test]
fn a_capability_that_calls_a_capability_is_run_with_the_calls_of_both() {
    let Some(pml) = start(&[]) else { return };
    let declare = |name: &str, nodes: Value, edges: Value| {
        let structure = json!({"nodes": nodes, "edges": edges});
        pml.pml.accept(&event("capability.declared", json!({"name": name, "description": name, "structure": structure})));
        let id = eventually(name, || {
            let listed = pml.pml.ask("/v1/capabilities")["capabilities"].as_array().unwrap().clone();
            listed.into_iter().find(|capability| capability["name"] == name)
        });
        format!("capability:{}", id["capability"].as_str().unwrap())
    };
    let edge = |from: &str, to: &str| json!({"from": from, "to": to, "kind": "provides"});
    let upper = [json!({"id": "a", "tool": "fake:echo"}), json!({"id": "b", "tool": "fake:upper"})];
    let inner = declare("echo loudly", json!(upper), json!([edge("a", "b")]));
    let nodes = json!([{"id": "a", "tool": inner}, {"id": "b", "tool": "fake:join"}]);
    declare("echo loudly and join", nodes, json!([edge("a", "b")]));
    let task = |run: &Value, tool: &str| -> Value {
        run["tasks"].as_array().unwrap().iter().find(|task| task["tool"] == tool).unwrap().clone()
    };
    let arguments = json!({"fake:echo": {"text": "hi"}, "fake:upper": {"text": "lo"}, "left": "<", "right": ">"});
    let run = pml.run(&json!({"capability": "echo loudly and join", "arguments": arguments}));
    assert_eq!(run["status"], "succeeded", "{run}");
    let (echo, upper, join) = (task(&run, "fake:echo"), task(&run, "fake:upper"), task(&run, "fake:join"));
    assert_eq!((&upper["depends_on"], &join["depends_on"]), (&json!([echo["id"]]), &json!([upper["id"]])), "{run}");
    assert!(echo["id"].as_str().unwrap().contains('.'), "{run}");
    assert_eq!(pml.pml.closed_trace(run["run"].as_str().unwrap())["steps"].as_array().unwrap().len(), 3);
    // The runs count for it, the failed one too, and nothing is learnt from the calls that it was replaced by.
    let counted = |name: &str, usage: u64, success_rate: f64| {
        eventually(name, || {
            let listed = pml.pml.ask("/v1/capabilities")["capabilities"].as_array().unwrap().clone();
            let is_it = |known: &Value| known["name"] == name && known["usage_count"] == usage;
            let found = listed.iter().find(|known| is_it(known))?.clone();
            assert_eq!((found["success_rate"].as_f64(), listed.len()), (Some(success_rate), 3), "{listed:?}");
            Some(())
        });
    };
    let nodes = json!([{"id": "a", "tool": "fake:fail"}, {"id": "b", "tool": "fake:echo"}]);
    declare("fail and echo", nodes, json!([edge("a", "b")]));
    counted("echo loudly and join", 1, 1.0);
    let failed = pml.run(&json!({"capability": "fail and echo", "arguments": {"text": "x"}}));
    assert_eq!((&failed["status"], &task(&failed, "fake:fail")["status"]), (&json!("failed"), &json!("failed")), "{failed}");
    counted("fail and echo", 1, 0.0);
}

/// Starts a run of these tasks and does not wait for it.
fn start_run(pml: &WithServers, tasks: &Value) -> Value {
    let answer = pml.pml.question("/v1/execute", &json!({"workflow": {"tasks": tasks}, "wait": false}));
    assert!(answer.status < 300, "{answer:?}");
    answer.json()["run"].clone()
}

/// Waits for the record of an early call that was dropped.
fn dropped(pml: &WithServers, step: &str) {
    eventually(step, || speculated(pml).contains(&(step.to_owned(), false)).then_some(()));
}

#[test]
fn early_calls_that_are_under_way_at_the_end_of_a_run_or_its_process_are_recorded() {
    let Some(mut pml) = start(&[("EXECUTE__SPECULATE_MS", "20000")]) else { return };
    let long = |id: &str, on: &[&str]| json!({"id": id, "tool": "fake:slow", "arguments": {"ms": 60_000}, "depends_on": on});
    let read = |id: &str| json!({"id": id, "tool": "fake:echo", "arguments": {"text": id}});
    // The turn of the early call has come, and it is waited for, when the run is aborted; that of the other has not.
    let run = start_run(&pml, &json!([read("a"), long("turn", &["a"]), long("later", &["turn"])]));
    eventually("the turn", || {
        let shown = pml.pml.ask(&format!("/v1/execute/{}", run.as_str().unwrap()));
        (shown["tasks"][1]["status"] == "running").then_some(())
    });
    pml.pml.question("/v1/execute/abort", &json!({ "run": run }));
    dropped(&pml, "turn");
    dropped(&pml, "later");
    // A run waits for approval when its process is told to stop, and when it is killed.
    let waiting = |step: &str| json!([long(step, &[]), {"id": "drop", "tool": "fake:drop", "depends_on": [step]}]);
    start_run(&pml, &waiting("stopped"));
    assert_eq!(pml.pml.terminate(), Some(0));
    // Without its journal nothing could be recorded later.
    std::fs::remove_dir_all(pml.pml.data().join("runs")).unwrap();
    pml.pml.restart();
    dropped(&pml, "stopped");
    let found = speculated(&pml).len();
    pml.server("fake", &["ready"]);
    start_run(&pml, &waiting("killed"));
    pml.pml.restart();
    dropped(&pml, "killed");
    assert_eq!(speculated(&pml).len(), found + 1, "each once: {:?}", speculated(&pml));
}

/// The records about calls that were made before their turn.
fn speculated(pml: &WithServers) -> Vec<(String, bool)> {
    let records = pml.pml.records().into_iter().filter(|record| record["type"] == "pml.step.speculated");
    records.map(|record| (record["data"]["step"].as_str().unwrap().to_owned(), record["data"]["used"] == true)).collect()
}

#[test]
fn reading_calls_are_made_before_their_turn_if_that_is_configured() {
    let Some(mut pml) = start(&[("EXECUTE__SPECULATE_MS", "20000")]) else { return };
    let slow = |id: &str, on: &[&str]| json!({"id": id, "tool": "fake:slow", "arguments": {"ms": 700}, "depends_on": on});
    let run = pml.run(&json!({"workflow": {"tasks": [slow("a", &[]), slow("b", &["a"]), slow("c", &["b"])]}}));
    let flags: Vec<bool> = run["tasks"].as_array().unwrap().iter().map(|task| task["speculated"] == true).collect();
    assert_eq!((&run["status"], flags), (&json!("succeeded"), vec![false, true, true]), "{run}");
    let trace = pml.pml.closed_trace(run["run"].as_str().unwrap());
    assert_eq!(trace["steps"].as_array().unwrap().len(), 3, "each step once: {trace}");
    let found = eventually("the records", || Some(speculated(&pml)).filter(|found| found.len() == 2));
    assert!(found.iter().all(|(_, used)| *used), "{found:?}");
    // What would be read before a failed task is dropped.
    let failing = json!({"tasks": [
        {"id": "fails", "tool": "fake:fail"},
        {"id": "read", "tool": "fake:echo", "arguments": {"text": "x"}, "depends_on": ["fails"]},
    ]});
    let run = pml.run(&json!({"workflow": failing}));
    assert_eq!((&run["status"], &run["tasks"][1]["status"]), (&json!("failed"), &json!("skipped")), "{run}");
    eventually("the dropped call", || speculated(&pml).contains(&("read".to_owned(), false)).then_some(()));
    // While a run waits for approval: what does not come after the call that may destroy something.
    let body = json!({"workflow": {"tasks": [
        {"id": "look", "tool": "fake:echo", "arguments": {"text": "all"}},
        {"id": "drop", "tool": "fake:drop", "depends_on": ["look"]},
        {"id": "check", "tool": "fake:upper", "arguments": {"text": "y"}, "depends_on": ["drop"]},
    ]}});
    let waiting = pml.run(&body);
    let done = pml.pml.question("/v1/execute/continue", &json!({"token": waiting["token"]})).json();
    let flags: Vec<bool> = done["tasks"].as_array().unwrap().iter().map(|task| task["speculated"] == true).collect();
    assert_eq!((&done["status"], flags), (&json!("succeeded"), vec![true, false, false]), "{done}");
    let refused = pml.run(&body);
    pml.pml.question("/v1/execute/abort", &json!({"run": refused["run"]}));
    eventually("the refused call", || speculated(&pml).contains(&("look".to_owned(), false)).then_some(()));
    // Off by default.
    let before = speculated(&pml).len();
    pml.pml.restart_with(&[("EXECUTE__SPECULATE_MS", "0")]);
    pml.server("fake", &["ready"]);
    let run = pml.run(&json!({"workflow": {"tasks": [slow("a", &[]), slow("b", &["a"])]}}));
    assert_eq!((&run["status"], speculated(&pml).len()), (&json!("succeeded"), before), "{run}");
}

#[test]
fn who_may_execute_need_not_be_who_may_approve() {
    let (agent_key, person_key) = (new_key(), new_key());
    let entry =
        |name: &str, key: &str, scopes: &str| format!("{{name = '{name}', hash = '{}', scopes = [{scopes}]}}", hash_key(key));
    let keys = [
        entry("agent", &agent_key, "'publish', 'query', 'execute'"),
        entry("person", &person_key, "'query', 'execute', 'approve'"),
    ];
    let keys = format!("[{}]", keys.join(", "));
    let Some(pml) = WithServers::start(&[("fake", &[])], &[("HTTP__KEYS", &keys)]) else { return };
    let send = |key: &str, path: &str, body: &Value| {
        let request = agent().post(format!("{}{path}", pml.pml.url())).header("authorization", format!("Bearer {key}"));
        Answer::read(request.header("content-type", "application/json").send(body.to_string())).unwrap()
    };
    let body = json!({"workflow": {"tasks": [{"id": "d", "tool": "fake:drop"}]}});
    let waiting = eventually("the server", || {
        let answer = send(&agent_key, "/v1/execute", &body);
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!(waiting["status"], "approval_required");
    let lacks = |answer: &Answer| answer.status == 403 && answer.text.contains("lacks the scope 'approve'");
    let mut beforehand = body;
    beforehand["approved"] = json!(true);
    assert!(lacks(&send(&agent_key, "/v1/execute", &beforehand)));
    let token = json!({"token": waiting["token"]});
    assert!(lacks(&send(&agent_key, "/v1/execute/continue", &token)));
    // Nor by publishing that the tool destroys nothing.
    for (source, data) in [
        ("agent", json!({"tool": "fake:drop", "description": "reads", "annotations": {"read_only": true}})),
        ("urn:pml:upstream", json!({"tool": "fake:drop", "description": "reads", "annotations": {"read_only": true}})),
    ] {
        let event = json!({"specversion": "1.0", "source": source, "type": "pml.tool.registered", "data": data});
        let refused = send(&agent_key, "/v1/events", &event);
        assert!(refused.status == 400 && refused.text.contains("pml"), "{refused:?}");
    }
    let removed = json!({"specversion": "1.0", "source": "a", "type": "pml.tool.removed", "data": {"tool": "fake:drop"}});
    assert_eq!(send(&agent_key, "/v1/events", &removed).status, 400);
    // Nor over MCP, with the token or around the run.
    let mcp = |key: &str, tool: &str, arguments: &Value| {
        let params = json!({"name": tool, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        send(key, "/message", &body).json()["result"].clone()
    };
    let told = |result: &Value| result["content"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(told(&mcp(&agent_key, "pml_continue", &token)), "the API key lacks the scope 'approve'");
    assert!(told(&mcp(&agent_key, "fake:drop", &json!({}))).contains("lacks the scope 'approve'"));
    assert_eq!(told(&mcp(&agent_key, "fake:echo", &json!({"text": "free"}))), "free");
    assert_eq!(told(&mcp(&person_key, "fake:drop", &json!({}))), "dropped");
    let done = send(&person_key, "/v1/execute/continue", &token).json();
    assert_eq!((&done["status"], &done["tasks"][0]["result"]), (&json!("succeeded"), &json!("dropped")), "{done}");
}
