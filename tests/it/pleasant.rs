//! What makes the program pleasant: plain text in pipes, answers that fit a screen, an end within a second, errors that say what to do.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::{run, text, write_dataset};
use crate::outside::installed;
use crate::run::whole;
use crate::server::{Server, agent, eventually, pml};

fn printed(arguments: &[&str]) -> String {
    let output = pml().args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn learnt() -> Server {
    let server = Server::start();
    for number in 0..8 {
        server.accept(&whole(&format!("e{number}")));
    }
    server.settled_state();
    server
}

#[test]
fn a_pipe_gets_no_boxes_and_no_colours() {
    let server = learnt();
    for arguments in [
        &["discover", "copy a file", "--url", server.url()][..],
        &["predict", "copy a file", "--url", server.url()],
        &["explain", "copy a file", "--url", server.url(), "-v"],
        &["doctor", "--url", server.url()],
    ] {
        let text = printed(arguments);
        let odd = text.chars().find(|c| ('\u{2500}'..='\u{257f}').contains(c) || *c == '\u{1b}');
        assert_eq!(odd, None, "{arguments:?}: {text}");
    }
}

#[test]
fn an_explanation_fits_a_screen_and_expands() {
    let server = learnt();
    let short = printed(&["explain", "copy a file", "--after", "fs:read", "--url", server.url()]);
    let long = printed(&["explain", "copy a file", "--after", "fs:read", "--url", server.url(), "-v"]);
    assert!(short.lines().count() <= 24, "{} lines: {short}", short.lines().count());
    assert!(short.contains("(-v shows them)") && long.lines().count() > short.lines().count(), "{short}\n{long}");
}

/// What a command shows on a terminal.
fn on_a_terminal(arguments: &[&str]) -> Option<String> {
    let script = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let plain = pml();
    let mut python = Command::new(installed("PML_TEST_PYTHON")?);
    python.args(["-c", script]).arg(plain.get_program()).args(arguments).stdin(Stdio::null()).env_remove("NO_COLOR");
    let output = python.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {shown}");
    Some(shown)
}

#[test]
fn commands_that_may_take_long_show_on_a_terminal_how_far_they_are() {
    let mut server = learnt();
    assert_eq!(server.terminate(), Some(0));
    let (data, home) = (server.data(), tempfile::TempDir::new().unwrap());
    let place = |name: &str| home.path().join(name).display().to_string();
    let (data, file, copy) = (text(&data), place("backup"), place("copy"));
    for (arguments, sign) in [
        (vec!["log", "verify", "--data", data], "verifying"),
        (vec!["log", "export", &place("events"), "--data", data], "exporting"),
        (vec!["log", "copy", "--from", data, "--to", &place("other")], "copying"),
        (vec!["backup", &file, "--data", data], "bytes written:"),
        (vec!["restore", &file, "--data", &copy], "records restored:"),
        (vec!["replay", "--data", data], "folding"),
        (vec!["replay", "--data", data, "--into", &place("again")], "writing"),
        (vec!["snapshot", "create", "--data", data], "writing"),
        (vec!["snapshot", "verify", "--data", data], "verifying"),
        (vec!["diff", "1", "now", "--data", data], "folding"),
        (vec!["executions", "list", "--data", data], "reading"),
        (vec!["discover", "copy a file", "--data", data], "folding"),
        (vec!["eval", "--prequential", data, "--out", &place("curves")], "records asked about and learnt:"),
    ] {
        let Some(shown) = on_a_terminal(&arguments) else { return };
        assert!(shown.contains(sign), "{arguments:?} does not show {sign:?}: {shown:?}");
    }
}

#[test]
fn vectors_are_left_out_unless_they_are_asked_for() {
    let server = learnt();
    let embedded = |records: &str| -> Value {
        let mut records = records.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        records.find(|record| record["type"] == "pml.embedding.computed").unwrap()
    };
    let (plain, full) = (server.get("/v1/events"), server.get("/v1/events?vectors=true"));
    assert_eq!(embedded(&plain.text)["data"].get("vector"), None);
    assert!(embedded(&full.text)["data"]["vector"].as_array().unwrap().len() > 100);
    let tail = printed(&["log", "tail", "-n", "1000", "--no-follow", "--json", "--url", server.url()]);
    assert_eq!(embedded(&tail)["data"].get("vector"), None);
    let full = printed(&["log", "cat", "--vectors", "--json", "--url", server.url()]);
    assert!(embedded(&full)["data"]["vector"].is_array());
    let verified = run(0, &["log", "verify", "--url", server.url()]).json();
    assert_eq!((&verified["problems"], &verified["digest"]), (&json!([]), &server.settled_state()["digest"]));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how long another process takes is measured by the wall")]
fn ctrl_c_ends_the_server_within_a_second_while_streams_are_open() {
    let mut server = learnt();
    let streams = ["/v1/events", "/v1/predictions?session=s1"].map(|path| {
        let request = agent().get(format!("{}{path}", server.url())).header("accept", "text/event-stream");
        let response = request.call().unwrap();
        assert_eq!(response.status(), 200);
        response
    });
    let begun = Instant::now();
    assert!(Command::new("kill").args(["-INT", &server.process().to_string()]).status().unwrap().success());
    assert_eq!(server.ended(), Some(0));
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    for stream in streams {
        // The streams ended in good order.
        let mut lines = BufReader::new(stream.into_body().into_reader()).lines();
        assert!(lines.all(|line| line.is_ok()));
    }
}

#[test]
fn a_port_in_use_is_named_with_what_to_do() {
    let server = Server::start();
    let address = server.url().strip_prefix("http://").unwrap();
    let home = tempfile::TempDir::new().unwrap();
    let output = pml().args(["serve", "--listen", address, "--data", text(home.path())]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let port = address.rsplit(':').next().unwrap();
    assert!(
        said.contains(&format!("cannot listen on {address}; stop what uses port {port}, or choose another with --listen")),
        "{said}"
    );
    let away = pml().args(["predict", "x", "--url", "http://127.0.0.1:1"]).output().unwrap();
    let said = String::from_utf8_lossy(&away.stderr).into_owned();
    assert!(said.contains("http://127.0.0.1:1") && said.contains("pml serve") && away.status.code() == Some(4), "{said}");
}

#[test]
fn requests_are_logged_at_debug_without_their_query_and_measured() {
    let home = tempfile::TempDir::new().unwrap();
    let mut child = pml()
        .args(["serve", "--json", "--listen", "127.0.0.1:0", "--data", text(home.path())])
        .env("PML_LOG", "pml=debug")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let started: Value = serde_json::from_str(&line).unwrap();
    let url = format!("http://{}", started["listen"].as_str().unwrap());
    let get = |path: &str| agent().get(format!("{url}{path}")).call().unwrap().body_mut().read_to_string().unwrap();
    get("/v1/tools?after=hunter2");
    let metrics = eventually("the histogram", || {
        let text = get("/metrics");
        text.contains("route=\"/v1/tools\"").then_some(text)
    });
    assert!(
        metrics.contains(
            "pml_http_request_duration_seconds_bucket{le=\"0.0005\",method=\"GET\",route=\"/v1/tools\",status=\"2xx\"}"
        ),
        "{metrics}"
    );
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let said = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    let logged = said.lines().find(|line| line.contains("/v1/tools")).unwrap_or_else(|| panic!("{said}"));
    assert!(logged.contains("DEBUG") && logged.contains("200") && !said.contains("hunter2"), "{logged}");
    assert!(String::from_utf8(pml().arg("--help").output().unwrap().stdout).unwrap().contains("PML_LOG"));
}

#[test]
fn the_dashboard_shows_metrics_that_exist() {
    let metrics = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/metrics.rs")).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config/grafana/pml.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut shown = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let names =
                expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with("pml_"));
            for name in names {
                let ends = ["_total", "_seconds_bucket", "_seconds_count"];
                let family = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name).strip_prefix("pml_").unwrap();
                assert!(metrics.contains(&format!("\"{family}\"")), "{name} in {}", panel["title"]);
                shown += 1;
            }
        }
    }
    assert!(shown > 12);
}

#[test]
fn curves_are_drawn_beside_a_running_server() {
    let server = Server::start();
    let home = tempfile::TempDir::new().unwrap();
    write_dataset(&home.path().join("dataset"), 12);
    run(0, &["import", text(&home.path().join("dataset")), "--url", server.url()]);
    server.settled_state();
    let told = run(0, &["eval", "--prequential", "--url", server.url(), "--out", text(home.path())]).json();
    assert_eq!((&told["traces"], &told["history"]), (&json!(12), &json!(server.url())), "{told}");
}

#[test]
fn publish_offers_no_data_directory() {
    let output = pml().args(["publish", "--data", "x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("unexpected argument '--data'"), "{output:?}");
}

/// A shell in which `PML_URL` is set is a usual one.
#[test]
fn what_the_command_line_names_wins_over_the_environment() {
    let home = tempfile::TempDir::new().unwrap();
    let data = home.path().join("data");
    let run = |variables: &[(&str, &str)], arguments: &[&str]| {
        let output = pml().envs(variables.iter().copied()).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (url, nats) = (("PML_URL", "http://127.0.0.1:9"), ("PML_NATS", "nats://127.0.0.1:9"));
    let dataset = home.path().join("dataset");
    write_dataset(&dataset, 3);
    let (data, dataset) = (data.to_str().unwrap(), dataset.to_str().unwrap());
    for variables in [&[url][..], &[nats], &[url, nats]] {
        assert_eq!(run(variables, &["import", dataset, "--data", data]), (Some(0), String::new()), "{variables:?}");
        assert_eq!(run(variables, &["log", "verify", "--data", data]), (Some(0), String::new()), "{variables:?}");
    }
    let (code, said) = run(&[nats], &["log", "verify", "--url", "http://127.0.0.1:9"]);
    assert!(code == Some(4) && said.contains("127.0.0.1:9"), "{said}");
    let (code, said) = run(&[url, nats], &["log", "verify"]);
    assert!(code == Some(2) && said.contains("cannot be used with"), "nothing says which of the two is meant: {said}");
    let (code, _) = run(&[], &["log", "verify", "--data", data, "--url", "http://127.0.0.1:9"]);
    assert_eq!(code, Some(2));
}
