//! The table `quality` holds the quality of served predictions over time: one row per span and bin of probability that holds something.

use arrow_array::{Float64Array, LargeStringArray, RecordBatch, TimestampMicrosecondArray, UInt32Array, UInt64Array};

use super::super::columns::{Columns, TableRows, texts, times};
use super::super::error::Unreadable;
use crate::core::predict::quality::{Bin, Quality, QualityRow, Stretch};
use crate::core::state::State;
use crate::core::time::Timestamp;

pub(in super::super) const QUALITY: &str = "quality";

/// Microseconds of a second.
const MICROS: i64 = 1_000_000;

pub(super) fn quality(state: &State) -> Vec<RecordBatch> {
    let rows: Vec<QualityRow> = state.predictor.scores.quality().rows().collect();
    let count = |get: fn(&Bin) -> u64| UInt64Array::from_iter_values(rows.iter().map(|row| get(&row.sums)));
    let sum = |get: fn(&Bin) -> f64| Float64Array::from_iter_values(rows.iter().map(|row| get(&row.sums)));
    let columns = Columns::default()
        .with("stretch", texts(rows.iter().map(|row| row.stretch.name())))
        .with("width_s", UInt64Array::from_iter_values(rows.iter().map(|row| row.width_s.unsigned_abs())))
        .with("start", times(rows.iter().map(|row| Timestamp::from_micros(row.start_s * MICROS))))
        .with("bin", UInt32Array::from_iter_values(rows.iter().map(|row| row.bin.into())))
        .with("n", count(|bin| bin.n))
        .with("hits1", count(|bin| bin.hits1))
        .with("hits3", count(|bin| bin.hits3))
        .with("p_sum", sum(|bin| bin.p_sum))
        .with("log_loss_sum", sum(|bin| bin.log_loss_sum));
    vec![columns.batch()]
}

pub(in super::super) fn read_quality(rows: &TableRows) -> Result<Quality, Unreadable> {
    let stretches = rows.column::<LargeStringArray>("stretch")?;
    let starts = rows.column::<TimestampMicrosecondArray>("start")?;
    let [widths, n, hits1, hits3] = ["width_s", "n", "hits1", "hits3"].map(|name| rows.column::<UInt64Array>(name));
    let [p_sums, log_losses] = ["p_sum", "log_loss_sum"].map(|name| rows.column::<Float64Array>(name));
    let bins = rows.column::<UInt32Array>("bin")?;
    let (widths, n, hits1, hits3, p_sums, log_losses) = (widths?, n?, hits1?, hits3?, p_sums?, log_losses?);
    let row = |row: usize| {
        let name = stretches.value(row);
        let stretch = Stretch::ALL.into_iter().find(|stretch| stretch.name() == name);
        Ok(QualityRow {
            stretch: stretch.ok_or_else(|| rows.unreadable("stretch", format!("holds '{name}'")))?,
            width_s: i64::try_from(widths.value(row)).map_err(|problem| rows.unreadable("width_s", problem))?,
            start_s: starts.value(row).div_euclid(MICROS),
            bin: u8::try_from(bins.value(row)).map_err(|problem| rows.unreadable("bin", problem))?,
            sums: Bin {
                n: n.value(row),
                hits1: hits1.value(row),
                hits3: hits3.value(row),
                p_sum: p_sums.value(row),
                log_loss_sum: log_losses.value(row),
            },
        })
    };
    Ok(Quality::from_rows((0..rows.len()).map(row).collect::<Result<Vec<_>, Unreadable>>()?))
}
