//! Predictions over NATS: heard by clients that other people wrote, by agents with the shipped permissions, from processes that come
//! and go.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use async_nats::jetstream;
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::nats_server::{NatsServer, shipped};
use crate::outside::installed;
use crate::predictions::{lessons, started_in};
use crate::run::{finished, step};
use crate::server::{PATIENCE, Server, eventually};

/// A server with one user for pml and one for agents, and the address an agent has for it.
fn guarded() -> (NatsServer, String) {
    let environment = [("PML_NATS_PASSWORD", "p1"), ("PML_NATS_AGENT_PASSWORD", "p2")];
    let nats = NatsServer::with_environment(&shipped("agents.conf"), &environment);
    let address = nats.url().replace("nats://", "nats://agent:p2@");
    (nats, address)
}

fn serving(nats: &NatsServer, roles: Option<&str>) -> Server {
    let url = nats.url();
    let mut arguments = vec!["--nats", url.as_str()];
    arguments.extend(roles.into_iter().flat_map(|roles| ["--roles", roles]));
    let user = [("NATS__USER", "pml"), ("NATS__PASSWORD", "p1"), ("TEMPLATES__PATH", ""), ("NATS__APPEND", "pipelined")];
    Server::serving(&arguments, &user)
}

/// Runs an example and returns what it printed.
fn example(program: &Path, script: &str, arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(script);
    let output = Command::new(program).arg(&script).args(arguments).output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {complaints}", script.display());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_python_and_the_node_example_publish_steps_and_are_told_what_comes_next() {
    let (nats, address) = guarded();
    let server = serving(&nats, None);
    server.accept(&json!(lessons(12)));
    server.settled_state();
    let examples = [("PML_TEST_PYTHON", "python/agent.py"), ("PML_TEST_NODE", "node/agent.mjs")];
    for (variable, script) in examples {
        let Some(program) = installed(variable) else { continue };
        let said = example(&program, script, &[&address, "copy a file", "fs:read", "fs:write"]);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 3, "{said}");
        for (line, (after, next)) in lines.iter().zip([("the start", "fs:read"), ("fs:read", "fs:write"), ("fs:write", "done")])
        {
            assert!(line.starts_with(&format!("after {after}: {next} ")), "{script}: {line}");
        }
        let events = eventually("the feedback", || {
            let state = server.settled_state();
            Some(state["events"].clone()).filter(|events| events["feedback.given"].as_u64() >= Some(2))
        });
        assert_eq!(events["prediction.served"], events["feedback.given"].as_u64().map(|given| given / 2 * 3).unwrap());
    }
    assert_eq!(server.ask("/v1/dead")["dead"], json!([]), "nothing they sent was refused");
}

async fn log_in(address: &str, user: &str, password: &str) -> async_nats::Client {
    let options = async_nats::ConnectOptions::with_user_and_password(user.to_owned(), password.to_owned());
    options.connect(address).await.unwrap()
}

/// An agent's connection: it publishes to the work queue and hears predictions.
struct Agent {
    stream: jetstream::Context,
    predictions: async_nats::Subscriber,
}

impl Agent {
    async fn connect(address: &str, session: &str) -> Self {
        let client = log_in(address, "agent", "p2").await;
        let predictions = client.subscribe(format!("pml.default.predict.{session}")).await.unwrap();
        client.flush().await.unwrap();
        Self { stream: jetstream::new(client), predictions }
    }

    async fn publish(&self, event: &Value) {
        let kind = event["type"].as_str().unwrap().strip_prefix("pml.").unwrap();
        let stored = self.stream.publish(format!("pml.default.in.{kind}"), event.to_string().into()).await.unwrap();
        stored.await.unwrap();
    }

    async fn heard(&mut self) -> Value {
        let message = tokio::time::timeout(PATIENCE, self.predictions.next()).await.expect("heard in time").unwrap();
        serde_json::from_slice(&message.payload).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prediction_process_may_be_killed_and_loses_nothing_but_impressions() {
    let (nats, address) = guarded();
    let others = serving(&nats, Some("execution,trace,graph-sync,embedding,query"));
    let mut predicting = serving(&nats, Some("prediction"));
    let mut agent = Agent::connect(&address, "s").await;
    agent.publish(&started_in("e1", "s")).await;
    assert_eq!(agent.heard().await["execution"], "e1");
    let folded = |kind: &str, count: u64| (others.ask("/v1/state")["events"][kind].as_u64() >= Some(count)).then_some(());
    eventually("the impression of what was heard", || folded("prediction.served", 1));

    predicting.kill9();
    agent.publish(&step("e1", "s1", "fs:read", &[])).await;
    eventually("the step to be taken", || folded("step.finished", 1));
    predicting.restart();
    let last = step("e1", "s2", "fs:write", &["s1"]);
    agent.publish(&last).await;
    let prediction = agent.heard().await;
    assert_eq!(prediction["cause"], last["id"], "what it missed is history");
    agent.publish(&finished("e1")).await;
    assert_eq!(others.closed_trace("e1")["steps"].as_array().unwrap().len(), 2);
    eventually("the impression of the second life", || folded("prediction.served", 2));
    let state = others.settled_state();
    assert_eq!((&state["duplicates"], &state["late"], &others.ask("/v1/dead")["dead"]), (&json!(0), &json!(0), &json!([])));
    assert_eq!(state["events"]["prediction.served"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_prediction_processes_each_tells_and_one_impression_is_recorded() {
    let (nats, address) = guarded();
    let others = serving(&nats, Some("execution,trace,graph-sync,embedding,query"));
    let _both = [serving(&nats, Some("prediction")), serving(&nats, Some("prediction"))];
    let mut agent = Agent::connect(&address, "s").await;
    let events = [started_in("e1", "s"), step("e1", "s1", "fs:read", &[]), step("e1", "s2", "fs:write", &["s1"])];
    let mut times_told: BTreeMap<String, usize> = BTreeMap::new();
    for event in &events {
        agent.publish(event).await;
        for _ in 0..2 {
            let prediction = agent.heard().await;
            assert_eq!(prediction["cause"], event["id"]);
            *times_told.entry(prediction["prediction"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    assert!(times_told.len() == 3 && times_told.values().all(|times| *times == 2), "the same id from both: {times_told:?}");
    agent.publish(&finished("e1")).await;
    let state = eventually("the impressions", || {
        let state = others.settled_state();
        (state["events"]["prediction.served"].as_u64() >= Some(3)).then_some(state)
    });
    assert_eq!((&state["events"]["prediction.served"], &state["duplicates"]), (&json!(3), &json!(0)));
    let recorded = others.records().into_iter().filter(|record| record["type"] == "pml.prediction.served");
    let recorded: BTreeSet<String> = recorded.map(|record| record["data"]["prediction"].as_str().unwrap().to_owned()).collect();
    assert_eq!(recorded, times_told.into_keys().collect());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_web_page_of_one_process_hears_what_another_predicts() {
    let (nats, address) = guarded();
    let asking = serving(&nats, Some("execution,trace,graph-sync,embedding,query"));
    let _predicting = serving(&nats, Some("prediction"));
    let response = crate::server::agent().get(format!("{}/v1/predictions?session=s", asking.url())).call().unwrap();
    let agent = Agent::connect(&address, "s").await;
    agent.publish(&started_in("e1", "s")).await;
    let lines = std::io::BufRead::lines(std::io::BufReader::new(response.into_body().into_reader()));
    let data = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("data: ").map(str::to_owned)).unwrap();
    let prediction: Value = serde_json::from_str(&data).unwrap();
    assert_eq!(prediction["execution"], "e1");
    // The question, asked over NATS.
    let client = log_in(&nats.url(), "pml", "p1").await;
    let asked = json!({"context": ["fs:read"]}).to_string();
    let answer = tokio::time::timeout(Duration::from_secs(30), client.request("pml.default.q.predict", asked.into())).await;
    let answer: Value = serde_json::from_slice(&answer.unwrap().unwrap().payload).unwrap();
    assert_eq!(answer["unknown"], json!(["fs:read"]), "{answer}");
}
