//! Bytes of a closed log change: whatever they are, somebody notices, or nothing that is read is different.

use std::path::Path;

use pml::clock::Clock;
use pml::core::event::Record;
use pml::core::id::{RecordId, Seq};
use pml::log::contract::fact;
use pml::log::{DeadLetter, DeadLetters};
use pml::log::{EventLog, RedbLog};
use pml::snapshot::Store;
use serde_json::Value;
use tempfile::TempDir;

use crate::dead_letters::letter;
use crate::log_contract::{options, redb};
use crate::run::whole;
use crate::server::{Server, pml};

const RECORDS: u64 = 1_000;
const PAGE: usize = 4_096;
/// Places in the head of the file: magic number, flags, sizes, both commit slots.
const HEAD_BYTES: usize = 320;
const HEAD_STEP: usize = 17;
/// Of the other pages so many, spread evenly; of each several places, the first of which tell what kind of page it is.
const PAGES_MAX: usize = 10;
const PLACES: [usize; 5] = [0, 2, 9, 700, 3_000];
/// Of the page that says where the tables are: its first bytes, which are used, every few.
const TABLES_BYTES: usize = 400;
const TABLES_STEP: usize = 16;

/// A log with blocks, runs of ids, dead letters, and enough of each that their trees have inner pages.
async fn write(directory: &Path) {
    let log = redb(directory);
    for call in (0..RECORDS).collect::<Vec<_>>().chunks(100) {
        log.append(call.iter().copied().map(fact).collect()).await.unwrap();
    }
    log.store((0..5).map(|number| letter(&format!("{number}{}", "x".repeat(1_000)))).collect()).await.unwrap();
}

async fn contents(log: &RedbLog) -> Option<(Vec<Record>, Vec<DeadLetter>)> {
    for number in (0..RECORDS).step_by(7) {
        log.find(fact(number).id).await.ok()??;
    }
    Some((log.read(Seq::ZERO, usize::MAX).await.ok()?, log.list(0, 100).await.ok()?.letters))
}

#[derive(Debug, Default)]
struct Noticed {
    opening: usize,
    verifying: usize,
    harmless: usize,
    unnoticed: Vec<usize>,
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "shown with --nocapture: who noticed how many")]
async fn a_changed_byte_is_noticed_or_changes_nothing() {
    let home = TempDir::new().unwrap();
    write(home.path()).await;
    let path = home.path().join(RedbLog::FILE_NAME);
    let whole = std::fs::read(&path).unwrap();
    let expected = contents(&redb(home.path())).await.unwrap();
    let used: Vec<usize> =
        (1..whole.len() / PAGE).filter(|page| whole[page * PAGE..][..PAGE].iter().any(|byte| *byte != 0)).collect();
    let pages = used.iter().step_by(used.len().div_ceil(PAGES_MAX));
    let in_pages = pages.flat_map(|page| PLACES.map(|place| page * PAGE + place));
    let places: Vec<usize> = (0..HEAD_BYTES).step_by(HEAD_STEP).chain(in_pages).collect();
    let tables =
        (0..whole.len()).step_by(PAGE).filter(|page| whole[*page..][..PAGE].windows(8).any(|text| text == b"id_index"));
    let in_tables = tables.flat_map(|page| (page + 1..page + TABLES_BYTES).step_by(TABLES_STEP).chain([page + 2]));
    let places: Vec<usize> = places.into_iter().chain(in_tables).collect();
    assert!(places.len() > 70, "{} places in {} used pages", places.len(), used.len());
    let mut noticed = Noticed::default();
    for &place in &places {
        let mut damaged = whole.clone();
        damaged[place] ^= 1 << (place % 8);
        std::fs::write(&path, damaged).unwrap();
        let Ok(log) = RedbLog::open(home.path(), options(), Clock::system()) else {
            noticed.opening += 1;
            continue;
        };
        let verified = log.verify().await;
        if verified.is_err() || verified.is_ok_and(|problems| !problems.is_empty()) {
            noticed.verifying += 1;
        } else if contents(&log).await.as_ref() == Some(&expected) {
            noticed.harmless += 1;
        } else {
            noticed.unnoticed.push(place);
        }
    }
    println!("{} changed bytes: {noticed:?}", places.len());
    assert!(noticed.unnoticed.is_empty(), "{noticed:?}");
    assert!(noticed.verifying > 15, "the places were in what the log holds: {noticed:?}");
}

/// Changes a text wherever it stands in the file, and nothing else.
fn alter(path: &Path, from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len());
    let mut bytes = std::fs::read(path).unwrap();
    let places: Vec<usize> = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(!places.is_empty(), "the text is in the file");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    std::fs::write(path, bytes).unwrap();
}

/// A server that ran, and whose log then changed: the text of an intent.
fn damaged_server() -> Server {
    let mut server = Server::with(&[("TEMPLATES__PATH", "")]);
    server.accept(&whole("e1"));
    server.settled_state();
    assert_eq!(server.terminate(), Some(0));
    alter(&server.data().join(RedbLog::FILE_NAME), b"copy a file", b"drop a file");
    server
}

#[test]
fn altered_text_is_found_by_verify_and_stops_the_start_with_code_5() {
    let server = damaged_server();
    let verified = pml().args(["log", "verify", "--json", "--data"]).arg(server.data()).output().unwrap();
    assert_eq!(verified.status.code(), Some(5), "{verified:?}");
    let report: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert!(report["problems"][0].as_str().unwrap().contains("ends at position 4"), "{report}");
    let started = pml().args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(server.data()).output().unwrap();
    assert_eq!(started.status.code(), Some(5), "{started:?}");
    let said = String::from_utf8_lossy(&started.stderr).into_owned();
    for part in ["position 4", "pml log verify", "pml restore"] {
        assert!(said.contains(part), "no '{part}' in {said}");
    }
}

#[test]
fn a_vanished_or_empty_log_beside_snapshots_is_no_new_one() {
    let mut server = Server::with(&[("SNAPSHOTS__EVERY_RECORDS", "1")]);
    server.accept(&whole("e1"));
    let snapshots = server.data().join(Store::DIRECTORY);
    crate::server::eventually("a snapshot", || {
        let taken =
            std::fs::read_dir(&snapshots).ok()?.any(|entry| !entry.unwrap().file_name().to_string_lossy().starts_with('.'));
        taken.then_some(())
    });
    assert_eq!(server.terminate(), Some(0));
    let log = server.data().join(RedbLog::FILE_NAME);
    for change in [(|log| std::fs::write(log, "")) as fn(&Path) -> std::io::Result<()>, |log| std::fs::remove_file(log)] {
        change(&log).unwrap();
        let started = pml().args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(server.data()).output().unwrap();
        assert_eq!(started.status.code(), Some(5), "{started:?}");
        let said = String::from_utf8_lossy(&started.stderr).into_owned();
        assert!(said.contains("snapshots shows that there was a log") && said.contains("pml restore"), "{said}");
    }
}

/// Random bytes are damage; so is an empty file beside what only a log leaves behind. Without that, it is a log that was never begun.
#[test]
fn a_file_that_is_no_log_or_that_was_emptied_is_damage() {
    let read = |data: &Path| pml().args(["log", "cat", "--data"]).arg(data).output().unwrap();
    let home = tempfile::TempDir::new().unwrap();
    let log = home.path().join(RedbLog::FILE_NAME);
    std::fs::write(&log, "no log at all".repeat(1_000)).unwrap();
    let started = read(home.path());
    assert_eq!(started.status.code(), Some(5), "{started:?}");
    let said = String::from_utf8_lossy(&started.stderr).into_owned();
    assert!(said.contains("does not begin like a log") && said.contains("pml restore"), "{said}");
    for left in ["archive", "runs"] {
        std::fs::write(&log, "").unwrap();
        std::fs::create_dir(home.path().join(left)).unwrap();
        assert_eq!(read(home.path()).status.code(), Some(0), "an empty directory shows nothing");
        std::fs::write(&log, "").unwrap();
        std::fs::write(home.path().join(left).join("something"), "").unwrap();
        let started = read(home.path());
        assert_eq!(started.status.code(), Some(5), "{started:?}");
        let said = String::from_utf8_lossy(&started.stderr).into_owned();
        assert!(said.contains(&format!("{left} shows that there was a log")) && said.contains("pml restore"), "{said}");
        std::fs::remove_dir_all(home.path().join(left)).unwrap();
    }
}

/// The index of ids is read only when something is appended.
#[test]
fn damage_met_while_running_ends_the_server_with_code_5() {
    let mut server = Server::with(&[("TEMPLATES__PATH", "")]);
    let run = whole("e1");
    server.accept(&run);
    server.settled_state();
    assert_eq!(server.terminate(), Some(0));
    let id: RecordId = run[0]["id"].as_str().unwrap().parse().unwrap();
    let [bytes, other] = [id.to_bits(), id.to_bits() + 1].map(u128::to_le_bytes);
    alter(&server.data().join(RedbLog::FILE_NAME), &bytes, &other);
    server.restart();
    assert_ne!(server.post(&whole("e2")).status, 202);
    assert_eq!(server.ended(), Some(5));
    let said = server.complaints();
    for part in ["the index of record ids does not match its checksum", "pml log verify", "pml restore"] {
        assert!(said.contains(part), "no '{part}' in {said}");
    }
}
