//! Workflows run on MCP servers: order, data flow, failures, approval, resuming, and what the log keeps of them.

use serde_json::{Value, json};

use crate::server::{agent, eventually, pml};
use crate::upstreams::WithServers;

fn start() -> Option<WithServers> {
    start_with(&[])
}

/// A server with these settings whose tools are those of the fake MCP server.
pub(crate) fn start_with(settings: &[(&str, &str)]) -> Option<WithServers> {
    let pml = WithServers::start(&[("fake", &[])], settings)?;
    pml.server("fake", &["ready"]);
    Some(pml)
}

/// Three steps: two texts in capital letters, joined.
pub(crate) fn three_steps() -> Value {
    json!({"tasks": [
        {"id": "left", "tool": "fake:upper", "arguments": {"text": "ab"}},
        {"id": "right", "tool": "fake:upper", "arguments": {"text": "cd"}},
        {"id": "both", "tool": "fake:join", "arguments": {"left": "$OUTPUT[left].text", "right": "-$OUTPUT[right].text"}},
    ]})
}

fn statuses(run: &Value) -> Vec<&str> {
    run["tasks"].as_array().unwrap().iter().map(|task| task["status"].as_str().unwrap()).collect()
}

/// The events of one execution, as kinds with step ids.
fn events(pml: &WithServers, run: &str) -> Vec<String> {
    let of_run = |record: &&Value| record["data"]["execution"] == run;
    let name = |record: &Value| {
        let kind = record["type"].as_str().unwrap().strip_prefix("pml.").unwrap();
        format!("{kind} {}", record["data"]["step"].as_str().unwrap_or_default()).trim_end().to_owned()
    };
    pml.pml.records().iter().filter(of_run).map(name).collect()
}

#[test]
fn results_flow_between_tasks_and_the_procedure_is_learnt_and_run_again_by_name() {
    let Some(pml) = start() else { return };
    let run = pml.run(&json!({"workflow": three_steps(), "intent": "shout two words together"}));
    assert_eq!(run["status"], "succeeded", "{run}");
    assert_eq!(run["tasks"][2]["result"], "AB-CD");
    let id = run["run"].as_str().unwrap();
    let trace = pml.pml.closed_trace(id);
    assert_eq!((&trace["intent"], &trace["success"]), (&json!("shout two words together"), &json!(true)));
    let events = events(&pml, id);
    assert_eq!(events.first().map(String::as_str), Some("execution.started"));
    assert_eq!(events.iter().filter(|event| event.starts_with("step.finished")).count(), 3, "{events:?}");
    let capability = eventually("the capability", || {
        let listed = pml.pml.ask("/v1/capabilities")["capabilities"].as_array().unwrap().clone();
        listed.into_iter().find(|capability| capability["calls"].as_array().is_some_and(|calls| calls.len() == 3))
    });
    let name = capability["name"].as_str().unwrap();
    let missing = pml.pml.question("/v1/execute", &json!({"capability": name}));
    assert!(missing.status == 400 && missing.text.contains("arguments are missing"), "{missing:?}");
    let texts = json!({"text": "x", "fake:join": {"left": "$OUTPUT[t2].text", "right": "$OUTPUT[t3].text"}});
    let again = pml.run(&json!({"capability": name, "arguments": texts}));
    assert_eq!((&again["status"], &again["tasks"][0]["result"]), (&json!("succeeded"), &json!("XX")), "{again}");
}

#[test]
fn independent_tasks_run_at_the_same_time() {
    let Some(pml) = start() else { return };
    let task = |number: usize| json!({"id": format!("t{number}"), "tool": "fake:slow", "arguments": {"ms": 400}});
    let tasks: Vec<Value> = (0..6).map(task).collect();
    let run = pml.run(&json!({"workflow": {"tasks": tasks}}));
    assert_eq!(run["status"], "succeeded");
    let trace = pml.pml.closed_trace(run["run"].as_str().unwrap());
    let seconds = |name: &str| trace[name].as_str().unwrap().parse::<pml::core::time::Timestamp>().unwrap();
    let took = seconds("ended").millis_since(seconds("started"));
    assert!((400..2_000).contains(&took), "six tasks of 400 ms took {took} ms");
}

#[test]
fn a_failure_skips_what_depends_on_it_and_the_rest_can_be_replanned() {
    let Some(pml) = start() else { return };
    let first = json!({"tasks": [
        {"id": "a", "tool": "fake:echo", "arguments": {"text": "kept"}},
        {"id": "b", "tool": "fake:fail", "depends_on": ["a"]},
        {"id": "c", "tool": "fake:echo", "arguments": {"text": "$OUTPUT[b]"}},
        {"id": "d", "tool": "fake:upper", "arguments": {"text": "$OUTPUT[a]"}},
    ]});
    let run = pml.run(&json!({"workflow": first}));
    assert_eq!((run["status"].as_str(), statuses(&run)), (Some("failed"), vec!["succeeded", "failed", "skipped", "succeeded"]));
    let error = &run["tasks"][1]["error"];
    assert_eq!(error["kind"], "tool_error");
    assert!(error["message"].as_str().unwrap().contains("[redacted]"), "{error}");
    let id = run["run"].as_str().unwrap();
    assert_eq!(pml.pml.closed_trace(id)["success"], false);
    // Another plan for the rest, with the results that there are.
    let second = json!({"tasks": [
        {"id": "a", "tool": "fake:echo", "arguments": {"text": "kept"}},
        {"id": "b", "tool": "fake:join", "arguments": {"left": "$OUTPUT[a]", "right": "!"}},
    ]});
    let calls = |tool: &str| {
        let metrics = pml.pml.get("/metrics").text;
        let line = metrics
            .lines()
            .find(|line| line.contains(&format!("upstream_calls_total{{server=\"fake\",tool=\"{tool}\",outcome=\"ok\"")));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    let before = calls("echo");
    let replanned = pml.run(&json!({"workflow": second, "reuse": id}));
    assert_eq!(replanned["tasks"][1]["result"], "kept!", "{replanned}");
    assert_eq!(calls("echo"), before, "the finished task was not called again");
    let new = replanned["run"].as_str().unwrap();
    assert_eq!(pml.pml.closed_trace(new)["steps"].as_array().unwrap().len(), 2, "its trace is whole");
}

#[test]
fn a_read_only_call_is_repeated_and_errors_of_a_workflow_name_the_task() {
    let Some(pml) = start() else { return };
    let task = json!({"id": "t", "tool": "fake:flaky", "arguments": {"text": "at last"}, "retries": 3});
    let run = pml.run(&json!({"workflow": {"tasks": [task]}}));
    assert_eq!((&run["tasks"][0]["result"], &run["tasks"][0]["attempts"]), (&json!("at last"), &json!(3)), "{run}");
    let check = |tasks: Value, expected: &str| {
        let answer = pml.pml.question("/v1/execute", &json!({"workflow": {"tasks": tasks}}));
        assert!(answer.status == 400 && answer.text.contains(expected), "{expected}: {answer:?}");
    };
    check(json!([{"id": "a", "tool": "fake:echo", "depends_on": ["a"]}]), "a -> a");
    check(json!([{"id": "a", "tool": "fake:nothing"}]), "task 'a': no tool 'fake:nothing' is offered");
    let unresolved = json!({"tasks": [
        {"id": "a", "tool": "fake:echo", "arguments": {"text": "x"}},
        {"id": "b", "tool": "fake:echo", "arguments": {"text": "$OUTPUT[a].missing"}},
    ]});
    let run = pml.run(&json!({"workflow": unresolved}));
    assert_eq!(run["tasks"][1]["error"]["kind"], "unresolved", "{run}");
}

#[test]
fn a_destructive_call_waits_for_approval_also_across_a_restart() {
    let Some(mut pml) = start() else { return };
    let body = json!({"workflow": {"tasks": [
        {"id": "look", "tool": "fake:echo", "arguments": {"text": "all"}},
        {"id": "drop", "tool": "fake:drop", "depends_on": ["look"]},
    ]}, "intent": "delete everything"});
    let waiting = pml.run(&body);
    assert_eq!((&waiting["status"], &waiting["approve"]), (&json!("approval_required"), &json!(["drop"])), "{waiting}");
    assert_eq!(statuses(&waiting), ["waiting", "waiting"], "nothing has run");
    let (run, token) = (waiting["run"].as_str().unwrap().to_owned(), waiting["token"].as_str().unwrap().to_owned());
    assert!(events(&pml, &run).is_empty());
    pml.pml.restart();
    pml.server("fake", &["ready"]);
    let wrong = pml.pml.question("/v1/execute/continue", &json!({"token": "apr_0"}));
    assert_eq!(wrong.status, 404, "{wrong:?}");
    let done = pml.pml.question("/v1/execute/continue", &json!({"token": token})).json();
    assert_eq!((&done["status"], &done["run"]), (&json!("succeeded"), &json!(run)), "{done}");
    assert_eq!(done["tasks"][1]["result"], "dropped");
    assert_eq!(pml.pml.question("/v1/execute/continue", &json!({"token": token})).status, 404, "a token works once");
    let refused = pml.run(&body);
    let aborted = pml.pml.question("/v1/execute/abort", &json!({"run": refused["run"]})).json();
    assert_eq!(aborted["status"], "aborted");
    let resumed = pml.pml.question("/v1/execute/continue", &json!({"run": refused["run"]}));
    assert_eq!(resumed.status, 409, "what was refused cannot be resumed: {resumed:?}");
    assert_eq!(pml.pml.question("/v1/execute/continue", &json!({"token": refused["token"]})).status, 404);
    assert_eq!(std::fs::read_dir(pml.pml.data().join("runs")).unwrap().count(), 0, "no journal is left");
}

#[test]
fn a_killed_run_goes_on_from_its_first_unfinished_task() {
    let Some(mut pml) = start() else { return };
    let body = json!({"workflow": {"tasks": [
        {"id": "a", "tool": "fake:upper", "arguments": {"text": "first"}},
        {"id": "b", "tool": "fake:slow", "arguments": {"ms": 4_000}, "depends_on": ["a"]},
        {"id": "c", "tool": "fake:join", "arguments": {"left": "$OUTPUT[a].text", "right": "$OUTPUT[b]"}},
    ]}, "wait": false});
    let answer = pml.pml.question("/v1/execute", &body);
    assert_eq!(answer.status, 202, "{answer:?}");
    let run = answer.json()["run"].as_str().unwrap().to_owned();
    eventually("the first step in the log", || events(&pml, &run).contains(&"step.finished a".to_owned()).then_some(()));
    pml.pml.restart();
    pml.server("fake", &["ready"]);
    let known = pml.pml.ask(&format!("/v1/execute/{run}"));
    assert_eq!((known["status"].as_str(), statuses(&known)), (Some("interrupted"), vec!["succeeded", "waiting", "waiting"]));
    let resumed = pml.pml.question("/v1/execute/continue", &json!({"run": run})).json();
    assert_eq!((&resumed["status"], &resumed["run"]), (&json!("succeeded"), &json!(run)), "{resumed}");
    assert_eq!(resumed["tasks"][2]["result"], "FIRSTdone");
    let trace = pml.pml.closed_trace(&run);
    assert_eq!((trace["success"].as_bool(), trace["steps"].as_array().unwrap().len()), (Some(true), 3));
    let events = events(&pml, &run);
    assert_eq!(events.iter().filter(|event| *event == "step.finished a").count(), 1, "{events:?}");
}

#[test]
fn a_run_that_was_found_abandoned_is_run_again_without_its_finished_tasks() {
    let Some(mut pml) = start() else { return };
    let body = json!({"workflow": {"tasks": [
        {"id": "a", "tool": "fake:upper", "arguments": {"text": "first"}},
        {"id": "b", "tool": "fake:slow", "arguments": {"ms": 4_000}, "depends_on": ["a"]},
    ]}, "intent": "wait a little", "wait": false});
    let run = pml.pml.question("/v1/execute", &body).json()["run"].as_str().unwrap().to_owned();
    eventually("the first step in the log", || events(&pml, &run).contains(&"step.finished a".to_owned()).then_some(()));
    pml.pml.restart_with(&[("TRACE__ABANDON_MS", "200")]);
    let trace = pml.pml.closed_trace(&run);
    assert_eq!(
        (&trace["status"], &trace["success"], &trace["steps"][0]["success"]),
        (&json!("abandoned"), &json!(false), &json!(true))
    );
    pml.pml.restart_with(&[("TRACE__ABANDON_MS", "3600000")]);
    pml.server("fake", &["ready"]);
    let resumed = pml.pml.question("/v1/execute/continue", &json!({"run": run})).json();
    let again = resumed["run"].as_str().unwrap();
    assert!(resumed["status"] == "succeeded" && again != run, "the log has closed the old execution: {resumed}");
    assert_eq!(pml.pml.closed_trace(again)["steps"].as_array().unwrap().len(), 2, "the trace is whole");
    let started = pml
        .pml
        .records()
        .into_iter()
        .find(|record| record["type"] == "pml.execution.started" && record["data"]["execution"] == again);
    assert_eq!(started.unwrap()["data"]["parent"], run);
    let calls = pml.pml.get("/metrics").text;
    assert!(!calls.contains("upstream_calls_total{server=\"fake\",tool=\"upper\""), "it was not called again: {calls}");
}

#[test]
fn a_run_can_be_followed_aborted_and_its_results_fetched_in_pieces() {
    let Some(pml) = start() else { return };
    let text = "x".repeat(300_000);
    let body = json!({"workflow": {"tasks": [
        {"id": "a", "tool": "fake:echo", "arguments": {"text": text}},
        {"id": "b", "tool": "fake:slow", "arguments": {"ms": 60_000}, "depends_on": ["a"]},
    ]}, "wait": false});
    let run = pml.pml.question("/v1/execute", &body).json()["run"].as_str().unwrap().to_owned();
    eventually("a to be done", || {
        (pml.pml.ask(&format!("/v1/execute/{run}"))["tasks"][0]["status"] == "succeeded").then_some(())
    });
    let aborted = pml.pml.question("/v1/execute/abort", &json!({"run": run})).json();
    assert_eq!((aborted["status"].as_str(), statuses(&aborted)), (Some("aborted"), vec!["succeeded", "failed"]), "{aborted}");
    assert_eq!((&aborted["tasks"][0]["result_bytes"], &aborted["tasks"][0]["result"]), (&json!(300_002), &Value::Null));
    let (mut whole, mut offset) = (String::new(), json!(0));
    while !offset.is_null() {
        let page = pml.pml.ask(&format!("/v1/execute/{run}/a?offset={offset}&limit=100000"));
        whole.push_str(page["text"].as_str().unwrap());
        offset = page["next"].clone();
    }
    assert_eq!(whole, Value::from(text).to_string());
    assert_eq!(pml.pml.get(&format!("/v1/execute/{run}/b")).status, 404);

    let request = agent().post(format!("{}/v1/execute", pml.pml.url())).header("accept", "text/event-stream");
    let mut response =
        request.header("content-type", "application/json").send(json!({"workflow": three_steps()}).to_string()).unwrap();
    let text = response.body_mut().read_to_string().unwrap();
    let last = text.trim().rsplit("\n\n").next().unwrap();
    assert!(last.starts_with("event: done\ndata: {") && last.contains("AB-CD"), "{text}");
}

#[test]
fn the_log_keeps_shapes_of_results_and_no_values() {
    let Some(pml) = start() else { return };
    let task = pml.call("fake:secret", &json!({}));
    assert_eq!(task["result"]["note"], "keep it", "the caller gets the result: {task}");
    let schema = eventually("the shape", || {
        let tools = pml.pml.ask("/v1/tools")["tools"].as_array().unwrap().clone();
        tools.into_iter().find(|tool| tool["tool"] == "fake:secret" && tool.get("output_schema").is_some())
    })["output_schema"]
        .clone();
    let text = json!({"type": "string"});
    assert_eq!(
        schema,
        json!({"type": "object", "properties": {"api_key": text, "note": text}, "required": ["api_key", "note"]})
    );
    pml.pml.settled_state();
    let log = pml.pml.get("/v1/events").text;
    assert!(!log.contains("keep it") && !log.contains("0123456789abcdef0123"), "values are not in the log");
}

#[test]
fn the_command_line_runs_workflows_and_shows_what_ran() {
    let Some(pml_server) = start() else { return };
    let command = |arguments: &[&str]| {
        let output = pml().env("PML_URL", pml_server.pml.url()).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let file = pml_server.home.path().join("workflow.json");
    std::fs::write(&file, three_steps().to_string()).unwrap();
    let (code, shown, problem) = command(&["execute", file.to_str().unwrap(), "--intent", "shout"]);
    assert!(code == Some(0) && shown.contains("\"AB-CD\"") && shown.contains("succeeded"), "{shown}{problem}");
    std::fs::write(&file, json!({"tasks": [{"id": "d", "tool": "fake:drop"}]}).to_string()).unwrap();
    let (code, shown, _) = command(&["execute", file.to_str().unwrap(), "--json"]);
    let waiting: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((code, &waiting["status"]), (Some(1), &json!("approval_required")));
    let (code, shown, _) = command(&["execute", "--continue", waiting["token"].as_str().unwrap()]);
    assert!(code == Some(0) && shown.contains("dropped"), "{shown}");
    // Steps are recorded beside the run.
    let listed = eventually("both executions to be recorded", || {
        let (_, shown, _) = command(&["executions", "list", "--json"]);
        let listed: Value = serde_json::from_str(&shown).ok()?;
        (listed["executions"].as_array()?.len() == 2).then_some(listed)
    });
    let executions = listed["executions"].as_array().unwrap();
    assert_eq!(executions[1]["intent"], "shout", "the newest comes first: {listed}");
    let execution = executions[1]["execution"].as_str().unwrap();
    eventually("its steps to be recorded", || {
        let (code, shown, _) = command(&["executions", "show", execution]);
        (code == Some(0) && shown.contains("fake:join") && shown.contains("step.finished")).then_some(())
    });
}
