//! The only place that asks what time it is, and the only source of fresh ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::core::id::RecordId;
use crate::core::time::Timestamp;

/// Tells the time. Never runs backwards: each answer is later than the one before, so that events without a time of their own keep
/// the order they arrived in.
#[derive(Clone)]
pub struct Clock(Arc<Inner>);

struct Inner {
    last_us: AtomicI64,
    manual: bool,
}

impl Clock {
    pub fn system() -> Self {
        Self(Arc::new(Inner { last_us: AtomicI64::new(0), manual: false }))
    }

    /// Stands still but for a microsecond per question; moves by [`advance_ms`](Self::advance_ms).
    #[cfg(feature = "testing")]
    pub fn manual(start: Timestamp) -> Self {
        Self(Arc::new(Inner { last_us: AtomicI64::new(start.micros()), manual: true }))
    }

    #[cfg(feature = "testing")]
    pub fn advance_ms(&self, millis: i64) {
        self.0.last_us.fetch_add(millis * 1_000, Ordering::Relaxed);
    }

    pub fn now(&self) -> Timestamp {
        let wall = if self.0.manual { i64::MIN } else { wall_clock_us() };
        let later = |last: i64| wall.max(last + 1);
        let last = self.0.last_us.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(later(last)));
        Timestamp::from_micros(later(last.expect("the update always succeeds")))
    }

    /// A new ULID.
    pub fn fresh_id(&self) -> RecordId {
        RecordId::from_parts(self.now(), entropy())
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the system clock")]
fn wall_clock_us() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX)
}

/// A moment to measure a span from, whatever happens to the wall clock meanwhile.
pub fn monotonic() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// 128 bits from the operating system.
pub fn entropy() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system gives entropy");
    u128::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_strictly_increasing() {
        let clock = Clock::system();
        let times: Vec<_> = (0..1_000).map(|_| clock.now()).collect();
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
