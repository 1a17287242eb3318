//! The table `texts` holds every text that needs a vector. `models` holds the model whose vectors are used and the one that will
//! replace it. `embeddings` and `embeddings_coming` hold the vectors, one table per model, because their lengths differ.

use std::sync::Arc;

use arrow_array::builder::{FixedSizeBinaryBuilder, FixedSizeListBuilder, Float32Builder};
use arrow_array::{FixedSizeBinaryArray, LargeStringArray, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field};

use super::super::columns::{Columns, TableRows, texts as text_column};
use super::super::error::{Unreadable, Unusable};
use super::super::parquet::EncodedTable;
use super::super::take::file_name;
use crate::core::state::State;
use crate::core::vectors::{TextHash, VectorTable, Vectors};

pub(in super::super) const TEXTS: &str = "texts";
pub(in super::super) const MODELS: &str = "models";
/// The tables of vectors, in the order of [`ROLES`].
pub(in super::super) const EMBEDDINGS: [&str; 2] = ["embeddings", "embeddings_coming"];

/// Vectors decoded per batch, a kilobyte or more each.
const BATCH_VECTORS: usize = 512;

/// The roles of models: in use, or about to replace the one in use.
const ROLES: [&str; 2] = ["serving", "coming"];

pub(super) fn hashes(values: impl Iterator<Item = TextHash>) -> FixedSizeBinaryArray {
    let mut builder = FixedSizeBinaryBuilder::new(32);
    for hash in values {
        builder.append_value(hash.as_bytes()).expect("a hash has 32 bytes");
    }
    builder.finish()
}

pub(super) fn hash_at(rows: &TableRows, column: &FixedSizeBinaryArray, row: usize) -> Result<TextHash, Unreadable> {
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

/// The vectors of one role; no batch if there is no such model. Vectors of length 0 have no column.
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

/// Reads the vectors; `embeddings` are the tables that exist, in the order of [`ROLES`].
pub(in super::super) fn read_vectors(
    texts: &TableRows,
    models: &TableRows,
    embeddings: [Option<EncodedTable>; 2],
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

fn read_embeddings(table: &'static str, file: &EncodedTable, dim: usize) -> Result<Embeddings, Unusable> {
    let parquet = |source| Unusable::Parquet { file: file_name(table), source };
    let rows = TableRows::new(table, file.read(&["text_hash"]).map_err(parquet)?);
    let hashes = rows.column::<FixedSizeBinaryArray>("text_hash")?;
    let mut vectors: Vec<Arc<[f32]>> = Vec::with_capacity(rows.len());
    if dim == 0 {
        vectors.resize_with(rows.len(), Arc::default);
    } else {
        let mut fit = true;
        let visit = |lists: usize, numbers: &[f32]| {
            fit &= numbers.len() == lists * dim;
            vectors.extend(numbers.chunks_exact(dim).map(Arc::from));
        };
        file.visit_lists("vector", BATCH_VECTORS, visit).map_err(parquet)?;
        if !fit || vectors.len() != rows.len() {
            return Err(rows.unreadable("vector", format!("does not hold lists of {dim}, the length of the model's")).into());
        }
    }
    let named = (0..rows.len()).zip(vectors).map(|(row, vector)| Ok((hash_at(&rows, hashes, row)?, vector)));
    named.collect()
}
