//! Measures what a history costs as it grows. One embedded log grows through a list of sizes; at each of them a process is started on it
//! without a snapshot, which folds the whole log, then one with a snapshot of all of it.

use std::path::Path;

use serde::Serialize;

use super::replay::History;
use super::startup::Started;
use crate::clock::Clock;
use crate::config::Config;
use crate::data_dir::open_log;
use crate::log::RedbLog;

const MEGABYTE: f64 = 1_048_576.0;

/// What a history of one size costs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SizeCosts {
    /// Records of the log: those of agents, traces and vectors.
    pub records: f64,
    /// Size of the file of the log.
    pub log_mb: f64,
    /// A start that folds the log, until it serves, and the most memory it needs; `None` where the system does not report it.
    pub fold_s: f64,
    pub peak_memory_mb: Option<f64>,
    /// The snapshot of the folded state.
    pub snapshot_mb: f64,
    /// A start from that snapshot, until it serves.
    pub start_ms: f64,
}

/// The costs of all sizes, and how each grows.
#[derive(Debug, Serialize)]
pub struct Curves {
    pub sizes: Vec<SizeCosts>,
    /// With n times the records, a cost is n to this power: 0 does not grow, 1 grows like the history.
    pub exponents: Option<Exponents>,
}

/// The exponent of each cost. `None` if fewer than two sizes have a value.
#[derive(Debug, Serialize)]
pub struct Exponents {
    pub log: Option<f64>,
    pub fold: Option<f64>,
    pub peak_memory: Option<f64>,
    pub snapshot: Option<f64>,
    pub start: Option<f64>,
}

/// Measures with a log below `scratch` at about `sizes` records.
pub async fn run(config: &Config, scratch: &Path, mut sizes: Vec<usize>) -> anyhow::Result<Curves> {
    let mut config = Config { data_dir: scratch.join("scale"), ..config.clone() };
    config.templates.path = String::new();
    (config.snapshots.every_records, config.snapshots.every_s) = (0, 0);
    sizes.sort_unstable();
    sizes.dedup();
    let mut history = History::new();
    let mut costs = Vec::new();
    for size in sizes {
        let log = open_log(&config, &config.data_dir, Clock::system())?;
        history.grow(&log, size).await?;
        drop(log);
        costs.push(measure(&config, &scratch.join(format!("snapshots-{size}")))?);
    }
    Ok(Curves { exponents: (costs.len() > 1).then(|| Exponents::of(&costs)), sizes: costs })
}

fn measure(config: &Config, snapshots: &Path) -> anyhow::Result<SizeCosts> {
    let folding = Started::with_snapshots(config, &snapshots.display().to_string())?;
    let snapshot = folding.take_snapshot()?;
    let fold = folding.stop(config)?;
    let start = Started::with_snapshots(config, &snapshots.display().to_string())?.stop(config)?;
    anyhow::ensure!(start.records == fold.records, "the snapshot holds {} of {} records", start.records, fold.records);
    Ok(SizeCosts {
        records: real(fold.records),
        log_mb: real(std::fs::metadata(config.data_dir.join(RedbLog::FILE_NAME))?.len()) / MEGABYTE,
        fold_s: fold.seconds,
        peak_memory_mb: fold.peak_memory_mb,
        snapshot_mb: real(snapshot["bytes"].as_u64().unwrap_or_default()) / MEGABYTE,
        start_ms: start.seconds * 1e3,
    })
}

impl Exponents {
    fn of(costs: &[SizeCosts]) -> Self {
        let fitted = |cost: fn(&SizeCosts) -> Option<f64>| {
            let points: Vec<(f64, f64)> = costs.iter().filter_map(|size| Some((size.records, cost(size)?))).collect();
            exponent(&points)
        };
        Self {
            log: fitted(|size| Some(size.log_mb)),
            fold: fitted(|size| Some(size.fold_s)),
            peak_memory: fitted(|size| size.peak_memory_mb),
            snapshot: fitted(|size| Some(size.snapshot_mb)),
            start: fitted(|size| Some(size.start_ms)),
        }
    }
}

/// The slope of the line through the logarithms of the points, by least squares; `None` if the points do not determine one.
fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let points: Vec<(f64, f64)> = points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0).map(|(x, y)| (x.ln(), y.ln())).collect();
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / real(points.len() as u64);
    let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    let shared: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    (spread > 0.0).then(|| shared / spread)
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn real(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_is_that_of_a_power() {
        for power in [0.0, 0.5, 1.0, 1.7] {
            let points: Vec<(f64, f64)> = [1e5, 1e6, 2e7].iter().map(|n: &f64| (*n, 3.0 * n.powf(power))).collect();
            assert!((exponent(&points).unwrap() - power).abs() < 1e-9, "{power}");
        }
        assert_eq!(exponent(&[(1e5, 2.0)]), None, "one point");
        assert_eq!(exponent(&[]), None);
    }
}
