//! The other ports on NATS, and everything about the connection: streams, versions, who may do what.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_nats::ConnectOptions;
use async_nats::jetstream;
use pml::bus::contract::{LagCount, upholds_the_contract};
use pml::bus::{NatsBus, SharedBus};
use pml::clock::Clock;
use pml::config::{self, Secret};
use pml::core::redact::Redactor;
use pml::log::{DeadLetters, StreamDeadLetters};
use pml::nats::{Nats, StreamKind};
use tempfile::TempDir;

use crate::dead_letters::{
    letter, letters, list, lists_page_by_page_and_removes, long_letters_make_short_pages, store, the_oldest_give_way,
    the_oldest_give_way_to_bytes,
};
use crate::nats_server::{NatsServer, connect, settings, shipped, subjects};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bus_on_nats_upholds_the_contract() {
    let server = NatsServer::start();
    let settings = settings(&[server.url()]);
    let make = async || Arc::new(NatsBus::new(connect(&settings).await)) as SharedBus;
    upholds_the_contract(make, LagCount::Approximate).await;
}

fn room(letters_max: usize) -> pml::config::Dead {
    pml::config::Dead { letters_max, letter_bytes_max: 1 << 16, bytes_max: 1 << 20 }
}

async fn dead_letters(server: &NatsServer, letters_max: usize) -> StreamDeadLetters {
    let nats = Nats::connect(&settings(&[server.url()]), subjects()).await.unwrap();
    nats.provision(&room(letters_max), &crate::nats_server::log_settings()).await.unwrap();
    StreamDeadLetters::new(nats, Clock::system(), Redactor::builtin())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_on_nats_are_listed_removed_and_bounded() {
    let server = NatsServer::start();
    lists_page_by_page_and_removes(&dead_letters(&server, 100).await).await;
    let server = NatsServer::start();
    the_oldest_give_way(&dead_letters(&server, 3).await).await;
    let server = NatsServer::start();
    the_oldest_give_way_to_bytes(&dead_letters(&server, 1_000).await).await;
}

/// The limits of an earlier start give way to those of this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_room_for_dead_letters_follows_the_configuration() {
    let server = NatsServer::start();
    let nats = connect(&settings(&[server.url()])).await;
    let more = pml::config::Dead { bytes_max: 10 << 20, ..room(1_000) };
    nats.provision(&more, &crate::nats_server::log_settings()).await.unwrap();
    let name = nats.stream_name(StreamKind::Dead);
    let config = nats.jetstream().get_stream(&name).await.unwrap().cached_info().config.clone();
    assert_eq!((config.max_messages, config.max_bytes), (1_000, 10 << 20));
    long_letters_make_short_pages(&StreamDeadLetters::new(nats, Clock::system(), Redactor::builtin())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_message_among_the_dead_letters_is_shown_as_one() {
    let server = NatsServer::start();
    let dead = dead_letters(&server, 100).await;
    store(&dead, ["a"]).await;
    let nats = connect(&settings(&[server.url()])).await;
    let subject = subjects().dead("anything").to_string();
    let publish = nats.jetstream().publish(subject.clone(), "password=hunter2 \u{ff}".into()).await.unwrap();
    publish.await.unwrap();
    store(&dead, ["b"]).await;
    let listed = list(&dead, 0, 10).await;
    assert_eq!([&listed[0].letter, &listed[2].letter], [&letter("a"), &letter("b")]);
    let foreign = &listed[1].letter;
    assert_eq!((foreign.reason.as_str(), foreign.bytes.as_slice()), ("foreign", "password=[redacted] \u{ff}".as_bytes()));
    assert!(foreign.message.contains(&subject), "{}", foreign.message);
    assert!(listed[0].at <= listed[1].at && listed[1].at <= listed[2].at);
    dead.remove(vec![listed[1].number]).await.unwrap();
    assert_eq!(letters(&list(&dead, 0, 10).await), ["a", "b"].map(letter));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_with_other_settings_is_an_error_that_says_how_it_differs() {
    let server = NatsServer::start();
    let nats = connect(&settings(&[server.url()])).await;
    nats.provision(&room(5), &crate::nats_server::log_settings()).await.expect("what is there and right is left alone");
    let name = nats.stream_name(StreamKind::Dead);
    let stream = nats.jetstream().get_stream(&name).await.unwrap();
    let mut changed = stream.cached_info().config.clone();
    changed.max_age = Duration::from_hours(1);
    nats.jetstream().update_stream(&changed).await.unwrap();
    let error = nats.provision(&room(5), &crate::nats_server::log_settings()).await.unwrap_err().to_string();
    assert_eq!(error, format!("the stream {name} exists with other settings: max_age is 3600 s, pml needs 0 s"));
}

/// Says what a server of that version says when a client comes, and nothing more than the client needs to hear.
fn old_server(version: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let info = format!(r#"INFO {{"version":"{version}","jetstream":true,"headers":true,"max_payload":1048576,"proto":1}}"#);
        write!(socket, "{info}\r\n").unwrap();
        for line in BufReader::new(socket.try_clone().unwrap()).lines().map_while(Result::ok) {
            if line.starts_with("PING") && write!(socket, "PONG\r\n").is_err() {
                return;
            }
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_too_old_or_not_there_is_refused_with_the_reason() {
    let refusal = async |url: String| Nats::connect(&settings(&[url]), subjects()).await.err().expect("refused").to_string();
    let old = refusal(old_server("2.9.10")).await;
    assert!(old.contains("runs nats-server 2.9.10; pml needs 2.12 or newer"), "{old}");
    let nobody = refusal("nats://me:hunter2@127.0.0.1:1".to_owned()).await;
    assert!(nobody.starts_with("cannot reach NATS at 127.0.0.1:1; start nats-server there"), "{nobody}");
    assert!(!nobody.contains("hunter2"), "{nobody}");
}

/// A server with this `authorization` or `tls` section.
fn guarded(section: &str) -> (NatsServer, TempDir) {
    let home = TempDir::new().unwrap();
    let config = home.path().join("guarded.conf");
    std::fs::write(&config, format!("jetstream {{ store_dir: store }}\n{section}\n")).unwrap();
    (NatsServer::with(&config), home)
}

async fn logs_in(server: &NatsServer, change: impl FnOnce(&mut config::Nats)) -> bool {
    let mut settings = settings(&[server.url()]);
    change(&mut settings);
    Nats::connect(&settings, subjects()).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_to_log_in_works_and_nobody_comes_in_without() {
    let (server, _home) = guarded("authorization { token: s3cret }");
    assert!(logs_in(&server, |nats| nats.token = Secret::new("s3cret")).await);
    assert!(!logs_in(&server, |nats| nats.token = Secret::new("guess")).await);
    assert!(!logs_in(&server, |_| {}).await);
    let (server, _home) = guarded("authorization { user: pml, password: s3cret }");
    let log_in = |password: &str| {
        let password = Secret::new(password);
        logs_in(&server, move |nats| (nats.user, nats.password) = ("pml".to_owned(), password))
    };
    assert!(log_in("s3cret").await && !log_in("guess").await);
    // The pair of keys from the documentation of NATS.
    let (public, seed) = (
        "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4",
        "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY",
    );
    let (server, _home) = guarded(&format!("authorization {{ users: [{{ nkey: {public} }}] }}"));
    assert!(logs_in(&server, |nats| nats.nkey_seed = Secret::new(seed)).await);
    assert!(!logs_in(&server, |_| {}).await);
}

/// The operator, the account and the user were made once by make.py beside them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credentials_file_logs_in_where_an_operator_signs_the_accounts() {
    let jwt = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside/jwt");
    let (server, home) = guarded(&std::fs::read_to_string(jwt.join("operator.conf")).unwrap());
    let log_in = |credentials: PathBuf| logs_in(&server, move |nats| nats.credentials = credentials);
    assert!(log_in(jwt.join("pml.creds")).await);
    assert!(!logs_in(&server, |_| {}).await);
    // The same user with the key of another one.
    let (stranger, seed) = (home.path().join("stranger.creds"), "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY");
    let own = std::fs::read_to_string(jwt.join("pml.creds")).unwrap();
    let changed = own.lines().map(|line| if line.starts_with("SU") { seed } else { line }).collect::<Vec<_>>().join("\n");
    std::fs::write(&stranger, changed).unwrap();
    assert!(!log_in(stranger).await);
    let mut settings = settings(&[server.url()]);
    settings.credentials = jwt.join("pml.creds");
    connect(&settings).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_spoken_both_ways_when_configured() {
    let file = |name: &str| -> PathBuf { Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside/tls").join(name) };
    let (certificate, key, authority) = (file("server.pem"), file("server-key.pem"), file("ca.pem"));
    let section = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true }}",
        certificate.display(),
        key.display(),
        authority.display()
    );
    let (server, _home) = guarded(&section);
    let trusting = |nats: &mut config::Nats| {
        nats.tls_required = true;
        nats.tls_ca = authority.clone();
    };
    assert!(
        logs_in(&server, |nats| {
            trusting(nats);
            (nats.tls_cert, nats.tls_key) = (file("client.pem"), file("client-key.pem"));
        })
        .await
    );
    assert!(!logs_in(&server, trusting).await, "the server asks for a certificate");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_shipped_permissions_an_agent_publishes_events_and_hears_predictions_and_nothing_else() {
    let environment = [("PML_NATS_PASSWORD", "p1"), ("PML_NATS_AGENT_PASSWORD", "p2")];
    let server = NatsServer::with_environment(&shipped("agents.conf"), &environment);
    let mut ours = settings(&[server.url()]);
    (ours.user, ours.password) = ("pml".to_owned(), Secret::new("p1"));
    let nats = connect(&ours).await;

    let (violations, mut violated) = tokio::sync::mpsc::unbounded_channel();
    let agent = ConnectOptions::with_user_and_password("agent".to_owned(), "p2".to_owned())
        .request_timeout(Some(Duration::from_secs(5)))
        .event_callback(move |event| {
            let violations = violations.clone();
            async move {
                if let async_nats::Event::ServerError(error) = event {
                    violations.send(error.to_string()).unwrap();
                }
            }
        })
        .connect(server.url())
        .await
        .unwrap();
    let published = jetstream::new(agent.clone()).publish("pml.default.in.execution.started", "{}".into()).await.unwrap();
    published.await.expect("an agent's event is acknowledged");
    let mut predictions = agent.subscribe("pml.default.predict.s1").await.unwrap();
    agent.flush().await.unwrap();

    for forbidden in ["pml.default.log.>", "pml.default.in.>", "pml.default.dead.>", ">"] {
        let _subscriber = agent.subscribe(forbidden).await.unwrap();
        let violation = tokio::time::timeout(Duration::from_secs(10), violated.recv()).await.expect("refused in time").unwrap();
        assert!(violation.to_lowercase().contains("permissions violation for subscription"), "{forbidden}: {violation}");
    }
    for forbidden in ["pml.default.log.tool.removed", "pml.default.predict.s1", "$JS.API.STREAM.DELETE.pml_default_log"] {
        agent.publish(forbidden, "{}".into()).await.unwrap();
        let violation = tokio::time::timeout(Duration::from_secs(10), violated.recv()).await.expect("refused in time").unwrap();
        assert!(violation.to_lowercase().contains("permissions violation for publish"), "{forbidden}: {violation}");
    }
    let log = nats.jetstream().get_stream(nats.stream_name(StreamKind::Log)).await.expect("the log is still there");
    assert_eq!(log.cached_info().state.messages, 0);
    nats.client().publish("pml.default.predict.s1", "next".into()).await.unwrap();
    let heard = futures_util::StreamExt::next(&mut predictions);
    let heard = tokio::time::timeout(Duration::from_secs(10), heard).await.expect("heard in time").unwrap();
    assert_eq!(heard.payload.as_ref(), b"next");
}

/// `docker compose` may be missing; reading the file as YAML finds what a person would get wrong.
#[test]
fn the_compose_file_starts_three_nodes_with_the_shipped_configuration() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("docker-compose.yml")).unwrap();
    let compose: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    let node = std::fs::read_to_string(shipped("node.conf")).unwrap();
    let code = node.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let asked: Vec<&str> = code
        .split('$')
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap())
        .collect();
    assert_eq!(asked.len(), 7, "{asked:?}");
    for name in ["nats-1", "nats-2", "nats-3"] {
        let service = &compose["services"][name];
        assert_eq!(service["command"], serde_json::json!(["-c", "/etc/nats/node.conf", "-m", "8222"]));
        assert_eq!(service["environment"]["PML_NATS_NAME"], name);
        for variable in &asked {
            assert!(service["environment"][variable].is_string(), "{name} lacks {variable}");
        }
        assert!(compose["volumes"].get(name).is_some(), "{name} keeps its data");
    }
    assert_eq!(compose["services"]["pml"]["environment"]["PML__NATS__REPLICAS"], "3");
    // The plugin or the program of old, whichever is there.
    for (program, first) in [("docker", &["compose"][..]), ("docker-compose", &[])] {
        let run =
            |arguments: &[&str]| std::process::Command::new(program).args(first).args(arguments).current_dir(root).output();
        if run(&["version"]).is_ok_and(|output| output.status.success()) {
            let checked = run(&["config", "--quiet"]).unwrap();
            assert!(checked.status.success(), "{program}: {}", String::from_utf8_lossy(&checked.stderr));
        }
    }
}
