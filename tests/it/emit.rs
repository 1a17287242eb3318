//! History told again on a real nats-server.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use async_nats::Subscriber;
use futures_util::StreamExt;
use pml::core::event::cloud;
use pml::nats::Nats;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::archive::Past;
use crate::cli::{run, text};
use crate::nats_server::{NatsServer, connect, settings};
use crate::server::{PATIENCE, pml};

async fn listen(server: &NatsServer, subjects: &str) -> (Nats, Subscriber) {
    let nats = connect(&settings(&[server.url()])).await;
    let subscriber = nats.client().subscribe(subjects.to_owned()).await.unwrap();
    nats.client().flush().await.unwrap();
    (nats, subscriber)
}

async fn next(subscriber: &mut Subscriber) -> (String, Value) {
    let message = tokio::time::timeout(PATIENCE, subscriber.next()).await.expect("a message in time").unwrap();
    (message.subject.to_string(), serde_json::from_slice(&message.payload).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_is_published_in_order_below_the_prefix() {
    let (server, home, past) = (NatsServer::start(), TempDir::new().unwrap(), Past::of(20));
    past.write(home.path());
    let (_nats, mut subscriber) = listen(&server, "again.>").await;
    let (from, to) = (&past.records[3], &past.records[70]);
    let told = run(
        0,
        &[
            &["replay", "--publish", "again.monday", "--speed", "max", "--bus", &server.url(), "--data", text(home.path())],
            &["--from", &from.seq.to_string(), "--to", &to.recorded_at.to_string()][..],
        ]
        .concat(),
    );
    assert_eq!(told.json(), json!({"published": 68, "last_seq": to.seq.0, "stopped": false}));
    for record in &past.records[3..=70] {
        let (subject, payload) = next(&mut subscriber).await;
        assert_eq!(subject, format!("again.monday.{}", record.event().kind()));
        assert_eq!(payload, cloud::record_to_structured(record));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_stopped_says_how_to_go_on() {
    let (server, home, past) = (NatsServer::start(), TempDir::new().unwrap(), Past::of(2));
    past.write(home.path());
    let (_nats, mut subscriber) = listen(&server, "again.>").await;
    // The second record is due after 400 seconds: nobody waits for it.
    let mut child = pml()
        .args(["replay", "--publish", "again", "--speed", "1", "--bus", &server.url(), "--data", text(home.path()), "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(next(&mut subscriber).await.1["seq"], 1);
    let told = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(told.success());
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(report, json!({"published": 1, "last_seq": 1, "stopped": true}));
    let rest = ["replay", "--publish", "again", "--speed", "1e9", "--from", "2", "--bus", &server.url(), "--data"];
    let rest = run(0, &[&rest[..], &[text(home.path())]].concat()).json();
    assert_eq!(rest["published"], past.records.len() - 1);
    for record in &past.records[1..] {
        assert_eq!(next(&mut subscriber).await.1["seq"], record.seq.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_on_nats_is_told_again_on_the_same_servers_and_never_into_itself() {
    let (server, home, mut past) = (NatsServer::start(), TempDir::new().unwrap(), Past::default());
    past.run("e1");
    past.write(home.path());
    run(0, &["log", "copy", "--from", text(home.path()), "--to", &server.url()]);
    let (_nats, mut subscriber) = listen(&server, "again.>").await;
    let told = run(0, &["replay", "--publish", "again", "--speed", "max", "--nats", &server.url()]).json();
    assert_eq!(told["published"], past.records.len());
    let (subject, _) = next(&mut subscriber).await;
    assert_eq!(subject, "again.execution.started");
    for prefix in ["pml", "pml.default.log", "pml.default.in"] {
        let refused = run(1, &["replay", "--publish", prefix, "--speed", "max", "--nats", &server.url()]).json();
        assert!(refused["error"].as_str().unwrap().contains("choose a prefix of your own"), "{refused}");
    }
    let silence = tokio::time::timeout(Duration::from_millis(100), async { while subscriber.next().await.is_some() {} }).await;
    assert!(silence.is_err(), "the subscription is still open and nothing else came");
}
