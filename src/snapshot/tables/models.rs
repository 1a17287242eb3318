//! The table `training_runs` holds the latest training runs and which versions serve. `model_parameters` holds the parameters of the
//! versions that are kept, in pieces as in the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{BooleanArray, LargeBinaryArray, LargeStringArray, RecordBatch, UInt32Array, UInt64Array};

use super::super::columns::{Columns, TableRows, texts};
use super::super::error::Unreadable;
use crate::core::event::{Event, Kind, ModelPart, ModelVersion, codec};
use crate::core::id::Seq;
use crate::core::state::State;
use crate::core::trained::{NumberedPieces, Serving, Trained, TrainingRun};

pub(in super::super) const TRAINING_RUNS: &str = "training_runs";
pub(in super::super) const MODEL_PARAMETERS: &str = "model_parameters";

/// A run with its flags: whether it is among the latest, and whether its parameters are kept.
struct RunRow<'a> {
    run: &'a TrainingRun,
    listed: bool,
    stored: bool,
}

/// By position in the log.
fn run_rows(state: &State) -> Vec<RunRow<'_>> {
    let mut rows: BTreeMap<Seq, RunRow<'_>> = BTreeMap::new();
    for run in state.trained.runs() {
        rows.insert(run.seq, RunRow { run, listed: true, stored: false });
    }
    for version in state.trained.versions() {
        let row = RunRow { run: &version.run, listed: false, stored: false };
        rows.entry(version.run.seq).or_insert(row).stored = true;
    }
    rows.into_values().collect()
}

pub(super) fn training_runs(state: &State) -> Vec<RecordBatch> {
    let rows = run_rows(state);
    let serving = |row: &RunRow<'_>| state.trained.serving(row.run.event.version.part());
    let data = |row: &RunRow<'_>| {
        let mut json = Vec::new();
        codec::write_json(&Event::ModelTrained((*row.run.event).clone()), &mut json);
        String::from_utf8(json).expect("JSON is text")
    };
    let flags = |flag: &dyn Fn(&RunRow<'_>) -> bool| BooleanArray::from(rows.iter().map(flag).collect::<Vec<_>>());
    let is = |version: &Option<ModelVersion>, row: &RunRow<'_>| row.stored && version.as_ref() == Some(&row.run.event.version);
    let columns = Columns::default()
        .with("seq", UInt64Array::from_iter_values(rows.iter().map(|row| row.run.seq.0)))
        .with("version", texts(rows.iter().map(|row| row.run.event.version.as_str())))
        .with("listed", flags(&|row| row.listed))
        .with("stored", flags(&|row| row.stored))
        .with("current", flags(&|row| is(&serving(row).current, row)))
        .with("previous", flags(&|row| is(&serving(row).previous, row)))
        .with("data", texts(rows.iter().map(data)));
    vec![columns.batch()]
}

pub(super) fn model_parameters(state: &State) -> Vec<RecordBatch> {
    let rows: Vec<(&str, usize, &[u8])> = state
        .trained
        .versions()
        .flat_map(|version| version.pieces().map(|(piece, bytes)| (version.run.event.version.as_str(), piece, &**bytes)))
        .collect();
    let piece = |row: &(&str, usize, &[u8])| u32::try_from(row.1).expect("a version has few pieces");
    let columns = Columns::default()
        .with("version", texts(rows.iter().map(|row| row.0)))
        .with("piece", UInt32Array::from_iter_values(rows.iter().map(piece)))
        .with("bytes", LargeBinaryArray::from_iter_values(rows.iter().map(|row| row.2)));
    vec![columns.batch()]
}

pub(in super::super) fn read_models(runs: &TableRows, parameters: &TableRows) -> Result<Trained, Unreadable> {
    let mut pieces = read_pieces(parameters)?;
    let (seqs, data) = (runs.column::<UInt64Array>("seq")?, runs.column::<LargeStringArray>("data")?);
    let flag = |name| runs.column::<BooleanArray>(name);
    let (listed, stored) = (flag("listed")?, flag("stored")?);
    let (current, previous) = (flag("current")?, flag("previous")?);
    let mut serving: [Serving; ModelPart::ALL.len()] = Default::default();
    let (mut kept, mut versions) = (Vec::new(), Vec::new());
    for row in 0..runs.len() {
        let kind = Kind::ModelTrained;
        let event = codec::from_json(kind, kind.version(), data.value(row)).map_err(|error| runs.unreadable("data", error))?;
        let Event::ModelTrained(event) = event else { unreachable!("the codec gives the kind it was asked for") };
        let run = TrainingRun { seq: Seq(seqs.value(row)), event: Arc::new(event) };
        let version = &run.event.version;
        let served = &mut serving[version.part() as usize];
        if current.value(row) {
            served.current = Some(version.clone());
        }
        if previous.value(row) {
            served.previous = Some(version.clone());
        }
        if stored.value(row) {
            versions.push((run.clone(), pieces.remove(version.as_str()).unwrap_or_default()));
        }
        if listed.value(row) {
            kept.push(run);
        }
    }
    Ok(Trained::from_rows(kept, versions, serving))
}

/// The pieces by version, each with its number.
fn read_pieces(rows: &TableRows) -> Result<BTreeMap<String, NumberedPieces>, Unreadable> {
    let versions = rows.column::<LargeStringArray>("version")?;
    let (numbers, bytes) = (rows.column::<UInt32Array>("piece")?, rows.column::<LargeBinaryArray>("bytes")?);
    let mut pieces: BTreeMap<String, NumberedPieces> = BTreeMap::new();
    for row in 0..rows.len() {
        let piece = (numbers.value(row) as usize, bytes.value(row).into());
        pieces.entry(versions.value(row).to_owned()).or_default().push(piece);
    }
    Ok(pieces)
}
