//! Of several processes with the role execution one takes events; when it goes, another one does.

use std::time::Duration;

use pml::lease::LeaseState;
use pml::nats::Lease;
use serde_json::json;

use crate::nats_serve::{eventually_async, json_of};
use crate::nats_server::{NatsServer, connect, settings};
use crate::run::whole;
use crate::server::{Server, eventually, pml};
use crate::trainer::{history, post, runs, trained_models};

const LENGTH: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_held_by_one_and_passes_on_when_it_is_released_or_its_holder_dies() {
    let server = NatsServer::start();
    let settings = settings(&[server.url()]);
    let seek = async |holder: &str| {
        let nats = connect(&settings).await;
        (Lease::request(&nats, "trainer", holder.to_owned(), LENGTH).await.unwrap(), nats)
    };
    let (first, _connection) = seek("first").await;
    assert_eq!(*first.state().borrow(), LeaseState::Held);
    let (second, second_connection) = seek("second").await;
    assert_eq!(*second.state().borrow(), LeaseState::Waiting(Some("first".to_owned())));
    // Longer than a lease: the holder goes on writing.
    tokio::time::sleep(LENGTH * 2).await;
    assert_eq!((&*first.state().borrow(), second.state().borrow().is_held()), (&LeaseState::Held, false));

    let mut state = second.state();
    first.release().await;
    state.wait_for(LeaseState::is_held).await.unwrap();
    let (third, _connection) = seek("third").await;
    assert_eq!(*third.state().borrow(), LeaseState::Waiting(Some("second".to_owned())));
    // Dies without a word: its threads go with its connection.
    drop((second, second_connection));
    third.state().wait_for(LeaseState::is_held).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_without_a_server_stops_before_its_time_is_over_and_goes_on_when_it_is_back() {
    let mut server = NatsServer::start();
    let nats = connect(&settings(&[server.url()])).await;
    let lease = Lease::request(&nats, "trainer", "only".to_owned(), LENGTH).await.unwrap();
    let mut state = lease.state();
    server.kill9();
    let gone = tokio::time::timeout(LENGTH, state.wait_for(|state| !state.is_held()));
    assert!(gone.await.is_ok(), "still believes that it holds the lease");
    server.run();
    state.wait_for(LeaseState::is_held).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_with_the_role_waits_says_so_and_takes_over() {
    let nats = NatsServer::start();
    let serve = || Server::serving(&["--nats", &nats.url()], &[("NATS__LEASE_MS", "1000")]);
    let mut first = serve();
    first.accept(&whole("e1"));
    let mut second = serve();
    let ready = second.get("/readyz");
    assert_eq!((ready.status, &ready.json()["waiting"]["for"]), (503, &json!("execution")), "{ready:?}");
    let answer = second.post(&whole("e2"));
    assert!(answer.status == 503 && answer.text.contains("belongs to another one"), "{answer:?}");

    first.kill9();
    eventually("the second process to take over", || (second.get("/readyz").status == 200).then_some(()));
    second.accept(&whole("e2"));
    // Agents on NATS do not notice: the queue is taken by whoever has the role.
    let event = whole("e3");
    let client = async_nats::jetstream::new(async_nats::connect(nats.url()).await.unwrap());
    for event in event.as_array().unwrap() {
        let subject = event["type"].as_str().unwrap().replacen("pml.", "pml.default.in.", 1);
        client.publish(subject, event.to_string().into()).await.unwrap().await.unwrap();
    }
    assert_eq!(second.closed_trace("e3")["status"], "completed");

    first.restart();
    assert_eq!(first.get("/readyz").status, 503, "it comes back as the one that waits");
    assert_eq!(second.terminate(), Some(0));
    eventually_async(async || (first.get("/readyz").status == 200).then_some(())).await;
    first.accept(&whole("e4"));
    let state = first.settled_state();
    assert_eq!((&state["events"]["trace.completed"], &state["duplicates"]), (&json!(4), &json!(0)));
    let verified = json_of(pml().args(["log", "verify", "--nats", &nats.url()]));
    assert_eq!(verified["digest"], state["digest"]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how long another process takes is measured by the wall's clock")]
fn a_pml_whose_servers_are_gone_stops_within_seconds() {
    let mut nats = NatsServer::start();
    let mut server = Server::serving(&["--nats", &nats.url()], &[]);
    server.accept(&whole("e1"));
    nats.kill9();
    // Something is under way that cannot be finished.
    let url = server.url().to_owned();
    let waiting = std::thread::spawn(move || {
        let request = crate::server::agent().post(format!("{url}/v1/events")).header("content-type", "application/json");
        crate::server::Answer::read(request.send(whole("e2").to_string())).map(|answer| answer.status).ok()
    });
    let told = std::time::Instant::now();
    assert_eq!(server.terminate(), Some(0));
    assert!(told.elapsed() < Duration::from_secs(20), "{:?}", told.elapsed());
    assert_ne!(waiting.join().unwrap(), Some(202), "nothing is acknowledged that is not stored");
}

/// How long `server` takes no events.
#[expect(clippy::disallowed_methods, reason = "how long another process takes is measured by the wall's clock")]
fn until_it_takes_events(server: &Server) -> Duration {
    let began = std::time::Instant::now();
    let mut number = 0;
    eventually("an event to be taken", || {
        number += 1;
        (server.post(&json!([crate::run::started(&format!("probe-{number}"))])).status == 202).then_some(())
    });
    began.elapsed()
}

#[test]
fn who_waits_need_not_wait_for_the_lease_of_a_process_that_was_killed() {
    let nats = NatsServer::start();
    // Far more than anybody needs to notice that a connection is gone.
    let serve = || Server::serving(&["--nats", &nats.url()], &[("NATS__LEASE_MS", "16000")]);
    let (mut first, mut second) = (serve(), serve());
    first.accept(&whole("e1"));
    first.kill9();
    let waited = until_it_takes_events(&second);
    assert!(waited < Duration::from_secs(10), "the other process took over after {waited:?}");
    second.kill9();
    second.restart();
    let waited = until_it_takes_events(&second);
    assert!(waited < Duration::from_secs(10), "the same process took over after {waited:?}");
}

#[test]
fn a_killed_trainer_is_replaced_and_nothing_is_recorded_twice() {
    let nats = NatsServer::start();
    let serve = |core_share: &str| {
        let settings = [("NATS__LEASE_MS", "1000"), ("TRAINER__ENABLED", "true"), ("TRAINER__CORE_SHARE", core_share)];
        Server::serving(&["--nats", &nats.url()], &settings)
    };
    let mut first = serve("0.0001");
    first.accept(&history());
    let second = serve("1.0");
    eventually("a run under way", || {
        first.ask("/v1/models")["trainer"]["running"]["epochs"].as_u64().filter(|epochs| *epochs > 0)
    });
    let (status, told) = post(&second, "/v1/models/train", &json!({}));
    assert!(status == 409 && told["error"].as_str().unwrap().contains("'trainer' belongs to"), "{told}");
    first.kill9();
    let models = trained_models(&second);
    let mut recorded: Vec<String> = runs(&models).iter().map(|run| run["version"].to_string()).collect();
    let count = recorded.len();
    recorded.sort();
    recorded.dedup();
    assert_eq!(recorded.len(), count, "{models}");
    assert_eq!(second.settled_state()["duplicates"], 0);
}

#[test]
fn training_by_hand_needs_the_lease_of_the_trainer() {
    let nats = NatsServer::start();
    let settings = [("NATS__LEASE_MS", "1000"), ("TRAINER__ENABLED", "true"), ("TRAINER__CORE_SHARE", "1.0")];
    let mut server = Server::serving(&["--nats", &nats.url()], &settings);
    server.accept(&history());
    trained_models(&server);
    let train = |more: &[&str]| {
        let mut command = pml();
        command
            .args(["train", "--part", "head", "--json", "--nats", &nats.url()])
            .args(more)
            .env("PML__NATS__LEASE_MS", "1000");
        let done = command.output().unwrap();
        (done.status.code(), serde_json::from_slice::<serde_json::Value>(&done.stdout).unwrap())
    };
    let (code, refused) = train(&[]);
    assert!(code == Some(1) && refused["error"].as_str().unwrap().contains("has the role 'trainer'"), "{refused}");
    assert_eq!(train(&["--dry-run"]).0, Some(0), "a run that records nothing disturbs nobody");
    assert_eq!(server.terminate(), Some(0));
    let (code, trained) = train(&[]);
    assert!(code == Some(0) && trained["recorded"] == json!(true), "{trained}");
}
