//! Answers that make sense from the first second: nothing learnt, one run learnt, an unknown tool, names that every command takes.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::{run, text};
use crate::run::{finished, started, step};
use crate::server::{Server, eventually, pml};

fn predict(server: &Server, question: &Value) -> Value {
    let answer = server.question("/v1/predict", question);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn zip_run(number: usize) -> Value {
    let execution = format!("zip-{number}");
    let mut start = started(&execution);
    start["data"]["intent"] = json!(format!("Zip the reports of week {number}"));
    json!([start, step(&execution, "s1", "fs:list", &[]), step(&execution, "s2", "zip:pack", &["s1"]), finished(&execution)])
}

/// A server that has learnt five runs.
fn learnt() -> Server {
    let server = Server::start();
    for number in 0..5 {
        server.accept(&zip_run(number));
    }
    server.settled_state();
    eventually("the measures", || {
        let related = server.get("/v1/related?tool=fs:list");
        (related.status == 200 && related.json()["related_tools"] != json!([])).then_some(())
    });
    eventually("the index", || {
        let found = server.question("/v1/discover", &json!({"intent": "zip the reports"})).json();
        (found["meta"]["capabilities_count"] != json!(0)).then_some(())
    });
    server
}

#[test]
fn a_server_that_has_learnt_nothing_says_so() {
    let server = Server::with(&[("TEMPLATES__PATH", "")]);
    for context in [json!([]), json!(["get_weather"])] {
        let answer = predict(&server, &json!({"intent": "zip the reports", "context": context}));
        assert_eq!((&answer["ranked"], &answer["decision"]), (&json!([]), &json!("hold")), "{answer}");
        assert!(answer["note"].as_str().unwrap().contains("nothing is known yet"), "{answer}");
    }
    let said = pml().args(["predict", "zip the reports", "--url", server.url()]).output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("nothing is known yet that could come next") && !said.contains("100"), "{said}");
}

#[test]
fn an_unknown_tool_in_the_context_does_not_mean_that_all_is_done() {
    let server = learnt();
    let ask = |context: Value| predict(&server, &json!({"intent": "zip the reports", "context": context}));
    let (start, unknown) = (ask(json!([])), ask(json!(["weather:never_seen"])));
    assert_eq!(unknown["unknown"], json!(["weather:never_seen"]));
    assert_eq!(unknown["ranked"], start["ranked"], "an unknown call says nothing");
    assert_eq!(ask(json!(["never_seen"]))["unknown"], json!(["never_seen"]));
    assert_eq!(start["ranked"][0]["item"], "fs:list");
    let after = ask(json!(["fs:list", "weather:never_seen"]));
    assert_eq!(after["ranked"][0]["item"], "zip:pack", "{after}");
}

#[test]
fn reasons_have_the_sign_they_show() {
    let server = learnt();
    let answer = predict(&server, &json!({"intent": "zip the reports", "context": ["fs:list"]}));
    let (mut above, mut below) = (0, 0);
    for outcome in answer["ranked"].as_array().unwrap() {
        for reason in outcome["reasons"].as_array().unwrap() {
            let [value, typical, weight, adds] =
                ["value", "typical", "weight", "adds"].map(|key| reason[key].as_f64().unwrap());
            assert!((weight * (value - typical) - adds).abs() < 1e-9, "{reason}");
            above += usize::from(adds > 0.0);
            below += usize::from(adds < 0.0);
        }
    }
    assert!(above > 0 && below > 0, "some speak for an outcome and some against it: {answer}");
    // What is added to each outcome explains the ratio of their probabilities.
    let score = |outcome: &Value| {
        outcome["reasons"].as_array().unwrap().iter().map(|reason| reason["adds"].as_f64().unwrap()).sum::<f64>()
    };
    let (first, second) = (&answer["ranked"][0], &answer["ranked"][1]);
    let ratio = (first["p"].as_f64().unwrap() / second["p"].as_f64().unwrap()).ln();
    assert!((score(first) - score(second) - ratio).abs() < 1e-6, "{answer}");
}

#[test]
fn what_discover_prints_is_what_other_commands_take() {
    let server = learnt();
    let found = run(0, &["discover", "zip the reports", "--url", server.url()]).json();
    let results = found["results"].as_array().unwrap();
    let capability = results.iter().find(|item| item["type"] == "capability").unwrap_or_else(|| panic!("{found}"));
    assert_eq!(capability["handle"], "list-and-pack");
    let printed = pml().args(["discover", "zip the reports", "--url", server.url()]).output().unwrap();
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(printed.contains("capability:list-and-pack") && printed.contains("fs:list (not registered)"), "{printed}");
    let id = format!("capability:{}", capability["id"].as_str().unwrap());
    for name in ["capability:list-and-pack", "list-and-pack", &id] {
        let related = run(0, &["related", name, "--url", server.url()]).json();
        assert_eq!(related["tool"], json!(id), "{name}");
        let predicted = run(0, &["predict", "zip", "--after", name, "--url", server.url()]).json();
        assert_eq!(predicted.get("unknown"), None, "{name}");
        let named = run(0, &["discover", "--name", name, "--url", server.url()]).json();
        assert_eq!(named["results"][0]["handle"], "list-and-pack", "{name}");
        let scored = run(0, &["score", "zip", "--path", name, "--url", server.url()]).json();
        assert_eq!(scored["path"]["scores"][0]["item"], json!(id), "{name}");
    }
    assert_eq!(run(0, &["related", "pack", "--url", server.url()]).json()["tool"], "zip:pack");
    let unknown = server.get("/v1/related?tool=nothing-so");
    assert!(unknown.status == 400 && unknown.text.contains("no known tool or capability is called so"), "{unknown:?}");
    let explained = run(0, &["explain", "zip", "--item", "pack", "--after", "fs:list", "--url", server.url()]).json();
    assert_eq!(explained["item"], "zip:pack");
}

#[test]
fn a_handle_stays_when_a_state_is_restored_and_when_others_come() {
    let mut server = learnt();
    let handles = |server: &Server| -> Vec<String> {
        let list = server.ask("/v1/capabilities");
        list["capabilities"].as_array().unwrap().iter().map(|one| one["handle"].as_str().unwrap().to_owned()).collect()
    };
    let other =
        json!([started("other"), step("other", "s1", "fs:list", &[]), step("other", "s2", "zip:pack", &[]), finished("other")]);
    server.accept(&other);
    let state = server.settled_state();
    let mut before = handles(&server);
    before.sort();
    assert_eq!(before, ["list-and-pack", "list-and-pack-for-copy-file"]);
    assert_eq!(server.question("/v1/snapshots", &json!({})).status, 200);
    server.restart();
    let mut after = handles(&server);
    after.sort();
    assert_eq!((after, &server.settled_state()["digest"]), (before, &state["digest"]));
}

#[test]
fn tools_nobody_registered_are_marked_and_not_counted() {
    let server = Server::with(&[("TEMPLATES__PATH", "")]);
    server.accept(&zip_run(1));
    server.accept(&crate::run::event("tool.registered", json!({"tool": "fs:list", "description": "List a directory"})));
    let state = server.settled_state();
    assert_eq!((&state["tools"], &state["tools_unregistered"]), (&json!(1), &json!(1)));
    let tools = server.ask("/v1/tools");
    let stubs: Vec<&Value> = tools["tools"].as_array().unwrap().iter().map(|tool| &tool["stub"]).collect();
    assert_eq!(stubs, [&json!(false), &json!(true)]);
    let metrics = server.get("/metrics").text;
    assert!(metrics.contains("pml_tools 1\n") && metrics.contains("pml_tools_unregistered 1\n"), "{metrics}");
}

#[test]
fn related_tools_are_ordered_by_how_often_of_how_many() {
    let server = Server::start();
    for (number, next) in ["a:one", "a:two", "a:two", "a:three", "a:three", "a:three"].into_iter().enumerate() {
        let execution = format!("e{number}");
        server.accept(&json!([
            started(&execution),
            step(&execution, "s1", "fs:list", &[]),
            step(&execution, "s2", next, &["s1"]),
            finished(&execution)
        ]));
    }
    let related = eventually("the measures", || {
        let answer = server.get("/v1/related?tool=fs:list").json();
        (answer["neighbours"]["out"][0]["observations"] == 3).then_some(answer)
    });
    let order: Vec<&Value> = related["neighbours"]["out"].as_array().unwrap().iter().map(|link| &link["tool"]).collect();
    assert_eq!(order[..3], [&json!("a:three"), &json!("a:two"), &json!("a:one")]);
    let after = &related["related_tools"][0];
    assert_eq!(
        (&after["tool"], &after["times"], &after["of"], &after["score"]),
        (&json!("a:three"), &json!(3), &json!(6), &json!(0.5))
    );
    let printed = pml().args(["related", "fs:list", "--url", server.url()]).output().unwrap();
    assert!(String::from_utf8_lossy(&printed.stdout).contains("3 of 6"), "{printed:?}");
}

#[test]
fn edges_of_the_same_strength_are_in_the_order_of_their_ends() {
    let server = Server::with(&[("TEMPLATES__PATH", "")]);
    for (number, tools) in [["z:a", "z:b"], ["a:b", "a:c"], ["a:b", "a:a"]].into_iter().enumerate() {
        let execution = format!("e{number}");
        let [one, two] = tools;
        server.accept(&json!([
            started(&execution),
            step(&execution, "s1", one, &[]),
            step(&execution, "s2", two, &["s1"]),
            finished(&execution)
        ]));
    }
    server.settled_state();
    let graph = server.ask("/v1/graph?kind=provides");
    let ends: Vec<String> = graph["edges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|edge| format!("{}>{}", edge["from"].as_str().unwrap(), edge["to"].as_str().unwrap()))
        .collect();
    assert_eq!(ends, ["a:b>a:a", "a:b>a:c", "z:a>z:b"]);
}

#[test]
fn commands_on_a_data_directory_take_the_same_names() {
    let mut server = learnt();
    assert_eq!(server.terminate(), Some(0));
    let data = server.data();
    let related = run(0, &["related", "list-and-pack", "--data", text(&data)]).json();
    assert!(related["tool"].as_str().unwrap().starts_with("capability:"), "{related}");
    let home = TempDir::new().unwrap();
    let missing = pml().args(["related", "nothing-so", "--data", text(&data)]).current_dir(home.path()).output().unwrap();
    assert!(String::from_utf8_lossy(&missing.stderr).contains("no known tool or capability is called so"), "{missing:?}");
}
