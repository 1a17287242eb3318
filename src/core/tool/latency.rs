//! How long calls took, as a histogram with fixed bounds.

use crate::digest::{DigestWriter, Digestible};

/// Upper bounds of the buckets, in milliseconds; one more bucket holds what took longer. Constant, because the fold depends on it.
pub const BOUNDS_MS: [u64; 10] = [1, 5, 20, 50, 100, 250, 1_000, 5_000, 20_000, 60_000];
/// The number of buckets.
pub const BUCKETS: usize = BOUNDS_MS.len() + 1;

/// The number of calls by duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency([u32; BUCKETS]);

impl Latency {
    /// Counts one call.
    pub fn observe(&mut self, duration_ms: u64) {
        let bucket = BOUNDS_MS.partition_point(|bound| *bound < duration_ms);
        self.0[bucket] = self.0[bucket].saturating_add(1);
    }

    /// Adds the calls of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count = count.saturating_add(more);
        }
    }

    /// The calls in each bucket, not cumulated; the last one has no bound.
    pub const fn counts(&self) -> &[u32; BUCKETS] {
        &self.0
    }

    /// Restores what [`Self::counts`] gave.
    pub const fn from_counts(counts: [u32; BUCKETS]) -> Self {
        Self(counts)
    }
}

impl Digestible for Latency {
    fn digest(&self, writer: &mut DigestWriter) {
        for count in self.0 {
            writer.u32(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_counted_in_the_first_bucket_that_holds_it() {
        let mut latency = Latency::default();
        for duration_ms in [0, 1, 2, 5, 6, 60_000, 60_001, u64::MAX] {
            latency.observe(duration_ms);
        }
        assert_eq!(latency.counts(), &[2, 2, 1, 0, 0, 0, 0, 0, 0, 1, 2]);
        let mut both = Latency::from_counts(*latency.counts());
        both.add(&latency);
        assert_eq!(both.counts().iter().sum::<u32>(), 16);
    }
}
