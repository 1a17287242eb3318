//! The disk below the real program: too small, almost full, and readable by others.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use pml::log::RedbLog;
use pml::snapshot::Store;
use serde_json::json;

use crate::run::{event, whole};
use crate::server::{Server, careless, eventually, pml};

/// How large files of a process may become.
fn limit_files(process: u32, bytes: &str) {
    let limit = format!("--fsize={bytes}:unlimited");
    let set = Command::new("prlimit").args(["--pid", &process.to_string(), &limit]).status();
    assert!(set.expect("prlimit (util-linux) is there").success());
}

#[test]
fn a_server_whose_log_cannot_grow_says_so_and_takes_events_again_when_it_can() {
    let server = Server::launched(careless, &[]);
    server.accept(&whole("before"));
    let log = server.data().join(RedbLog::FILE_NAME);
    limit_files(server.process(), &std::fs::metadata(&log).unwrap().len().to_string());
    let large = |name: usize| {
        let described = |part: usize| json!({"tool": format!("t{name}:p{part}"), "description": "x".repeat(60_000)});
        json!((0..10).map(|part| event("tool.registered", described(part))).collect::<Vec<_>>())
    };
    let mut name = 0;
    let refused = eventually("the log to be full", || {
        name += 1;
        Some(server.post(&large(name))).filter(|answer| answer.status != 202)
    });
    assert_eq!(refused.status, 503, "{refused:?}");
    let ready = eventually("the server to say that it is not ready", || {
        Some(server.get("/readyz")).filter(|answer| answer.status == 503 && answer.json()["reason"].is_string())
    });
    assert_eq!(ready.json()["ready"], json!(false));
    assert!(ready.json()["reason"].as_str().unwrap().starts_with("log: "), "{ready:?}");
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.get("/v1/tools").status, 200, "what is known can be asked");

    limit_files(server.process(), "unlimited");
    eventually("the server to be ready", || Some(()).filter(|()| server.get("/readyz").status == 200));
    // Sent again under the same ids, whatever became of it.
    let again = eventually("events to be taken", || Some(server.post(&large(name + 1))).filter(|answer| answer.status == 202));
    assert_eq!(again.statuses().len(), 10);
    let verified = eventually("a whole log", || {
        let digest = server.settled_state()["digest"].clone();
        let check = pml().args(["log", "verify", "--json", "--url", server.url()]).output().unwrap();
        Some((digest, check)).filter(|(_, check)| check.status.success())
    });
    assert!(verified.1.status.success());
}

#[test]
fn a_server_with_too_little_room_refuses_events_with_507_and_answers_questions() {
    let server = Server::with(&[("LOG__FREE_BYTES_MIN", "9000000000000000000")]);
    let refused = server.post(&whole("e1"));
    assert_eq!(refused.status, 507, "{refused:?}");
    assert!(refused.text.contains("log.free_bytes_min"), "{refused:?}");
    let ready = server.get("/readyz");
    assert_eq!((ready.status, &ready.json()["ready"]), (503, &json!(false)));
    assert!(ready.json()["reason"].as_str().unwrap().contains("log.free_bytes_min"), "{ready:?}");
    assert_eq!(server.get("/v1/tools").status, 200);
    let said = server.complaints();
    assert!(!said.contains("request failed"), "a line per refused request would flood the log: {said}");
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode() & 0o777
}

/// Everything below `directory`, itself included, that others than the owner may use.
fn open_to_others(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        if mode(&path) != expected {
            found.push(format!("{} {:o}", path.display(), mode(&path)));
        }
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found
}

#[test]
fn what_pml_writes_is_for_its_owner_alone_whatever_the_umask() {
    let mut server = Server::launched(careless, &[("SNAPSHOTS__EVERY_RECORDS", "1")]);
    server.accept(&whole("e1"));
    let snapshots = server.data().join(Store::DIRECTORY);
    let is_whole = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().path().join("manifest.json").exists();
    eventually("a snapshot", || std::fs::read_dir(&snapshots).ok()?.any(is_whole).then_some(()));
    assert_eq!(server.terminate(), Some(0));
    assert_eq!(open_to_others(&server.data()), Vec::<String>::new());

    let elsewhere = tempfile::TempDir::new().unwrap();
    let (backup, archive) = (elsewhere.path().join("backup"), elsewhere.path().join("archive"));
    assert!(careless().arg("backup").arg(&backup).arg("--data").arg(server.data()).status().unwrap().success());
    assert!(careless().args(["log", "export"]).arg(&archive).arg("--data").arg(server.data()).status().unwrap().success());
    assert_eq!(mode(&backup), 0o600);
    assert_eq!(open_to_others(&archive), Vec::<String>::new());

    let log = server.data().join(RedbLog::FILE_NAME);
    std::fs::set_permissions(server.data(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&log, PermissionsExt::from_mode(0o644)).unwrap();
    server.restart();
    assert_eq!((mode(&server.data()), mode(&log)), (0o700, 0o600), "older ones are tightened");
}
