//! `texts`: every text that somebody needs the vector of. `models`: whose vectors serve, and whose are to take over. `embeddings` and
//! `embeddings_coming`: the vectors themselves, one table per model, because each has a length of its own.

use std::sync::Arc;

use arrow_array::builder::{FixedSizeBinaryBuilder, FixedSizeListBuilder, Float32Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{Array, FixedSizeBinaryArray, FixedSizeListArray, LargeStringArray, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field};

use super::super::columns::{Columns, Rows, texts as text_column};
use super::super::error::{Unreadable, Unusable};
use super::super::parquet::Encoded;
use super::super::take::{file_name, joined};
use crate::core::state::State;
use crate::core::vectors::{TextHash, VectorTable, Vectors};

pub(in super::super) const TEXTS: &str = "texts";
pub(in super::super) const MODELS: &str = "models";
/// The tables of vectors, in the order of [`ROLES`].
pub(in super::super) const EMBEDDINGS: [&str; 2] = ["embeddings", "embeddings_coming"];

/// Vectors that are decoded at once: a kilobyte or more each.
const VECTORS_AT_ONCE: usize = 512;

/// What a model's vectors are there for.
const ROLES: [&str; 2] = ["serving", "coming"];

pub(super) fn hashes(values: impl Iterator<Item = TextHash>) -> FixedSizeBinaryArray {
    let mut builder = FixedSizeBinaryBuilder::new(32);
    for hash in values {
        builder.append_value(hash.as_bytes()).expect("a hash has 32 bytes");
    }
    builder.finish()
}

pub(super) fn hash_at(rows: &Rows, column: &FixedSizeBinaryArray, row: usize) -> Result<TextHash, Unreadable> {
    let bytes = column.value(row).try_into().map_err(|_| rows.unreadable("text_hash", "does not hold 32 bytes"))?;
    Ok(TextHash::from_bytes(bytes))
}

pub(super) fn texts(state: &State) -> Vec<RecordBatch> {
    let rows = || state.vectors.texts();
    let columns = Columns::default()
        .with("text_hash", hashes(rows().map(|(hash, _, _)| hash)))
        .with("text", text_column(rows().map(|(_, text, _)| text)))
        .with("wanted", UInt32Array::from_iter_values(rows().map(|(_, _, times)| times)));
    vec![columns.batch()]
}

pub(super) fn models(state: &State) -> Vec<RecordBatch> {
    let tables = || ROLES.into_iter().zip(state.vectors.tables()).filter_map(|(role, table)| Some((role, table?)));
    let columns = Columns::default()
        .with("role", text_column(tables().map(|(role, _)| role)))
        .with("model", text_column(tables().map(|(_, table)| &table.model)))
        .with("dim", UInt32Array::from_iter_values(tables().map(|(_, table)| length(table))));
    vec![columns.batch()]
}

fn length(table: &VectorTable) -> u32 {
    u32::try_from(table.dim).expect("vectors have thousands of numbers at most")
}

/// The vectors of one role; none if there is no such model. Vectors without numbers have no column.
pub(super) fn embeddings(state: &State, role: usize) -> Vec<RecordBatch> {
    let Some(table) = state.vectors.tables()[role] else { return Vec::new() };
    let columns = Columns::default().with("text_hash", hashes(table.vectors.keys().copied()));
    if table.dim == 0 {
        return vec![columns.batch()];
    }
    let dim = i32::try_from(table.dim).expect("vectors have thousands of numbers at most");
    let item = Field::new_list_field(DataType::Float32, false);
    let mut vectors = FixedSizeListBuilder::new(Float32Builder::new(), dim).with_field(item);
    for vector in table.vectors.values() {
        vectors.values().append_slice(vector);
        vectors.append(true);
    }
    vec![columns.with("vector", vectors.finish()).batch()]
}

/// `embeddings` are the tables of vectors that are there, in the order of the roles.
pub(in super::super) fn read_vectors(
    texts: &Rows,
    models: &Rows,
    embeddings: [Option<Encoded>; 2],
) -> Result<Vectors, Unusable> {
    let (hashes, spelled) = (texts.column::<FixedSizeBinaryArray>("text_hash")?, texts.column::<LargeStringArray>("text")?);
    let wanted = texts.column::<UInt32Array>("wanted")?;
    let text = |row: usize| Ok((hash_at(texts, hashes, row)?, Arc::from(spelled.value(row)), wanted.value(row)));
    let wanted: Vec<(TextHash, Arc<str>, u32)> = (0..texts.len()).map(text).collect::<Result<_, Unreadable>>()?;
    let (roles, names) = (models.column::<LargeStringArray>("role")?, models.column::<LargeStringArray>("model")?);
    let dims = models.column::<UInt32Array>("dim")?;
    let mut tables = [None, None];
    for (at, (table, file)) in tables.iter_mut().zip(embeddings).enumerate() {
        let role = ROLES[at];
        let Some(row) = (0..models.len()).find(|row| roles.value(*row) == role) else { continue };
        let dim = dims.value(row) as usize;
        let file = file.ok_or_else(|| models.unreadable("role", format!("names '{role}', whose vectors are missing")))?;
        let vectors = read_embeddings(EMBEDDINGS[at], &file, dim)?.into_iter().collect();
        *table = Some(VectorTable { model: names.value(row).into(), dim, vectors });
    }
    Ok(Vectors::from_rows(wanted, tables))
}

type Embeddings = Vec<(TextHash, Arc<[f32]>)>;

/// Half of them on a thread of its own: they are most of what a start has to read.
fn read_embeddings(table: &'static str, file: &Encoded, dim: usize) -> Result<Embeddings, Unusable> {
    let parquet = |source| Unusable::Parquet { file: file_name(table), source };
    let part = |from: usize, to: usize| -> Result<Embeddings, Unusable> {
        let mut embeddings = Vec::with_capacity(to - from);
        for batch in file.scan(from, to, VECTORS_AT_ONCE).map_err(parquet)? {
            let rows = Rows::new(table, batch.map_err(|error| parquet(error.into()))?);
            add_embeddings(&mut embeddings, &rows, dim)?;
        }
        Ok(embeddings)
    };
    let (half, all) = (file.rows() / 2, file.rows());
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| part(half, all));
        (part(0, half), joined(second))
    });
    let mut embeddings = first?;
    embeddings.extend(second?);
    Ok(embeddings)
}

fn add_embeddings(embeddings: &mut Embeddings, rows: &Rows, dim: usize) -> Result<(), Unreadable> {
    let hashes = rows.column::<FixedSizeBinaryArray>("text_hash")?;
    if dim == 0 {
        let empty = (0..rows.len()).map(|row| Ok((hash_at(rows, hashes, row)?, Arc::default())));
        embeddings.extend(empty.collect::<Result<Embeddings, Unreadable>>()?);
        return Ok(());
    }
    let vectors = rows.column::<FixedSizeListArray>("vector")?;
    if usize::try_from(vectors.value_length()).ok() != Some(dim) {
        return Err(rows.unreadable("vector", format!("has lists of {}, the model's are {dim} long", vectors.value_length())));
    }
    let values = vectors.values().as_primitive_opt::<Float32Type>();
    let values = values.filter(|values| values.null_count() == 0);
    let values = values.ok_or_else(|| rows.unreadable("vector", "does not hold numbers only"))?.values();
    for (row, vector) in values.chunks_exact(dim).enumerate() {
        embeddings.push((hash_at(rows, hashes, row)?, Arc::from(vector)));
    }
    Ok(())
}
