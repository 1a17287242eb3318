//! The measurements of `pml bench`: the program's own path, compared in the same run with a raw operation, the floor. A ratio of 1.0
//! is as fast as the floor.

mod client;
pub mod code;
pub mod dashboard;
pub mod discover;
pub mod execute;
mod hook;
pub mod ingest;
pub mod learn;
pub mod nats;
pub mod paths;
pub mod predict;
pub mod replay;
pub mod scale;
pub mod shgat;
pub mod snapshot;
mod startup;
pub mod stream;
mod workload;

use std::time::{Duration, Instant};

use serde::Serialize;

/// One measurement.
#[derive(Serialize)]
pub struct Case {
    pub case: &'static str,
    pub value: f64,
    pub unit: &'static str,
    /// The raw operation in the same unit; `None` where there is none to compare with.
    pub floor: Option<f64>,
    pub ratio: Option<f64>,
}

impl Case {
    fn rate(case: &'static str, value: f64, floor: f64) -> Self {
        Self { case, value, unit: "events/s", floor: Some(floor), ratio: Some(value / floor) }
    }
}

/// Wall time of some work.
struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "measuring is what a benchmark is for")]
    fn start() -> Self {
        Self(Instant::now())
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// How many per second, if `count` took from the start until now.
    #[expect(clippy::cast_precision_loss, reason = "event counts stay far below 2^52")]
    fn rate(&self, count: usize) -> f64 {
        count as f64 / self.elapsed().as_secs_f64()
    }
}

/// The median of several measurements, so that one disturbed run does not count.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Resets the peak memory, so that preparing a measurement does not count. Where the system cannot, the peak is that of the whole
/// run.
fn reset_peak_memory() {
    drop(std::fs::write("/proc/self/clear_refs", "5"));
}

/// Peak memory of a process, by its number or `self`, in megabytes; `None` where the system does not report it.
fn peak_memory_mb(process: &str) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}
