//! docker-compose.yml without Docker: the command of every service as a process of this machine, in the environment that the file gives it,
//! waited for by the health check that the file names. What the containers would add is replaced: names of hosts and fixed ports become
//! loopback and free ports, volumes become directories.

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::nats_server::program as nats_server;
use crate::server::{Answer, agent, eventually, pml};

fn source(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().unwrap_or_else(|| panic!("{list}")).iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// One container: a copy of a service.
struct Container {
    host: String,
    service: Value,
    /// The free port for each that the file mentions.
    ports: BTreeMap<u16, u16>,
    home: TempDir,
    child: Option<Child>,
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl Container {
    fn new(host: String, service: &Value) -> Self {
        let ports = [4222, 6222, 8222, 8080].map(|port| {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            (port, free.local_addr().unwrap().port())
        });
        Self { host, service: service.clone(), ports: ports.into(), home: TempDir::new().unwrap(), child: None }
    }

    fn is_nats(&self) -> bool {
        self.service["image"].as_str().unwrap().starts_with("nats")
    }

    /// A text of the file as this container would understand it.
    fn local(&self, text: &str, all: &[(String, BTreeMap<u16, u16>)], keys: &str) -> String {
        let mut text = text.replace("/etc/nats/", concat!(env!("CARGO_MANIFEST_DIR"), "/config/nats/"));
        if text.starts_with("${PML_HTTP_KEYS:?") {
            keys.clone_into(&mut text);
        }
        for (host, ports) in all {
            for (port, free) in ports {
                text = text.replace(&format!("{host}:{port}"), &format!("127.0.0.1:{free}"));
            }
        }
        for (port, free) in &self.ports {
            for (theirs, ours) in [
                (format!("0.0.0.0:{port}"), format!("127.0.0.1:{free}")),
                (format!("127.0.0.1:{port}/"), format!("127.0.0.1:{free}/")),
                (format!("/127.0.0.1/{port} "), format!("/127.0.0.1/{free} ")),
            ] {
                text = text.replace(&theirs, &ours);
            }
            if text == port.to_string() {
                text = free.to_string();
            }
        }
        if text == "/data" { self.home.path().join("data").display().to_string() } else { text }
    }

    fn program(&self) -> PathBuf {
        if self.is_nats() {
            return nats_server();
        }
        assert!(source("Dockerfile").contains("\nENTRYPOINT [\"pml\"]\n"));
        pml().get_program().into()
    }

    fn command(&self, program: PathBuf, arguments: &[String], environment: &[(String, String)]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(environment.iter().cloned()).current_dir(self.home.path()).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(std::fs::File::create(self.home.path().join("stderr")).unwrap());
        command
    }

    /// Starts it and waits until it is healthy.
    fn start(&mut self, all: &[(String, BTreeMap<u16, u16>)], keys: &str) {
        let arguments: Vec<String> =
            texts(&self.service["command"]).iter().map(|argument| self.local(argument, all, keys)).collect();
        let environment = self.service["environment"].as_object().unwrap().iter();
        let environment: Vec<(String, String)> =
            environment.map(|(name, value)| (name.clone(), self.local(value.as_str().unwrap(), all, keys))).collect();
        self.child = Some(self.command(self.program(), &arguments, &environment).spawn().unwrap());
    }

    fn wait_until_healthy(&mut self) {
        let test = texts(&self.service["healthcheck"]["test"]);
        assert_eq!(test[0], "CMD", "{test:?}");
        let test: Vec<String> = test[1..].iter().map(|argument| self.local(argument, &[], "")).collect();
        let port = self.ports[if self.is_nats() { &8222 } else { &8080 }];
        eventually(&format!("{} to be healthy", self.host), || {
            let said = || std::fs::read_to_string(self.home.path().join("stderr")).unwrap();
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "{} ended: {}", self.host, said());
            TcpStream::connect(("127.0.0.1", port)).ok()?;
            let mut check = Command::new(&test[0]);
            check.args(&test[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            check.status().unwrap().success().then_some(())
        });
    }
}

/// A key and the value of `PML_HTTP_KEYS`, made as the head of the file says.
fn new_key() -> (String, String) {
    let said = pml().args(["key", "--scopes", "publish,query,execute,admin"]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let line = said.lines().find_map(|line| line.trim().strip_prefix("PML__HTTP__KEYS=")).unwrap();
    let key = said.lines().skip(1).find(|line| !line.is_empty()).unwrap().trim();
    (key.to_owned(), line.trim_matches('\'').to_owned())
}

#[test]
fn every_service_of_the_compose_file_starts_and_becomes_healthy() {
    let file: Value = serde_saphyr::from_str(&source("docker-compose.yml")).unwrap();
    let mut containers = Vec::new();
    for (name, service) in file["services"].as_object().unwrap() {
        for copy in 0..service["deploy"]["replicas"].as_u64().unwrap_or(1) {
            let host = if copy == 0 { name.clone() } else { format!("{name}-copy-{copy}") };
            containers.push(Container::new(host, service));
        }
    }
    assert_eq!(containers.len(), 6);
    let all: Vec<_> = containers.iter().map(|one| (one.host.clone(), one.ports.clone())).collect();
    let (key, keys) = new_key();
    // pml waits for the health of NATS (`depends_on`).
    let (mut nats, mut roles): (Vec<_>, Vec<_>) = containers.into_iter().partition(Container::is_nats);
    for group in [&mut nats, &mut roles] {
        for one in group.iter_mut() {
            one.start(&all, &keys);
        }
        group.iter_mut().for_each(Container::wait_until_healthy);
    }
    let url = |host: &str| format!("http://127.0.0.1:{}", roles.iter().find(|one| one.host == host).unwrap().ports[&8080]);
    let run = json!({"execution": "e1", "intent": "zip the reports", "steps": [{"tool": "fs:list"}, {"tool": "zip:pack"}]});
    let request = agent().post(format!("{}/v1/executions", url("pml"))).header("authorization", format!("Bearer {key}"));
    let answer = Answer::read(request.header("content-type", "application/json").send(run.to_string())).unwrap();
    assert_eq!(answer.status, 202, "{answer:?}");
    eventually("another process to have learnt the run", || {
        let request =
            agent().get(format!("{}/v1/traces/e1", url("pml-query"))).header("authorization", format!("Bearer {key}"));
        let answer = Answer::read(request.call()).unwrap();
        (answer.status == 200 && answer.json()["status"] == "completed").then_some(())
    });
    let nats_url = roles[0].local("nats://nats-1:4222", &all, "");
    let doctor = pml().args(["doctor", "--json", "--nats", &nats_url]).current_dir(nats[0].home.path()).output().unwrap();
    let report: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let of_roles = checks.iter().find(|check| check["check"] == "roles").unwrap();
    assert_eq!(of_roles["text"], "3 processes run every role", "{report}");
}

#[test]
fn the_image_is_built_with_the_compiler_of_the_project() {
    let toolchain = source("rust-toolchain.toml");
    let version = toolchain.split('"').nth(1).unwrap();
    let dockerfile = source("Dockerfile");
    for line in [format!("FROM rust:{version}-bookworm AS build"), format!("ENV RUSTUP_TOOLCHAIN={version}")] {
        assert!(dockerfile.lines().any(|found| found == line), "Dockerfile has no line {line:?}");
    }
}
