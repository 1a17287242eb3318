//! Snapshots and archives: the manifest, tables with other values in them, and Parquet files with other bytes.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, LargeStringArray, ListArray, PrimitiveArray, RecordBatch,
};
use arrow_schema::{DataType, Field, Schema};
use pml::archive::{Archive, ArchiveWriter};
use pml::core::id::Seq;
use pml::snapshot::{About, EncodedSnapshot, Manifest, Origin, encode_state, fuzzing, restore};
use pml_fuzzer::{Form, Target};
use pml_model::random::Random;
use tempfile::TempDir;

use super::target;
use crate::samples;

fn encoded() -> EncodedSnapshot {
    let log = Origin { first_id: "a".to_owned(), last_id: "b".to_owned() };
    encode_state(&samples::state(), &About { log, config_hash: "c".to_owned(), taken_at: samples::noon() }, || ())
}

pub(super) fn manifest() -> Target {
    let manifest = encoded().manifest;
    let words = &["schema", "fold", "seq", "files", "blake3", "rows", "bytes", "../x", "tools.parquet"];
    let mut target = target("manifest", Form::Json, vec![fuzzing::write_manifest(&manifest).to_vec()], words, move |input| {
        drop(fuzzing::read_manifest(manifest.seq(), input));
        // The same with the right hash, so that the content is what is looked at.
        let changed: Manifest = serde_json::from_slice(input).map_err(|error| error.to_string())?;
        let sealed = fuzzing::write_manifest(&changed);
        let read = fuzzing::read_manifest(changed.seq(), &sealed).map_err(|error| error.to_string())?;
        read.check_fold().map_err(|error| error.to_string())
    });
    target.memory_fixed = 256 << 10;
    target
}

/// The input is a list of changes: which table, which column, which change. All values keep their types.
pub(super) fn tables() -> Target {
    let (snapshot, tables) = (encoded(), fuzzing::state_tables(&samples::state()));
    let samples = (0..16_u8).map(|table| vec![table, 0, 0, table]).collect();
    let mut target = target("tables", Form::Bytes, samples, &[], move |input| {
        let seed = input.iter().fold(0_u64, |seed, byte| seed.wrapping_mul(257).wrapping_add(u64::from(*byte)));
        let mut random = Random::new(seed);
        let (name, batches) = &tables[usize::from(*input.first().unwrap_or(&0)) % tables.len()];
        let changes = input.len().min(8);
        let mut batches = batches.clone();
        for _ in 1..changes {
            batches = batches.into_iter().map(|batch| changed(&batch, &mut random)).collect();
        }
        let content = fuzzing::encode_table(&batches);
        restore(&fuzzing::replace_file(&snapshot, name, content.into())).map(drop).map_err(|error| error.to_string())
    });
    // All tables are read, whichever was changed.
    target.memory_fixed = 64 << 20;
    target
}

/// The table with one change: rows left out, a column left out, or other values in a column.
fn changed(batch: &RecordBatch, random: &mut Random) -> RecordBatch {
    let (rows, columns) = (batch.num_rows(), batch.num_columns());
    if rows == 0 || columns == 0 {
        return batch.clone();
    }
    match random.below(8) {
        0 => batch.slice(0, random.below(rows)),
        1 if columns > 1 => {
            let gone = random.below(columns);
            let kept: Vec<usize> = (0..columns).filter(|column| *column != gone).collect();
            batch.project(&kept).unwrap()
        }
        _ => {
            let at = random.below(columns);
            let mut arrays = batch.columns().to_vec();
            arrays[at] = changed_column(&arrays[at], random);
            let field = |(field, array): (&Arc<Field>, &ArrayRef)| Field::new(field.name(), array.data_type().clone(), true);
            let fields: Vec<Field> = batch.schema().fields().iter().zip(&arrays).map(field).collect();
            RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
        }
    }
}

fn changed_column(column: &ArrayRef, random: &mut Random) -> ArrayRef {
    const EDGES: [u64; 10] = [0, 1, 2, 3, 7, 255, 65_535, u32::MAX as u64, i64::MAX as u64, u64::MAX];
    let row = random.below(column.len());
    let edge = EDGES[random.below(EDGES.len())];
    macro_rules! number {
        ($kind:ty, $value:expr) => {{
            let array = column.as_primitive::<$kind>();
            let values =
                (0..array.len()).map(|at| if at == row { Some($value) } else { array.is_valid(at).then(|| array.value(at)) });
            Arc::new(values.collect::<PrimitiveArray<$kind>>()) as ArrayRef
        }};
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "any value will do")]
    match column.data_type() {
        DataType::UInt8 => number!(UInt8Type, edge as u8),
        DataType::UInt16 => number!(UInt16Type, edge as u16),
        DataType::UInt32 => number!(UInt32Type, edge as u32),
        DataType::UInt64 => number!(UInt64Type, edge),
        DataType::Int64 => number!(Int64Type, edge.cast_signed()),
        DataType::Float32 => number!(Float32Type, [f32::NAN, f32::INFINITY, -1.0, 0.0, f32::MAX][random.below(5)]),
        DataType::Float64 => number!(Float64Type, [f64::NAN, f64::INFINITY, -1.0, 0.0, edge as f64][random.below(5)]),
        DataType::Boolean => {
            let array = column.as_boolean();
            let values = (0..array.len()).map(|at| Some(array.value(at) ^ (at == row)));
            Arc::new(values.collect::<BooleanArray>())
        }
        DataType::LargeUtf8 => {
            const TEXTS: [&str; 9] =
                ["", "x", "fs:read", "[1,2]", "{}", "\u{0}", "01KG9YS9WWNJTC233YVB6K3590", "-1", "head-000000000000"];
            let array = column.as_string::<i64>();
            let other = TEXTS[random.below(TEXTS.len())];
            let values =
                (0..array.len()).map(|at| if at == row { Some(other) } else { array.is_valid(at).then(|| array.value(at)) });
            Arc::new(values.collect::<LargeStringArray>())
        }
        DataType::List(item) => match item.data_type() {
            DataType::UInt32 => numbers::<UInt32Type>(column, row, edge as u32),
            DataType::UInt64 => numbers::<UInt64Type>(column, row, edge),
            _ => Arc::clone(column),
        },
        _ => Arc::clone(column),
    }
}

/// The lists with one more number in one of them.
fn numbers<N: ArrowPrimitiveType>(column: &ArrayRef, row: usize, more: N::Native) -> ArrayRef {
    let lists = column.as_list::<i32>();
    let list = |at: usize| {
        let values = lists.value(at).as_primitive::<N>().values().to_vec();
        let more = (at == row).then_some(more);
        Some(values.into_iter().chain(more).map(Some).collect::<Vec<_>>())
    };
    Arc::new(ListArray::from_iter_primitive::<N, _, _>((0..lists.len()).map(list)))
}

/// A Parquet file with other bytes, under a manifest that has its hash.
pub(super) fn parquet_bytes() -> Target {
    let (snapshot, tables) = (encoded(), fuzzing::state_tables(&samples::state()));
    let names: Vec<String> = tables.iter().map(|(name, _)| name.clone()).collect();
    let sample = |(at, (_, batches)): (usize, &(String, Vec<RecordBatch>))| {
        [vec![u8::try_from(at).unwrap()], fuzzing::encode_table(batches)].concat()
    };
    let samples = tables.iter().enumerate().map(sample).collect();
    let mut target = target("parquet", Form::Bytes, samples, &[], move |input| {
        let Some((&at, bytes)) = input.split_first() else { return Err("nothing".to_owned()) };
        let name = &names[usize::from(at) % names.len()];
        let fetched = fuzzing::replace_file(&snapshot, name, bytes.to_vec().into());
        restore(&fetched).map(drop).map_err(|error| error.to_string())
    });
    (target.memory_fixed, target.time_max) = (64 << 20, Duration::from_secs(10));
    target
}

/// A file of an archive with other bytes.
pub(super) fn archive() -> Target {
    let home = TempDir::new().unwrap();
    let mut writer = ArchiveWriter::open(home.path()).unwrap();
    for record in samples::records() {
        writer.push(&record).unwrap();
    }
    writer.finish().unwrap();
    let folders = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    let file = files.into_iter().next().unwrap();
    let mut target = target("archive", Form::Bytes, vec![std::fs::read(&file).unwrap()], &[], move |input| {
        std::fs::write(&file, input).unwrap();
        let archive = Archive::open(home.path()).map_err(|error| error.to_string())?;
        let read = archive.read(Seq::ZERO).collect::<Result<Vec<_>, _>>();
        read.map(drop).map_err(|error| error.to_string())
    });
    (target.memory_fixed, target.time_max) = (64 << 20, Duration::from_secs(10));
    target
}
