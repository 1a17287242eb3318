//! The trainer: it trains by itself and by hand, records what it did once, stops when it is told to, and people may overrule it.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use pml::clock::Clock;
use pml::core::event::{Event, NewRecord};
use pml::core::id::Seq;
use pml::core::state::State;
use pml::core::train::{TrainSettings, TrainedPart, train};
use pml::log::EventLog;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::{run, text};
use crate::embedded::Embedded;
use crate::log_contract::redb;
use crate::run::{event, finished, step};
use crate::server::{PATIENCE, Server, eventually, pml};

const VERBS: [(&str, [&str; 2]); 4] = [
    ("archive", ["fs:read", "zip:pack"]),
    ("mail", ["fs:read", "mail:send"]),
    ("plot", ["db:query", "chart:draw"]),
    ("copy", ["fs:read", "fs:write"]),
];
const NOUNS: [&str; 10] =
    ["reports", "invoices", "photos", "contracts", "letters", "orders", "notes", "logs", "drawings", "budgets"];
const TOOLS: [(&str, &str); 6] = [
    ("fs:read", "Read a file"),
    ("fs:write", "Write a file"),
    ("zip:pack", "Pack files into an archive"),
    ("mail:send", "Send a mail with attachments"),
    ("db:query", "Query a database table"),
    ("chart:draw", "Draw a chart of numbers"),
];
/// Trains after the first thirty traces and as fast as it can.
const TRAINS: [(&str, &str); 2] = [("TRAINER__ENABLED", "true"), ("TRAINER__CORE_SHARE", "1.0")];

/// Every verb with every noun: the intent, and its two calls.
fn procedures() -> impl Iterator<Item = (String, [&'static str; 2])> {
    NOUNS.iter().flat_map(|noun| VERBS.iter().map(move |(verb, calls)| (format!("{verb} the {noun}"), *calls)))
}

fn tools() -> Value {
    let tool = |(id, description): &(&str, &str)| {
        event("tool.registered", json!({"tool": id, "name": id, "description": description}))
    };
    TOOLS.iter().map(tool).collect()
}

/// The events of one run.
fn run_of(execution: &str, intent: &str, [first, second]: [&str; 2]) -> Vec<Value> {
    vec![
        event("execution.started", json!({"execution": execution, "intent": intent})),
        step(execution, "s1", first, &[]),
        step(execution, "s2", second, &["s1"]),
        finished(execution),
    ]
}

/// Six tools and forty runs.
pub(crate) fn history() -> Value {
    let mut events = tools().as_array().unwrap().clone();
    for (number, (intent, calls)) in procedures().enumerate() {
        events.extend(run_of(&format!("e{number}"), &intent, calls));
    }
    Value::Array(events)
}

/// Posts to a route of the models; returns status and answer.
pub(crate) fn post(server: &Server, path: &str, body: &Value) -> (u16, Value) {
    let answer = server.question(path, body);
    (answer.status, answer.json())
}

pub(crate) fn runs(models: &Value) -> Vec<Value> {
    models["runs"].as_array().unwrap().clone()
}

/// The models, once a run is recorded.
pub(crate) fn trained_models(server: &Server) -> Value {
    eventually("a training run", || {
        let models = server.ask("/v1/models");
        (!runs(&models).is_empty() && models["trainer"]["running"].is_null()).then_some(models)
    })
}

#[test]
fn a_server_trains_by_itself_after_enough_traces_and_on_request() {
    let server = Server::with(&TRAINS);
    server.accept(&history());
    let models = trained_models(&server);
    for run in runs(&models) {
        let version = run["version"].as_str().unwrap();
        assert!(version.starts_with(run["part"].as_str().unwrap()), "{run}");
        assert!(run["accepted"].is_boolean() && !run["reason"].as_str().unwrap().is_empty(), "{run}");
        assert_eq!(run["digest"].as_str().unwrap().len(), 64, "{run}");
    }
    let last = &models["trainer"]["last"];
    assert!(["accepted", "refused"].contains(&last["verdict"].as_str().unwrap()), "{last}");
    let before = runs(&models).len();

    let (status, taken) = post(&server, "/v1/models/train", &json!({"parts": ["head"], "seed": 5}));
    assert_eq!((status, &taken["request"]), (202, &json!(1)));
    let models = eventually("the requested run", || {
        Some(server.ask("/v1/models")).filter(|models| models["trainer"]["answered"] == json!(1))
    });
    let new = &runs(&models)[..runs(&models).len() - before];
    assert!(new.iter().any(|run| run["part"] == "head" && run["seed"] == 5), "{new:?}");
    assert!(new.iter().all(|run| run["part"] != "encoder"), "only what was asked for: {new:?}");
    assert_eq!(post(&server, "/v1/models/train", &json!({"parts": ["heart"]})).0, 400);
    let metrics = server.get("/metrics").text;
    for name in ["pml_training_runs_total{verdict=", "pml_training_last_seconds ", "pml_training_running 0"] {
        assert!(metrics.contains(name), "{name}: {metrics}");
    }
}

#[test]
fn a_process_that_does_not_train_says_so() {
    let server = Server::start();
    let (status, told) = post(&server, "/v1/models/train", &json!({}));
    assert!(status == 409 && told["error"].as_str().unwrap().contains("trainer.enabled"), "{told}");
    assert!(server.ask("/v1/models").get("trainer").is_none());
}

/// A data directory that learnt the history.
fn imported(home: &Path) -> std::path::PathBuf {
    let (dataset, data) = (home.join("dataset"), home.join("data"));
    std::fs::create_dir_all(&dataset).unwrap();
    let lines = |values: Vec<Value>| values.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let tool = |(id, description): &(&str, &str)| {
        let server = id.split(':').next().unwrap();
        json!({"tool_id": id, "server_id": server, "name": id, "description": description})
    };
    let trace = |(number, (intent, calls)): (usize, (String, [&str; 2]))| {
        let steps = json!([
            {"id": "s1", "tool_id": calls[0], "depends_on": []}, {"id": "s2", "tool_id": calls[1], "depends_on": ["s1"]}
        ]);
        json!({"trace_id": format!("t{number}"), "intent": intent, "steps": steps, "success": true})
    };
    std::fs::write(dataset.join("tools.jsonl"), lines(TOOLS.iter().map(tool).collect())).unwrap();
    std::fs::write(dataset.join("traces_train.jsonl"), lines(procedures().enumerate().map(trace).collect())).unwrap();
    run(0, &["import", text(&dataset), "--data", text(&data)]);
    data
}

#[test]
fn a_data_directory_is_trained_by_hand_and_a_recorded_run_can_be_repeated() {
    let home = TempDir::new().unwrap();
    let data = imported(home.path());
    let on_data = |code: i32, arguments: &[&str]| run(code, &[arguments, &["--data", text(&data)]].concat()).json();
    assert_eq!(on_data(0, &["model", "list"])["runs"], json!([]));
    let dry = on_data(0, &["train", "--seed", "7", "--dry-run"]);
    assert_eq!((&dry["recorded"], &dry["seed"]), (&json!(false), &json!(7)));
    assert_eq!(on_data(0, &["model", "list"])["runs"], json!([]), "a dry run records nothing");

    let trained = on_data(0, &["train", "--seed", "7"]);
    let recorded = runs(&trained);
    assert!(!recorded.is_empty() && trained["recorded"] == json!(true), "{trained}");
    let digests = |runs: &[Value]| {
        let mut digests: Vec<(String, String)> =
            runs.iter().map(|run| (run["part"].to_string(), run["digest"].to_string())).collect();
        digests.sort();
        digests
    };
    assert_eq!(digests(&recorded), digests(&runs(&dry)), "the same state and seed");
    assert_eq!(runs(&on_data(0, &["model", "list"])), recorded);
    let (version, seq) = (recorded[0]["version"].as_str().unwrap(), recorded[0]["seq"].to_string());
    let shown = on_data(0, &["model", "show", version]);
    assert_eq!((&shown["digest"], &shown["curve"]), (&recorded[0]["digest"], &recorded[0]["curve"]));
    check_curves(&recorded);
    let head = recorded.iter().find(|run| run["part"] == "head").unwrap()["version"].as_str().unwrap();
    let table = pml().args(["model", "show", head, "--data", text(&data)]).output().unwrap();
    assert!(String::from_utf8_lossy(&table.stdout).contains("held out"), "{table:?}");
    let compared = on_data(0, &["model", "diff", version, version]);
    assert!(compared["metrics"].as_array().unwrap().iter().all(|metric| metric["change"] == json!(0.0)), "{compared}");
    for name in [version, &seq] {
        let repeated = on_data(0, &["retrain", "--at", name]);
        assert_eq!(repeated["equal"], json!(true), "{repeated}");
        assert_eq!(repeated["parts"].as_array().unwrap().len(), recorded.len(), "{repeated}");
    }
    let unknown = on_data(1, &["retrain", "--at", "1"]);
    assert!(unknown["error"].as_str().unwrap().contains("no such training run"), "{unknown}");
}

/// Every part but the ranker is recorded with its epochs: first with some runs held out, then on all of them.
fn check_curves(runs: &[Value]) {
    for run in runs {
        let curve = run["curve"].as_array().unwrap();
        assert_eq!(curve.is_empty(), run["part"] == "ranker", "{run}");
        assert!(curve.len() <= 64 && curve.iter().all(|point| point["loss"].as_f64() >= Some(0.0)), "{run}");
        let stages: Vec<&str> = curve.iter().map(|point| point["stage"].as_str().unwrap()).collect();
        assert!(stages.is_sorted_by(|a, b| a == b || *a == "validation"), "{stages:?}");
        let held_out = |point: &Value| point["validation"].is_f64() == (point["stage"] == "validation");
        assert!(curve.iter().all(held_out), "{run}");
    }
}

#[test]
fn a_restored_backup_answers_bit_for_bit_with_its_trained_parts() {
    let mut server = Server::with(&TRAINS);
    server.accept(&history());
    trained_models(&server);
    // Training goes on with every run that is asked for; from here on nothing changes.
    assert_eq!(server.terminate(), Some(0));
    promote_by_hand(&server.data(), 3);
    server.restart_with(&[("TRAINER__ENABLED", "false")]);
    let mut other = Server::start();
    assert_eq!(other.terminate(), Some(0));
    std::fs::remove_dir_all(other.data()).unwrap();
    let home = TempDir::new().unwrap();
    let file = home.path().join("backup");
    run(0, &["backup", text(&file), "--url", server.url()]);
    run(0, &["restore", text(&file), "--data", text(&other.data())]);
    other.restart();
    let facts = |server: &Server| {
        let state = server.settled_state();
        let models = server.ask("/v1/models");
        let question = json!({"intent": "archive the photos and mail them", "context": ["fs:read"]});
        let predicted = server.question("/v1/predict", &question).json();
        (state["digest"].clone(), models["serving"].clone(), predicted["ranked"].clone())
    };
    let (before, after) = (facts(&server), facts(&other));
    assert!(before.1["head"]["version"].is_string(), "{before:?}");
    assert_eq!(before, after);
    let discover = |server: &Server| {
        let question = json!({"intent": "archive the photos"});
        server.question("/v1/discover", &question).json()["results"].clone()
    };
    // The index follows the state: its weights are fitted in the first pause.
    eventually("the same answer of discover", || (discover(&server) == discover(&other)).then_some(()));
}

/// The parts that a run on the log of a data directory gives, without the gate.
fn parts_of(data: &Path, seed: u64) -> Vec<TrainedPart> {
    let state = folded(data);
    train(&state, &TrainSettings::default(), seed, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn folded(data: &Path) -> State {
    let log = redb(data);
    let mut state = State::default();
    for record in block_on(log.read(Seq::ZERO, usize::MAX)).unwrap() {
        state.apply(&record);
    }
    state
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn append(data: &Path, events: Vec<Event>) {
    let (log, clock) = (redb(data), Clock::system());
    let fact = |event| NewRecord {
        id: clock.fresh_id(),
        time: clock.now(),
        source: "urn:test".into(),
        causation: None,
        envelope: None,
        event,
    };
    block_on(log.append(events.into_iter().map(|event| fact(event).into()).collect())).unwrap();
}

/// Trains the head with a seed and records it as if the gate had let it in. Returns its version.
fn promote_by_hand(data: &Path, seed: u64) -> String {
    let mut head = parts_of(data, seed).swap_remove(0);
    head.event.accepted = true;
    append(data, head.events());
    head.event.version.to_string()
}

#[test]
fn a_person_may_promote_and_roll_back_what_is_kept_and_nothing_else() {
    let mut server = Server::start();
    server.accept(&history());
    server.settled_state();
    assert_eq!(server.terminate(), Some(0));
    let first = promote_by_hand(&server.data(), 1);
    let second = promote_by_hand(&server.data(), 2);
    let mut refused = parts_of(&server.data(), 3).swap_remove(0);
    refused.event.accepted = false;
    append(&server.data(), refused.events());
    server.restart();
    let serving = || server.ask("/v1/models")["serving"]["head"].clone();
    assert_eq!(serving(), json!({"version": second, "previous": first}));
    let promote = |version: &str| post(&server, &format!("/v1/models/{version}/promote"), &json!({}));
    let refused = refused.event.version.to_string();
    let problems = [
        ("nonsense", 404, "version: must be a part"),
        ("head-000000000000", 404, "no version 'head-000000000000' is known; `pml model list`"),
        (second.as_str(), 409, "serves already"),
        (refused.as_str(), 409, "the gate refused"),
    ];
    for (version, status, expected) in problems {
        let (told, answer) = promote(version);
        assert!(told == status && answer["error"].as_str().unwrap().contains(expected), "{version}: {told} {answer}");
    }
    assert_eq!(promote(&first).1["serving"], json!(first));
    assert_eq!(serving(), json!({"version": first, "previous": second}));
    let rollback = |part: &str| post(&server, "/v1/models/rollback", &json!({"part": part}));
    assert_eq!(rollback("head").1["serving"], json!(second));
    let (status, answer) = rollback("encoder");
    assert!(status == 409 && answer["error"].as_str().unwrap().contains("nothing to roll back"), "{answer}");
    assert_eq!(rollback("heart").0, 400);
    // The same by the command line, with and without a server.
    let told = run(0, &["model", "promote", &first, "--url", server.url()]).json();
    assert_eq!(told["serving"], json!(first));
    assert_eq!(server.terminate(), Some(0));
    let told = run(0, &["model", "rollback", "head", "--data", text(&server.data())]).json();
    assert_eq!(told["serving"], json!(second));
    let told = run(1, &["model", "promote", &second, "--data", text(&server.data())]).json();
    assert!(told["error"].as_str().unwrap().contains("serves already"), "{told}");
}

#[actix_rt::test]
async fn a_run_is_stopped_within_seconds_and_leaves_no_record() {
    // A thousandth of a core: after its first epoch the run sleeps for much longer than the test.
    let settings = [("TRAINER__ENABLED", "true"), ("TRAINER__CORE_SHARE", "0.0001")];
    let embedded = Embedded::start(Clock::system(), &settings).await;
    embedded.accept(&history()).await;
    let trainer = embedded.runtime.trainer.clone().unwrap();
    let begun = async {
        while trainer.status().running.is_none_or(|running| running.epochs == 0) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, begun).await.expect("a run begins");
    let records = embedded.records().await;
    assert!(!records.iter().any(|record| matches!(record.event(), Event::ModelTrained(_))));
    tokio::time::timeout(Duration::from_secs(10), embedded.stop()).await.expect("it stops in time");
    assert_eq!(trainer.status().last.unwrap().verdict.name(), "stopped");
}

#[actix_rt::test]
async fn a_run_that_would_take_too_much_memory_is_not_started() {
    let embedded = Embedded::start(Clock::system(), &[("TRAINER__ENABLED", "true"), ("TRAINER__MEMORY_MB", "1")]).await;
    embedded.accept(&history()).await;
    let trainer = embedded.runtime.trainer.clone().unwrap();
    let ended = async {
        while trainer.status().last.is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("a run is due");
    let last = trainer.status().last.unwrap();
    assert_eq!(last.verdict.name(), "over_memory");
    assert!(last.problem.unwrap().contains("trainer.memory_mb"));
    embedded.stop().await;
}
