//! pml against programs other people wrote: the official CloudEvents library as an agent, a real nats-server as the judge of what a
//! subject pattern matches. `scripts/test` installs them and says where they are.

use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use pml::subject::{Pattern, Subject};
use serde_json::{Value, json};

use crate::server::{Server, eventually};

/// The installed program, or `None` outside CI where nobody installed it. In CI a missing part is a failure.
pub(crate) fn installed(variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.exists());
    let required = std::env::var_os("CI").is_some();
    assert!(path.is_some() || !required, "{variable} names no program; run scripts/test, which installs it");
    path
}

pub(crate) fn python(script: &str, arguments: &[&str], input: &str) -> Option<Value> {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/outside").join(script);
    let mut command = Command::new(installed("PML_TEST_PYTHON")?);
    let mut child = command
        .arg(script)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{script:?}", script = command.get_args().next());
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn an_agent_with_the_official_cloudevents_library_is_understood_in_every_mode() {
    let server = Server::start();
    let Some(answers) = python("agent.py", &[server.url()], "") else { return };
    let statuses: Vec<&Value> = answers.as_array().unwrap().iter().map(|answer| &answer["results"][0]["status"]).collect();
    assert_eq!(statuses, [&json!("accepted"); 4], "{answers}");
    let trace = server.closed_trace("python-1");
    let steps: Vec<&Value> = trace["steps"].as_array().unwrap().iter().map(|step| &step["tool"]).collect();
    assert_eq!(steps, ["fs:list", "zip:pack"]);
    assert_eq!(trace["steps"][1]["depends_on"], json!(["list"]));
}

/// A nats-server that ends with the test.
struct NatsServer(Child, String);

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn nats_server() -> Option<NatsServer> {
    let program = installed("PML_TEST_NATS_SERVER")?;
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let child = Command::new(program).args(["-a", "127.0.0.1", "-p", &port.to_string()]).stderr(Stdio::null()).spawn().unwrap();
    let server = NatsServer(child, address);
    eventually("the nats-server", || std::net::TcpStream::connect(&server.1).ok());
    Some(server)
}

#[test]
fn patterns_match_what_a_real_nats_server_matches() {
    let patterns =
        ["a", "a.b", "a.*", "*.b", "*", ">", "a.>", "a.*.c", "*.*", "a.b.>", "*.>", "pml.default.notify.>", "a.b.c.d"];
    let subjects =
        ["a", "b", "a.b", "a.c", "b.b", "a.b.c", "a.x.c", "a.b.c.d", "pml.default.notify.edge_promoted", "pml.default.notify"];
    let pairs: Vec<(&str, &str)> = patterns.iter().flat_map(|pattern| subjects.map(|subject| (*pattern, subject))).collect();
    let ours: Vec<bool> = pairs
        .iter()
        .map(|(pattern, subject)| pattern.parse::<Pattern>().unwrap().matches(&subject.parse::<Subject>().unwrap()))
        .collect();
    let Some(server) = nats_server() else { return };
    let url = format!("nats://{}", server.1);
    let Some(theirs) = python("subjects.py", &[&url], &json!(pairs).to_string()) else { return };
    let theirs: Vec<bool> = serde_json::from_value(theirs).unwrap();
    let differing: Vec<_> = pairs.iter().zip(ours.iter().zip(&theirs)).filter(|(_, (ours, theirs))| ours != theirs).collect();
    assert!(differing.is_empty(), "{differing:?}");
    assert!(theirs.contains(&true) && theirs.contains(&false));
}
