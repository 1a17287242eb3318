//! The routes behind the page: the list of executions, the records of one, measures of the graph, quality over time, the system, the
//! past, and what people decide about capabilities.

use pml::clock::Clock;
use pml::gateway::http::{hash_key, new_key};
use serde_json::{Value, json};

use crate::run::{event, finished, started, step, whole};
use crate::server::{Server, agent, eventually, pml};

fn names(answer: &Value) -> Vec<&str> {
    answer["executions"].as_array().unwrap().iter().map(|one| one["execution"].as_str().unwrap()).collect()
}

#[test]
fn executions_are_found_by_words_callee_outcome_and_time_and_come_in_pages() {
    let server = Server::start();
    for number in 1..=5 {
        server.accept(&whole(&format!("e{number}")));
        server.closed_trace(&format!("e{number}"));
    }
    let failed = |success: bool| event("execution.finished", json!({"execution": "sad", "success": success}));
    server.accept(&json!([
        event("execution.started", json!({"execution": "sad", "intent": "Mail the Report"})),
        step("sad", "s1", "mail:send", &[]),
        failed(false),
    ]));
    server.closed_trace("sad");
    server.accept(&json!([started("now")]));
    let list = |query: &str| server.ask(&format!("/v1/executions{query}"));
    eventually("the open one", || (names(&list("")).len() == 7).then_some(()));
    assert_eq!(names(&list("")), ["now", "sad", "e5", "e4", "e3", "e2", "e1"]);
    assert_eq!(names(&list("?q=report%20MAIL")), ["sad"]);
    assert_eq!(names(&list("?tool=mail:send")), ["sad"]);
    assert_eq!(names(&list("?outcome=failure")), ["sad"]);
    assert_eq!(names(&list("?outcome=open")), ["now"]);
    assert_eq!(list("?outcome=failure")["executions"][0]["tools"], json!(["mail:send"]));
    let page = list("?limit=3");
    assert_eq!((names(&page), &page["next"]), (vec!["now", "sad", "e5"], &json!("e5")));
    let page = list("?limit=2&after=e5");
    assert_eq!((names(&page), &page["next"]), (vec!["e4", "e3"], &json!("e3")));
    assert_eq!((names(&list("?after=e3")), &list("?after=e3")["next"]), (vec!["e2", "e1"], &Value::Null));
    let time = Clock::system().now().to_string();
    assert_eq!(names(&list(&format!("?since={time}"))), [""; 0]);
    assert_eq!(names(&list(&format!("?until={time}&q=report"))), ["sad"]);
    let capability = server.ask("/v1/capabilities")["capabilities"][0]["capability"].as_str().unwrap().to_owned();
    assert_eq!(names(&list(&format!("?capability=capability:{capability}"))), ["e5", "e4", "e3", "e2", "e1"]);
    for (query, field) in [("?outcome=bad", "outcome"), ("?since=monday", "since"), ("?limit=0", "limit")] {
        let answer = server.get(&format!("/v1/executions{query}"));
        assert!(answer.status == 400 && answer.text.contains(field), "{answer:?}");
    }
    assert_eq!(server.get("/v1/executions?after=never").status, 404);
    server.accept(&json!([started("now2"), started("now3")]));
    let whole = eventually("the open ones", || Some(list("")).filter(|whole| names(whole).len() == 9));
    let (mut walked, mut after) = (Vec::new(), String::new());
    loop {
        let page = list(&format!("?limit=2{after}"));
        walked.extend(names(&page).into_iter().map(str::to_owned));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(walked, names(&whole), "pages reach the completed ones, however many are open");
}

#[test]
fn the_list_of_executions_reaches_into_a_snapshot() {
    let mut server = Server::start();
    for number in 1..=3 {
        server.accept(&whole(&format!("e{number}")));
        server.closed_trace(&format!("e{number}"));
    }
    server.question("/v1/snapshots", &json!({}));
    server.restart();
    server.accept(&whole("e4"));
    server.closed_trace("e4");
    assert_eq!(names(&server.ask("/v1/executions")), ["e4", "e3", "e2", "e1"]);
    assert_eq!(names(&server.ask("/v1/executions?after=e3")), ["e2", "e1"]);
}

#[test]
fn the_records_of_one_execution_are_read_alone() {
    let server = Server::start();
    for name in ["e1", "e2", "e3"] {
        server.accept(&whole(name));
        server.closed_trace(name);
    }
    let lines = server.get("/v1/events?execution=e2").text;
    let kinds: Vec<String> =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned()).collect();
    let expected = ["execution.started", "step.finished", "step.finished", "execution.finished", "trace.completed"];
    assert_eq!(kinds, expected.map(|kind| format!("pml.{kind}")));
    assert_eq!(server.get("/v1/events?execution=e2&kinds=step.finished").text.lines().count(), 2);
    assert_eq!(server.get("/v1/events?execution=unknown").text, "");
    assert_eq!(server.get("/v1/events?execution=").status, 400);
}

#[test]
fn the_graph_tells_rank_community_and_level_when_asked() {
    let server = Server::with(&[("TEMPLATES__PATH", "")]);
    server.accept(&whole("e1"));
    server.settled_state();
    assert_eq!(server.ask("/v1/graph")["measured"], Value::Null);
    let measured = eventually("measures", || {
        let measured = server.ask("/v1/graph?measures=true")["measured"].as_array().unwrap().clone();
        (measured.len() == 3).then_some(measured)
    });
    let sum: f64 = measured.iter().map(|node| node["pagerank"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-6, "{measured:?}");
    let capability = measured.iter().find(|node| node["node"].as_str().unwrap().starts_with("capability:")).unwrap();
    assert_eq!(capability["level"], json!(0));
    assert!(measured.iter().all(|node| node["community"].is_string()), "{measured:?}");
}

#[test]
fn predictions_are_measured_over_time() {
    let server = Server::with(&[("PREDICTION__SERVE", "all")]);
    for number in 0..4 {
        let name = format!("e{number}");
        server
            .accept(&json!([event("execution.started", json!({"execution": name, "intent": "copy a file", "session": "s"}))]));
        for (at, tool) in ["fs:read", "fs:write"].into_iter().enumerate() {
            let asked = format!("/v1/events?execution={name}&kinds=prediction.served");
            eventually("a prediction", || (server.get(&asked).text.lines().count() > at).then_some(()));
            server.accept(&json!([step(&name, &format!("s{at}"), tool, &[])]));
        }
        server.accept(&json!([finished(&name)]));
        server.closed_trace(&name);
    }
    for over in ["hour", "day", "all"] {
        let quality = server.ask(&format!("/v1/quality?over={over}"));
        let total: u64 = quality["spans"].as_array().unwrap().iter().map(|span| span["n"].as_u64().unwrap()).sum();
        assert!(total >= 8, "{quality}");
        let binned: u64 = quality["calibration"].as_array().unwrap().iter().map(|bin| bin["n"].as_u64().unwrap()).sum();
        assert_eq!(binned, total, "{quality}");
        let span = &quality["spans"][0];
        assert!(span["hit1"].as_f64().unwrap() <= 1.0 && span["log_loss"].as_f64().unwrap() > 0.0, "{quality}");
    }
    assert_eq!(server.get("/v1/quality?over=week").status, 400);
}

#[test]
fn the_system_shows_settings_without_secrets_and_roles() {
    let key = new_key();
    let setting = format!("[{{name = 'boss', hash = '{}', scopes = ['admin']}}]", hash_key(&key));
    let server = Server::with(&[("HTTP__KEYS", &setting), ("NATS__PASSWORD", "hunter2hunter2"), ("LIMITS__STEPS_MAX", "77")]);
    let url = format!("{}/v1/system", server.url());
    let mut response = agent().get(url).header("authorization", format!("Bearer {key}")).call().unwrap();
    let text = response.body_mut().read_to_string().unwrap();
    assert!(!text.contains("hunter2") && !text.contains(&hash_key(&key)), "{text}");
    let system: Value = serde_json::from_str(&text).unwrap();
    let settings = &system["settings"];
    assert_eq!((&settings["limits"]["steps_max"], &settings["nats"]["password"]), (&json!(77), &json!("(hidden)")));
    assert_eq!(settings["http"]["keys"], json!([{"name": "boss", "scopes": ["admin"]}]));
    let roles = system["roles"].as_array().unwrap();
    assert!(roles.len() == 8 && roles.iter().all(|role| role["state"] == "active"), "{system}");
}

/// A server that learnt one procedure, and then another; and the position between the two.
fn two_procedures() -> (Server, u64) {
    let server = Server::with(&[("TEMPLATES__PATH", "")]);
    server.accept(&whole("e1"));
    server.settled_state();
    let before = server.tail();
    server.accept(&json!([
        event("execution.started", json!({"execution": "e2", "intent": "mail a letter"})),
        step("e2", "s1", "mail:send", &[]),
        finished("e2"),
    ]));
    server.settled_state();
    (server, before)
}

#[test]
fn questions_are_answered_as_of_a_moment_of_the_past() {
    let (server, before) = two_procedures();
    let ask = |path: &str, body: Value| server.question(path, &body).json();
    let items = |answer: &Value| answer["results"].to_string();
    let intent = json!({"intent": "mail a letter"});
    eventually("the index", || items(&ask("/v1/discover", intent.clone())).contains("mail:send").then_some(()));
    let past = ask(&format!("/v1/discover?at={before}"), intent);
    assert!(!items(&past).contains("mail:send") && items(&past).contains("fs:read"), "{past}");
    for path in ["/v1/predict", "/v1/suggest", "/v1/explain"] {
        let answer = server.question(&format!("{path}?at={before}"), &json!({"intent": "copy a file"}));
        assert!(answer.status == 200 && !answer.text.contains("mail:send"), "{path} {answer:?}");
    }
    let graph = server.ask(&format!("/v1/graph?at={before}&measures=true"));
    assert_eq!((&graph["based_on_seq"], &graph["nodes"]), (&json!(before), &json!(3)));
    assert_eq!(server.ask(&format!("/v1/related?tool=fs:read&at={before}"))["based_on_seq"], json!(before));
    assert_eq!(server.get(&format!("/v1/related?tool=mail:send&at={before}")).status, 404);
    assert_eq!(server.ask("/v1/graph?at=now")["nodes"], server.ask("/v1/graph")["nodes"]);
    let records = server.records();
    let time = records.iter().find(|record| record["seq"] == json!(before)).unwrap()["recordedat"].as_str().unwrap().to_owned();
    assert_eq!(server.ask(&format!("/v1/graph?at={time}"))["based_on_seq"], json!(before));
    for (at, problem) in
        [("9999999", "beyond the end"), ("0", "before the first"), ("2000-01-01T00:00:00Z", "before the first")]
    {
        let answer = server.get(&format!("/v1/graph?at={at}"));
        assert!(answer.status == 404 && answer.text.contains(problem), "{answer:?}");
    }
    assert_eq!(server.question("/v1/predict?att=3", &json!({})).status, 400);
}

#[test]
fn the_past_is_the_same_from_a_snapshot_and_from_the_beginning() {
    let (mut server, before) = two_procedures();
    let graph = |server: &Server| server.ask(&format!("/v1/graph?at={before}&measures=true"));
    let folded = graph(&server);
    server.question("/v1/snapshots", &json!({}));
    let at_snapshot = server.tail();
    server.accept(&whole("e3"));
    server.settled_state();
    server.restart();
    assert_eq!(graph(&server), folded);
    assert_eq!(server.ask(&format!("/v1/graph?at={at_snapshot}"))["based_on_seq"], json!(at_snapshot));
}

fn capability(server: &Server, handle: &str) -> Value {
    let all = server.ask("/v1/capabilities")["capabilities"].as_array().unwrap().clone();
    all.into_iter().find(|one| one["handle"] == *handle || one["capability"] == *handle).unwrap()
}

#[test]
fn a_person_renames_merges_approves_and_retires_and_takes_it_back() {
    let (server, _) = two_procedures();
    let all = server.ask("/v1/capabilities")["capabilities"].as_array().unwrap().clone();
    let of = |tool: &str| all.iter().find(|one| one["calls"][0] == *tool).unwrap()["handle"].as_str().unwrap().to_owned();
    let (copy, mail) = (of("fs:read"), of("mail:send"));
    let decide = |name: &str, what: &str, body: Value| server.question(&format!("/v1/capabilities/{name}/{what}"), &body);
    let own = capability(&server, &copy)["name"].clone();
    let renamed = decide(&copy, "rename", json!({"name": " Copy with token=sk-abcdefghijklmnopqrstuvwxyz012345 "}));
    let name = renamed.json()["capability"]["name"].as_str().unwrap().to_owned();
    assert!(renamed.status == 200 && name.starts_with("Copy with") && !name.contains("sk-abc"), "{renamed:?}");
    assert_eq!(capability(&server, &copy)["own_name"], own);
    assert_eq!(decide(&copy, "rename", json!({"name": null})).json()["capability"]["name"], own);
    assert_eq!(decide(&copy, "rename", json!({"name": null})).status, 409);
    assert_eq!(decide(&copy, "rename", json!({"name": "  "})).status, 400);
    assert_eq!(decide("nobody", "retire", json!({"retired": true})).status, 404);

    assert_eq!(decide(&copy, "approve", json!({"approved": true})).json()["capability"]["status"], "approved");
    assert_eq!(decide(&copy, "approve", json!({"approved": false})).json()["capability"]["status"], "learned");

    let merged = decide(&copy, "merge", json!({"into": mail})).json();
    assert!(merged["capability"]["merged_into"].is_string(), "{merged}");
    assert_eq!(capability(&server, &mail)["usage_count"], json!(2));
    let intents = |server: &Server| capability(server, &mail)["intents"].as_array().unwrap().len();
    assert_eq!(intents(&server), 2, "what the merged one was used for counts for it");
    assert_eq!(decide(&mail, "merge", json!({"into": copy})).status, 409);
    let found = |server: &Server| {
        server.question("/v1/discover", &json!({"name": format!("capability:{copy}")})).json()["results"].to_string()
    };
    eventually("the merged one is gone", || (!found(&server).contains(&copy)).then_some(()));
    assert_eq!(decide(&copy, "merge", json!({"into": null})).status, 200);
    assert_eq!((&capability(&server, &mail)["usage_count"], intents(&server)), (&json!(1), 1));

    // Every door that names capabilities: discover, suggest, score, and the targets of predict's signal `hyperpath`.
    let doors = [
        ("discover", json!({"intent": "copy a file", "filter": {"type": "capability"}})),
        ("suggest", json!({"intent": "copy a file"})),
        ("score", json!({"intent": "copy a file", "only": "capability"})),
        ("explain", json!({"intent": "copy a file", "item": "fs:read"})),
    ];
    let offered_by =
        |(door, asked): &(&str, Value)| server.question(&format!("/v1/{door}"), asked).text.contains(&format!("\"{copy}\""));
    let everywhere = |said: &str, wanted: bool| {
        for door in &doors {
            eventually(&format!("{} {said}", door.0), || (offered_by(door) == wanted).then_some(()));
        }
    };
    everywhere("offers it", true);
    assert_eq!(decide(&copy, "retire", json!({"retired": true})).json()["capability"]["retired"], json!(true));
    everywhere("does not offer it", false);
    assert_eq!(decide(&copy, "retire", json!({"retired": false})).status, 200);
    everywhere("offers it again", true);
    let kinds: Vec<String> = server.records().iter().map(|record| record["type"].as_str().unwrap().to_owned()).collect();
    for kind in ["renamed", "merged", "approved", "retired"] {
        assert_eq!(kinds.iter().filter(|found| **found == format!("pml.capability.{kind}")).count(), 2, "{kind}");
    }
}

#[test]
fn the_command_line_decides_too_on_a_server_and_on_a_directory() {
    let (mut server, _) = two_procedures();
    let handle = server.ask("/v1/capabilities")["capabilities"][0]["handle"].as_str().unwrap().to_owned();
    let run = |arguments: &[&str], place: &[&str]| {
        let output = pml().args(["capability"]).args(arguments).args(place).arg("--json").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let url = server.url().to_owned();
    assert_eq!(run(&["rename", &handle, "copy things"], &["--url", &url])["capability"]["name"], "copy things");
    assert_eq!(run(&["retire", &handle], &["--url", &url])["capability"]["retired"], json!(true));
    server.terminate();
    let data = server.data();
    let place = ["--data", data.to_str().unwrap()];
    assert_eq!(run(&["retire", &handle, "--undo"], &place)["capability"]["retired"], json!(false));
    assert_ne!(run(&["rename", &handle, "--undo"], &place)["capability"]["name"], "copy things");
    server.restart();
    assert_eq!(capability(&server, &handle)["retired"], json!(false));
}
