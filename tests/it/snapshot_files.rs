//! The files of a snapshot: documented, readable by others, and trusted only when they are whole and of this log.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use object_store::memory::InMemory;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pml::clock::Clock;
use pml::core::event::Event;
use pml::core::id::Seq;
use pml::core::state::{FOLD, State};
use pml::core::time::Timestamp;
use pml::log::{EventLog, MemoryLog};
use pml::snapshot::{self, About, Manifest, Origin, SnapshotError, Store, Unusable};
use tempfile::TempDir;

use crate::fold::folded;
use crate::given::{self, History};
use crate::outside::python;

/// A history in which every table has something.
fn events() -> Vec<Event> {
    let mut events = vec![
        given::registered("fs:list", "List files"),
        given::registered("zip:pack", "Pack files"),
        given::template("archive", &[("fs:list", "zip:pack")]),
        given::declared("pack", &["fs:list", "zip:pack"]),
    ];
    for execution in ["e1", "e2", "e3"] {
        let mut history = History::default();
        history.append(given::started(execution));
        history.append(given::step_finished(execution, "a", "fs:list", &[], true));
        history.append(given::step_finished(execution, "b", "zip:pack", &["a"], true));
        history.append(given::finished(execution, true));
        let id = execution.parse().unwrap();
        let trace = history.state.executions.get(&id).unwrap().complete(&id, false);
        events.extend([
            given::started(execution),
            given::step_finished(execution, "a", "fs:list", &[], true),
            given::step_finished(execution, "b", "zip:pack", &["a"], true),
            given::finished(execution, true),
            Event::TraceCompleted(trace),
        ]);
    }
    events.extend(["do e1", "do e2"].map(|text| given::embedded("old", text, &[0.1, 1.1])));
    events.push(given::embedded("new", "do e1", &[0.1, 1.1, 2.1]));
    events.extend([given::started("e4"), given::step_started("e4", "a", "fs:list")]);
    events.push(given::step_finished("e4", "b", "mail:send", &[], false));
    events
}

async fn log_of(events: Vec<Event>) -> MemoryLog {
    let log = MemoryLog::new(Clock::system());
    let facts = (1..).zip(events).map(|(number, event)| given::fact(number, event)).collect();
    log.append(facts).await.unwrap();
    log
}

/// The state at record `seq` of a log, as a snapshot in `store`.
async fn snapshot_at(store: &Store, log: &dyn EventLog, seq: u64) -> (State, Manifest) {
    let records = log.read(Seq::ZERO, usize::try_from(seq).unwrap()).await.unwrap();
    let state = folded(&records);
    let origin = Origin::of(log, state.applied()).await.unwrap().unwrap();
    let about = About { log: origin, config_hash: "none".to_owned(), taken_at: Timestamp::from_micros(0) };
    let manifest = snapshot::create(store, Arc::new(state.clone()), about, || ()).await.unwrap();
    (state, manifest)
}

struct Place {
    _home: TempDir,
    root: PathBuf,
    store: Store,
}

fn place() -> Place {
    let home = TempDir::new().unwrap();
    let root = home.path().join("snapshots");
    Place { store: Store::Directory(root.clone()), root, _home: home }
}

impl Place {
    fn files(&self, seq: u64) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> =
            fs::read_dir(self.root.join(format!("{seq:020}"))).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    /// Where the state of the newest snapshot that can be used stands.
    async fn start(&self, log: &dyn EventLog) -> Option<u64> {
        let state = snapshot::newest_at_or_before(&self.store, log, Seq(u64::MAX)).await.unwrap();
        state.map(|state| state.applied().0)
    }

    /// Why a snapshot is not whole.
    async fn problem(&self, seq: u64) -> Option<String> {
        match snapshot::fetch(&self.store, Seq(seq)).await {
            Ok(fetched) => snapshot::verify(&fetched).err().map(|problem| problem.to_string()),
            Err(SnapshotError::Unusable { source, .. }) => Some(source.to_string()),
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_changed_byte_in_any_file_is_found_and_an_older_snapshot_serves() {
    let (place, log) = (place(), log_of(events()).await);
    snapshot_at(&place.store, &log, 5).await;
    let (_, newest) = snapshot_at(&place.store, &log, 20).await;
    assert_eq!(place.start(&log).await, Some(20));
    assert_eq!(place.files(20).len(), newest.files.len() + 1);
    for file in place.files(20) {
        let whole = fs::read(&file).unwrap();
        for at in [0, whole.len() / 2, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x20;
            fs::write(&file, damaged).unwrap();
            assert!(place.problem(20).await.is_some(), "byte {at} of {}", file.display());
            assert_eq!(place.start(&log).await, Some(5), "byte {at} of {}", file.display());
        }
        fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        assert_eq!(place.start(&log).await, Some(5), "half of {}", file.display());
        fs::remove_file(&file).unwrap();
        assert_eq!(place.start(&log).await, Some(5), "without {}", file.display());
        fs::write(&file, whole).unwrap();
    }
    assert_eq!((place.problem(20).await, place.start(&log).await), (None, Some(20)));
}

#[tokio::test]
async fn what_is_unfinished_newer_ahead_or_of_another_log_is_left_alone() {
    let (place, log) = (place(), log_of(events()).await);
    snapshot_at(&place.store, &log, 5).await;
    let shorter = log_of(events()[..3].to_vec()).await;
    assert_eq!(place.start(&shorter).await, None, "it is ahead of the log");
    let mut other = events();
    other.rotate_left(1);
    let facts: Vec<_> = (101..).zip(other).map(|(number, event)| given::fact(number, event)).collect();
    let other = MemoryLog::new(Clock::system());
    other.append(facts).await.unwrap();
    assert_eq!(place.start(&other).await, None, "it belongs to another log");
    let taken = snapshot::fetch(&place.store, Seq(5)).await.unwrap();
    assert!(matches!(snapshot::belongs(&taken.manifest, &other).await.unwrap(), Err(Unusable::OtherLog { .. })));
    fs::create_dir(place.root.join(format!("{:020}", 6))).unwrap();
    fs::create_dir(place.root.join(format!(".unfinished-{:020}", 7))).unwrap();
    let newer = place.root.join(format!("{:020}", 8));
    fs::create_dir(&newer).unwrap();
    fs::write(newer.join("manifest.json"), br#"{"schema": 9, "seq": 8, "something": "new"}"#).unwrap();
    assert_eq!(place.start(&log).await, Some(5));
    let listed = snapshot::list(&place.store).await.unwrap();
    let told: Vec<(u64, String)> = listed
        .into_iter()
        .map(|listed| (listed.seq.0, listed.manifest.map_or_else(|problem| problem.to_string(), |_| String::new())))
        .collect();
    let expected = [
        (5, ""),
        (6, "it has no manifest.json: it was never finished"),
        (8, "it was written by a newer pml (schema 9, this one reads 1)"),
    ];
    assert_eq!(told, expected.map(|(seq, problem)| (seq, problem.to_owned())));
    snapshot_at(&place.store, &log, 9).await;
    assert!(!place.root.join(format!(".unfinished-{:020}", 7)).exists(), "the next write clears away what a crash left");
}

/// Makes a snapshot one of another fold version: 0 is from before versions were written down.
pub(crate) fn refold(place: &Path, seq: u64, fold: u32) {
    let path = place.join(format!("{seq:020}")).join("manifest.json");
    let line = |fold: u32| if fold == 0 { String::new() } else { format!("  \"fold\": {fold},\n") };
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(&line(FOLD)), "{text}");
    let (before, hash) = text.rsplit_once("\"blake3\": \"").unwrap();
    let before = before.replace(&line(FOLD), &line(fold));
    let sealed = |hash: &str| format!("{before}\"blake3\": \"{hash}\"\n}}\n");
    assert!(hash.ends_with("\"\n}\n"), "the hash of the manifest stands last");
    fs::write(&path, sealed(blake3::hash(sealed("").as_bytes()).to_hex().as_str())).unwrap();
}

#[tokio::test]
async fn a_snapshot_of_another_fold_version_is_left_alone_and_written_anew() {
    let (place, log) = (place(), log_of(events()).await);
    snapshot_at(&place.store, &log, 5).await;
    for other in [0, FOLD + 1] {
        let (state, _) = snapshot_at(&place.store, &log, 20).await;
        assert_eq!(place.start(&log).await, Some(20));
        refold(&place.root, 20, other);
        assert_eq!(place.start(&log).await, Some(5), "fold {other}");
        let expected = format!("it is of another version: fold {other}, this pml has fold {FOLD} and folds the log instead");
        assert_eq!(place.problem(20).await, Some(expected), "the files are whole");
        let listed = snapshot::list(&place.store).await.unwrap().pop().unwrap();
        assert_eq!(listed.manifest.unwrap().fold, other);
        let error = snapshot::load(&place.store, &log, Seq(20)).await.unwrap_err();
        assert!(matches!(error, SnapshotError::Unusable { source: Unusable::OtherFold { found, .. }, .. } if found == other));
        let file = place.files(20).pop().unwrap();
        let whole = fs::read(&file).unwrap();
        fs::write(&file, &whole[1..]).unwrap();
        assert!(place.problem(20).await.unwrap().contains("is damaged"), "damage is found all the same");
        fs::write(&file, whole).unwrap();
        let (again, manifest) = snapshot_at(&place.store, &log, 20).await;
        assert_eq!((manifest.fold, again.digest()), (FOLD, state.digest()), "the next snapshot takes its place");
    }
    assert_eq!(place.start(&log).await, Some(20));
}

/// What any store does: the same in a directory and in an object store.
async fn keep_and_prune(store: Store) {
    let log = log_of(events()).await;
    for seq in [4, 9, 14] {
        snapshot_at(&store, &log, seq).await;
    }
    let (state, again) = snapshot_at(&store, &log, 14).await;
    assert_eq!(snapshot::fetch(&store, Seq(14)).await.unwrap().manifest, again, "the same snapshot is not written again");
    let restored = snapshot::newest_at_or_before(&store, &log, Seq(13)).await.unwrap().unwrap();
    assert_eq!(restored.applied(), Seq(9));
    let restored = snapshot::load(&store, &log, Seq(14)).await.unwrap();
    assert_eq!(restored.digest(), state.digest());
    assert_eq!(snapshot::prune(&store, 2).await.unwrap(), [Seq(4)]);
    assert_eq!(store.positions().await.unwrap(), [Seq(9), Seq(14)]);
}

#[tokio::test]
async fn a_directory_and_an_object_store_keep_snapshots_alike() {
    keep_and_prune(place().store).await;
    keep_and_prune(Store::Objects { store: Arc::new(InMemory::new()), prefix: "some/where".into() }).await;
}

/// The type of a column in the words of the document.
fn words(kind: &DataType) -> String {
    match kind {
        DataType::LargeUtf8 => "text".to_owned(),
        DataType::UInt16 => "u16".to_owned(),
        DataType::UInt32 => "u32".to_owned(),
        DataType::UInt64 => "u64".to_owned(),
        DataType::Float32 => "f32".to_owned(),
        DataType::Float64 => "f64".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        DataType::Timestamp(_, Some(zone)) if &**zone == "UTC" => "time".to_owned(),
        DataType::LargeBinary => "bytes".to_owned(),
        DataType::FixedSizeBinary(len) => format!("{len} bytes"),
        DataType::List(item) if item.is_nullable() => format!("list of {}?", words(item.data_type())),
        DataType::List(item) => format!("list of {}", words(item.data_type())),
        DataType::FixedSizeList(item, _) => format!("vector of {}", words(item.data_type())),
        other => panic!("no words for {other}"),
    }
}

fn columns(schema: &Schema) -> Vec<(String, String)> {
    let optional = |nullable: bool| if nullable { "?" } else { "" };
    let column = |field: &Arc<arrow_schema::Field>| {
        (field.name().clone(), format!("{}{}", words(field.data_type()), optional(field.is_nullable())))
    };
    schema.fields().iter().map(column).collect()
}

/// The tables of the document, each with its columns and their types.
fn documented() -> BTreeMap<String, Vec<(String, String)>> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/snapshots.md")).unwrap();
    let mut tables: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let mut table = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("### ") {
            table = Some(name.to_owned());
        }
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if let (Some(table), [name, kind, meaning, example]) = (&table, cells.as_slice())
            && *name != "column"
        {
            assert!(!meaning.is_empty() && !example.is_empty(), "{table}.{name}");
            tables.entry(table.clone()).or_default().push(((*name).to_owned(), (*kind).to_owned()));
        }
    }
    tables
}

#[tokio::test]
async fn every_column_is_documented() {
    let (place, log) = (place(), log_of(events()).await);
    let tail = log.tail().borrow().0;
    snapshot_at(&place.store, &log, tail).await;
    let mut written = BTreeMap::new();
    for file in place.files(tail).into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "parquet")) {
        let reader = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(&file).unwrap()).unwrap();
        written.insert(file.file_stem().unwrap().to_string_lossy().into_owned(), columns(reader.schema()));
    }
    let documented = documented();
    for (table, columns) in &written {
        assert_eq!(documented.get(table), Some(columns), "{table}");
    }
    assert_eq!(documented.len(), written.len());
}

#[tokio::test]
async fn duckdb_and_polars_open_every_file_and_count_what_the_state_counts() {
    let (place, log) = (place(), log_of(events()).await);
    let tail = log.tail().borrow().0;
    let (state, manifest) = snapshot_at(&place.store, &log, tail).await;
    let directory = place.root.join(format!("{tail:020}"));
    let Some(report) = python("snapshot.py", &[directory.to_str().unwrap()], "") else { return };
    for file in &manifest.files {
        let told = &report[file.name.strip_suffix(".parquet").unwrap()];
        assert_eq!(told["rows"]["duckdb"], file.rows, "{file:?}");
        assert_eq!(told["rows"]["polars"], file.rows, "{file:?}");
        assert_eq!(told["columns"]["duckdb"], told["columns"]["polars"], "{file:?}");
    }
    let sum = |values: &mut dyn Iterator<Item = u64>| values.sum::<u64>();
    let tools = || state.tools.iter();
    let edges = || state.graph.edges().map(|(_, counter)| *counter);
    let expected = [
        ("tools", "calls", sum(&mut tools().map(|tool| tool.calls))),
        ("tools", "successes", sum(&mut tools().map(|tool| tool.successes))),
        ("tools", "duration_total_ms", sum(&mut tools().map(|tool| tool.duration_total_ms))),
        ("capabilities", "usage", sum(&mut state.capabilities.iter().map(|capability| capability.usage))),
        ("edges", "declared", sum(&mut edges().map(|edge| edge.declared.into()))),
        ("edges", "observations", sum(&mut edges().map(|edge| edge.observations.into()))),
        ("edges", "successes", sum(&mut edges().map(|edge| edge.successes.into()))),
        ("transitions", "seen", sum(&mut state.transitions.rows().map(|row| row.3.seen.into()))),
        ("traces", "steps", 6),
        ("intents", "runs", sum(&mut state.memory.iter().map(|(_, entry)| entry.runs.into()))),
        ("texts", "wanted", sum(&mut state.vectors.texts().map(|(_, _, times)| times.into()))),
    ];
    for (table, column, value) in expected {
        assert!(value > 0, "{table}.{column} shows nothing");
        assert_eq!(report[table]["sums"][column]["duckdb"], value, "{table}.{column}");
        assert_eq!(report[table]["sums"][column]["polars"], value, "{table}.{column}");
    }
    assert_eq!(report["record_ids"]["rows"]["duckdb"], state.events());
    assert_eq!(report["traces"]["rows"]["polars"], state.executions.traces_len() as u64);
}
