//! The past: what was known then, what changed since, another future from there.

use std::path::Path;

use pml::core::event::{Event, Record};
use pml::core::id::Seq;
use pml::core::state::State;
use pml::log::EventLog;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::archive::Past;
use crate::cli::{run, text};
use crate::log_contract::redb;
use crate::server::Server;

/// The state after so many records.
fn folded(records: &[Record]) -> State {
    let mut state = State::default();
    for record in records {
        state.apply(record);
    }
    state
}

fn records_of(data: &Path) -> Vec<Record> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(redb(data).read(Seq::ZERO, usize::MAX)).unwrap()
}

#[test]
fn the_state_at_a_position_or_a_time_is_the_fold_of_what_there_was() {
    let home = TempDir::new().unwrap();
    let past = Past::of(20);
    past.write(home.path());
    let replay = |to: &str| run(0, &["replay", "--to", to, "--data", text(home.path())]).json();
    for count in [0, 1, 5, 40, past.records.len()] {
        let state = folded(&past.records[..count]);
        let expected = (json!(state.applied().0), json!(state.digest().to_string()));
        let told = |replayed: Value| (replayed["applied_seq"].clone(), replayed["digest"].clone());
        assert_eq!(told(replay(&state.applied().0.to_string())), expected, "{count} records by position");
        if let Some(last) = past.records[..count].last() {
            assert_eq!(told(replay(&last.recorded_at.to_string())), expected, "{count} records by time");
            assert_eq!(told(replay(&last.recorded_at.plus_millis(1_000).to_string())), expected, "a second later");
        }
    }
    // Position 7 is a hole.
    assert_eq!(replay("7")["applied_seq"], 6);
    assert_eq!(replay("now")["digest"], past.state.digest().to_string());
    run(2, &["replay", "--to", "yesterday", "--data", text(home.path())]);
}

#[test]
fn a_moment_that_the_log_does_not_have_is_an_error() {
    let home = TempDir::new().unwrap();
    let past = Past::of(3);
    past.write(home.path());
    let beyond = (past.state.applied().0 + 1).to_string();
    let moments = [(beyond.as_str(), "is beyond the end of the log"), ("2001-01-01T00:00:00Z", "is before the beginning")];
    for (moment, problem) in moments {
        let commands: [&[&str]; 4] = [
            &["replay", "--to", moment],
            &["discover", "read a file", "--at", moment],
            &["diff", "1", moment],
            &["log", "cat", "--to", moment],
        ];
        for command in commands {
            let failed = run(1, &[command, &["--data", text(home.path())]].concat()).json();
            assert!(failed["error"].as_str().unwrap().contains(problem), "{command:?}: {failed}");
        }
    }
    let failed = run(1, &["snapshot", "verify", "--data", text(home.path())]).json();
    assert!(failed["error"].as_str().unwrap().contains("holds no snapshot"), "{failed}");
}

#[test]
fn a_snapshot_shortens_the_way_to_the_past_and_changes_nothing_in_it() {
    let home = TempDir::new().unwrap();
    let past = Past::of(20);
    let early = Past { records: past.records[..50].to_vec(), state: State::default() };
    early.write(home.path());
    let taken = run(0, &["snapshot", "create", "--data", text(home.path())]).json();
    assert_eq!(taken["seq"], past.records[49].seq.0);
    Past { records: past.records[50..].to_vec(), state: State::default() }.write(home.path());
    for count in [10, 49, 50, 51, 80, past.records.len()] {
        let state = folded(&past.records[..count]);
        let replayed = run(0, &["replay", "--to", &state.applied().0.to_string(), "--data", text(home.path())]).json();
        assert_eq!(replayed["digest"], state.digest().to_string(), "{count} records");
    }
    let told = run(0, &["diff", "20", "now", "--data", text(home.path())]).json();
    assert_eq!(told["after"]["digest"], past.state.digest().to_string());
    assert_eq!(told["before"]["seq"], 20);
}

#[test]
fn questions_about_the_past_are_answered_as_they_would_have_been() {
    let mut server = Server::with(&[("TEMPLATES__PATH", "")]);
    let described =
        |tool: &str, description: &str| crate::run::event("tool.registered", json!({"tool": tool, "description": description}));
    server.accept(&described("fs:read", "reads a file from the disk"));
    server.settled_state();
    let then = server.ask("/v1/state")["applied_seq"].to_string();
    server.accept(&described("disk:format", "formats the disk, reads no file"));
    server.accept(&crate::run::whole("e1"));
    server.settled_state();
    let ids = |answer: &Value| {
        answer["results"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let discover = |place: &[&str], at: &[&str]| {
        run(0, &[&["discover", "read a file from the disk", "--type", "tool"], at, place].concat()).json()
    };
    let url = server.url().to_owned();
    let place = ["--url", url.as_str()];
    assert_eq!(ids(&discover(&place, &["--at", &then])), ["fs:read"], "of a running server");
    assert!(ids(&discover(&place, &[])).contains(&"disk:format".to_owned()));
    let unknown = run(1, &["related", "fs:write", "--at", &then, "--url", &url]).json();
    assert!(unknown["error"].as_str().unwrap().contains("nothing is known about 'fs:write'"), "{unknown}");
    server.kill9();
    let data = server.data();
    let place = ["--data", text(&data)];
    assert_eq!(discover(&place, &["--at", &then])["meta"]["based_on_seq"].to_string(), then);
    assert_eq!(run(0, &["related", "fs:write", "--at", "now", "--data", text(&data)]).json()["tool"], "fs:write");
}

#[test]
fn a_diff_tells_what_came_and_what_changed() {
    let mut server = Server::with(&[("TEMPLATES__PATH", "")]);
    server.accept(&crate::run::whole("e1"));
    let a = server.settled_state()["applied_seq"].to_string();
    server.accept(&crate::run::whole("e2"));
    server.accept(&crate::run::whole("e3"));
    server.accept(&crate::run::event("tool.registered", json!({"tool": "net:get", "description": "fetches a page"})));
    let b = server.settled_state()["applied_seq"].to_string();
    server.kill9();
    let data = server.data();
    let place = ["--data", text(&data)];
    let diff = |a: &str, b: &str| run(0, &[&["diff", a, b, "--intent", "fetch a page"], &place[..]].concat()).json();
    let told = diff(&a, &b);
    let tools: Vec<(&str, &Value, &Value)> = told["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| (tool["id"].as_str().unwrap(), &tool["before"]["calls"], &tool["after"]["calls"]))
        .collect();
    assert_eq!(
        tools,
        [("fs:read", &json!(1), &json!(3)), ("fs:write", &json!(1), &json!(3)), ("net:get", &Value::Null, &json!(0)),]
    );
    let edge = &told["edges"][0];
    assert_eq!(edge["id"], "fs:read -provides-> fs:write");
    assert_eq!((&edge["before"]["source"], &edge["after"]["source"]), (&json!("inferred"), &json!("observed")));
    assert_eq!(told["capabilities"].as_array().unwrap().len(), 1);
    assert_eq!((&told["before"]["seq"].to_string(), &told["after"]["seq"].to_string()), (&a, &b));
    assert_eq!((&told["ranks"][0]["id"], &told["ranks"][0]["before"]), (&json!("net:get"), &Value::Null), "{told}");
    assert_eq!(told["ranks"][0]["after"]["rank"], 1);
    let back = diff(&b, &a);
    assert_eq!((&back["edges"][0]["before"], &back["edges"][0]["after"]), (&edge["after"], &edge["before"]));
    let same = diff("now", &b);
    assert_eq!((&same["tools"], &same["edges"], &same["ranks"]), (&json!([]), &json!([]), &json!([])));
}

#[test]
fn a_fork_begins_like_its_parent_and_goes_its_own_way() {
    let home = TempDir::new().unwrap();
    let place = |name: &str| home.path().join(name);
    let past = Past::of(20);
    past.write(&place("data"));
    let cut = &past.records[60];
    let forked = run(
        0,
        &[
            "fork",
            text(&place("fork")),
            "--at",
            &cut.seq.to_string(),
            "--set",
            "trace.settle_ms=7",
            "--set",
            "workspace=lab",
            "--data",
            text(&place("data")),
        ],
    )
    .json();
    let parent = folded(&past.records[..=60]);
    assert_eq!((&forked["parent_seq"], &forked["parent_digest"]), (&json!(cut.seq.0), &json!(parent.digest().to_string())));
    let records = records_of(&place("fork"));
    assert_eq!(records[..=60], past.records[..=60], "the same records at the same positions");
    let [own] = &records[61..] else { panic!("one record of its own: {:?}", &records[61..]) };
    assert_eq!(own.seq, cut.seq.next());
    let Event::LogForked(event) = own.event() else { panic!("{own:?}") };
    assert_eq!((event.parent_seq, &event.parent_digest), (cut.seq, &parent.digest().to_string()));
    assert_eq!(event.settings, [("trace.settle_ms", "7"), ("workspace", "lab")].map(|(k, v)| (k.to_owned(), v.to_owned())));
    let at_the_cut = run(0, &["replay", "--to", &cut.seq.to_string(), "--data", text(&place("fork"))]).json();
    assert_eq!(at_the_cut["digest"], forked["parent_digest"], "what was taken over is what it was");

    // The new one runs under its settings, which are a file of its own.
    let config = pml::config::Config::load(Some(&place("fork").join("pml.toml")), []).unwrap();
    assert_eq!((config.trace.settle_ms, config.workspace.as_str()), (7, "lab"));
    assert_eq!(config.data_dir, place("fork"));
    let doctor = run(0, &["doctor", "--config", text(&place("fork").join("pml.toml"))]).json();
    assert_eq!(doctor["ok"], json!(true), "{doctor}");

    let refuse = |arguments: &[&str], code: i32, message: &str| {
        let ended = run(code, &[&["fork", "--data", text(&place("data"))], arguments].concat()).json();
        assert!(ended["error"].as_str().unwrap().contains(message), "{ended}");
    };
    refuse(&[text(&place("fork"))], 1, "is not empty");
    refuse(&[text(&place("other")), "--set", "trace.setle_ms=7"], 2, "setle_ms");
    assert!(!place("other").exists());
}
