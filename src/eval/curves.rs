//! Learning curves of a prequential run: moving averages of its points, in memory and as a Parquet file.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::prequential::Point;

/// The points of one ranker on one question, with their moving averages.
#[derive(Clone, Debug)]
pub struct Curve {
    pub question: &'static str,
    pub ranker: &'static str,
    pub points: Vec<Point>,
    /// By point: the means over the window that ends there. The first windows are shorter.
    pub means: Vec<[f64; 3]>,
}

impl Curve {
    /// Returns the means over the last window.
    pub fn last(&self) -> [f64; 3] {
        self.means.last().copied().unwrap_or_default()
    }

    /// Returns the means over all points.
    pub fn overall(&self) -> [f64; 3] {
        mean(self.points.iter().map(|point| point.values), self.points.len())
    }
}

/// Returns one curve per question and ranker, in the order of their first points.
pub fn curves(points: &[Point], window: usize) -> Vec<Curve> {
    let mut order: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut curves: Vec<Curve> = Vec::new();
    for point in points {
        let at = *order.entry((point.question, point.ranker)).or_insert_with(|| {
            let (question, ranker) = (point.question, point.ranker);
            curves.push(Curve { question, ranker, points: Vec::new(), means: Vec::new() });
            curves.len() - 1
        });
        curves[at].points.push(*point);
    }
    for curve in &mut curves {
        curve.means = windowed(&curve.points, window);
    }
    curves
}

fn windowed(points: &[Point], window: usize) -> Vec<[f64; 3]> {
    let mut recent: VecDeque<[f64; 3]> = VecDeque::with_capacity(window + 1);
    let mut means = Vec::with_capacity(points.len());
    for point in points {
        recent.push_back(point.values);
        if recent.len() > window {
            recent.pop_front();
        }
        // Each window is summed anew: a running sum would accumulate rounding errors.
        means.push(mean(recent.iter().copied(), recent.len()));
    }
    means
}

#[expect(clippy::cast_precision_loss, reason = "counts of traces")]
fn mean(values: impl Iterator<Item = [f64; 3]>, count: usize) -> [f64; 3] {
    let sums = values.fold([0.0; 3], |sums, values| std::array::from_fn(|at| sums[at] + values[at]));
    sums.map(|sum| sum / count.max(1) as f64)
}

/// Writes the curves as Parquet, one row per trace, question and ranker.
pub fn write_parquet(curves: &[Curve], path: &Path) -> Result<(), ParquetError> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let value = |at: usize| -> ArrayRef { Arc::new(Float64Array::from_iter_values(points().map(|point| point.values[at]))) };
    let window = |at: usize| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(curves.iter().flat_map(|curve| &curve.means).map(|means| means[at])))
    };
    let columns: [(&str, ArrayRef); 10] = [
        ("question", Arc::new(StringArray::from_iter_values(points().map(|point| point.question)))),
        ("ranker", Arc::new(StringArray::from_iter_values(points().map(|point| point.ranker)))),
        ("trace", Arc::new(UInt32Array::from_iter_values(points().map(|point| point.trace)))),
        ("seq", Arc::new(UInt64Array::from_iter_values(points().map(|point| point.seq.0)))),
        ("hit1", value(0)),
        ("mrr", value(1)),
        ("recall5", value(2)),
        ("window_hit1", window(0)),
        ("window_mrr", window(1)),
        ("window_recall5", window(2)),
    ];
    let batch = RecordBatch::try_from_iter(columns)?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, batch.schema(), Some(properties))?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::id::Seq;

    #[test]
    fn a_window_leaves_out_older_points() {
        let point = |trace: u32, ranker: &'static str, value: f64| Point {
            question: "discover",
            ranker,
            trace,
            seq: Seq(trace.into()),
            values: [value, value / 2.0, 1.0],
        };
        let points = [point(1, "b", 0.0), point(1, "a", 1.0), point(2, "b", 1.0), point(3, "b", 1.0)];
        let curves = curves(&points, 2);
        assert_eq!(curves.iter().map(|curve| curve.ranker).collect::<Vec<_>>(), ["b", "a"]);
        let expected = [[0.0, 0.0, 1.0], [0.5, 0.25, 1.0], [1.0, 0.5, 1.0]];
        let pairs = curves[0].means.iter().flatten().zip(expected.iter().flatten());
        assert!(curves[0].means.len() == 3 && pairs.into_iter().all(|(mean, expected)| (mean - expected).abs() < 1e-12));
        assert!((curves[0].overall()[0] - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(curves[1].means.len(), 1);
    }
}
