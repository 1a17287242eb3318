//! `counters`: the numbers of a state that belong to none of its tables. `record_ids`: the id of every record folded, sorted.

use std::collections::BTreeMap;

use arrow_array::{LargeStringArray, RecordBatch, UInt64Array};

use super::super::columns::{Columns, Rows, texts};
use super::super::error::Unreadable;
use crate::core::event::Kind;
use crate::core::id::{RecordId, Seq};
use crate::core::state::{Counters, State};

pub(in super::super) const COUNTERS: &str = "counters";
pub(in super::super) const RECORD_IDS: &str = "record_ids";

const APPLIED: &str = "applied_seq";
const DUPLICATES: &str = "duplicates";
const LATE: &str = "late";
const NEXT_INTENT: &str = "next_intent";

fn of_kind(kind: Kind) -> String {
    format!("events.{kind}")
}

pub(super) fn counters(state: &State) -> Vec<RecordBatch> {
    let Counters { applied, counts, duplicates, late } = state.counters();
    let mut rows = vec![
        (APPLIED.to_owned(), applied.0),
        (DUPLICATES.to_owned(), duplicates),
        (LATE.to_owned(), late),
        (NEXT_INTENT.to_owned(), state.memory.next_number()),
    ];
    rows.extend(Kind::ALL.into_iter().zip(counts).map(|(kind, count)| (of_kind(kind), count)));
    let columns = Columns::default()
        .with("counter", texts(rows.iter().map(|(name, _)| name)))
        .with("value", UInt64Array::from_iter_values(rows.iter().map(|(_, value)| *value)));
    vec![columns.batch()]
}

/// The counters, and the number that the next new intent gets. A kind that is not listed was not known when this was written.
pub(in super::super) fn read_counters(rows: &Rows) -> Result<(Counters, u64), Unreadable> {
    let (names, values) = (rows.column::<LargeStringArray>("counter")?, rows.column::<UInt64Array>("value")?);
    let by_name: BTreeMap<&str, u64> = (0..rows.len()).map(|row| (names.value(row), values.value(row))).collect();
    let required = |name: &str| by_name.get(name).copied().ok_or_else(|| rows.unreadable("counter", format!("lacks {name}")));
    let counters = Counters {
        applied: Seq(required(APPLIED)?),
        counts: Kind::ALL.map(|kind| by_name.get(of_kind(kind).as_str()).copied().unwrap_or(0)),
        duplicates: required(DUPLICATES)?,
        late: required(LATE)?,
    };
    Ok((counters, required(NEXT_INTENT)?))
}

#[expect(clippy::cast_possible_truncation, reason = "the halves of 128 bits")]
pub(super) fn record_ids(state: &State) -> Vec<RecordBatch> {
    let ids = state.ids();
    let half = |shift: u32| UInt64Array::from_iter_values(ids.iter().map(move |id| (id.to_bits() >> shift) as u64));
    vec![Columns::default().with("id_high", half(64)).with("id_low", half(0)).batch()]
}

pub(in super::super) fn read_record_ids(rows: &Rows) -> Result<Vec<RecordId>, Unreadable> {
    let (high, low) = (rows.column::<UInt64Array>("id_high")?.values(), rows.column::<UInt64Array>("id_low")?.values());
    let ids = high.iter().zip(low).map(|(&high, &low)| RecordId::from_bits(u128::from(high) << 64 | u128::from(low)));
    let ids: Vec<RecordId> = ids.collect();
    if !ids.is_sorted_by(|a, b| a < b) {
        return Err(rows.unreadable("id_high", "is not sorted"));
    }
    Ok(ids)
}
