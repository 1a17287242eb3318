//! `/openapi.json` by programs that other people wrote: validators, generators of clients, a fuzzer; and `/docs`, 405 and CORS.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::outside::installed;
use crate::run::whole;
use crate::server::{Answer, Server, agent};

fn tools() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside/openapi")
}

/// Whether the program did what it was asked to; what it said otherwise.
fn ran(output: &Output) {
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat();
    assert!(output.status.success(), "{said}");
}

/// A server that has learnt something, and its description in a file.
fn described() -> (Server, TempDir, PathBuf) {
    let server = Server::start();
    server.accept(&whole("e1"));
    server.settled_state();
    let home = TempDir::new().unwrap();
    let file = home.path().join("openapi.json");
    std::fs::write(&file, server.get("/openapi.json").text).unwrap();
    (server, home, file)
}

#[test]
fn validators_find_nothing_wrong() {
    let (_server, _home, file) = described();
    let (Some(python), Some(node)) = (installed("PML_TEST_PYTHON"), installed("PML_TEST_NODE")) else { return };
    ran(&Command::new(python).args(["-m", "openapi_spec_validator"]).arg(&file).output().unwrap());
    let redocly = tools().join("node_modules/@redocly/cli/bin/cli.js");
    let lint = Command::new(node).arg(redocly).arg("lint").arg(&file).env("REDOCLY_TELEMETRY", "off").output().unwrap();
    ran(&lint);
}

#[test]
fn typescript_types_are_generated_and_tell_right_from_wrong() {
    let (_server, home, file) = described();
    let Some(node) = installed("PML_TEST_NODE") else { return };
    let module = |name: &str| tools().join("node_modules").join(name);
    let types = home.path().join("schema.ts");
    ran(&Command::new(&node).arg(module("openapi-typescript/bin/cli.js")).arg(&file).arg("-o").arg(&types).output().unwrap());
    std::fs::copy(tools().join("use.ts"), home.path().join("use.ts")).unwrap();
    let compiler = Command::new(node)
        .arg(module("typescript/bin/tsc"))
        .args(["--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "esnext"])
        .args(["--moduleResolution", "bundler"])
        .arg(home.path().join("use.ts"))
        .output()
        .unwrap();
    ran(&compiler);
}

#[test]
fn a_generated_python_client_asks_and_understands_the_answer() {
    let (server, home, file) = described();
    let Some(python) = installed("PML_TEST_PYTHON") else { return };
    let generated = home.path().join("generated");
    let generator = Command::new(&python)
        .args(["-m", "openapi_python_client", "generate", "--meta", "none", "--path"])
        .arg(&file)
        .arg("--output-path")
        .arg(&generated)
        .env("PATH", path_with(&python))
        .output()
        .unwrap();
    ran(&generator);
    let asked = Command::new(python).arg(tools().join("generated.py")).arg(home.path()).arg(server.url()).output().unwrap();
    ran(&asked);
    let answer: Value = serde_json::from_slice(&asked.stdout).unwrap();
    assert_eq!(answer["status"], "ok");
    assert!(answer["results"].as_array().unwrap().contains(&json!("fs:read")), "{answer}");
}

/// The generator calls a formatter that stands beside the interpreter.
fn path_with(python: &Path) -> std::ffi::OsString {
    let own = python.parent().into_iter().map(Path::to_owned);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(own.chain(std::env::split_paths(&paths))).unwrap()
}

/// The last is our own, in `accepted.py`.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,\
    valid_data_is_accepted";
/// Streams without an end are left out, and MCP, which has a description of its own.
const NOT_FUZZED: &str = "^/(mcp|message|v1/predictions|v1/backup|v1/execute|v1/servers/reload)";

#[test]
fn a_fuzzer_finds_no_answer_that_is_not_described_and_no_valid_data_that_is_refused() {
    let (server, home, file) = described();
    let Some(python) = installed("PML_TEST_PYTHON") else { return };
    let fuzzer = Command::new(python)
        .args(["-c", "from schemathesis.cli import schemathesis; schemathesis()", "run"])
        .arg(&file)
        .args(["--url", server.url(), "--exclude-path-regex", NOT_FUZZED, "--phases", "fuzzing", "--max-examples", "4"])
        .args([
            "--seed",
            "19",
            "--generation-database",
            "none",
            "--workers",
            "2",
            "--no-color",
            "--suppress-health-check",
            "all",
        ])
        .args(["--checks", CHECKS])
        .env("SCHEMATHESIS_HOOKS", tools().join("accepted.py"))
        .current_dir(home.path())
        .output()
        .unwrap();
    ran(&fuzzer);
}

#[test]
fn the_page_for_people_needs_nothing_from_elsewhere() {
    let server = Server::start();
    let page = server.get("/docs");
    assert_eq!(page.status, 200);
    assert!(page.text.contains("openapi.json") && !page.text.contains("http://") && !page.text.contains("https://"));
}

#[test]
fn a_wrong_method_is_405_and_names_the_right_ones() {
    let server = Server::start();
    let response = agent().delete(format!("{}/v1/events", server.url())).call().unwrap();
    let allowed = response.headers().get("allow").map(|value| value.to_str().unwrap().to_owned());
    assert_eq!((response.status().as_u16(), allowed.as_deref()), (405, Some("POST, GET")));
    let answer = Answer::read(agent().get(format!("{}/v1/predict", server.url())).call()).unwrap();
    assert!(answer.status == 405 && answer.text.contains("no such operation: GET /v1/predict"), "{answer:?}");
}

#[test]
fn pages_of_configured_origins_may_ask_and_others_may_not() {
    let server = Server::with(&[("HTTP__CORS_ORIGINS", r#"["https://app.example.com"]"#)]);
    let state = |origin: &str| agent().get(format!("{}/v1/state", server.url())).header("origin", origin).call().unwrap();
    let allowed = |response: &ureq::http::Response<ureq::Body>| {
        response.headers().get("access-control-allow-origin").map(|value| value.to_str().unwrap().to_owned())
    };
    let answer = state("https://app.example.com");
    assert_eq!((answer.status().as_u16(), allowed(&answer).as_deref()), (200, Some("https://app.example.com")));
    let refused = state("https://evil.example.com");
    assert_eq!((refused.status().as_u16(), allowed(&refused)), (403, None));
    let preflight = agent()
        .options(format!("{}/v1/predict", server.url()))
        .header("origin", "https://app.example.com")
        .header("access-control-request-method", "POST")
        .call()
        .unwrap();
    let methods = preflight.headers().get("access-control-allow-methods").map(|value| value.to_str().unwrap().to_owned());
    assert_eq!((preflight.status().as_u16(), methods.as_deref()), (204, Some("GET, POST, DELETE")));
    for (origins, problem) in
        [(r#"["*"]"#, "http.cors_origins: allows any page, which needs API keys"), (r#"["app"]"#, "'app' is no origin such as")]
    {
        let output = crate::server::pml().arg("doctor").env("PML__HTTP__CORS_ORIGINS", origins).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(problem), "{output:?}");
    }
}
