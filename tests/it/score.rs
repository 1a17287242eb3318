//! Which tools and capabilities an intent asks for: the same answer from the library, over HTTP, over NATS and on the command line, before
//! a model is trained and after.

use std::collections::BTreeSet;

use pml::ask::{Asker, ExplainRequest, ItemType, ScoreRequest};
use pml::config::Config;
use pml::core::event::{ModelPart, ModelVersion};
use pml::core::predict::ranker::{NextWeights, RankerWeights};
use pml::core::predict::signals::{Signal, StepKind};
use pml::core::state::State;
use pml::core::train::TrainSettings;
use serde_json::{Value, json};

use crate::nats_serve::{eventually_async, json_of};
use crate::nats_server::NatsServer;
use crate::run::event;
use crate::server::{Server, pml};
use crate::snapshot::restored;
use crate::trainer::history;
use crate::training::{answers, learnt, record, right, trained};

fn asker(state: &State) -> Asker {
    Asker::from_state(state.clone(), &Config::load(None, []).unwrap()).unwrap()
}

fn ask(asker: &Asker, request: ScoreRequest) -> Value {
    json!(asker.score(ScoreRequest { intent: "zip the report, then mail it".to_owned(), ..request }).unwrap())
}

fn scores(results: &Value) -> Vec<f64> {
    results.as_array().unwrap().iter().map(|result| result["score"].as_f64().unwrap()).collect()
}

/// A state in which a trained SHGAT serves, whatever the gate thinks of it.
fn with_shgat() -> State {
    let (mut state, mut records) = learnt(&right(0..160));
    let mut parts = trained(&state, &TrainSettings { parts: vec![ModelPart::Shgat], ..TrainSettings::default() });
    parts.truncate(1);
    assert!(!parts[0].bytes.is_empty(), "{}", parts[0].event.reason);
    parts[0].event.accepted = true;
    record(&parts, &mut state, &mut records);
    state
}

#[test]
fn scores_come_from_the_untrained_network_until_a_trained_one_serves_and_say_so() {
    let (before, after) = (asker(&learnt(&right(0..160)).0), asker(&with_shgat()));
    for (asker, kind) in [(&before, "untrained"), (&after, "trained")] {
        let all = ask(asker, ScoreRequest { limit: Some(1_000), ..ScoreRequest::default() });
        assert_eq!(all["source"]["kind"], kind, "{all}");
        assert_eq!(all["source"]["note"].is_null(), kind == "trained", "{all}");
        assert_eq!(all["source"]["version"].is_string(), kind == "trained", "{all}");
        let values = scores(&all["results"]);
        assert!(values.is_sorted_by(|a, b| a >= b) && values.iter().all(|score| (0.0..=1.0).contains(score)), "{all}");
        // Tools and capabilities are on one scale: the list of both is the two lists merged.
        let only = |only| ask(asker, ScoreRequest { only, limit: Some(1_000), ..ScoreRequest::default() })["results"].clone();
        let (tools, capabilities) = (only(ItemType::Tool), only(ItemType::Capability));
        assert_eq!(tools.as_array().unwrap().len(), 10);
        assert_eq!(all["scored"], json!({"tools": 10, "capabilities": capabilities.as_array().unwrap().len()}));
        let mut merged = [scores(&tools), scores(&capabilities)].concat();
        merged.sort_by(|a, b| b.total_cmp(a));
        assert_eq!(merged, values);
        let best = ask(asker, ScoreRequest { limit: Some(3), ..ScoreRequest::default() });
        assert_eq!(best["results"].as_array().unwrap()[..], all["results"].as_array().unwrap()[..3]);
    }
}

#[test]
fn a_path_succeeds_with_the_mean_of_its_scores_in_which_later_ones_count_more() {
    let asker = asker(&with_shgat());
    let path = ["office:t1", "office:unheard", "office:t2"].map(str::to_owned).to_vec();
    let answer = ask(&asker, ScoreRequest { path, ..ScoreRequest::default() });
    let nodes = answer["path"]["scores"].as_array().unwrap();
    let known: Vec<&Value> = nodes.iter().map(|node| &node["known"]).collect();
    assert_eq!(known, [&json!(true), &json!(false), &json!(true)]);
    let score = |at: usize| nodes[at]["score"].as_f64().unwrap();
    assert!((score(1) - 0.5).abs() < 1e-6);
    let expected = (score(0) + 1.5 * score(1) + 2.0 * score(2)) / 4.5;
    assert!((answer["path"]["success"].as_f64().unwrap() - expected).abs() < 1e-5, "{answer}");
    let tools = ask(&asker, ScoreRequest { only: ItemType::Tool, ..ScoreRequest::default() });
    let listed = tools["results"].as_array().unwrap().iter().find(|result| result["item"] == "office:t1").unwrap();
    assert!((listed["score"].as_f64().unwrap() - score(0)).abs() < 1e-6);
}

#[test]
fn an_explanation_names_the_capabilities_that_shgat_aims_at() {
    let asker = asker(&with_shgat());
    let request = |item: Option<&str>| ExplainRequest {
        intent: "zip the report, then mail it".to_owned(),
        item: item.map(str::to_owned),
        ..ExplainRequest::default()
    };
    let answer = json!(asker.explain(request(Some("office:t1"))).unwrap());
    let targets = answer["targets"].as_array().unwrap();
    assert!(!targets.is_empty() && targets.len() <= 3, "{answer}");
    let share = |target: &Value| target["share"].as_f64().unwrap();
    assert!(targets.is_sorted_by(|a, b| share(a) >= share(b)) && targets.iter().map(share).sum::<f64>() <= 1.0, "{answer}");
    for target in targets {
        assert!(target["tools"].as_array().unwrap().contains(&json!("office:t1")), "{target}");
    }
    let done = json!(asker.explain(request(Some("done"))).unwrap());
    assert!(!done["targets"].as_array().unwrap().is_empty(), "what is aimed at is told for every outcome");
}

/// The state with a ranker that trusts the signal `hyperpath`, whatever the gate thinks of it.
fn with_hyperpaths(mut state: State) -> State {
    let shgat = state.trained.serving(ModelPart::Shgat).current.clone().unwrap();
    let mut later = Signal::ALL.map(|signal| signal.prior(StepKind::Later));
    later[Signal::Hyperpath as usize] = 2.0;
    let next = Some(NextWeights { first: Signal::ALL.map(|signal| signal.prior(StepKind::First)), later });
    let bytes = RankerWeights { requires: vec![shgat], next, discover: None, plan: None }.to_bytes();
    let mut ranker = trained(&state, &TrainSettings { parts: Vec::new(), ..TrainSettings::default() });
    let event = &mut ranker[0].event;
    event.digest = blake3::hash(&bytes).to_hex().to_string();
    event.version = ModelVersion::new(ModelPart::Ranker, &event.digest);
    (event.size, event.accepted, ranker[0].bytes) = (bytes.len() as u64, true, bytes);
    record(&ranker, &mut state, &mut Vec::new());
    state
}

/// S1: SHGAT picks the target capability, and the next step is the next one on the way to it. Without SHGAT the past intents pick it.
#[test]
fn the_next_step_is_the_one_on_the_way_to_the_target() {
    let tools = |trace: &Value| -> Vec<String> {
        trace["steps"].as_array().unwrap().iter().map(|step| step["tool_id"].as_str().unwrap().to_owned()).collect()
    };
    let is_plain = |trace: &Value| tools(trace).len() == 3 && tools(trace).into_iter().collect::<BTreeSet<_>>().len() == 3;
    let run = right(0..160).into_iter().find(is_plain).unwrap();
    let call = |at: usize| run["steps"][at]["tool_id"].as_str().unwrap().to_owned();
    for (state, by) in [(learnt(&right(0..160)).0, "memory"), (with_hyperpaths(with_shgat()), "shgat")] {
        for made in [1, 2] {
            let request = ExplainRequest {
                intent: run["intent"].as_str().unwrap().to_owned(),
                context: (0..made).map(call).collect(),
                ..ExplainRequest::default()
            };
            let answer = json!(asker(&state).explain(request).unwrap());
            let target = &answer["targets"][0];
            assert_eq!((&answer["item"], &target["by"]), (&json!(call(made)), &json!(by)), "{answer}");
            assert_eq!(target["next"], json!([call(made)]), "{answer}");
            let reasons = answer["reasons"].as_array().unwrap();
            let hyperpath = reasons.iter().find(|reason| reason["signal"] == "hyperpath");
            // Above the logarithm of the least vote: it lies on the way.
            let lies_on_the_way = hyperpath.is_some_and(|reason| reason["value"].as_f64().unwrap() > -2.0);
            assert_eq!(lies_on_the_way, by == "shgat", "{answer}");
        }
    }
}

#[test]
fn a_snapshot_with_shgat_answers_bit_for_bit() {
    let state = with_shgat();
    let again = restored(&state);
    assert_eq!(again.digest(), state.digest());
    assert_eq!(answers(&again), answers(&state));
    let request = || ScoreRequest { limit: Some(1_000), ..ScoreRequest::default() };
    let (first, second) = (ask(&asker(&state), request()), ask(&asker(&again), request()));
    assert!(first["source"]["kind"] == "trained" && first == second);
}

/// Declares a capability of these callees; returns its id.
fn declare(server: &Server, name: &str, callees: &[&str]) -> String {
    let nodes: Vec<Value> =
        callees.iter().enumerate().map(|(at, callee)| json!({"id": format!("n{at}"), "tool": callee})).collect();
    let data = json!({"name": name, "description": name, "structure": {"nodes": nodes, "edges": []}});
    server.accept(&event("capability.declared", data));
    server.settled_state();
    let known = server.ask("/v1/capabilities?limit=1000");
    let found = known["capabilities"].as_array().unwrap().iter().find(|capability| capability["name"] == name).unwrap();
    found["capability"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_nats_and_the_command_line_give_the_same_scores() {
    let nats = NatsServer::start();
    let server = Server::serving(&["--nats", &nats.url()], &[]);
    server.accept(&history());
    let inner = declare(&server, "pack and mail files", &["zip:pack", "mail:send"]);
    declare(&server, "draw, pack and mail", &["chart:draw", &format!("capability:{inner}")]);
    server.settled_state();
    let intent = "pack the photos and mail them";
    let client = async_nats::connect(nats.url()).await.unwrap();
    let requests = [
        (json!({"intent": intent}), &[][..]),
        (json!({"intent": intent, "only": "tool", "limit": 3}), &["--type", "tool", "--limit", "3"]),
        (json!({"intent": intent, "level": 0}), &["--level", "0"]),
        (
            json!({"intent": intent, "level": 1, "path": ["fs:read", "zip:pack"]}),
            &["--level", "1", "--path", "fs:read,zip:pack"],
        ),
        (json!({"intent": intent, "by_level": true, "limit": 2}), &["--by-level", "--limit", "2"]),
    ];
    for (request, flags) in requests {
        // All vectors are there once the answer no longer changes with the state.
        let answer = eventually_async(async || {
            let answer = server.question("/v1/score", &request).json();
            let tail = server.settled_state()["applied_seq"].clone();
            Some(answer).filter(|answer| answer["based_on_seq"] == tail && answer["source"]["kind"] == "untrained")
        })
        .await;
        let reply = client.request("pml.default.q.score", request.to_string().into()).await.unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&reply.payload).unwrap(), answer);
        for place in [["--url", server.url()], ["--nats", &nats.url()]] {
            assert_eq!(json_of(pml().arg("score").arg(intent).args(flags).args(place)), answer, "{flags:?} {place:?}");
        }
        let table = pml().arg("score").arg(intent).args(flags).args(["--url", server.url()]).output().unwrap();
        let text = String::from_utf8(table.stdout).unwrap();
        assert!(text.contains("no trained SHGAT serves") && text.contains("semantic"), "{text}");
        match (request["level"].as_u64(), request["by_level"].as_bool()) {
            (Some(level), _) => {
                let results = answer["results"].as_array().unwrap();
                let is_right = |result: &Value| result["type"] == "capability" && result["level"] == level;
                assert!(!results.is_empty() && results.iter().all(is_right), "{answer}");
            }
            (None, Some(true)) => {
                let levels: Vec<u64> =
                    answer["levels"].as_array().unwrap().iter().map(|level| level["level"].as_u64().unwrap()).collect();
                assert_eq!(levels, [0, 1], "{answer}");
            }
            (None, _) => assert!(!answer["results"].as_array().unwrap().is_empty(), "{answer}"),
        }
    }
}

#[test]
fn questions_that_make_no_sense_are_refused_by_field_and_an_empty_workspace_has_no_scores() {
    let server = Server::with(&[("TEMPLATES__PATH", "")]);
    for (request, field) in [
        (json!({"intent": " "}), "intent"),
        (json!({"intent": "x", "limit": 0}), "limit"),
        (json!({"intent": "x", "only": "tool", "level": 0}), "level"),
        (json!({"intent": "x", "level": 0, "by_level": true}), "by_level"),
        (json!({"intent": "x", "path": ["no-server"]}), "path"),
    ] {
        let answer = server.question("/v1/score", &request);
        assert!(answer.status == 400 && answer.json()["error"].as_str().unwrap().starts_with(field), "{request}: {answer:?}");
    }
    let empty = server.question("/v1/score", &json!({"intent": "mail the report"})).json();
    assert_eq!((&empty["source"]["kind"], &empty["results"]), (&json!("none"), &json!([])), "{empty}");
}
