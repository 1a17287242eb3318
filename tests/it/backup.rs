//! A log in one file: taken from a server that goes on working, restored whole or not at all.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use pml::gateway::http::{hash_key, new_key};
use serde_json::json;
use tempfile::TempDir;

use crate::archive::Past;
use crate::cli::{run, text};
use crate::run::whole;
use crate::server::{Server, agent, pml};

#[test]
fn a_server_is_backed_up_while_it_works_and_the_copy_is_a_fold_of_the_same_prefix() {
    let server = Server::start();
    let home = TempDir::new().unwrap();
    let place = |name: &str| home.path().join(name);
    let stop = AtomicBool::new(false);
    let mut backups = Vec::new();
    std::thread::scope(|scope| {
        for client in 0..3 {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || {
                for run in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    server.accept(&whole(&format!("c{client}-{run}")));
                }
            });
        }
        for number in 0..5 {
            let file = place(&format!("backup{number}"));
            backups.push((run(0, &["backup", text(&file), "--url", server.url()]).json(), file));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let positions: Vec<u64> = backups.iter().map(|(told, _)| told["last_seq"].as_u64().unwrap()).collect();
    assert!(positions.is_sorted() && positions[4] > positions[0], "it went on working: {positions:?}");
    for (number, (told, file)) in backups.iter().enumerate() {
        let target = place(&format!("restored{number}"));
        let restored = run(0, &["restore", text(file), "--data", text(&target)]).json();
        assert_eq!(restored["last_seq"], told["last_seq"]);
        let then = run(0, &["replay", "--to", &told["last_seq"].to_string(), "--url", server.url()]).json();
        assert_eq!(restored["digest"], then["digest"]);
    }
}

#[test]
fn a_backup_of_a_directory_restores_every_record_at_its_place() {
    let home = TempDir::new().unwrap();
    let place = |name: &str| home.path().join(name);
    let past = Past::of(500);
    past.write(&place("data"));
    let told = run(0, &["backup", text(&place("file")), "--data", text(&place("data"))]).json();
    assert_eq!((&told["records"], &told["last_seq"]), (&json!(past.records.len()), &json!(past.state.applied().0)));
    let again = run(1, &["backup", text(&place("file")), "--data", text(&place("data"))]).json();
    assert!(again["error"].as_str().unwrap().contains("overwrites nothing"), "{again}");
    let restored = run(0, &["restore", text(&place("file")), "--data", text(&place("again"))]).json();
    assert_eq!(restored["digest"], past.state.digest().to_string());
    let onto = run(1, &["restore", text(&place("file")), "--data", text(&place("data"))]).json();
    assert!(onto["error"].as_str().unwrap().contains("is not empty"), "{onto}");
}

#[test]
fn a_cut_or_damaged_file_is_refused_and_leaves_nothing() {
    let home = TempDir::new().unwrap();
    let place = |name: &str| home.path().join(name);
    Past::of(50).write(&place("data"));
    run(0, &["backup", text(&place("file")), "--data", text(&place("data"))]);
    let whole = fs::read(place("file")).unwrap();
    let refused = |bytes: &[u8], expected: &str| {
        fs::write(place("bad"), bytes).unwrap();
        let told = run(1, &["restore", text(&place("bad")), "--data", text(&place("new"))]).json();
        assert!(told["error"].as_str().unwrap().contains(expected), "{told}");
        assert!(!place("new").exists() && !place(".new.part").exists());
    };
    refused(&whole[..whole.len() - 1], "cut short");
    refused(&whole[..whole.len() / 2], "cut short");
    refused(b"something else", "no backup of pml");
    let mut turned = whole;
    let middle = turned.len() / 2;
    turned[middle] ^= 1;
    refused(&turned, "damaged");
}

#[test]
fn a_restore_killed_at_any_time_leaves_all_or_nothing() {
    let home = TempDir::new().unwrap();
    let place = |name: &str| home.path().join(name);
    let past = Past::of(3_000);
    past.write(&place("data"));
    run(0, &["backup", text(&place("file")), "--data", text(&place("data"))]);
    let mut cut_short = 0;
    for millis in [1, 30, 60, 100, 150, 200, 300, 400] {
        let mut child = pml()
            .args(["restore", text(&place("file")), "--data", text(&place("new"))])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(millis));
        child.kill().unwrap();
        cut_short += usize::from(!child.wait().unwrap().success());
        if place("new").exists() {
            let verified = run(0, &["log", "verify", "--data", text(&place("new"))]).json();
            assert_eq!(verified["digest"], past.state.digest().to_string(), "after {millis} ms");
            fs::remove_dir_all(place("new")).unwrap();
        }
    }
    assert!(cut_short > 0, "none was killed in time");
    let restored = run(0, &["restore", text(&place("file")), "--data", text(&place("new"))]).json();
    assert_eq!(restored["digest"], past.state.digest().to_string());
    assert!(!place(".new.part").exists());
}

#[test]
fn a_backup_needs_the_scope_of_an_administrator() {
    let (query, admin) = (new_key(), new_key());
    let keys = format!(
        "[{{name = 'q', hash = '{}', scopes = ['query']}}, {{name = 'a', hash = '{}', scopes = ['admin']}}]",
        hash_key(&query),
        hash_key(&admin)
    );
    let server = Server::with(&[("HTTP__KEYS", &keys)]);
    let status = |key: &str| {
        let request = agent().get(format!("{}/v1/backup", server.url())).header("authorization", format!("Bearer {key}"));
        request.call().unwrap().status().as_u16()
    };
    assert_eq!((status(&query), status(&admin)), (403, 200));
}
