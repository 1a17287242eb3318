//! The real program on NATS: agents with a client of their own, work that waits while pml is down, questions, copies of the log.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use pml::core::event::cloud;
use pml::core::event::{Event, NewRecord};
use pml::core::id::{RecordId, Seq};
use pml::core::time::Timestamp;
use pml::core::trace::Executions;
use pml::log::EventLog;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::log_contract::redb;
use crate::nats_server::{NatsServer, cluster};
use crate::outside::python;
use crate::run::whole;
use crate::server::{Server, eventually, pml};

/// What a command prints for programs.
pub(crate) fn json_of(command: &mut Command) -> Value {
    let output = command.arg("--json").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn an_agent_with_the_official_client_is_taken_also_while_pml_is_down() {
    let nats = NatsServer::start();
    let mut server = Server::serving(&["--nats", &nats.url()], &[]);
    let agent = |execution: &str| python("nats_agent.py", &[&nats.url(), execution], "").expect("scripts/test installs it");
    let answers = agent("first");
    assert!(answers.as_array().unwrap().iter().all(|answer| answer["stream"] == "pml_default_in"), "{answers}");
    assert_eq!(answers[4]["duplicate"], true, "the server knows the id");
    let trace = server.closed_trace("first");
    assert_eq!(trace["steps"][1]["depends_on"], json!(["list"]));

    assert_eq!(server.terminate(), Some(0));
    agent("second");
    server.restart();
    assert_eq!(server.closed_trace("second")["status"], "completed");
    // Beyond the work queue's memory, and beyond this process's: the log knows.
    let again = json!(server.records().into_iter().find(|record| record["data"]["execution"] == "first").unwrap());
    assert_eq!(server.post(&again).statuses(), ["duplicate"]);

    let dead = server.ask("/v1/dead");
    let letters = dead["dead"].as_array().unwrap();
    assert_eq!(letters.len(), 4, "{dead}");
    for letter in letters {
        assert_eq!(
            (&letter["reason"], &letter["field"], &letter["origin"]),
            (&json!("invalid_field"), &json!("data.tool"), &json!("nats"))
        );
        let event: Value = serde_json::from_str(letter["event"].as_str().unwrap()).unwrap();
        assert_eq!(event["data"]["tool"], "no-server:", "the original is kept");
    }
    let state = server.settled_state();
    assert_eq!((&state["events"]["execution.started"], &state["events"]["trace.completed"]), (&json!(2), &json!(2)));
    let verified = json_of(pml().args(["log", "verify", "--nats", &nats.url()]));
    assert_eq!((&verified["problems"], &verified["digest"]), (&json!([]), &state["digest"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_are_answered_once_by_any_process_with_the_role() {
    let nats = NatsServer::start();
    let _servers = ["execution,graph-sync", "query", "query"]
        .map(|roles| Server::serving(&["--nats", &nats.url(), "--roles", roles], &[]));
    let client = async_nats::connect(nats.url()).await.unwrap();
    let ask = async |question: &str, asked: &str| {
        let subject = format!("pml.default.q.{question}");
        let answer = client.request(subject, asked.to_owned().into()).await.unwrap();
        serde_json::from_slice::<Value>(&answer.payload).map_err(|_| answer.headers)
    };
    let state =
        eventually_async(async || ask("state", "").await.ok().filter(|state| state["templates"].as_u64() > Some(0))).await;
    let tools = ask("tools", r#"{"limit": 3}"#).await.unwrap();
    assert_eq!(tools["tools"].as_array().map(Vec::len), Some(3), "{tools} {state}");
    assert!(ask("graph", r#"{"kind": "dependency"}"#).await.unwrap()["total_edges"].as_u64() > Some(0));
    assert!(ask("capabilities", "").await.unwrap()["capabilities"].is_array());
    let refused = format!("{:?}", ask("tools", r#"{"limit": 0}"#).await.unwrap_err());
    assert!(refused.contains("it must be from 1 to 1000"), "{refused}");

    for verb in ["PING", "INFO", "STATS"] {
        let mut answers = client.subscribe(format!("answers.{verb}")).await.unwrap();
        client.publish_with_reply(format!("$SRV.{verb}.pml"), format!("answers.{verb}"), "".into()).await.unwrap();
        for _ in 0..2 {
            let answer = tokio::time::timeout(Duration::from_secs(10), futures_util::StreamExt::next(&mut answers));
            let answer: Value = serde_json::from_slice(&answer.await.expect("both answer in time").unwrap().payload).unwrap();
            assert_eq!(answer["name"], "pml", "{verb}: {answer}");
        }
    }
}

pub(crate) async fn eventually_async<T>(ask: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..3_000 {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("waited a minute");
}

#[test]
fn an_unknown_role_and_a_process_that_takes_no_events_say_so() {
    let output = pml().args(["serve", "--nats", "nats://127.0.0.1:1", "--roles", "cook"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("'cook' is no role"), "{said}");
    let nats = NatsServer::start();
    let server = Server::serving(&["--nats", &nats.url(), "--roles", "query"], &[]);
    assert_eq!(server.get("/readyz").status, 200);
    let answer = server.post(&whole("e1"));
    assert!(answer.status == 503 && answer.text.contains("the role 'execution' belongs to another one"), "{answer:?}");
    let doctor = json_of(pml().args(["doctor", "--nats", &nats.url()]));
    let finding = doctor["checks"].as_array().unwrap().iter().find(|check| check["check"] == "nats").unwrap();
    assert!(finding["text"].as_str().unwrap().contains("atomic batches, each synced before it is acknowledged"), "{finding}");
}

/// A history of about `count` records, with traces, in a redb log.
async fn write_history(directory: &Path, count: usize) -> Seq {
    let log = redb(directory);
    let mut open = Executions::default();
    let mut batch: Vec<Arc<NewRecord>> = Vec::new();
    let mut last = Seq::ZERO;
    for run in 0..count / 5 {
        let execution = format!("e{run}");
        let mut events = whole(&execution);
        for (at, event) in events.as_array_mut().unwrap().iter_mut().enumerate() {
            let at = at + run * 10;
            event["id"] = json!(RecordId::from_parts(Timestamp::from_micros(0).plus_millis(at as u64), at as u128).to_string());
            if event["type"] == "pml.step.finished" {
                event["data"]["tool"] = json!(format!("server{}:tool{}", run % 7, run % 101));
            }
            batch.push(Arc::new(
                cloud::from_structured(event.to_string().as_bytes(), Timestamp::from_micros(0).plus_millis(run as u64))
                    .unwrap(),
            ));
        }
        let from = batch.len() - 4;
        batch[from..].iter().for_each(|fact| assert!(open.apply(fact)));
        let execution = execution.parse().unwrap();
        let trace = open.get(&execution).unwrap().complete(&execution, false);
        let id = RecordId::derived(trace.started, &["trace", execution.as_str()]);
        let event = Event::TraceCompleted(trace);
        let trace = Arc::new(NewRecord {
            id,
            time: Timestamp::from_micros(7),
            source: "pml/trace".into(),
            causation: None,
            envelope: None,
            event,
        });
        open.apply(&trace);
        batch.push(trace);
        if batch.len() >= 5_000 || run + 1 == count / 5 {
            last = log.append(std::mem::take(&mut batch)).await.unwrap().last().unwrap().seq;
        }
    }
    last
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_events_give_the_same_digest_on_redb_on_one_server_and_on_a_cluster() {
    let home = TempDir::new().unwrap();
    assert_eq!(write_history(home.path(), 20_000).await, Seq(20_000));
    let directory = home.path().display().to_string();
    let expected = json_of(pml().args(["log", "verify", "--data", &directory]));
    assert_eq!(expected["records"], 20_000);
    let (single, nodes) = (NatsServer::start(), cluster());
    let urls = nodes.iter().map(NatsServer::url).collect::<Vec<_>>().join(",");
    for (url, replicas, append) in [(single.url(), "1", "atomic"), (urls, "3", "pipelined")] {
        let on_nats = || {
            let mut command = pml();
            command.env("PML__NATS__REPLICAS", replicas).env("PML__NATS__APPEND", append);
            command
        };
        let copied = json_of(on_nats().args(["log", "copy", "--from", &directory, "--to", &url]));
        assert_eq!((&copied["copied"], &copied["digest"]), (&json!(20_000), &expected["digest"]), "{url}");
        let verified = json_of(on_nats().args(["log", "verify", "--nats", &url]));
        assert_eq!((&verified["digest"], &verified["problems"]), (&expected["digest"], &json!([])), "{url}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_keeps_the_times_goes_on_where_it_stopped_and_refuses_another_log() {
    let (home, back, other) = (TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap());
    write_history(home.path(), 500).await;
    let place = |home: &TempDir| home.path().display().to_string();
    let nats = NatsServer::start();
    let copy = |from: &str, to: &str| json_of(pml().args(["log", "copy", "--from", from, "--to", to]));
    let there = copy(&place(&home), &nats.url());
    for copied in [500, 0] {
        let answer = copy(&nats.url(), &place(&back));
        assert_eq!((&answer["copied"], &answer["digest"]), (&json!(copied), &there["digest"]));
    }
    let all = |home: &TempDir| redb(home.path()).read(Seq::ZERO, 1_000);
    assert_eq!(all(&home).await.unwrap(), all(&back).await.unwrap(), "recorded_at included");
    write_history(home.path(), 505).await;
    assert_eq!(copy(&place(&home), &nats.url())["copied"], 5);
    write_history(other.path(), 10).await;
    let output = pml().args(["log", "copy", "--to", &nats.url(), "--from", &place(&other)]).output().unwrap();
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("is another one"), "{output:?}");
}

#[test]
fn commands_reach_the_work_queue_and_the_dead_letters_without_a_server_in_between() {
    let nats = NatsServer::start();
    let url = nats.url();
    let home = TempDir::new().unwrap();
    let tool = json!({"tool_id": "fs:read", "server_id": "fs", "name": "read", "description": "Reads a file"});
    std::fs::write(home.path().join("tools.jsonl"), tool.to_string()).unwrap();
    let step = json!({"id": "s1", "tool_id": "fs:read", "depends_on": []});
    let trace = json!({"trace_id": "t1", "intent": "read a file", "steps": [step], "success": true});
    std::fs::write(home.path().join("traces_train.jsonl"), trace.to_string()).unwrap();
    let imported = json_of(pml().args(["import", &home.path().display().to_string(), "--nats", &url]));
    assert_eq!((&imported["traces"], &imported["duplicate"]), (&json!(1), &json!(0)), "{imported}");
    let file = home.path().join("events.json");
    let mut events = whole("e1");
    events.as_array_mut().unwrap().push(crate::run::step("nowhere", "s1", "fs:read", &[]));
    std::fs::write(&file, events.to_string()).unwrap();
    for (queued, duplicate) in [(5, 0), (0, 5)] {
        let published = json_of(pml().args(["publish", &file.display().to_string(), "--nats", &url]));
        assert_eq!(published, json!({"queued": queued, "duplicate": duplicate}));
    }

    let server = Server::serving(&["--nats", &url], &[]);
    assert_eq!(server.closed_trace("e1")["status"], "completed");
    let dead = || json_of(pml().args(["dead", "list", "--nats", &url]))["dead"].as_array().unwrap().clone();
    let letters = eventually("the refused event", || Some(dead()).filter(|dead| dead.len() == 1));
    assert_eq!(letters[0]["reason"], "unknown_execution", "{letters:?}");
    let number = letters[0]["number"].as_u64().unwrap();
    server.accept(&crate::run::started("nowhere"));
    let redriven = json_of(pml().args(["dead", "redrive", &number.to_string(), "--nats", &url]));
    assert_eq!(redriven, json!({"queued": [number], "unreadable": []}));
    eventually("the event to be taken", || {
        let steps = server.ask("/v1/traces/nowhere")["steps"].as_array().map(Vec::len);
        (steps == Some(1)).then_some(())
    });
    assert!(dead().is_empty());
    let state = server.ask("/v1/state");
    assert_eq!(state["events"]["tool.registered"], 1, "{state}");
}

#[test]
fn what_was_sent_while_the_server_was_away_is_taken_once_it_is_back() {
    let mut nats = NatsServer::start();
    let server = Server::serving(&["--nats", &nats.url()], &[]);
    server.accept(&whole("before"));
    nats.kill9();
    let url = server.url().to_owned();
    let events = whole("during");
    let waiting = std::thread::spawn(move || {
        let agent = crate::server::agent();
        eventually("the answer", || {
            let sent =
                agent.post(format!("{url}/v1/events")).header("content-type", "application/json").send(events.to_string());
            crate::server::Answer::read(sent).ok().filter(|answer| answer.status == 202)
        })
    });
    std::thread::sleep(Duration::from_millis(300));
    nats.run();
    assert!(waiting.join().unwrap().statuses().iter().all(|status| status == "accepted" || status == "duplicate"));
    assert_eq!(server.closed_trace("during")["steps"].as_array().unwrap().len(), 2);
    let state = server.settled_state();
    assert_eq!((&state["duplicates"], &state["events"]["execution.started"]), (&json!(0), &json!(2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_find_no_room_stay_on_the_queue_until_there_is_some() {
    let nats = NatsServer::start();
    let server = Server::serving(&["--nats", &nats.url()], &[("LIMITS__OPEN_EXECUTIONS_MAX", "2")]);
    server.accept(&json!([crate::run::started("open-1"), crate::run::started("open-2")]));
    let client = async_nats::jetstream::new(async_nats::connect(nats.url()).await.unwrap());
    for event in whole("patient").as_array().unwrap() {
        let subject = event["type"].as_str().unwrap().replacen("pml.", "pml.default.in.", 1);
        client.publish(subject, event.to_string().into()).await.unwrap().await.unwrap();
    }
    let put_off = || server.get("/metrics").text.lines().any(|line| line == "pml_events_put_off_total 4");
    eventually("all four to be put off", || put_off().then_some(()));
    assert_eq!(server.ask("/v1/dead")["dead"], json!([]), "it is not their fault");

    server.accept(&json!([crate::run::finished("open-1"), crate::run::finished("open-2")]));
    let trace = server.closed_trace("patient");
    assert_eq!((&trace["status"], trace["steps"].as_array().map(Vec::len)), (&json!("completed"), Some(2)), "{trace}");
    assert_eq!(server.ask("/v1/dead")["dead"], json!([]));
    let queue = client.get_stream("pml_default_in").await.unwrap();
    eventually_async(async || (queue.get_info().await.unwrap().state.messages == 0).then_some(())).await;
}

/// Many events before and after those that are put off, all in the queue when pml starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_are_put_off_stay_on_the_queue_while_thousands_around_them_are_removed() {
    const AROUND: usize = 2_500;
    let nats = NatsServer::start();
    let mut server = Server::serving(&["--nats", &nats.url()], &[("LIMITS__OPEN_EXECUTIONS_MAX", "2")]);
    server.accept(&json!([crate::run::started("open-1"), crate::run::started("open-2")]));
    server.kill9();
    let client = async_nats::jetstream::new(async_nats::connect(nats.url()).await.unwrap());
    let removed = |number: usize| crate::run::event("tool.removed", json!({"tool": format!("tools:t{number}")}));
    let mut events: Vec<Value> = (0..AROUND).map(removed).collect();
    events.extend(whole("patient").as_array().unwrap().iter().cloned());
    events.extend((AROUND..2 * AROUND).map(removed));
    for event in &events {
        let subject = event["type"].as_str().unwrap().replacen("pml.", "pml.default.in.", 1);
        client.publish(subject, event.to_string().into()).await.unwrap().await.unwrap();
    }
    server.restart();
    let queue = client.get_stream("pml_default_in").await.unwrap();
    eventually_async(async || (queue.get_info().await.unwrap().state.messages == 4).then_some(())).await;
    let accepted = || server.get("/v1/state").json()["events"]["tool.removed"].clone();
    eventually("all others to be in the log", || (accepted() == json!(2 * AROUND)).then_some(()));

    server.accept(&json!([crate::run::finished("open-1"), crate::run::finished("open-2")]));
    let trace = server.closed_trace("patient");
    assert_eq!((&trace["status"], trace["steps"].as_array().map(Vec::len)), (&json!("completed"), Some(2)), "{trace}");
    eventually_async(async || (queue.get_info().await.unwrap().state.messages == 0).then_some(())).await;
    assert_eq!(server.ask("/v1/dead")["dead"], json!([]));
}

#[test]
fn a_full_store_is_named_and_the_work_goes_on_once_there_is_room() {
    let home = TempDir::new().unwrap();
    let config = |limit: &str| {
        let text = format!("max_payload: 8MB\njetstream {{ store_dir: \"nats-data\", max_file_store: {limit} }}\n");
        std::fs::write(home.path().join("small.conf"), text).unwrap();
    };
    config("1MB");
    let mut nats = NatsServer::with(&home.path().join("small.conf"));
    let server = Server::serving(
        &["--nats", &nats.url()],
        &[("NATS__LEASE_MS", "60000"), ("DEAD__LETTER_BYTES_MAX", "10000"), ("DEAD__BYTES_MAX", "100000")],
    );
    let run = |number: usize| {
        let mut run = whole(&format!("e{number}"));
        run[0]["data"]["intent"] = json!("fill the store ".repeat(500));
        run
    };
    // Others write, too: an append of theirs may be what fills the store, and events that were under way then have an unknown outcome.
    let (number, refused) = (0..1_000)
        .map(|number| (number, server.post(&run(number))))
        .find(|(_, answer)| answer.status == 507)
        .expect("one megabyte is soon full");
    assert!(refused.text.contains("the stream pml_default_log is full"), "{refused:?}");
    nats.kill9();
    config("1GB");
    nats.run();
    eventually("the events to be taken", || (server.post(&run(number)).status == 202).then_some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_message_in_the_log_stops_nobody_and_shows_in_metrics_doctor_and_verify() {
    let nats = NatsServer::start();
    let mut server = Server::serving(&["--nats", &nats.url()], &[]);
    server.accept(&whole("e1"));
    let client = async_nats::jetstream::new(async_nats::connect(nats.url()).await.unwrap());
    client.publish("pml.default.log.step.finished", "{}".into()).await.unwrap().await.unwrap();
    server.accept(&whole("e2"));
    assert_eq!(server.closed_trace("e2")["status"], "completed");
    client.publish("pml.default.log.step.finished", "{}".into()).await.unwrap().await.unwrap();
    eventually("both to be counted", || {
        server.get("/metrics").text.lines().any(|line| line == "pml_log_foreign_messages 2").then_some(())
    });
    // The last message of the stream is somebody else's.
    server.kill9();
    server.restart();
    let state = server.settled_state();
    let verified = json_of(pml().args(["log", "verify", "--nats", &nats.url()]));
    assert_eq!((&verified["problems"], &verified["foreign"], &verified["digest"]), (&json!([]), &json!(2), &state["digest"]));
    let doctor = json_of(pml().args(["doctor", "--nats", &nats.url()]));
    let finding = doctor["checks"].as_array().unwrap().iter().find(|check| check["check"] == "nats").unwrap();
    assert_eq!(finding["result"], "note", "{finding}");
    assert!(finding["text"].as_str().unwrap().contains("holds 2 messages of others"), "{finding}");
}
