//! Samples of every format: the golden files of `schemas/`, what pml's own encoders write, and the files in `tests/fuzz/corpus`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pml::core::event::{NewRecord, Record, cloud};
use pml::core::id::Seq;
use pml::core::state::State;
use pml::core::time::Timestamp;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// The files of a target in the corpus. Those that end in `.hex` hold bytes in hexadecimal.
pub(crate) fn corpus(target: &str) -> Vec<Vec<u8>> {
    files(&root().join("tests/fuzz/corpus").join(target)).iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    if path.extension().is_none_or(|extension| extension != "hex") {
        return bytes;
    }
    let digits: Vec<u8> = bytes.into_iter().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// A sample of the readers.
pub(crate) fn reader(name: &str) -> Vec<u8> {
    read(&root().join("src/readers/samples").join(name))
}

/// One structured event of every kind.
pub(crate) fn events() -> Vec<Vec<u8>> {
    let json = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    files(&root().join("schemas/event/v1")).iter().filter(|path| json(path)).map(|path| read(path)).collect()
}

/// One stored record of every kind.
pub(crate) fn stored() -> Vec<Vec<u8>> {
    let hex = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "hex");
    files(&root().join("schemas/event/v1")).iter().filter(|path| hex(path)).map(|path| read(path)).collect()
}

pub(crate) fn noon() -> Timestamp {
    Timestamp::from_micros(1_769_860_800_000_000)
}

pub(crate) fn facts() -> Vec<NewRecord> {
    events().iter().map(|event| cloud::from_structured(event, noon()).unwrap()).collect()
}

/// The records of a small log: every kind once, and some runs.
pub(crate) fn records() -> Vec<Record> {
    let demo = pml::dataset::Dataset::demo(noon());
    let runs = demo.traces.iter().take(4).flat_map(|trace| trace.events(noon()).unwrap());
    let facts = facts().into_iter().chain(demo.tools.into_iter().take(8)).chain(runs);
    let record = |(seq, fact)| Record { seq: Seq(seq), recorded_at: noon(), fact: Arc::new(fact) };
    (1..).zip(facts).map(record).collect()
}

/// The fold of [`records`], with some executions closed.
pub(crate) fn state() -> State {
    let mut state = State::default();
    for record in records() {
        state.apply(&record);
    }
    let open: Vec<_> = state.executions.iter().take(3).map(|(id, open)| open.closing_record(id)).collect();
    for (seq, fact) in (state.applied().0 + 1..).zip(open) {
        state.apply(&Record { seq: Seq(seq), recorded_at: noon(), fact: Arc::new(fact) });
    }
    state
}
