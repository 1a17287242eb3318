//! Snapshots of the real program: taken while it serves, used when it starts, and never a wrong state, whenever it is killed.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use pml::core::state::FOLD;
use serde_json::{Value, json};

use crate::crash::{Random, clean_digest};
use crate::run::whole;
use crate::server::{Server, agent, eventually, pml};
use crate::snapshot_files::refold;

const SEED: u64 = 0x5eed_0005;
const LIVES: usize = 20;
/// Longest time from asking for a snapshot to the kill, and from a start to its kill.
const TAKING_MS_MAX: u64 = 200;
const STARTING_MS_MAX: u64 = 200;

fn snapshot_command(arguments: &[&str], data: &Path) -> (Option<i32>, Value) {
    let done = pml().arg("snapshot").args(arguments).args(["--json", "--data"]).arg(data).output().unwrap();
    (done.status.code(), serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}")))
}

fn positions(answer: &Value) -> Vec<u64> {
    answer["snapshots"].as_array().unwrap().iter().map(|snapshot| snapshot["seq"].as_u64().unwrap()).collect()
}

fn publish(server: &Server, runs: std::ops::Range<u64>) {
    for run in runs {
        server.accept(&whole(&format!("e{run}")));
    }
}

fn said(server: &Server) -> String {
    fs::read_to_string(server.data().parent().unwrap().join("stderr.txt")).unwrap()
}

#[test]
fn a_server_takes_snapshots_and_starts_from_the_newest() {
    let mut server = Server::with(&[("SNAPSHOTS__KEEP", "2")]);
    publish(&server, 0..3);
    server.settled_state();
    let taken = server.question("/v1/snapshots", &json!({}));
    assert_eq!(taken.status, 200, "{taken:?}");
    publish(&server, 3..5);
    let before = server.settled_state();
    let newer = server.question("/v1/snapshots", &json!({})).json();
    assert_eq!((&newer["digest"], &newer["seq"]), (&before["digest"], &before["applied_seq"]));
    let listed = server.ask("/v1/snapshots");
    assert_eq!(positions(&listed), [taken.json()["seq"].as_u64().unwrap(), newer["seq"].as_u64().unwrap()]);
    let trace = server.ask("/v1/traces/e1");
    server.restart();
    assert_eq!(server.settled_state()["digest"], before["digest"]);
    assert!(said(&server).contains("starting from a snapshot"), "{}", said(&server));
    assert_eq!(server.ask("/v1/traces/e1"), trace, "a packed trace is as it was");
    let again = server.post(&whole("e1"));
    assert!(again.statuses().iter().all(|status| status == "refused"), "a packed trace is closed: {again:?}");
    publish(&server, 5..6);
    let (applied, digest) = (server.settled_state()["applied_seq"].as_u64().unwrap(), server.settled_state()["digest"].clone());
    server.kill9();
    assert_eq!(clean_digest(&server.data(), applied), digest.as_str().unwrap());
}

#[test]
fn the_command_line_takes_lists_checks_copies_and_removes_snapshots() {
    let mut server = Server::start();
    publish(&server, 0..2);
    let state = server.settled_state();
    server.kill9();
    let data = server.data();
    let (code, created) = snapshot_command(&["create"], &data);
    assert_eq!((code, &created["digest"]), (Some(0), &state["digest"]));
    let seq = created["seq"].as_u64().unwrap();
    assert_eq!(positions(&snapshot_command(&["list"], &data).1), [seq]);
    let (code, verified) = snapshot_command(&["verify"], &data);
    assert_eq!((code, &verified["damaged"]), (Some(0), &json!(0)));
    let copy = data.join("copy");
    let (code, restored) = snapshot_command(&["restore", "--to", copy.to_str().unwrap()], &data);
    assert_eq!((code, &restored["digest"]), (Some(0), &state["digest"]));
    let tools = copy.join(format!("{seq:020}")).join("tools.parquet");
    let mut bytes = fs::read(&tools).unwrap();
    bytes[10] ^= 1;
    fs::write(&tools, bytes).unwrap();
    let (code, verified) = snapshot_command(&["verify", "--store", copy.to_str().unwrap()], &data);
    assert_eq!((code, &verified["damaged"]), (Some(5), &json!(1)));
    let problem = verified["snapshots"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("tools.parquet is damaged"), "{problem}");
    server.restart();
    publish(&server, 2..3);
    server.settled_state();
    server.kill9();
    snapshot_command(&["create"], &data);
    let (code, pruned) = snapshot_command(&["prune", "--keep", "1"], &data);
    assert_eq!((code, &pruned["removed"]), (Some(0), &json!([seq])));
    let (code, missing) = snapshot_command(&["verify", "1"], &data);
    assert_eq!(code, Some(1));
    assert!(missing["error"].as_str().unwrap().contains("there is no snapshot 1"), "{missing}");
}

#[test]
fn a_snapshot_of_an_older_fold_is_shown_as_such_and_the_log_is_folded_instead() {
    let mut server = Server::start();
    publish(&server, 0..2);
    let state = server.settled_state();
    assert_eq!(state["fold"], FOLD);
    server.kill9();
    let data = server.data();
    let (_, created) = snapshot_command(&["create"], &data);
    assert_eq!(created["fold"], FOLD);
    refold(&data.join("snapshots"), created["seq"].as_u64().unwrap(), 0);
    let (code, verified) = snapshot_command(&["verify"], &data);
    assert_eq!((code, &verified["damaged"]), (Some(0), &json!(0)), "{verified}");
    let told = verified["snapshots"][0]["other_version"].as_str().unwrap();
    assert!(told.starts_with("it is of another version: fold 0"), "{told}");
    let listed = snapshot_command(&["list"], &data).1;
    assert_eq!((&listed["snapshots"][0]["fold"], &listed["snapshots"][0]["problem"]), (&json!(0), &json!(told)));
    let (code, refused) = snapshot_command(&["restore"], &data);
    assert_eq!(code, Some(1), "{refused}");
    server.restart();
    assert_eq!(server.settled_state()["digest"], state["digest"]);
    assert!(said(&server).contains("it is of another version: fold 0"), "{}", said(&server));
}

#[test]
fn snapshots_come_by_themselves_after_enough_records() {
    let server = Server::with(&[("SNAPSHOTS__EVERY_RECORDS", "10"), ("SNAPSHOTS__KEEP", "1")]);
    publish(&server, 0..4);
    let first = eventually("a snapshot", || positions(&server.ask("/v1/snapshots")).pop());
    publish(&server, 4..10);
    let newer = eventually("a newer snapshot in its place", || {
        let there = positions(&server.ask("/v1/snapshots"));
        there.iter().copied().find(|seq| there.len() == 1 && *seq > first)
    });
    assert!(newer >= first + 10);
}

/// Starts the program on a directory and kills it after a moment, whatever it is doing.
fn killed_start(data: &Path, after: Duration) {
    let complaints = File::create(data.parent().unwrap().join("killed.txt")).unwrap();
    let mut child = pml()
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(complaints)
        .spawn()
        .unwrap();
    std::thread::sleep(after);
    child.kill().expect("it is ours");
    child.wait().expect("it was killed");
}

#[test]
#[expect(clippy::print_stdout, reason = "the test harness shows it when the test fails")]
fn a_server_killed_while_it_takes_or_restores_a_snapshot_never_has_a_wrong_state() {
    println!("seed {SEED:#x}");
    let mut random = Random(SEED);
    let mut server = Server::with(&[("SNAPSHOTS__EVERY_RECORDS", "40"), ("SNAPSHOTS__KEEP", "2")]);
    let (mut interrupted, mut restored) = (0, 0);
    for life in 0..LIVES as u64 {
        publish(&server, life * 5..life * 5 + 5);
        let url = format!("{}/v1/snapshots", server.url());
        let asking =
            std::thread::spawn(move || agent().post(url).header("content-type", "application/json").send("{}").is_ok());
        std::thread::sleep(Duration::from_millis(random.below(TAKING_MS_MAX)));
        server.kill9();
        let answered = asking.join().expect("asking does not panic");
        let kept = server.data().join("snapshots");
        let left_over = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with(".unfinished-");
        interrupted +=
            usize::from(fs::read_dir(&kept).is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(left_over))));
        killed_start(&server.data(), Duration::from_millis(random.below(STARTING_MS_MAX)));
        server.restart();
        restored += usize::from(said(&server).contains("starting from a snapshot"));
        let state = server.settled_state();
        server.kill9();
        let (applied, digest) = (state["applied_seq"].as_u64().unwrap(), state["digest"].as_str().unwrap());
        assert_eq!(clean_digest(&server.data(), applied), digest, "life {life}: a wrong state (answered: {answered})");
        let (code, report) = snapshot_command(&["verify"], &server.data());
        let none_yet = report["error"].as_str().is_some_and(|error| error.contains("holds no snapshot"));
        assert!(code == Some(0) || none_yet, "life {life}: {report}");
        server.restart();
    }
    println!("{LIVES} lives, {interrupted} snapshots interrupted, {restored} starts from a snapshot");
    assert!(interrupted > 0 && restored > LIVES / 2, "{interrupted} interrupted, {restored} restored");
}
