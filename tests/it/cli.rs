//! The command line: what it prints for programs, and its exit codes.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;

use pml::core::id::Seq;
use pml::core::state::State;
use pml::gateway::http::hash_key;
use pml::log::EventLog;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::log_contract::redb;
use crate::run::{event, finished, started, step, whole};
use crate::server::{Server, pml};

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    stdout: String,
}

impl Ended {
    /// The one line of JSON that it printed.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn run_with(arguments: &[&str], settings: &[(&str, &str)], input: &str) -> Ended {
    let mut command = pml();
    command.args(arguments).arg("--json").envs(settings.iter().copied());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // A command that does not want to read may have ended by now.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    Ended { code: output.status.code().expect("it was not killed"), stdout: String::from_utf8(output.stdout).unwrap() }
}

/// Runs a command that must end with this code.
pub(crate) fn run(code: i32, arguments: &[&str]) -> Ended {
    let ended = run_with(arguments, &[], "");
    assert_eq!(ended.code, code, "{arguments:?}: {ended:?}");
    ended
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A dataset directory: two tools, `traces` runs of read and write, one run of a tool nobody described.
pub(crate) fn write_dataset(directory: &Path, traces: usize) {
    let tool = |id: &str| json!({"tool_id": id, "server_id": "fs", "name": id, "description": format!("does {id}")});
    let trace = |number: usize| {
        let steps = json!([{"id": "s1", "tool_id": "fs:read", "depends_on": []}, {"id": "s2", "tool_id": "fs:write", "depends_on": ["s1"]}]);
        json!({"trace_id": format!("t{number}"), "intent": "copy a file", "steps": steps, "success": true})
    };
    let failed = json!([{"id": "s1", "tool_id": "net:fetch", "depends_on": [], "success": false}]);
    let failed = json!({"trace_id": "failed", "intent": "fetch a page", "steps": failed, "success": false});
    let lines = |values: Vec<Value>| values.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("tools.jsonl"), lines(vec![tool("fs:read"), tool("fs:write")])).unwrap();
    fs::write(directory.join("traces_train.jsonl"), lines((0..traces).map(trace).chain([failed]).collect())).unwrap();
}

/// How many tools, capabilities, edges and traces a fold of the directory's log gives.
fn learnt(data: &Path) -> [usize; 4] {
    let log = redb(data);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut state = State::default();
    for record in runtime.block_on(log.read(Seq::ZERO, usize::MAX)).unwrap() {
        state.apply(&record);
    }
    [state.tools.len(), state.capabilities.len(), state.graph.edge_count(), state.executions.traces_len()]
}

#[test]
fn events_are_published_from_flags_files_and_standard_input() {
    let server = Server::start();
    let home = TempDir::new().unwrap();
    let url = ["--url", server.url()];
    let body = json!({"execution": "e1", "intent": "copy a file"}).to_string();
    let counts = |ended: &Ended| ["accepted", "duplicate", "refused"].map(|name| ended.json()[name].as_u64().unwrap());

    let flags = run(0, &[&["publish", "--kind", "execution.started", "--body", &body], &url[..]].concat());
    assert_eq!(counts(&flags), [1, 0, 0]);
    let file = home.path().join("events.ndjson");
    fs::write(&file, format!("{}\n{}\n", step("e1", "s1", "fs:read", &[]), finished("e1"))).unwrap();
    let from_file = |code| run(code, &[&["publish", text(&file)], &url[..]].concat());
    assert_eq!(counts(&from_file(0)), [2, 0, 0]);
    assert_eq!(counts(&from_file(0)), [0, 2, 0], "the same file again is the same events");
    let piped = run_with(&[&["publish", "-"], &url[..]].concat(), &[], &whole("e2").to_string());
    assert_eq!((piped.code, counts(&piped)), (0, [4, 0, 0]));
    assert_eq!(server.closed_trace("e1")["steps"][0]["tool"], "fs:read");
    assert_eq!(server.closed_trace("e2")["success"], json!(true));

    let half_bad = json!([started("e3"), event("step.paused", json!({}))]).to_string();
    let refused = run_with(&[&["publish"], &url[..]].concat(), &[], &half_bad);
    assert_eq!((refused.code, counts(&refused)), (3, [1, 0, 1]));
    assert_eq!(refused.json()["results"][1]["error"]["reason"], "unknown_kind");
}

#[test]
fn refused_events_are_listed_and_sent_again() {
    let mut server = Server::start();
    assert_eq!(run(0, &["dead", "list", "--url", server.url()]).json(), json!({"dead": []}));
    let lost = [step("e1", "s1", "fs:read", &[]), step("e9", "s1", "fs:read", &[])];
    assert_eq!(server.post(&json!(lost)).status, 400);
    let listed = run(0, &["dead", "list", "--url", server.url()]).json();
    assert_eq!(listed["dead"].as_array().unwrap().len(), 2);
    let number =
        listed["dead"].as_array().unwrap().iter().find(|letter| letter["event"] == json!(lost[0].to_string())).unwrap();
    server.accept(&started("e1"));
    let one = run(0, &["dead", "redrive", &number["number"].to_string(), "--url", server.url()]).json();
    assert_eq!((&one["accepted"], &one["results"][0]["id"]), (&json!(1), &json!(number["number"].to_string())));
    let unknown = run(1, &["dead", "redrive", "999", "--url", server.url()]).json();
    assert!(unknown["error"].as_str().unwrap().contains("no dead letter has the number 999"), "{unknown}");
    let rest = run(3, &["dead", "redrive", "--url", server.url()]).json();
    assert_eq!((&rest["accepted"], &rest["refused"]), (&json!(0), &json!(1)));
    server.kill9();
    let kept = run(0, &["dead", "list", "--data", text(&server.data())]).json();
    assert_eq!((&kept["dead"][0]["reason"], &kept["dead"][0]["origin"]), (&json!("unknown_execution"), &json!("redrive")));
    assert_eq!(kept["dead"][0]["event"], json!(lost[1].to_string()));
}

#[test]
fn an_import_done_twice_is_done_once() {
    let home = TempDir::new().unwrap();
    let (dataset, data) = (home.path().join("dataset"), home.path().join("data"));
    write_dataset(&dataset, 20);
    let import = || run(0, &["import", text(&dataset), "--data", text(&data)]).json();
    let expected = |accepted: u64, duplicate: u64| json!({"traces": 21, "accepted": accepted, "duplicate": duplicate, "refused": 0, "errors": [], "skipped": []});
    assert_eq!(import(), expected(85, 0));
    let first = learnt(&data);
    assert_eq!(import(), expected(0, 85));
    assert_eq!(learnt(&data), first);
    assert_eq!(first[3], 21);
}

#[test]
fn an_import_skips_lines_that_are_not_traces_and_learns_the_rest() {
    let home = TempDir::new().unwrap();
    let (dataset, data) = (home.path().join("dataset"), home.path().join("data"));
    write_dataset(&dataset, 3);
    let path = dataset.join("traces_train.jsonl");
    let mut lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    let trace: Value = serde_json::from_str(&lines[0]).unwrap();
    let with = |member: &str, value: Value| {
        let mut trace = trace.clone();
        trace[member] = value;
        trace.to_string()
    };
    let long = with("trace_id", json!("t".repeat(138)));
    lines.extend([long, with("trace_id", json!("a b")), "{".to_owned(), with("steps", json!(7))]);
    fs::write(&path, lines.join("\n")).unwrap();
    let done = run(3, &["import", text(&dataset), "--data", text(&data)]).json();
    assert_eq!((&done["traces"], &done["refused"]), (&json!(5), &json!(0)), "{done}");
    let skipped: Vec<&str> = done["skipped"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    for (line, (number, problem)) in
        skipped.iter().zip([(6, "trace_id: contains ' '"), (7, "EOF"), (8, "invalid type: integer `7`")])
    {
        assert!(line.starts_with(&format!("traces_train.jsonl line {number}: ")) && line.contains(problem), "{line}");
    }
    assert_eq!((skipped.len(), learnt(&data)[3]), (3, 5));
    let evaluated = run(1, &["eval", text(&dataset)]).json();
    assert!(evaluated["error"].as_str().unwrap().contains("traces_train.jsonl line 6: "), "{evaluated}");
}

#[test]
fn an_import_over_http_is_the_import_into_the_directory() {
    let home = TempDir::new().unwrap();
    let (dataset, data) = (home.path().join("dataset"), home.path().join("data"));
    write_dataset(&dataset, 20);
    run(0, &["import", text(&dataset), "--data", text(&data)]);
    let mut server = Server::start();
    assert_eq!(run(0, &["import", text(&dataset), "--url", server.url()]).json()["accepted"], 85);
    server.settled_state();
    server.kill9();
    assert_eq!(learnt(&server.data()), learnt(&data));
}

#[test]
fn what_was_exported_teaches_the_same_when_it_is_imported() {
    let home = TempDir::new().unwrap();
    let place = |name: &str| home.path().join(name);
    write_dataset(&place("dataset"), 20);
    run(0, &["import", text(&place("dataset")), "--data", text(&place("data"))]);
    let exported = run(0, &["export", text(&place("exported")), "--test-share", "0", "--data", text(&place("data"))]).json();
    assert_eq!(exported, json!({"tools": 2, "train": 21, "test": 0}));
    run(0, &["import", text(&place("exported")), "--data", text(&place("again"))]);
    assert_eq!(learnt(&place("again")), learnt(&place("data")));
    let split = run(0, &["export", text(&place("split")), "--data", text(&place("data"))]).json();
    assert_eq!(split, json!({"tools": 2, "train": 17, "test": 4}), "a fifth is for testing unless something else is said");
}

#[test]
fn the_log_is_printed_and_verified_from_a_server_and_from_its_directory() {
    let mut server = Server::with(&[("TEMPLATES__PATH", "")]);
    server.accept(&whole("e1"));
    let state = server.settled_state();
    let data = server.data();
    let check = |place: &[&str]| {
        let log = |code: i32, arguments: &[&str]| run(code, &[&["log"], arguments, place].concat());
        let all = log(0, &["cat"]).lines();
        let seqs = |lines: &[Value]| lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect::<Vec<_>>();
        assert_eq!(
            seqs(&all),
            [1, 2, 3, 4, 5, 6, 7],
            "the run, its trace, and the vectors of the intent and the capability: {place:?}"
        );
        assert_eq!(seqs(&log(0, &["cat", "--from", "2", "--to", "3"]).lines()), [2, 3]);
        assert_eq!(seqs(&log(0, &["cat", "--kind", "step.finished"]).lines()), [2, 3]);
        assert_eq!(log(0, &["tail", "--no-follow", "-n", "3"]).lines(), all[4..]);
        let report = log(0, &["verify"]).json();
        let expected = json!({"records": 7, "last_seq": 7, "digest": state["digest"], "problems": [], "foreign": 0});
        assert_eq!(report, expected, "{place:?}");
        all
    };
    let from_server = check(&["--url", server.url()]);
    let in_use = run(1, &["log", "cat", "--data", text(&data)]).json();
    assert!(in_use["error"].as_str().unwrap().contains("in use by another process"), "{in_use}");
    server.kill9();
    assert_eq!(check(&["--data", text(&data)]), from_server);
}

#[test]
fn a_damaged_block_is_found() {
    const EVENTS: redb::TableDefinition<'_, u64, &[u8]> = redb::TableDefinition::new("blocks");
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    write_dataset(&home.path().join("dataset"), 3);
    run(0, &["import", text(&home.path().join("dataset")), "--data", text(&data)]);
    let database = redb::Database::open(data.join("log.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    let mut blocks = transaction.open_table(EVENTS).unwrap();
    let last = redb::ReadableTable::first(&blocks).unwrap().unwrap().0.value();
    blocks.insert(last, &b"\x05\x01 not an event"[..]).unwrap();
    drop(blocks);
    transaction.commit().unwrap();
    drop(database);
    let report = run(5, &["log", "verify", "--data", text(&data)]).json();
    assert!(report["problems"][0].as_str().unwrap().contains(&format!("ends at position {last}")), "{report}");
    let checked = run(1, &["doctor", "--data", text(&data)]).json();
    assert_eq!(checked["ok"], json!(false), "{checked}");
}

#[test]
fn the_doctor_says_what_is_there() {
    let server = Server::start();
    let home = TempDir::new().unwrap();
    let result = |report: &Value, check: &str| {
        let found = report["checks"].as_array().unwrap().iter().find(|finding| finding["check"] == check);
        found.unwrap_or_else(|| panic!("no {check} in {report}"))["result"].as_str().unwrap().to_owned()
    };
    let settings = [("PML__DATA_DIR", text(home.path()))];
    let with_server = run_with(&["doctor", "--url", server.url()], &settings, "");
    assert_eq!(with_server.code, 0);
    let report = with_server.json();
    assert_eq!((&report["ok"], result(&report, "server"), result(&report, "log")), (&json!(true), "ok".into(), "note".into()));
    let alone = run(0, &["doctor", "--data", text(home.path())]).json();
    assert_eq!((&alone["ok"], result(&alone, "templates")), (&json!(true), "ok".into()));
    let bad = run_with(&["doctor"], &[settings[0], ("PML__TEMPLATES__PATH", "/nonexistent.yaml")], "");
    assert_eq!((bad.code, result(&bad.json(), "templates")), (1, "bad".into()));
}

#[test]
fn a_key_is_printed_with_the_hash_a_server_wants() {
    let first = run(0, &["key", "--name", "ci", "--scopes", "publish"]).json();
    let key = first["key"].as_str().unwrap();
    assert_eq!(first, json!({"key": key, "name": "ci", "hash": hash_key(key), "scopes": ["publish"]}));
    assert_ne!(run(0, &["key"]).json()["key"], key);
    run(2, &["key", "--scopes", "everything"]);
}

#[test]
fn a_server_that_is_not_there_is_exit_code_4() {
    let nowhere = ["--url", "http://127.0.0.1:1"];
    for command in
        [&["publish"][..], &["log", "cat"], &["log", "tail"], &["log", "verify"], &["dead", "list"], &["dead", "redrive"]]
    {
        let ended = run_with(&[command, &nowhere].concat(), &[], &started("e1").to_string());
        assert_eq!(ended.code, 4, "{command:?}: {ended:?}");
        assert!(ended.json()["error"].as_str().unwrap().contains("cannot reach http://127.0.0.1:1"), "{ended:?}");
    }
}

#[test]
fn a_configuration_that_cannot_work_is_exit_code_2() {
    let check = |arguments: &[&str], settings: &[(&str, &str)], message: &str| {
        let ended = run_with(arguments, settings, "");
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.json()["error"].as_str().unwrap().contains(message), "{ended:?}");
    };
    check(&["doctor"], &[("PML__HTTP__WORKERS", "0")], "http.workers: must be at least 1");
    check(&["serve"], &[("PML__TRACE__SETLE_MS", "7")], "setle_ms");
    check(&["key", "--config", "/nonexistent.toml"], &[], "/nonexistent.toml");
    run(2, &["publish", "--kind", "trace.completed", "--body", "{}"]);
    run(2, &["fly"]);
}

#[test]
fn a_workflow_that_cannot_be_read_is_named() {
    let ended = run_with(&["execute", "/nonexistent.json"], &[], "");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.json()["error"].as_str().unwrap().contains("/nonexistent.json"), "{ended:?}");
}

#[test]
fn a_variable_of_another_program_may_hold_any_bytes() {
    let ended = pml().args(["key", "--json"]).env("LESS_TERMCAP_us", OsStr::from_bytes(&[0xff])).output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
}
