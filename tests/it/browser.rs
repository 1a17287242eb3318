//! The page in a real browser: `tests/page` drives Debian's chromium on a server with the demo's data and on one with API keys.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pml::gateway::http::{hash_key, new_key};
use serde_json::json;
use tempfile::TempDir;

use crate::outside::installed;
use crate::server::{Server, pml};

/// Names of keys with their scopes.
const KEYS: [(&str, &str); 3] = [("looker", "'query'"), ("agent", "'publish', 'query'"), ("boss", "'admin'")];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn node_tests(node: &Path, file: &str) -> Command {
    let mut command = Command::new(node);
    command.current_dir(here("tests/page")).args(["--test", "--test-reporter=spec", file]);
    command
}

fn check(mut command: Command) {
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
}

/// The tools of the demo, its first traces, and those that the tests ask about: all of them would take longer to learn than to look at.
fn part_of_the_demo() -> TempDir {
    let part = TempDir::new().unwrap();
    let read = |name: &str| fs::read_to_string(here("demo/ultratool").join(name)).unwrap();
    let wanted =
        |(at, line): &(usize, &str)| *at < 200 || line.contains("travel:book_flight") || line.contains("\"ultratool-1355\"");
    let traces = read("traces_train.jsonl");
    let traces: Vec<&str> = traces.lines().enumerate().filter(wanted).map(|(_, line)| line).collect();
    fs::write(part.path().join("tools.jsonl"), read("tools.jsonl")).unwrap();
    fs::write(part.path().join("traces_train.jsonl"), traces.join("\n")).unwrap();
    fs::write(part.path().join("traces_test.jsonl"), "").unwrap();
    part
}

#[test]
fn the_modules_of_the_page_decide_as_their_tests_say() {
    let Some(node) = installed("PML_TEST_NODE") else { return };
    check(node_tests(&node, "modules.test.mjs"));
}

#[test]
fn every_view_of_the_page_works_in_a_browser() {
    let (Some(node), Some(chromium), Some(driver)) =
        (installed("PML_TEST_NODE"), installed("PML_TEST_CHROMIUM"), installed("PML_TEST_CHROMEDRIVER"))
    else {
        return;
    };
    assert!(
        here("tests/page/node_modules").exists(),
        "tests/page/node_modules is missing; run scripts/test, which installs it"
    );
    // It trains when a test asks for it and not by itself.
    let demo = Server::with(&[("TRAINER__ENABLED", "true"), ("TRAINER__TRACES_MIN", "1000000"), ("TRAINER__EVERY_S", "0")]);
    let data = part_of_the_demo();
    let imported = pml().args(["import"]).arg(data.path()).args(["--url", demo.url()]).output().unwrap();
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let keys = KEYS.map(|(name, scopes)| (name, scopes, new_key()));
    let entry = |(name, scopes, key): &(&str, &str, String)| {
        format!("{{name = '{name}', hash = '{}', scopes = [{scopes}]}}", hash_key(key))
    };
    let setting = format!("[{}]", keys.iter().map(entry).collect::<Vec<_>>().join(", "));
    let keyed = Server::with(&[("HTTP__KEYS", &setting), ("TRAINER__ENABLED", "true")]);
    let [looker, agent, boss] = keys.map(|(.., key)| key);
    let mut command = node_tests(&node, "page.test.mjs");
    command
        .env("PML_TEST_CHROMIUM", chromium)
        .env("PML_TEST_CHROMEDRIVER", driver)
        .env("PML_PAGE_PROGRAM", env!("CARGO_BIN_EXE_pml"))
        .env("PML_PAGE_URL", demo.url())
        .env("PML_PAGE_KEYED_URL", keyed.url())
        .env("PML_PAGE_KEYS", json!({"looker": looker, "agent": agent, "boss": boss}).to_string());
    check(command);
}
