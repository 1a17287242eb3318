//! What comes next: asked, streamed, recorded, and the same again when the log is replayed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use pml::ask::question;
use pml::clock::Clock;
use pml::core::event::{Event, NewRecord, Outcome, PredictionServed, Record};
use pml::core::id::{RecordId, Seq};
use pml::core::live::LiveContext;
use pml::core::predict::threshold::Mode;
use pml::core::predict::{PredictionQuery, predict};
use pml::core::state::State;
use pml::core::trace::Executions;
use pml::embed;
use pml::failpoint;
use serde_json::{Value, json};

use crate::embedded::Embedded;
use crate::run::{event, finished, started, step};
use crate::server::{Answer, PATIENCE, Server, agent, eventually, pml};

pub(crate) fn started_in(execution: &str, session: &str) -> Value {
    event("execution.started", json!({"execution": execution, "session": session, "intent": "copy a file"}))
}

/// Runs that read, then write, and are done.
pub(crate) fn lessons(count: usize) -> Vec<Value> {
    let run = |number: usize| {
        let execution = format!("lesson{number}");
        let steps = [("s1", "fs:read", [].as_slice()), ("s2", "fs:write", &["s1"])];
        let steps = steps.map(|(id, tool, needs)| step(&execution, id, tool, needs));
        [vec![started(&execution)], steps.to_vec(), vec![finished(&execution)]].concat()
    };
    (0..count).flat_map(run).collect()
}

fn blank() -> Server {
    Server::with(&[("TEMPLATES__PATH", "")])
}

fn taught(server: &Server) -> u64 {
    server.accept(&json!(lessons(12)));
    server.settled_state()["applied_seq"].as_u64().unwrap()
}

/// The events of a stream of predictions, from a moment at which it is sure to hear everything.
fn listen(server: &Server, query: &str) -> impl Iterator<Item = (String, Value)> {
    let request = agent().get(format!("{}/v1/predictions{query}", server.url()));
    let response = request.call().unwrap();
    assert_eq!((response.status().as_u16(), &response.headers()["content-type"]), (200, &"text/event-stream".parse().unwrap()));
    let mut lines = BufReader::new(response.into_body().into_reader()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some(": listening"));
    std::iter::from_fn(move || {
        let mut member = |name: &str| lines.find_map(|line| line.strip_prefix(name).map(str::to_owned));
        Some((member("event: ")?, serde_json::from_str(&member("data: ")?).unwrap()))
    })
}

fn first(prediction: &Value) -> &str {
    prediction["ranked"][0]["item"].as_str().unwrap()
}

/// The impressions in the log, by the id of the record that caused each.
fn impressions(server: &Server) -> BTreeMap<String, Value> {
    let told = server.records().into_iter().filter(|record| record["type"] == "pml.prediction.served");
    let by_cause: Vec<_> = told.map(|record| (record["causation"].as_str().unwrap().to_owned(), record)).collect();
    let count = by_cause.len();
    let by_cause: BTreeMap<_, _> = by_cause.into_iter().collect();
    assert_eq!(by_cause.len(), count, "one impression for each cause");
    by_cause
}

#[test]
fn a_subscriber_hears_what_comes_next_after_the_start_and_after_each_step() {
    let server = blank();
    taught(&server);
    let mut heard = listen(&server, "?session=mine");
    let events = [
        (started_in("e1", "mine"), "fs:read"),
        (step("e1", "s1", "fs:read", &[]), "fs:write"),
        (step("e1", "s2", "fs:write", &["s1"]), "done"),
    ];
    for (event, expected) in &events {
        server.accept(&json!([started_in(&format!("other-{expected}"), "theirs")]));
        server.accept(event);
        let (kind, prediction) = heard.next().unwrap();
        assert_eq!((kind.as_str(), first(&prediction)), ("prediction", *expected), "{prediction}");
        assert_eq!(
            (&prediction["execution"], &prediction["session"], &prediction["cause"]),
            (&json!("e1"), &json!("mine"), &event["id"])
        );
        let p: f64 = prediction["ranked"].as_array().unwrap().iter().map(|ranked| ranked["p"].as_f64().unwrap()).sum();
        assert!(p > 0.5 && p <= 1.0 + 1e-9, "{prediction}");
        assert!(!prediction["ranked"][0]["reasons"].as_array().unwrap().is_empty(), "{prediction}");
        let target = &prediction["target"];
        let (next, path) = match *expected {
            "fs:read" => (json!(["fs:read"]), Value::Null),
            "fs:write" => (json!(["fs:write"]), json!(["fs:read", "fs:write", target["item"]])),
            _ => (json!([]), json!(["fs:write", target["item"]])),
        };
        assert_eq!((&target["by"], &target["next"], &target["path"]), (&json!("memory"), &next, &path), "{prediction}");
        let recorded = eventually("the impression", || impressions(&server).remove(event["id"].as_str().unwrap()));
        assert_eq!(recorded["data"]["prediction"], prediction["prediction"]);
        for member in ["based_on_seq", "model", "threshold"] {
            assert_eq!(recorded["data"][member], prediction[member], "{member}");
        }
        for (recorded, told) in
            recorded["data"]["ranked"].as_array().unwrap().iter().zip(prediction["ranked"].as_array().unwrap())
        {
            assert_eq!((&recorded["item"], &recorded["p"]), (&told["item"], &told["p"]), "as it was told, to the last digit");
        }
    }
    let metrics = server.get("/metrics").text;
    assert!(metrics.contains("pml_predictions_served_total 6"), "{metrics}");
}

#[test]
fn without_a_session_whoever_listens_is_told_and_nobody_else_costs_anything() {
    let server = blank();
    taught(&server);
    server.accept(&json!([started("quiet"), step("quiet", "s1", "fs:read", &[])]));
    let mut all = listen(&server, "");
    let mut own = listen(&server, "?session=e.1");
    server.accept(&started("e.1"));
    server.accept(&started_in("e2", "s"));
    let (_, prediction) = own.next().unwrap();
    assert_eq!((first(&prediction), prediction.get("session")), ("fs:read", None));
    let executions: Vec<Value> = all.by_ref().take(2).map(|(_, prediction)| prediction["execution"].clone()).collect();
    assert_eq!(executions, ["e.1", "e2"]);
    server.accept(&step("quiet", "s2", "fs:write", &["s1"]));
    let (_, prediction) = all.next().unwrap();
    assert_eq!((&prediction["execution"], first(&prediction)), (&json!("quiet"), "done"), "it is known from its beginning");
    let told = eventually("the impressions", || Some(impressions(&server)).filter(|told| told.len() == 3));
    let about: Vec<&Value> = told.values().map(|record| &record["data"]["execution"]).collect();
    assert_eq!(about.iter().filter(|execution| ***execution == "quiet").count(), 1, "{about:?}");
}

#[test]
fn predictions_can_be_for_all_or_for_nobody() {
    let all = Server::with(&[("TEMPLATES__PATH", ""), ("PREDICTION__SERVE", "all")]);
    all.accept(&started("e1"));
    eventually("the impression", || Some(impressions(&all)).filter(|served| served.len() == 1));
    let none = Server::with(&[("TEMPLATES__PATH", ""), ("PREDICTION__SERVE", "none")]);
    let _listener = listen(&none, "");
    none.accept(&json!([started_in("e1", "s"), step("e1", "s1", "fs:read", &[]), finished("e1")]));
    none.closed_trace("e1");
    assert_eq!(impressions(&none), BTreeMap::new());
    assert_eq!(none.question("/v1/predict", &json!({})).status, 200, "questions are answered");
}

#[test]
fn streams_are_limited_and_wrong_sessions_refused() {
    let server = Server::with(&[("HTTP__STREAMS_MAX", "1")]);
    let get = |query: &str| Answer::read(agent().get(format!("{}/v1/predictions{query}", server.url())).call()).unwrap();
    let wrong = get("?session=");
    assert!(wrong.status == 400 && wrong.text.contains("session: is empty"), "{wrong:?}");
    assert_eq!(get("?sesion=x").status, 400);
    let _held = listen(&server, "");
    let refused = get("");
    assert!(refused.status == 429 && refused.text.contains("http.streams_max"), "{refused:?}");
}

/// The answer, once it knows the record at `seq`.
fn predicted(server: &Server, seq: u64, question: &Value) -> Value {
    eventually("the view", || {
        let answer = server.question("/v1/predict", question);
        assert_eq!(answer.status, 200, "{answer:?}");
        Some(answer.json()).filter(|answer| answer["based_on_seq"].as_u64() >= Some(seq))
    })
}

#[test]
fn a_question_is_answered_with_and_without_intent_and_context() {
    let server = blank();
    let empty = server.question("/v1/predict", &json!({})).json();
    assert_eq!(
        (&empty["decision"], &empty["ranked"], &empty["prediction"]),
        (&json!("hold"), &json!([]), &Value::Null),
        "{empty}"
    );
    assert!(empty["note"].as_str().unwrap().starts_with("nothing is known yet"), "{empty}");
    let seq = taught(&server);
    let ask = |question: &Value| predicted(&server, seq, question);
    assert_eq!(first(&ask(&json!({}))), "fs:read");
    assert_eq!(first(&ask(&json!({"intent": "copy a file"}))), "fs:read");
    assert_eq!(first(&ask(&json!({"context": ["mcp__fs__read"]}))), "fs:write");
    let sure = ask(&json!({"intent": "copy a file", "context": ["fs:read", "fs:write"]}));
    assert_eq!((first(&sure), &sure["decision"]), ("done", &json!("emit")), "{sure}");
    let all = ask(&json!({"intent": "copy a file", "context": ["fs:read"], "k": 50}));
    let total: f64 = all["ranked"].as_array().unwrap().iter().map(|ranked| ranked["p"].as_f64().unwrap()).sum();
    assert!((total - 1.0).abs() < 1e-9, "{all}");
    for ranked in all["ranked"].as_array().unwrap() {
        for reason in ranked["reasons"].as_array().unwrap() {
            let [value, typical, weight, adds] =
                ["value", "typical", "weight", "adds"].map(|name| reason[name].as_f64().unwrap());
            assert!(((value - typical) * weight - adds).abs() < 1e-9 && adds != 0.0, "{reason}");
        }
    }
    assert_eq!(ask(&json!({"context": ["fs:read"], "limit": 1}))["ranked"].as_array().unwrap().len(), 1);
    let strange = ask(&json!({"context": ["fs:read", "moon:land"]}));
    assert_eq!(strange["unknown"], json!(["moon:land"]));
    let modes = ["asked", "passive", "speculation"].map(|mode| {
        let answer = ask(&json!({"context": ["fs:read"], "mode": mode}));
        answer["threshold"].as_f64().unwrap()
    });
    assert!(modes[0] < modes[1] && modes[1] < modes[2], "{modes:?}");
    let refused = |question: &Value, problem: &str| {
        let Answer { status, text, .. } = server.question("/v1/predict", question);
        assert!(status == 400 && text.contains(problem), "{question}: {status} {text}");
    };
    refused(&json!({"context": ["a:b:c d"]}), "context: 'a:b:c d'");
    refused(&json!({"limit": 0}), "limit: is 0, it must be from 1 to 50");
    refused(&json!({"intent": "x".repeat(100_000)}), "limits.intent_bytes_max");
    refused(&json!({"colour": "red"}), "colour");
}

#[test]
fn the_command_line_asks_a_server_or_a_directory_what_comes_next() {
    let mut server = blank();
    let seq = taught(&server);
    let expected = predicted(&server, seq, &json!({"intent": "copy a file", "context": ["fs:read"]}));
    let url = server.url().to_owned();
    let run = |arguments: &[&str]| {
        let output = pml().args(["predict", "copy a file", "--after", "fs:read"]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let asked: Value = serde_json::from_str(&run(&["--url", &url, "--json"])).unwrap();
    assert_eq!(asked, expected);
    let table = run(&["--url", &url]);
    for part in ["fs:write", "(done)", "follows ", "threshold"] {
        assert!(table.contains(part), "no '{part}' in {table}");
    }
    server.terminate();
    let offline: Value = serde_json::from_str(&run(&["--data", server.data().to_str().unwrap(), "--json"])).unwrap();
    assert_eq!(offline, expected, "the same state gives the same answer");
}

/// Runs that are told what comes next while they read, then write, and are done, and say so.
fn live_runs(server: &Server, count: usize) {
    for number in 0..count {
        let execution = format!("live{number}");
        let events = [
            started_in(&execution, "s"),
            step(&execution, "s1", "fs:read", &[]),
            step(&execution, "s2", "fs:write", &["s1"]),
            finished(&execution),
        ];
        for event in &events {
            server.accept(event);
            if event["type"] != "pml.execution.finished" {
                eventually("the impression", || impressions(server).remove(event["id"].as_str().unwrap()));
            }
        }
    }
}

#[test]
fn served_predictions_are_scored_and_the_models_say_how_they_fared() {
    let server = blank();
    let before = server.ask("/v1/models");
    let model = &before["models"][0];
    assert_eq!((&model["scored"], &model["windows"][0]["n"], &model["serving"]), (&json!(0), &json!(0), &json!(true)));
    assert!(model["weights"]["transition"].as_f64() > Some(0.0), "{before}");
    assert!(model["first_weights"]["words"].as_f64() > Some(0.0), "{before}");
    taught(&server);
    live_runs(&server, 4);
    let models =
        eventually("the scores", || Some(server.ask("/v1/models")).filter(|models| models["models"][0]["scored"] == 12));
    let model = &models["models"][0];
    let window = &model["windows"][0];
    assert_eq!((&window["last"], &window["n"]), (&json!(100), &json!(12)));
    let [hit1, hit3, log_loss, error] =
        ["hit1", "hit3", "log_loss", "calibration_error"].map(|name| window[name].as_f64().unwrap());
    assert!(hit1 > 0.9 && hit3 >= hit1 && log_loss > 0.0 && log_loss < 1.0 && (0.0..1.0).contains(&error), "{window}");
    let judged: Vec<&str> =
        model["thresholds"].as_array().unwrap().iter().map(|judged| judged["item"].as_str().unwrap()).collect();
    assert_eq!(judged.len(), 3, "{judged:?}");
    let metrics = server.get("/metrics").text;
    for line in ["pml_predictions_scored 12", "pml_prediction_hit1{window=\"100\"}", "pml_prediction_calibration_error{window"]
    {
        assert!(metrics.contains(line), "no '{line}' in {metrics}");
    }
}

#[test]
fn feedback_moves_the_threshold_of_what_was_predicted() {
    let server = blank();
    taught(&server);
    let posterior = |item: &str| {
        let models = server.ask("/v1/models");
        let judged = models["models"][0]["thresholds"].as_array().unwrap().clone();
        let found = judged.into_iter().find(|judged| judged["item"] == item);
        found.map_or((1.0, 1.0), |found| (found["alpha"].as_f64().unwrap(), found["beta"].as_f64().unwrap()))
    };
    let start = started_in("e1", "s");
    server.accept(&start);
    let told = eventually("the impression", || impressions(&server).remove(start["id"].as_str().unwrap()));
    let prediction = &told["data"]["prediction"];
    assert_eq!(told["data"]["ranked"][0]["item"], "fs:read");
    let judge = |verdict: &str| {
        let before = posterior("fs:read");
        let answer = server.accept(&event("feedback.given", json!({"prediction": prediction, "verdict": verdict})));
        let seq = answer.json()["results"][0]["seq"].as_u64();
        eventually("the feedback to be folded", || (server.ask("/v1/models")["based_on_seq"].as_u64() >= seq).then_some(()));
        (before, posterior("fs:read"))
    };
    let (before, after) = judge("rejected");
    assert_eq!((before, after), ((1.0, 1.0), (1.0, 2.0)));
    let (_, after) = judge("accepted");
    assert_eq!(after, (2.0, 1.99), "what was observed fades");
    let (before, after) = judge("ignored");
    assert_eq!(before, after);
    let thresholds = |verdict: &str, times: usize| {
        for _ in 0..times {
            server.accept(&event("feedback.given", json!({"prediction": prediction, "verdict": verdict})));
        }
        let seq = server.tail();
        let samples = (0..20).map(|number| {
            let question = json!({"intent": format!("copy file number {number}")});
            predicted(&server, seq, &question)
        });
        let first_is_it = samples.filter(|answer| first(answer) == "fs:read");
        let values: Vec<f64> = first_is_it.map(|answer| answer["threshold"].as_f64().unwrap()).collect();
        assert!(values.len() > 10, "{values:?}");
        #[expect(clippy::cast_precision_loss, reason = "twenty")]
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        mean
    };
    let (high, low) = (thresholds("rejected", 40), thresholds("accepted", 150));
    assert!(high > low + 0.05, "rejected {high}, accepted {low}");
}

#[test]
fn a_prediction_is_explained_by_its_id_or_by_its_question() {
    let server = blank();
    taught(&server);
    server.accept(&started_in("e1", "s"));
    let read = step("e1", "s1", "fs:read", &[]);
    server.accept(&read);
    let told = eventually("the impression", || impressions(&server).remove(read["id"].as_str().unwrap()));
    let id = told["data"]["prediction"].as_str().unwrap();
    let by_id = eventually("the view", || {
        let answer = server.question("/v1/explain", &json!({"prediction": id}));
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!((&by_id["item"], &by_id["rank"], &by_id["context"]), (&json!("fs:write"), &json!(1), &json!(["fs:read"])));
    assert_eq!((&by_id["served"]["p"], &by_id["served"]["execution"]), (&told["data"]["ranked"][0]["p"], &json!("e1")));
    let sum: f64 = by_id["reasons"].as_array().unwrap().iter().map(|reason| reason["adds"].as_f64().unwrap()).sum();
    assert!((sum - by_id["score"].as_f64().unwrap()).abs() < 1e-9, "{by_id}");
    let taught = by_id["taught"].as_array().unwrap();
    assert!(!taught.is_empty(), "{by_id}");
    for record in taught {
        let execution = record["execution"].as_str().unwrap();
        assert_eq!((&record["intent"], execution.starts_with("lesson")), (&json!("copy a file"), true));
        let seq = record["seq"].as_u64().unwrap();
        let line = server.get(&format!("/v1/events?from={seq}")).text.lines().next().unwrap().to_owned();
        let recorded: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&recorded["type"], &recorded["data"]["execution"]), (&json!("pml.trace.completed"), &json!(execution)));
    }
    let question = json!({"intent": "copy a file", "context": ["fs:read"], "item": "done"});
    let by_question = server.question("/v1/explain", &question).json();
    assert!(by_question["item"] == "done" && by_question["rank"].as_u64() > Some(1), "{by_question}");
    let refused = |question: &Value, problem: &str| {
        let Answer { status, text, .. } = server.question("/v1/explain", question);
        assert!(status == 400 && text.contains(problem), "{question}: {status} {text}");
    };
    refused(&json!({"prediction": "01KG9YS9WQE2PQQ3WT3HP8K8YC"}), "was not served, or is no longer kept");
    refused(&json!({"prediction": "yesterday"}), "prediction:");
    refused(&json!({"item": "moon:land"}), "item: is not among the outcomes");
    let table = pml().args(["explain", "copy a file", "--after", "fs:read", "--url", server.url()]).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    for part in ["fs:write after fs:read", "follows the last call", "learnt from", "lesson"] {
        assert!(table.contains(part), "no '{part}' in {table}");
    }
}

#[test]
fn procedures_under_way_are_an_answer_of_their_own() {
    let server = blank();
    let seq = taught(&server);
    let answer = predicted(&server, seq, &json!({"context": ["fs:read"], "only": "capability"}));
    let underway = answer["underway"].as_array().unwrap();
    assert_eq!((underway.len(), &underway[0]["missing"], &underway[0]["overlap"]), (1, &json!(["fs:write"]), &json!(0.5)));
    assert!(answer["ranked"].as_array().unwrap().iter().all(|ranked| ranked["type"] == "capability"), "{answer}");
    assert_eq!(predicted(&server, seq, &json!({"context": ["fs:read"]})).get("underway"), None);
}

fn served(record: &Record) -> Option<&PredictionServed> {
    match record.event() {
        Event::PredictionServed(served) => Some(served),
        _ => None,
    }
}

/// Computes every impression of the log again, from the log alone.
fn recompute(records: &[Record]) -> usize {
    let embedder = embed::builtin();
    let by_id: BTreeMap<RecordId, &Record> = records.iter().map(|record| (record.fact.id, record)).collect();
    // A clone of a state shares what does not change, so one per record costs little.
    let mut states = vec![State::default()];
    for record in records {
        let mut next = states.last().unwrap().clone();
        next.apply(record);
        states.push(next);
    }
    let state_at = |seq: Seq| &states[states.partition_point(|state| state.applied() <= seq) - 1];
    let mut count = 0;
    for record in records {
        let Some(impression) = served(record) else { continue };
        let cause = by_id[&record.fact.causation.unwrap()];
        let state = state_at(impression.based_on_seq);
        assert_eq!(state.applied(), impression.based_on_seq);
        let execution = impression.execution.as_ref().unwrap();
        let mut executions = Executions::default();
        let own = |fact: &&Arc<NewRecord>| {
            let closes = matches!(fact.event, Event::TraceCompleted(_));
            fact.event.execution() == Some(execution) && !closes
        };
        records.iter().take_while(|earlier| earlier.seq <= cause.seq).map(|earlier| &earlier.fact).filter(own).for_each(
            |fact| {
                executions.apply(fact);
            },
        );
        let live = LiveContext::from_execution(execution, executions.get(execution).unwrap(), &cause.fact);
        let serving = state.vectors.model().is_some_and(|model| **model == *embedder.model().as_str());
        let question = question(serving.then_some(&*embedder), live.intent.trim().to_owned()).unwrap();
        let k = impression.ranked.len();
        let query = PredictionQuery { context: &live.calls, k, mode: Mode::Passive, seed: cause.fact.id };
        let again = predict(state, &question, &query);
        let bits = |outcome: &Outcome, p: f64| (outcome.clone(), p.to_bits());
        let then: Vec<_> = impression.ranked.iter().map(|ranked| bits(&ranked.outcome, ranked.probability)).collect();
        let now: Vec<_> = again.ranked.iter().map(|ranked| bits(&ranked.outcome, ranked.p)).collect();
        assert_eq!(then, now, "{execution} after {:?}", live.calls);
        assert_eq!((impression.threshold.to_bits(), &impression.model), (again.threshold.to_bits(), &again.model));
        count += 1;
    }
    count
}

/// Runs of several kinds that go on at the same time, each with a session; the fold learns while they are told what comes next.
fn workload(round: usize) -> Vec<Vec<Value>> {
    let ways: [(&str, &[&str]); 4] = [
        ("copy a file", &["fs:read", "fs:write"]),
        ("mail the report to Anna, then archive it", &["fs:read", "mail:send", "zip:pack"]),
        ("what is the weather in Rome", &["weather:report"]),
        ("take a picture of the page and mail it", &["browser:open", "browser:screenshot", "mail:send"]),
    ];
    let run = |(number, (intent, tools)): (usize, &(&str, &[&str]))| {
        let execution = format!("run{round}-{number}");
        let start = json!({"execution": execution, "session": format!("session{number}"), "intent": intent});
        let steps = tools.iter().enumerate().map(|(at, tool)| step(&execution, &format!("s{at}"), tool, &[]));
        std::iter::once(event("execution.started", start)).chain(steps).chain([finished(&execution)]).collect()
    };
    ways.iter().enumerate().map(run).collect()
}

#[actix_rt::test]
async fn replaying_the_log_gives_the_predictions_that_were_served_bit_for_bit() {
    let pml = Embedded::start(Clock::system(), &[]).await;
    let mut expected = 0;
    for round in 0..12 {
        let runs = workload(round);
        let longest = runs.iter().map(Vec::len).max().unwrap();
        for at in 0..longest {
            let events: Vec<Value> = runs.iter().filter_map(|run| run.get(at).cloned()).collect();
            expected += events.iter().filter(|event| event["type"] != "pml.execution.finished").count();
            pml.accept(&json!(events)).await;
            if at + 1 < longest {
                wait_for_impressions(&pml, expected).await;
            }
        }
    }
    pml.runtime.settled().await;
    let records = pml.records().await;
    assert_eq!(recompute(&records), expected);
    let best = records.iter().filter_map(served).filter(|served| served.ranked[0].probability > 0.8).count();
    assert!(best > expected / 8, "it learnt meanwhile: {best} of {expected}");
    pml.stop().await;
}

async fn wait_for_impressions(pml: &Embedded, count: usize) {
    let waiting = async {
        while pml.runtime.views.current().count(pml::core::event::Kind::PredictionServed) < count as u64 {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("every step is served in time");
}

#[actix_rt::test]
async fn under_a_flood_the_newest_step_of_each_execution_is_served_and_the_rest_is_counted() {
    const EXECUTIONS: usize = 40;
    const STEPS: usize = 25;
    let pml = Embedded::start(Clock::system(), &[]).await;
    let flood: Vec<Value> = (0..EXECUTIONS)
        .flat_map(|number| {
            let execution = format!("e{number}");
            let steps = (0..STEPS).map(|at| step(&execution, &format!("s{at}"), "fs:read", &[])).collect::<Vec<_>>();
            std::iter::once(started_in(&execution, "s")).chain(steps).collect::<Vec<_>>()
        })
        .collect();
    let last: Vec<&Value> = flood.iter().skip(STEPS).step_by(STEPS + 1).map(|event| &event["id"]).collect();
    pml.accept(&json!(flood)).await;
    let waiting = async {
        loop {
            let records = pml.records().await;
            let causes: Vec<Value> = records
                .iter()
                .filter(|record| served(record).is_some())
                .map(|record| json!(record.fact.causation.unwrap().to_string()))
                .collect();
            if last.iter().all(|id| causes.contains(id)) {
                return causes.len();
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let served = tokio::time::timeout(PATIENCE, waiting).await.expect("every execution is told about its last step");
    let text = pml.runtime.metrics.render(&pml.runtime.views.current(), &pml.runtime.log.foreign());
    let counted = |name: &str| -> usize {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("pml_{name}_total "))).unwrap();
        line.parse().unwrap()
    };
    assert_eq!(counted("predictions_served"), served);
    assert_eq!(served + counted("predictions_dropped"), EXECUTIONS * (STEPS + 1), "each is served or counted");
    assert!(counted("predictions_dropped") > 0, "{served} served");
    pml.stop().await;
}

#[actix_rt::test]
async fn the_actor_may_panic_and_the_next_step_is_served() {
    let pml = Embedded::start(Clock::system(), &[]).await;
    pml.accept(&json!([started_in("e1", "s")])).await;
    wait_for_impressions(&pml, 1).await;
    failpoint::arm("prediction.record", 1);
    pml.accept(&json!([step("e1", "s1", "fs:read", &[])])).await;
    while failpoint::is_armed("prediction.record") {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let waiting = async {
        for number in 2.. {
            let before = pml.runtime.views.current().count(pml::core::event::Kind::PredictionServed);
            pml.accept(&json!([step("e1", &format!("s{number}"), "fs:read", &[])])).await;
            let served = tokio::time::timeout(
                std::time::Duration::from_millis(200),
                wait_for_impressions(&pml, usize::try_from(before).unwrap() + 1),
            );
            if served.await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it was built anew");
    let records = pml.records().await;
    assert!(recompute(&records) >= 2);
    pml.stop().await;
}
