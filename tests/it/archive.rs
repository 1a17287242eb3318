//! The events as Parquet files: everything is in them, they grow, and nothing that happens to them or to the export goes unnoticed.

use std::fs;
use std::path::{Path, PathBuf};

use pml::archive::{Archive, ArchiveCounts, ArchiveError, ArchiveWriter};
use pml::core::event::{Event, Kind, Record, cloud};
use pml::core::id::Seq;
use pml::core::state::State;
use pml::log::EventLog;
use tempfile::TempDir;

use crate::cli::{run, text};
use crate::given::{at, fact, finished, ok, started, step_finished};
use crate::log_contract::redb;
use crate::server::pml;

/// Records of a log with holes, a few minutes apart, so that they fill several days.
#[derive(Default)]
pub(crate) struct Past {
    pub(crate) records: Vec<Record>,
    pub(crate) state: State,
}

impl Past {
    /// Every kind of event once, then `runs` whole executions.
    pub(crate) fn of(runs: u64) -> Self {
        let mut past = Self::default();
        for kind in Kind::ALL {
            let sample = fs::read(format!("{}/schemas/event/v1/{kind}.json", env!("CARGO_MANIFEST_DIR"))).unwrap();
            past.push(cloud::from_structured(&sample, at(0)).unwrap().event);
        }
        for run in 0..runs {
            past.run(&format!("e{run}"));
        }
        past
    }

    pub(crate) fn run(&mut self, execution: &str) {
        self.push(started(execution));
        for (step, tool, depends_on, success) in [ok("s1", "fs:read", &[]), ok("s2", "fs:write", &["s1"])] {
            self.push(step_finished(execution, step, tool, depends_on, success));
        }
        self.push(finished(execution, true));
        let id = execution.parse().unwrap();
        let trace = self.state.executions.get(&id).unwrap().complete(&id, false);
        self.push(Event::TraceCompleted(trace));
    }

    fn push(&mut self, event: Event) {
        let number = self.records.len() as u64 + 1;
        // Every seventh position is a hole.
        let seq = Seq(number + number / 7);
        let record = Record { seq, recorded_at: at(number * 400), fact: fact(number, event) };
        self.state.apply(&record);
        self.records.push(record);
    }

    /// Writes the log of a data directory.
    pub(crate) fn write(&self, data: &Path) {
        // On a thread of its own, because some tests are asynchronous.
        let write = || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let log = redb(data);
            for records in self.records.chunks(5_000) {
                runtime.block_on(log.restore(records.to_vec())).unwrap();
            }
        };
        std::thread::scope(|scope| scope.spawn(write).join().unwrap());
    }
}

fn append(directory: &Path, records: &[Record]) -> ArchiveCounts {
    let mut appender = ArchiveWriter::open(directory).unwrap();
    for record in records {
        appender.push(record).unwrap();
    }
    appender.finish().unwrap()
}

fn read(directory: &Path) -> Result<Vec<Record>, ArchiveError> {
    let archive = Archive::open(directory)?;
    let batches: Result<Vec<Vec<Record>>, ArchiveError> = archive.read(Seq::ZERO).collect();
    Ok(batches?.concat())
}

/// The files of all days, in order.
fn files(directory: &Path) -> Vec<PathBuf> {
    let below = |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let days = below(directory).into_iter().filter(|path| path.is_dir());
    let mut files: Vec<PathBuf> = days.flat_map(|day| below(&day)).collect();
    files.sort();
    files
}

#[test]
fn every_record_of_every_kind_comes_back_as_it_was() {
    let home = TempDir::new().unwrap();
    let past = Past::of(100);
    let written = append(home.path(), &past.records);
    assert_eq!(written.records, past.records.len() as u64);
    assert_eq!(files(home.path()).len(), written.files);
    assert!(written.files >= 3, "one file per day: {written:?}");
    assert_eq!(read(home.path()).unwrap(), past.records);
    let archive = Archive::open(home.path()).unwrap();
    let after = past.records[150].seq;
    let rest: Vec<Record> = archive.read(after).flat_map(Result::unwrap).collect();
    assert_eq!(rest, past.records[151..]);
}

#[test]
fn files_are_added_and_never_touched_again() {
    let home = TempDir::new().unwrap();
    let past = Past::of(30);
    let (first, rest) = past.records.split_at(60);
    append(home.path(), first);
    let contents = |files: &[PathBuf]| files.iter().map(|file| fs::read(file).unwrap()).collect::<Vec<_>>();
    let before = files(home.path());
    let kept = contents(&before);
    append(home.path(), rest);
    assert_eq!(contents(&before), kept);
    assert_eq!(read(home.path()).unwrap(), past.records);
    assert_eq!(append(home.path(), &[]), ArchiveCounts::default());
}

#[test]
fn what_was_not_finished_is_not_there_and_one_export_runs_at_a_time() {
    let home = TempDir::new().unwrap();
    let past = Past::of(10);
    append(home.path(), &past.records[..20]);
    let mut given_up = ArchiveWriter::open(home.path()).unwrap();
    given_up.push(&past.records[20]).unwrap();
    assert!(matches!(ArchiveWriter::open(home.path()), Err(ArchiveError::Busy(_))));
    drop(given_up);
    assert_eq!(read(home.path()).unwrap(), past.records[..20]);
    append(home.path(), &past.records[20..]);
    assert_eq!(read(home.path()).unwrap(), past.records);
}

#[test]
fn a_file_that_is_damaged_missing_or_foreign_is_refused() {
    let home = TempDir::new().unwrap();
    let past = Past::of(100);
    append(home.path(), &past.records);
    let files = files(home.path());
    let refused = |expected: &str| {
        let error = read(home.path()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let whole = fs::read(&files[1]).unwrap();
    fs::remove_file(&files[1]).unwrap();
    refused("a file is missing");
    fs::write(&files[1], &whole[..whole.len() / 2]).unwrap();
    refused("cannot use");
    let foreign = TempDir::new().unwrap();
    append(foreign.path(), &past.records[1..]);
    fs::copy(&self::files(foreign.path())[1], &files[1]).unwrap();
    refused("one of another log came in");
    // Bytes turned over anywhere in the data: never another history.
    for place in (100..whole.len()).step_by(whole.len() / 97) {
        let mut damaged = whole.clone();
        damaged[place] ^= 0x55;
        fs::write(&files[1], damaged).unwrap();
        match read(home.path()) {
            Ok(records) => assert_eq!(records, past.records, "byte {place}"),
            Err(ArchiveError::Damaged { .. } | ArchiveError::Parquet { .. }) => {}
            Err(other) => panic!("byte {place}: {other}"),
        }
    }
    fs::write(&files[1], whole).unwrap();
    assert_eq!(read(home.path()).unwrap(), past.records);
}

#[test]
fn a_log_is_rebuilt_from_nothing_but_the_files() {
    let home = TempDir::new().unwrap();
    let place = |name: &str| home.path().join(name);
    let past = Past::of(50);
    past.write(&place("data"));
    let exported = run(0, &["log", "export", text(&place("events")), "--data", text(&place("data"))]).json();
    assert_eq!(exported["records"], past.records.len());
    fs::remove_dir_all(place("data")).unwrap();
    let replayed = run(0, &["replay", "--from-parquet", text(&place("events")), "--into", text(&place("again"))]).json();
    assert_eq!(replayed["digest"], past.state.digest().to_string());
    let verified = run(0, &["log", "verify", "--data", text(&place("again"))]).json();
    assert_eq!((&verified["digest"], &verified["last_seq"]), (&replayed["digest"], &past.state.applied().0.into()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(redb(&place("again")).read(Seq::ZERO, usize::MAX)).unwrap(), past.records);
    let refused = run(1, &["replay", "--from-parquet", text(&place("events")), "--into", text(&place("again"))]).json();
    assert!(refused["error"].as_str().unwrap().contains("is not empty"), "{refused}");
}

#[test]
fn the_export_of_another_log_is_refused() {
    let home = TempDir::new().unwrap();
    let place = |name: &str| home.path().join(name);
    Past::of(5).write(&place("data"));
    let mut other = Past::default();
    for number in 0..20 {
        other.run(&format!("other{number}"));
    }
    other.records.iter_mut().for_each(|record| record.fact = fact(1_000_000 + record.seq.0, record.event().clone()));
    other.write(&place("other"));
    run(0, &["log", "export", text(&place("events")), "--data", text(&place("data"))]);
    let refused = run(1, &["log", "export", text(&place("events")), "--data", text(&place("other"))]).json();
    assert!(refused["error"].as_str().unwrap().contains("holds the events of another log"), "{refused}");
}

#[test]
fn an_export_killed_at_any_time_is_finished_by_the_next() {
    let home = TempDir::new().unwrap();
    let place = |name: &str| home.path().join(name);
    let past = Past::of(3_000);
    past.write(&place("data"));
    let mut cut_short = 0;
    for millis in [1, 20, 60, 100, 150, 200, 300] {
        let mut child = pml()
            .args(["log", "export", text(&place("events")), "--data", text(&place("data"))])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(millis));
        child.kill().unwrap();
        cut_short += usize::from(!child.wait().unwrap().success());
        if place("events").exists() {
            let kept = read(&place("events")).unwrap();
            assert_eq!(kept, past.records[..kept.len()], "after {millis} ms");
        }
    }
    assert!(cut_short > 0, "none was killed in time");
    run(0, &["log", "export", text(&place("events")), "--data", text(&place("data"))]);
    assert_eq!(read(&place("events")).unwrap(), past.records);
    let left: Vec<_> = fs::read_dir(place("events")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == ".lock" || name.to_string_lossy().starts_with("day=")), "{left:?}");
}
