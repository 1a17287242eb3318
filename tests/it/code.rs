//! Code mode: programs of agents run on MCP servers, are learnt as capabilities, and are run again with other arguments.

use serde_json::{Value, json};

use crate::server::{eventually, pml};
use crate::upstreams::WithServers;

fn start(settings: &[(&str, &str)]) -> Option<WithServers> {
    let settings: Vec<(&str, &str)> = [("TEMPLATES__PATH", "")].iter().chain(settings).copied().collect();
    let pml = WithServers::start(&[("fake", &[])], &settings)?;
    pml.server("fake", &["ready"]);
    Some(pml)
}

/// Writes two words in capital letters and joins them, one call per word.
fn shout(left: &str, right: &str) -> String {
    format!(
        "const words: string[] = ['{left}', 'and'];
const large = [];
for (const text of words) large.push((await tools.fake.upper({{ text }})).text);
console.log('words', large.length);
if (large.length > 5) await tools.fake.slow({{ ms: 1 }});
const whole = await tools.fake.join({{ left: large.join(' '), right: '{right}' }});
if (whole.endsWith('#')) throw new Error('not this');
return whole;"
    )
}

fn statuses(run: &Value) -> Vec<String> {
    let task = |task: &Value| format!("{} {}", task["id"].as_str().unwrap(), task["status"].as_str().unwrap());
    run["tasks"].as_array().unwrap().iter().map(task).collect()
}

/// The capability with this id, once it satisfies the condition.
fn capability(pml: &WithServers, id: &Value, is_it: impl Fn(&Value) -> bool) -> Value {
    eventually("the capability", || {
        let listed = pml.pml.ask("/v1/capabilities")["capabilities"].as_array().unwrap().clone();
        listed.into_iter().find(|capability| capability["capability"] == *id && is_it(capability))
    })
}

fn calls(pml: &WithServers, tool: &str) -> u64 {
    let metrics = pml.pml.get("/metrics").text;
    let name = format!("upstream_calls_total{{server=\"fake\",tool=\"{tool}\",outcome=\"ok\"");
    let line = metrics.lines().find(|line| line.contains(&name));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn a_program_is_run_learnt_with_its_parameters_and_run_again() {
    let Some(pml) = start(&[]) else { return };
    let run = pml.run(&json!({"code": shout("ab", "!"), "intent": "shout words"}));
    assert_eq!(
        (&run["status"], &run["result"], &run["console"]),
        (&json!("succeeded"), &json!("AB AND!"), &json!("words 2\n")),
        "{run}"
    );
    assert_eq!(statuses(&run), ["c1 succeeded", "c1.2 succeeded", "c3 succeeded"]);
    assert!(
        run["tasks"][0].get("result").is_none() && run["tasks"][0]["result_bytes"].is_u64(),
        "results of calls are not sent"
    );
    let id = run["capability"].clone();
    let learnt = capability(&pml, &id, |capability| capability["usage_count"] == 1);
    assert_eq!((&learnt["code"], &learnt["description"]), (&json!(shout("ab", "!")), &json!("shout words")), "{learnt}");
    assert_eq!(learnt["calls"], json!(["fake:join", "fake:slow", "fake:upper"]), "also the call that the run left out");
    let trace = pml.pml.closed_trace(run["run"].as_str().unwrap());
    assert_eq!(trace["steps"][2]["depends_on"], json!(["c1", "c1.2"]), "{trace}");
    // The same program with another literal: the literal becomes a parameter.
    let second = pml.run(&json!({"code": shout("ab", "?"), "intent": "ask loudly"}));
    assert_eq!((&second["result"], &second["capability"]), (&json!("AB AND?"), &id), "{second}");
    let learnt = capability(&pml, &id, |capability| capability["usage_count"] == 2);
    let schema = json!({"type": "object", "required": ["right"], "properties": {
        "right": {"type": "string", "description": "right of fake:join", "examples": ["!", "?"]}}});
    assert_eq!(learnt["parameters_schema"], schema);
    assert!(learnt["code"].as_str().unwrap().contains("right: args.right"), "{learnt}");
    let missing = pml.pml.question("/v1/execute", &json!({"capability": id}));
    assert!(missing.status == 400 && missing.text.contains("arguments are missing: right"), "{missing:?}");
    let third = pml.run(&json!({"capability": id, "arguments": {"right": " again"}}));
    assert_eq!((&third["result"], &third["capability"]), (&json!("AB AND again"), &id), "{third}");
    let learnt = capability(&pml, &id, |capability| capability["usage_count"] == 3);
    assert_eq!(learnt["parameters_schema"]["properties"]["right"]["examples"], json!(["!", "?", " again"]));
    assert_eq!(
        (&learnt["success_rate"], pml.pml.ask("/v1/capabilities")["capabilities"].as_array().unwrap().len()),
        (&json!(1.0), 1)
    );
    // A run that fails counts against it.
    let failed = pml.run(&json!({"capability": id, "arguments": {"right": "#"}}));
    assert_eq!((&failed["status"], &failed["error"]["message"]), (&json!("failed"), &json!("not this (at 7:36)")), "{failed}");
    let learnt = capability(&pml, &id, |capability| capability["usage_count"] == 4);
    assert_eq!(learnt["success_rate"], 0.75);
    // What the program declares is there for plans: the edge between the tools.
    let edges = pml.pml.ask("/v1/graph?kind=provides")["edges"].as_array().unwrap().clone();
    let joined = |edge: &Value| edge["from"] == "fake:upper" && edge["to"] == "fake:join";
    assert!(edges.iter().any(joined), "{edges:?}");
}

#[test]
fn a_call_that_needs_approval_waits_also_across_a_restart() {
    let Some(mut pml) = start(&[]) else { return };
    let code = "const salt = Math.random() + Date.now();
const { text } = await tools.fake.upper({ text: `x${salt}` });
let failure = '';
try { await tools.fake.fail({}); } catch (error) { failure = error.name; }
const gone = await tools['fake'].drop({});
const again = await tools.fake.drop({});
return { same: text === `X${salt}`, failure, gone, again };";
    let waiting = pml.run(&json!({"code": code, "intent": "delete everything"}));
    assert_eq!((&waiting["status"], &waiting["approve"]), (&json!("approval_required"), &json!(["c3", "c4"])), "{waiting}");
    assert_eq!(statuses(&waiting), ["c1 succeeded", "c2 failed", "c3 waiting"]);
    let (run, token) = (waiting["run"].as_str().unwrap().to_owned(), waiting["token"].as_str().unwrap().to_owned());
    assert_eq!(pml.pml.question("/v1/execute/continue", &json!({"run": run})).status, 409, "not without the token");
    pml.pml.restart();
    pml.server("fake", &["ready"]);
    let known = pml.pml.ask(&format!("/v1/execute/{run}"));
    assert_eq!((&known["status"], &known["token"]), (&waiting["status"], &waiting["token"]), "{known}");
    let done = pml.pml.question("/v1/execute/continue", &json!({"token": token})).json();
    assert_eq!((&done["status"], &done["run"]), (&json!("succeeded"), &json!(run)), "{done}");
    let expected = json!({"same": true, "failure": "ToolError", "gone": "dropped", "again": "dropped"});
    assert_eq!(done["result"], expected, "clock, random numbers and failures are those of the first part");
    assert_eq!((calls(&pml, "upper"), calls(&pml, "drop")), (0, 2), "what had ended was not called again");
    let trace = pml.pml.closed_trace(&run);
    assert_eq!((&trace["success"], trace["steps"].as_array().unwrap().len()), (&json!(true), 4), "{trace}");
    assert_eq!(pml.pml.question("/v1/execute/continue", &json!({"token": token})).status, 404, "a token works once");
    // An approval can be refused; then the log says so, too.
    let refused = pml.run(&json!({"code": code}));
    let aborted = pml.pml.question("/v1/execute/abort", &json!({"run": refused["run"]})).json();
    assert_eq!(aborted["status"], "aborted");
    assert_eq!(pml.pml.closed_trace(refused["run"].as_str().unwrap())["success"], false);
    assert_eq!(std::fs::read_dir(pml.pml.data().join("runs")).unwrap().count(), 0, "no journal is left");
}

#[test]
fn a_killed_program_goes_on_with_the_results_it_had() {
    let Some(mut pml) = start(&[]) else { return };
    let code = "const a = await tools.fake.upper({ text: args.word });
const b = await tools.fake.slow({ ms: 3000 });
return a.text + b;";
    let answer = pml.pml.question("/v1/execute", &json!({"code": code, "arguments": {"word": "kept"}, "wait": false}));
    assert_eq!(answer.status, 202, "{answer:?}");
    let run = answer.json()["run"].as_str().unwrap().to_owned();
    eventually("the second call to be under way", || {
        (pml.pml.ask(&format!("/v1/execute/{run}"))["tasks"][1]["status"] == "running").then_some(())
    });
    eventually("the execution to be in the log", || {
        pml.pml.records().iter().any(|record| record["data"]["step"] == "c2").then_some(())
    });
    pml.pml.restart();
    pml.server("fake", &["ready"]);
    let known = pml.pml.ask(&format!("/v1/execute/{run}"));
    assert_eq!((known["status"].as_str(), statuses(&known)), (Some("interrupted"), vec!["c1 succeeded".to_owned()]), "{known}");
    let resumed = pml.pml.question("/v1/execute/continue", &json!({"run": run})).json();
    assert_eq!(
        (&resumed["status"], &resumed["result"], &resumed["run"]),
        (&json!("succeeded"), &json!("KEPTdone"), &json!(run)),
        "{resumed}"
    );
    assert_eq!(calls(&pml, "upper"), 0);
    pml.pml.closed_trace(&run);
    let steps = pml.pml.records().into_iter().filter(|record| record["data"]["execution"] == run.as_str());
    assert_eq!(steps.filter(|record| record["type"] == "pml.step.finished").count(), 2, "no step is recorded twice");
}

#[test]
fn a_failed_program_goes_on_and_an_aborted_one_ends_with_its_calls() {
    let Some(pml) = start(&[]) else { return };
    let code = "await tools.fake.upper({ text: 'once' }); return await tools.fake.flaky({ text: 'at last' });";
    let failed = pml.run(&json!({"code": code}));
    assert_eq!((&failed["status"], &failed["error"]["kind"]), (&json!("failed"), &json!("thrown")), "{failed}");
    assert_eq!(failed["error"]["message"], "ToolError: not yet");
    let retried =
        "await tools.fake.upper({ text: 'once' }); return await tools.fake.flaky({ text: 'at last' }, { retries: 2 });";
    let resumed = pml.pml.question("/v1/execute/continue", &json!({"run": failed["run"]})).json();
    assert_eq!((&resumed["status"], calls(&pml, "upper")), (&json!("failed"), 1), "{resumed}");
    let reused = pml.run(&json!({"code": retried, "reuse": resumed["run"]}));
    assert_eq!((&reused["result"], calls(&pml, "upper")), (&json!("at last"), 1), "{reused}");
    let slow = json!({"code": "await tools.fake.slow({ ms: 60000 });", "wait": false});
    let run = pml.pml.question("/v1/execute", &slow).json()["run"].as_str().unwrap().to_owned();
    eventually("the call", || (pml.pml.ask(&format!("/v1/execute/{run}"))["tasks"][0]["status"] == "running").then_some(()));
    let aborted = pml.pml.question("/v1/execute/abort", &json!({"run": run})).json();
    assert_eq!((aborted["status"].as_str(), statuses(&aborted)), (Some("aborted"), vec!["c1 failed".to_owned()]), "{aborted}");
    assert_eq!(pml.pml.closed_trace(&run)["steps"][0]["error_kind"], "aborted");
}

#[test]
fn every_limit_ends_a_program_with_an_error_that_names_its_key() {
    let settings = [
        ("CODE__MEMORY_BYTES", "8388608"),
        ("CODE__STACK_BYTES", "131072"),
        ("CODE__TIME_MS", "1500"),
        ("CODE__CALLS_MAX", "20"),
        ("CODE__OUTPUT_BYTES", "10000"),
        ("CODE__RESULTS_BYTES", "100000"),
    ];
    let Some(pml) = start(&settings) else { return };
    let check = |code: &str, kind: &str, expected: &str| {
        let run = pml.run(&json!({ "code": code }));
        let (problem, of) = (run["error"]["message"].as_str().unwrap_or_default(), &run["error"]["kind"]);
        assert!(run["status"] == "failed" && of == kind && problem.contains(expected), "{code}\n{run}");
    };
    check("while (true) {}", "time", "ran longer than 1500 ms (code.time_ms)");
    check("const all = []; while (true) all.push(new Array(1000).fill('x'));", "memory", "(code.memory_bytes)");
    check("const down = (n) => 1 + down(n + 1); return down(0);", "stack", "(code.stack_bytes)");
    check("for (let i = 0; i < 1e6; i++) await tools.fake.echo({ text: '' });", "calls", "more than 20 calls (code.calls_max)");
    check("while (true) console.log('xxxxxxxxxx');", "output", "more than 10000 bytes (code.output_bytes)");
    check("return 'x'.repeat(20000);", "output", "(code.output_bytes)");
    check("await new Promise(() => {});", "never_settles", "waits for a promise that nothing will settle");
    let large = "for (let i = 0; i < 3; i++) await tools.fake.echo({ text: 'x'.repeat(40000) });";
    check(large, "thrown", "more than 100000 bytes together (code.results_bytes)");
    check("return await import('fs');", "thrown", "");
    check("return [].constructor.constructor('return 1')();", "thrown", "code cannot be made from text in the sandbox");
    check("return await tools.fake[args.name ?? 'nothing']({});", "thrown", "no tool 'fake:nothing' is offered");
    let refused = pml.pml.question("/v1/execute", &json!({"code": "await tools.fake.nothing({});"}));
    assert!(refused.status == 400 && refused.text.contains("task 'c1': no tool 'fake:nothing' is offered"), "{refused:?}");
    let refused = pml.pml.question("/v1/execute", &json!({"code": "const x = ;"}));
    assert!(refused.status == 400 && refused.text.contains("code: 1:11: "), "{refused:?}");
    let refused = pml.pml.question("/v1/execute", &json!({"code": "1", "capability": "x"}));
    assert!(refused.status == 400 && refused.text.contains("one of them"), "{refused:?}");
    assert_eq!(pml.run(&json!({"code": "return 1;"}))["result"], 1, "the server is unharmed");
    assert_eq!(pml.pml.ask("/v1/capabilities")["capabilities"], json!([]), "nothing was learnt from failures");
}

#[test]
fn programs_that_run_at_the_same_time_are_counted() {
    let Some(pml) = start(&[("CODE__PROCESSES_MAX", "1")]) else { return };
    let slow = json!({"code": "await tools.fake.slow({ ms: 60000 });", "wait": false});
    let run = pml.pml.question("/v1/execute", &slow).json()["run"].clone();
    let refused = pml.pml.question("/v1/execute", &json!({"code": "return 1;"}));
    assert!(refused.status == 429 && refused.text.contains("(code.processes_max)"), "{refused:?}");
    pml.pml.question("/v1/execute/abort", &json!({ "run": run }));
    assert_eq!(pml.run(&json!({"code": "return 1;"}))["result"], 1);
}

#[test]
fn a_program_calls_capabilities_which_are_runs_of_their_own() {
    let Some(pml) = start(&[]) else { return };
    let inner =
        pml.run(&json!({"code": "return await tools.fake.join({ left: args.word, right: '!' });", "arguments": {"word": "a"}}));
    let id = inner["capability"].as_str().unwrap().to_owned();
    capability(&pml, &json!(id), |capability| capability["usage_count"] == 1);
    let code =
        format!("const words = await Promise.all(['x', 'y'].map((word) => capabilities['{id}']({{ word }})));\nreturn words;");
    let run = pml.run(&json!({ "code": code, "intent": "call twice" }));
    assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &json!(["x!", "y!"])), "{run}");
    assert_eq!(run["tasks"][0]["tool"], format!("capability:{id}"));
    let outer = capability(&pml, &run["capability"], |capability| capability["usage_count"] == 1);
    assert_eq!((&outer["level"], &outer["calls"]), (&json!(1), &json!([format!("capability:{id}")])), "{outer}");
    let inner = capability(&pml, &json!(id), |capability| capability["usage_count"] == 3);
    assert_eq!(inner["parents"], json!([format!("capability:{}", outer["capability"].as_str().unwrap())]));
    let started = pml.pml.records().into_iter().filter(|record| record["data"]["parent"] == run["run"]);
    assert_eq!(started.count(), 2, "executions whose parent is the program");
    // A capability that destroys something needs the approval of the program that calls it.
    let drop = pml.run(&json!({"code": "return await tools.fake.drop({});", "approved": true}));
    let id = drop["capability"].as_str().unwrap().to_owned();
    capability(&pml, &json!(id), |capability| capability["usage_count"] == 1);
    let waiting = pml.run(&json!({"code": format!("return await capabilities['{id}']({{}});")}));
    assert_eq!((&waiting["status"], &waiting["approve"]), (&json!("approval_required"), &json!(["c1"])), "{waiting}");
    let done = pml.pml.question("/v1/execute/continue", &json!({"token": waiting["token"]})).json();
    assert_eq!(done["result"], "dropped", "{done}");
}

#[test]
fn a_secret_in_a_program_is_a_parameter_and_is_not_stored() {
    let Some(pml) = start(&[]) else { return };
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let run =
        pml.run(&json!({"code": format!("return await tools.fake.echo({{ text: '{secret}' }});"), "intent": "use a token"}));
    assert_eq!(run["result"], secret);
    let learnt = capability(&pml, &run["capability"], |capability| capability["usage_count"] == 1);
    assert_eq!(
        (&learnt["code"], &learnt["parameters_schema"]["required"]),
        (&json!("return await tools.fake.echo({ text: args.text });"), &json!(["text"]))
    );
    assert!(!pml.pml.get("/v1/events").text.contains(secret));
    let again = pml.run(&json!({"capability": run["capability"], "arguments": {"text": "other"}}));
    assert_eq!(again["result"], "other");
}

#[test]
fn code_that_is_not_the_procedure_of_its_capability_is_not_run() {
    let Some(pml) = start(&[]) else { return };
    let structure = json!({"nodes": [{"id": "a", "tool": "fake:echo"}], "edges": []});
    let declared = json!({"name": "say it", "description": "say a text", "structure": structure, "code": "print(upper(text))"});
    pml.pml.accept(&json!([crate::run::event("capability.declared", declared)]));
    pml.pml.settled_state();
    let run = pml.run(&json!({"capability": "say it", "arguments": {"text": "plain"}}));
    assert_eq!((&run["tasks"][0]["result"], &run["tasks"][0]["id"]), (&json!("plain"), &json!("t1")), "{run}");
}

#[test]
fn the_command_line_checks_and_runs_programs_and_writes_types() {
    let Some(pml_server) = start(&[]) else { return };
    let command = |arguments: &[&str]| {
        let output = pml().env("PML_URL", pml_server.pml.url()).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let file = pml_server.home.path().join("program.ts");
    let path = file.to_str().unwrap();
    std::fs::write(
        &file,
        "const a: any = await tools.fake.upper({ text: args.word });\nawait tools.fake.drop({});\nreturn a.text;",
    )
    .unwrap();
    let (code, shown, problem) = command(&["code", "check", path]);
    assert_eq!(code, Some(0), "{shown}{problem}");
    for expected in ["1  fake:upper  line 1", "text <- args.word", "after 1", "upper(input: {", "approval needed: fake:drop"] {
        assert!(shown.contains(expected), "{expected}:\n{shown}");
    }
    let (code, shown, _) = command(&["code", "run", path, "--args", r#"{"word": "loud"}"#]);
    assert!(code == Some(1) && shown.contains("approval_required"), "{shown}");
    let (code, shown, _) = command(&["code", "run", path, "--args", r#"{"word": "loud"}"#, "--yes"]);
    assert!(code == Some(0) && shown.contains("\"LOUD\""), "{shown}");
    std::fs::write(&file, "await tools.fake.upper({});\nawait tools.fake.gone({});").unwrap();
    let (code, shown, _) = command(&["code", "check", path]);
    assert!(code == Some(1) && shown.contains("line 1: fake:upper is called without 'text'"), "{shown}");
    assert!(shown.contains("line 2: no tool 'fake:gone' is known"), "{shown}");
    std::fs::write(&file, "const = 1;").unwrap();
    let (code, _, problem) = command(&["code", "check", path]);
    assert!(code == Some(1) && problem.contains("program.ts:1:7: "), "{problem}");
    let (code, types, _) = command(&["types"]);
    assert!(code == Some(0) && types.contains("declare const tools: {") && types.contains("/** Join two texts */"), "{types}");
}
