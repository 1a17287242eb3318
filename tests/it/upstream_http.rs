//! A server that speaks streamable HTTP: `server-everything` from npm, reached through a proxy of the test that notes the headers, and
//! killed and started again while pml runs.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::outside::installed;
use crate::server::{Server, eventually};

/// The server from npm on a fixed port.
struct Everything {
    node: PathBuf,
    port: u16,
    child: Option<Child>,
}

impl Everything {
    fn start(node: PathBuf) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Self { node, port, child: None };
        server.run();
        server
    }

    fn run(&mut self) {
        let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside/servers/node_modules");
        let program = modules.join("@modelcontextprotocol/server-everything/dist/index.js");
        let mut command = Command::new(&self.node);
        let command = command.arg(program).arg("streamableHttp").env("PORT", self.port.to_string());
        self.child = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        eventually("the server to listen", || TcpStream::connect(("127.0.0.1", self.port)).ok());
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Everything {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Passes connections on to `port` and notes what clients send. Returns its own port.
fn proxy(port: u16) -> (u16, Arc<Mutex<String>>) {
    let (listener, sent) = (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::new(Mutex::new(String::new())));
    let (own, noted) = (listener.local_addr().unwrap().port(), Arc::clone(&sent));
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", port))) else { continue };
            let (to_server, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            let noted = Arc::clone(&noted);
            std::thread::spawn(move || {
                pass(client, to_server, |bytes| noted.lock().unwrap().push_str(&String::from_utf8_lossy(bytes)));
            });
            std::thread::spawn(move || pass(server, to_client, |_| ()));
        }
    });
    (own, sent)
}

fn pass(mut from: TcpStream, mut to: TcpStream, note: impl Fn(&[u8])) {
    let mut buffer = [0; 16_384];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        note(&buffer[..len]);
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    // The other direction ends too; it may have done so already.
    drop(to.shutdown(Shutdown::Both));
    drop(from.shutdown(Shutdown::Both));
}

#[test]
fn a_server_over_streamable_http_is_called_with_its_headers_and_reconnected() {
    let Some(node) = installed("PML_TEST_NODE") else { return };
    let mut everything = Everything::start(node);
    let (port, sent) = proxy(everything.port);
    let home = TempDir::new().unwrap();
    let file = home.path().join("servers.json");
    let entry = json!({
        "url": format!("http://127.0.0.1:{port}/mcp"),
        "headers": {"Authorization": "Bearer ${TEAM_TOKEN:-none-given}", "X-Team": "green"},
    });
    std::fs::write(&file, json!({"mcpServers": {"everything": entry}}).to_string()).unwrap();
    let pml = Server::with(&[("UPSTREAM__FILE", file.to_str().unwrap()), ("UPSTREAM__RECONNECT_MS_MAX", "200")]);
    let server = |states: &[&str]| {
        eventually(&format!("the server to be {states:?}"), || {
            let server = pml.ask("/v1/servers")["servers"][0].clone();
            states.iter().any(|state| server["state"] == *state).then_some(server)
        })
    };
    let ready = server(&["ready"]);
    assert!(ready["tools"].as_array().unwrap().len() >= 5, "{ready}");
    let echo = || -> Value {
        let tasks = json!([{"id": "t", "tool": "everything:echo", "arguments": {"message": "over the wire"}}]);
        pml.question("/v1/execute", &json!({"workflow": {"tasks": tasks}})).json()
    };
    let run = echo();
    assert!(run["tasks"][0]["result"].to_string().contains("over the wire"), "{run}");
    let heard = sent.lock().unwrap().to_ascii_lowercase();
    assert!(heard.contains("x-team: green") && heard.contains("authorization: bearer none-given"), "{heard}");
    everything.kill();
    let failed = eventually("a call to fail", || Some(echo()).filter(|run| run["status"] == "failed"));
    let kind = failed["tasks"][0]["error"]["kind"].as_str().unwrap().to_owned();
    assert!(["connection_lost", "not_connected", "refused", "timeout"].contains(&kind.as_str()), "{failed}");
    everything.run();
    eventually("a call to succeed again", || (echo()["status"] == "succeeded").then_some(()));
    assert_eq!(server(&["ready"])["tools"], ready["tools"], "no tool was lost");
}
