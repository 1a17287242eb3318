//! The table `counters` holds the numbers of a state that belong to no other table. `record_ids` holds the ids of the
//! latest records by generation (`core::seen`), sorted within each.

use std::collections::BTreeMap;

use arrow_array::{LargeStringArray, RecordBatch, UInt64Array};

use super::super::columns::{Columns, TableRows, texts};
use super::super::error::{Unreadable, Unusable};
use super::super::parquet::EncodedTable;
use super::super::take::file_name;
use crate::core::event::Kind;
use crate::core::id::{RecordId, Seq};
use crate::core::predict::Predictor;
use crate::core::seen::SeenIds;
use crate::core::state::{Counters, State};

pub(in super::super) const COUNTERS: &str = "counters";
pub(in super::super) const RECORD_IDS: &str = "record_ids";

/// Ids decoded per batch.
const BATCH_IDS: usize = 16_384;

fn counter_name(kind: Kind) -> String {
    format!("events.{kind}")
}

pub(super) fn counters(state: &State) -> Vec<RecordBatch> {
    let Counters { applied, counts, duplicates, late } = state.counters();
    let Predictor { lessons, logit, scores, .. } = &state.predictor;
    let [traces, due, taken, next] = lessons.to_numbers();
    let named = [
        ("applied_seq", applied.0),
        ("duplicates", duplicates),
        ("late", late),
        ("next_intent", state.memory.next_number()),
        ("transitions.calls", state.transitions.calls()),
        ("transitions.ends", state.transitions.ends()),
        ("lessons.traces", traces),
        ("lessons.due", due),
        ("lessons.taken", taken),
        ("lessons.next", next),
        ("logit.first_examples", logit.first.examples()),
        ("logit.later_examples", logit.later.examples()),
        ("predictions.scored", scores.total()),
    ];
    let by_kind = Kind::ALL.into_iter().zip(counts).map(|(kind, count)| (counter_name(kind), count));
    let rows: Vec<(String, u64)> = named.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(by_kind).collect();
    let columns = Columns::default()
        .with("counter", texts(rows.iter().map(|(name, _)| name)))
        .with("value", UInt64Array::from_iter_values(rows.iter().map(|(_, value)| *value)));
    vec![columns.batch()]
}

/// The rows of `counters`, by name.
pub(in super::super) struct CounterTable(BTreeMap<String, u64>);

impl CounterTable {
    pub(in super::super) fn read(rows: &TableRows) -> Result<Self, Unreadable> {
        let (names, values) = (rows.column::<LargeStringArray>("counter")?, rows.column::<UInt64Array>("value")?);
        Ok(Self((0..rows.len()).map(|row| (names.value(row).to_owned(), values.value(row))).collect()))
    }

    pub(in super::super) fn get(&self, name: &str) -> Result<u64, Unreadable> {
        let missing = || Unreadable { table: COUNTERS, column: "counter", problem: format!("lacks {name}") };
        self.0.get(name).copied().ok_or_else(missing)
    }

    /// The counters of the state. A kind without a row did not exist when the snapshot was written.
    pub(in super::super) fn counters(&self) -> Result<Counters, Unreadable> {
        Ok(Counters {
            applied: Seq(self.get("applied_seq")?),
            counts: Kind::ALL.map(|kind| self.0.get(&counter_name(kind)).copied().unwrap_or(0)),
            duplicates: self.get("duplicates")?,
            late: self.get("late")?,
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the halves of 128 bits")]
pub(super) fn record_ids(state: &State) -> Vec<RecordBatch> {
    let ids = state.ids();
    let half = |shift: u32| UInt64Array::from_iter_values(ids.iter().map(move |id| (id.to_bits() >> shift) as u64));
    vec![Columns::default().with("id_high", half(64)).with("id_low", half(0)).batch()]
}

pub(in super::super) fn read_record_ids(file: &EncodedTable) -> Result<SeenIds, Unusable> {
    let parquet = |source| Unusable::Parquet { file: file_name(RECORD_IDS), source };
    let mut ids: Vec<RecordId> = Vec::with_capacity(file.rows());
    for batch in file.scan(BATCH_IDS).map_err(parquet)? {
        let rows = TableRows::new(RECORD_IDS, batch.map_err(|error| parquet(error.into()))?);
        let (high, low) = (rows.column::<UInt64Array>("id_high")?.values(), rows.column::<UInt64Array>("id_low")?.values());
        ids.extend(high.iter().zip(low).map(|(&high, &low)| RecordId::from_bits(u128::from(high) << 64 | u128::from(low))));
    }
    let unsorted = || Unreadable { table: RECORD_IDS, column: "id_high", problem: "is not sorted, or too long".to_owned() };
    Ok(SeenIds::from_generations(&ids).ok_or_else(unsorted)?)
}
