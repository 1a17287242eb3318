//! Which tool or capability fits an intent, asked over HTTP and on the command line.

use serde_json::{Value, json};

use crate::run::{event, finished, step};
use crate::server::{Answer, Server, eventually, pml};

fn blank() -> Server {
    Server::with(&[("TEMPLATES__PATH", ""), ("GRAPH__MEASURES_EVERY_MS", "10")])
}

fn tool(id: &str, description: &str) -> Value {
    let (server, name) = id.split_once(':').unwrap();
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    event(
        "tool.registered",
        json!({"tool": id, "server": server, "name": name, "description": description, "input_schema": schema}),
    )
}

/// A desk with tools that have nothing to do with each other.
fn register(server: &Server) {
    server.accept(&json!([
        tool("fs:read_file", "Read the contents of a file from disk"),
        tool("fs:write_file", "Write text to a file on disk"),
        tool("browser:screenshot", "Take a screenshot of the current web page"),
        tool("mail:send", "Send an email message to a recipient"),
        tool("weather:forecast", "Get the weather forecast for a city"),
        tool("db:query", "Run an SQL query against the database"),
    ]));
}

/// Runs that read a report and mail it, under several intents.
fn publish_runs(server: &Server) {
    for (number, intent) in
        ["mail the report", "send the quarterly numbers to Anna", "share the report by mail"].iter().enumerate()
    {
        let execution = format!("run{number}");
        server.accept(&json!([
            event("execution.started", json!({"execution": execution, "intent": intent})),
            step(&execution, "s1", "fs:read_file", &[]),
            step(&execution, "s2", "mail:send", &["s1"]),
            finished(&execution)
        ]));
    }
}

/// The answer, once it knows everything published so far.
fn settled(server: &Server, path: &str, question: &Value) -> Value {
    let tail = server.settled_state()["applied_seq"].clone();
    eventually("the index to catch up", || {
        let answer = server.question(path, question);
        assert_eq!(answer.status, 200, "{answer:?}");
        Some(answer.json()).filter(|answer| answer["meta"]["based_on_seq"] == tail)
    })
}

fn ids(answer: &Value) -> Vec<&str> {
    answer["results"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

#[test]
fn descriptions_alone_give_sensible_results() {
    let server = blank();
    register(&server);
    let best = |intent: &str| ids(&settled(&server, "/v1/discover", &json!({"intent": intent})))[0].to_owned();
    assert_eq!(best("take a picture of the web page"), "browser:screenshot");
    assert_eq!(best("will it rain tomorrow, what is the weather"), "weather:forecast");
    assert_eq!(best("open a file and show what is in it"), "fs:read_file");
    assert_eq!(best("drop somebody an email"), "mail:send");
}

#[test]
fn templates_give_related_tools_before_the_first_event() {
    let server = Server::with(&[("GRAPH__MEASURES_EVERY_MS", "10")]);
    let view = server.ask("/v1/graph?kind=dependency&limit=1");
    let from = view["edges"][0]["from"].as_str().unwrap();
    let name = from.split_once(':').unwrap().1;
    let question = json!({"intent": name.replace('_', " "), "include_related": true});
    server.accept(&tool(from, "as the template calls it"));
    let answer = settled(&server, "/v1/discover", &question);
    let found = answer["results"].as_array().unwrap().iter().find(|item| item["id"] == from).unwrap();
    let related = eventually("the measures to catch up", || {
        let answer = settled(&server, "/v1/discover", &question);
        let found = answer["results"].as_array().unwrap().iter().find(|item| item["id"] == from).unwrap().clone();
        found["related_tools"].as_array().filter(|related| !related.is_empty()).cloned()
    });
    assert_eq!(related[0]["relation"], "often_after", "{related:?}");
    assert_eq!(found["usage_count"], 0);
}

#[test]
fn signals_add_up_to_the_score_and_the_order_is_that_of_the_scores() {
    let server = blank();
    register(&server);
    publish_runs(&server);
    for intent in ["mail the report to Bob", "read a file, then send an email and take a screenshot", "\u{5929}\u{6c14}", "zzz"]
    {
        let answer = settled(&server, "/v1/discover", &json!({"intent": intent, "limit": 50}));
        let mut previous = f64::MAX;
        for item in answer["results"].as_array().unwrap() {
            let score = item["score"].as_f64().unwrap();
            let sum: f64 = item["signals"].as_object().unwrap().values().map(|value| value.as_f64().unwrap()).sum();
            assert!((score - sum).abs() < 1e-6, "{item}");
            assert!((0.0..=0.95).contains(&score) && score <= previous, "{item}");
            previous = score;
        }
    }
}

#[test]
fn what_worked_for_similar_intents_comes_first() {
    let server = blank();
    register(&server);
    publish_runs(&server);
    let answer =
        settled(&server, "/v1/discover", &json!({"intent": "share the quarterly report by mail", "include_related": true}));
    let results = answer["results"].as_array().unwrap();
    let kinds: Vec<&str> = results.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert!(kinds[..3].contains(&"capability"), "the procedure is among the best: {answer}");
    let read = results.iter().position(|item| item["id"] == "fs:read_file").unwrap();
    let write = results.iter().position(|item| item["id"] == "fs:write_file").unwrap();
    assert!(read < write, "reading was part of it, writing was not: {answer}");
    let read = &results[read];
    assert_eq!((&read["server_id"], &read["usage_count"], &read["success_rate"]), (&json!("fs"), &json!(3), &json!(1.0)));
    assert_eq!(read["input_schema"]["properties"]["path"]["type"], "string");
    assert!(read["similar_intent"].as_str().unwrap().contains("report"), "{read}");
    let capability = results.iter().find(|item| item["type"] == "capability").unwrap();
    assert_eq!(capability["tools"], json!(["fs:read_file", "mail:send"]));
    let meta = &answer["meta"];
    assert_eq!(meta["returned_count"], json!(results.len()));
    assert_eq!(
        meta["total_found"],
        json!(meta["tools_count"].as_u64().unwrap() + meta["capabilities_count"].as_u64().unwrap())
    );
}

#[test]
fn filters_limit_and_wrong_questions() {
    let server = blank();
    register(&server);
    publish_runs(&server);
    let ask = |question: &Value| settled(&server, "/v1/discover", question);
    let only = |kind: &str| ask(&json!({"intent": "mail the report", "filter": {"type": kind}}));
    assert!(only("tool")["results"].as_array().unwrap().iter().all(|item| item["type"] == "tool"));
    let capabilities = only("capability");
    assert_eq!((ids(&capabilities).len(), &capabilities["meta"]["tools_count"]), (1, &json!(0)));
    assert_eq!(ids(&ask(&json!({"intent": "mail the report", "limit": 2}))).len(), 2);
    let high = ask(&json!({"intent": "mail the report", "filter": {"min_score": 0.5}}));
    assert!(high["results"].as_array().unwrap().iter().all(|item| item["score"].as_f64() >= Some(0.5)), "{high}");
    let refused = |question: &Value, field: &str| {
        let Answer { status, text, .. } = server.question("/v1/discover", question);
        assert!(status == 400 && text.contains(field), "{question}: {status} {text}");
    };
    refused(&json!({"intent": "  "}), "intent: is blank");
    refused(&json!({"intent": "x".repeat(100_000)}), "limits.intent_bytes_max");
    refused(&json!({"intent": "x", "limit": 51}), "limit: is 51, it must be from 1 to 50");
    refused(&json!({"intent": "x", "limit": 0}), "limit");
    refused(&json!({"intent": "x", "filter": {"min_score": 2.0}}), "min_score");
    refused(&json!({"intent": "x", "filter": {"type": "tols"}}), "tols");
    refused(&json!({}), "intent");
    refused(&json!({"intent": "x", "colour": "red"}), "colour");
}

#[test]
fn withdrawn_tools_are_not_offered() {
    let server = blank();
    register(&server);
    let intent = json!({"intent": "take a screenshot"});
    assert_eq!(ids(&settled(&server, "/v1/discover", &intent))[0], "browser:screenshot");
    server.accept(&event("tool.removed", json!({"tool": "browser:screenshot"})));
    assert!(!ids(&settled(&server, "/v1/discover", &intent)).contains(&"browser:screenshot"));
}

#[test]
fn a_tool_that_mostly_fails_sinks() {
    let server = blank();
    register(&server);
    for number in 0..4 {
        let execution = format!("bad{number}");
        let failed = json!({"execution": execution, "step": "s1", "tool": "fs:write_file", "success": false});
        server.accept(&json!([
            event("execution.started", json!({"execution": execution, "intent": "something else"})),
            event("step.finished", failed),
            event("execution.finished", json!({"execution": execution, "success": false})),
        ]));
    }
    let answer = settled(&server, "/v1/discover", &json!({"intent": "write text to a file on disk"}));
    let write = answer["results"].as_array().unwrap().iter().find(|item| item["id"] == "fs:write_file").unwrap();
    assert!(write["success_rate"] == 0.0 && write["signals"]["reliability"].as_f64() < Some(0.0), "{write}");
    assert_ne!(ids(&answer)[0], "fs:write_file");
}

#[test]
fn the_old_searches_answer_and_say_that_they_are_old() {
    let server = blank();
    register(&server);
    publish_runs(&server);
    let tools = settled(&server, "/v1/search_tools", &json!({"query": "send an email", "include_related": true}));
    assert_eq!((&tools["tools"][0]["tool_id"], &tools["meta"]["alpha"]), (&json!("mail:send"), &json!(1.0)));
    assert_eq!(tools["deprecated"], "use discover");
    let near = eventually("the measures to catch up", || {
        let question = json!({"query": "send an email", "context_tools": ["fs:read_file"], "limit": 3});
        Some(server.question("/v1/search_tools", &question).json()).filter(|near| near["tools"][0]["graph_score"] == 1.0)
    });
    assert_eq!((&near["meta"]["alpha"], near["tools"].as_array().unwrap().len()), (&json!(0.8), 3));
    let wrong = server.question("/v1/search_tools", &json!({"query": "x", "context_tools": ["no server:x"]}));
    assert!(wrong.status == 400 && wrong.text.contains("context_tools"), "{wrong:?}");
    let capabilities = settled(&server, "/v1/search_capabilities", &json!({"intent": "mail a report"}));
    assert_eq!(capabilities["results"][0]["type"], "capability");
    assert!(capabilities["deprecated"].as_str().unwrap().contains("discover"));
}

#[test]
fn the_command_line_asks_a_server_or_a_directory() {
    let mut server = blank();
    register(&server);
    publish_runs(&server);
    let expected = settled(&server, "/v1/discover", &json!({"intent": "mail the report", "limit": 3}));
    let url = server.url().to_owned();
    let run = |arguments: &[&str]| {
        let output = pml().args(["discover", "mail the report"]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let json = |arguments: &[&str]| serde_json::from_str::<Value>(&run(arguments)).unwrap();
    let asked = json(&["--limit", "3", "--url", &url, "--json"]);
    assert_eq!(ids(&asked), ids(&expected));
    let table = run(&["--related", "--url", &url]);
    for part in ["mail:send", "score", "reasons", "similar to \"mail the report\"", "often"] {
        assert!(table.contains(part), "no '{part}' in {table}");
    }
    server.terminate();
    let data = server.data();
    let offline = json(&["--limit", "3", "--data", data.to_str().unwrap(), "--json"]);
    assert_eq!(ids(&offline), ids(&expected));
}
