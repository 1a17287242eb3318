//! What people expect of a program on NATS: logins in URLs, every question as a subject, roles that are missed when nobody runs them,
//! one sentence and exit code 4 when the server is away.

use std::collections::BTreeSet;

use pml::role::Role;
use serde_json::{Value, json};

use crate::nats_serve::json_of;
use crate::nats_server::{NatsServer, shipped};
use crate::run::{event, finished, step, whole};
use crate::server::{Server, pml};

const PASSWORDS: [(&str, &str); 2] = [("PML_NATS_PASSWORD", "p@ss/word"), ("PML_NATS_AGENT_PASSWORD", "agent")];

fn with_login(nats: &NatsServer, login: &str) -> String {
    nats.url().replace("nats://", &format!("nats://{login}@"))
}

#[test]
fn a_login_in_the_url_works_and_is_never_shown() {
    let nats = NatsServer::with_environment(&shipped("agents.conf"), &PASSWORDS);
    let url = with_login(&nats, "pml:p%40ss%2Fword");
    let server = Server::serving(&["--nats", &url], &[]);
    server.accept(&whole("e1"));
    server.closed_trace("e1");
    assert!(!server.complaints().contains("p@ss") && !server.complaints().contains("p%40ss"));
    let verified = json_of(pml().args(["log", "verify", "--nats", &url]));
    assert_eq!(verified["problems"], json!([]));
    let wrong = pml().args(["log", "cat", "--nats", &with_login(&nats, "pml:hunter2")]).output().unwrap();
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(said.contains("refused the login; check the user and password in the URL") && !said.contains("hunter2"), "{said}");
    assert_eq!(wrong.status.code(), Some(1), "{said}");
}

#[test]
fn a_nats_server_that_is_away_is_one_sentence_and_exit_code_4() {
    let away = "nats://127.0.0.1:1";
    for arguments in [
        vec!["serve", "--nats", away, "--listen", "127.0.0.1:0"],
        vec!["log", "cat", "--nats", away],
        vec!["publish", "--kind", "tool.removed", "--body", r#"{"tool": "fs:read"}"#, "--nats", away],
        vec!["dead", "list", "--nats", away],
    ] {
        let output = pml().args(&arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{arguments:?}: {said}");
        let sentence = "cannot reach NATS at 127.0.0.1:1; start nats-server there, or name another with --nats or nats.servers";
        assert!(said.contains(sentence) && said.trim_end().lines().count() == 1, "{arguments:?}: {said}");
    }
}

/// An answer without the position that it is based on: between two questions the vectors of texts may be recorded.
fn without_position(mut answer: Value) -> Value {
    answer.as_object_mut().unwrap().remove("based_on_seq").unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn related_traces_executions_and_quality_are_asked_over_nats_as_over_http() {
    let nats = NatsServer::start();
    let server = Server::serving(&["--nats", &nats.url()], &[]);
    server.accept(&whole("e1"));
    let trace = server.closed_trace("e1");
    let client = async_nats::connect(nats.url()).await.unwrap();
    let ask = async |question: &str, asked: Value| {
        let answer = client.request(format!("pml.default.q.{question}"), asked.to_string().into()).await.unwrap();
        serde_json::from_slice::<Value>(&answer.payload).map_err(|_| format!("{:?}", answer.headers))
    };
    assert_eq!(ask("trace", json!({"execution": "e1"})).await.unwrap(), trace);
    let unknown = ask("trace", json!({"execution": "none"})).await.unwrap_err();
    assert!(unknown.contains("404") && unknown.contains("'none' is neither open nor among the latest traces"), "{unknown}");
    for (name, text) in [("e2", "Mail the Report"), ("e3", "mail a letter")] {
        server.accept(&json!([
            event("execution.started", json!({"execution": name, "intent": text})),
            step(name, "s1", "mail:send", &[]),
            finished(name),
        ]));
        server.closed_trace(name);
    }
    for (asked, query) in [
        (json!({}), ""),
        (
            json!({"q": "mail", "tool": "mail:send", "outcome": "success", "limit": 1}),
            "?q=mail&tool=mail:send&outcome=success&limit=1",
        ),
    ] {
        let answer = server.ask(&format!("/v1/executions{query}"));
        assert!(!answer["executions"].as_array().unwrap().is_empty(), "{answer}");
        assert_eq!(without_position(ask("executions", asked).await.unwrap()), without_position(answer));
    }
    let refused = ask("executions", json!({"outcome": "bad"})).await.unwrap_err();
    assert!(refused.contains("400") && refused.contains("outcome: 'bad' is not open"), "{refused}");
    let over_nats = ask("quality", json!({"over": "day"})).await.unwrap();
    assert_eq!(without_position(over_nats), without_position(server.ask("/v1/quality?over=day")));
    assert!(ask("quality", json!({"over": "week"})).await.unwrap_err().contains("'week' is not hour, day or all"));
    let related = crate::server::eventually("the measures", || {
        let answer = server.get("/v1/related?tool=fs:read");
        (answer.status == 200 && answer.json()["related_tools"] != json!([])).then(|| answer.json())
    });
    assert_eq!(ask("related", json!({"tool": "read"})).await.unwrap()["related_tools"], related["related_tools"]);
    let unknown = ask("related", json!({"tool": "no:thing"})).await.unwrap_err();
    assert!(unknown.contains("404") && unknown.contains("nothing is known about 'no:thing'"), "{unknown}");
}

fn finding(nats: &NatsServer) -> Value {
    let doctor = json_of(pml().args(["doctor", "--nats", &nats.url()]));
    doctor["checks"].as_array().unwrap().iter().find(|check| check["check"] == "roles").unwrap().clone()
}

#[test]
fn doctor_says_which_roles_nobody_runs_and_what_that_means() {
    let nats = NatsServer::start();
    let nobody = finding(&nats);
    assert!(nobody["text"].as_str().unwrap().contains("no process of pml is connected"), "{nobody}");
    let mut first = Server::serving(&["--nats", &nats.url(), "--roles", "execution,trace,graph-sync,embedding,query"], &[]);
    let some = finding(&nats);
    let text = some["text"].as_str().unwrap();
    assert_eq!(some["result"], "note", "{some}");
    assert!(text.starts_with("1 processes; nobody runs prediction (no predictions are published"), "{text}");
    assert!(text.contains("trainer (") && text.contains("upstream (") && !text.contains("query ("), "{text}");
    let _second = Server::serving(&["--nats", &nats.url(), "--roles", "prediction,trainer,upstream"], &[]);
    let all = finding(&nats);
    assert_eq!((&all["result"], &all["text"]), (&json!("ok"), &json!("2 processes run every role")));
    assert_eq!(first.terminate(), Some(0));
    let rest = finding(&nats);
    assert!(rest["text"].as_str().unwrap().contains("nobody runs execution (events stay in the work queue"), "{rest}");
}

#[test]
fn compose_starts_every_role_with_health_checks_and_the_http_port() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docker-compose.yml")).unwrap();
    let document: Value = serde_saphyr::from_str(&text).unwrap();
    let services = document["services"].as_object().unwrap();
    let mut roles = BTreeSet::new();
    let mut ports = Vec::new();
    for (name, service) in services {
        let shared = if name.starts_with("nats") { &document["x-nats"] } else { &document["x-pml"] };
        assert!(shared["healthcheck"]["test"].is_array(), "{name} has no health check");
        ports.extend(service["ports"].as_array().into_iter().flatten().filter_map(Value::as_str));
        let command = service["command"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let listed = command.skip_while(|word| *word != "--roles").nth(1).unwrap_or_default();
        roles.extend(listed.split(',').filter(|role| !role.is_empty()).map(str::to_owned));
    }
    assert_eq!(roles, Role::ALL.into_iter().map(|role| role.name().to_owned()).collect());
    assert!(ports.contains(&"127.0.0.1:8080:8080"), "{ports:?}");
}

#[test]
fn the_role_table_of_the_documentation_is_complete() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/nats.md")).unwrap();
    for role in Role::ALL {
        assert!(text.contains(&format!("\n| {} |", role.name())), "docs/nats.md: no row for {}", role.name());
    }
}
