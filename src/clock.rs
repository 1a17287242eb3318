//! The only place that asks what time it is, and the only source of fresh ids.
//!
//! There are two questions. [`Clock::now`] is what records are stamped with: the wall clock, which somebody may set. [`Clock::uptime`]
//! is what waits and spans are measured with: nobody can set it, so no wait ends early or never.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::core::id::RecordId;
use crate::core::time::Timestamp;

/// How far stamps may run ahead of the wall clock to keep their order. A clock that is set back by less stands still until it has caught
/// up; one that is set back by more is followed at once, or records would carry a time that is not for as long as it was off.
const AHEAD_MAX_US: i64 = 5_000_000;

/// Tells the time. Each stamp is later than the one before, so that events without a time of their own keep the order they arrived
/// in, unless the wall clock was set back by more than a few seconds.
#[derive(Clone)]
pub struct Clock(Arc<Inner>);

struct Inner {
    last_us: AtomicI64,
    /// When this clock was made.
    began: tokio::time::Instant,
    #[cfg(any(test, feature = "testing"))]
    manual: Option<Manual>,
}

/// What a clock shows that does not look at the machine's.
#[cfg(any(test, feature = "testing"))]
struct Manual {
    wall_us: AtomicI64,
    uptime_us: std::sync::atomic::AtomicU64,
}

/// How long a clock has been running. Means nothing to another clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uptime {
    micros: u64,
}

impl Uptime {
    pub const ZERO: Self = Self { micros: 0 };

    #[must_use]
    pub const fn plus_millis(self, millis: u64) -> Self {
        // A wait of more than 584,000 years saturates, which is what the caller means.
        Self { micros: self.micros.saturating_add(millis.saturating_mul(1_000)) }
    }

    pub const fn millis_since(self, earlier: Self) -> u64 {
        self.micros.saturating_sub(earlier.micros) / 1_000
    }

    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.micros.saturating_sub(earlier.micros))
    }
}

impl Clock {
    pub fn system() -> Self {
        Self(Arc::new(Inner {
            last_us: AtomicI64::new(i64::MIN),
            began: monotonic(),
            #[cfg(any(test, feature = "testing"))]
            manual: None,
        }))
    }

    /// Stands still but for a microsecond per stamp; moves by [`advance_ms`](Self::advance_ms).
    #[cfg(any(test, feature = "testing"))]
    pub fn manual(start: Timestamp) -> Self {
        let manual = Manual { wall_us: AtomicI64::new(start.micros()), uptime_us: std::sync::atomic::AtomicU64::new(0) };
        Self(Arc::new(Inner { last_us: AtomicI64::new(i64::MIN), began: monotonic(), manual: Some(manual) }))
    }

    /// Lets time pass.
    #[cfg(any(test, feature = "testing"))]
    pub fn advance_ms(&self, millis: u64) {
        let manual = self.0.manual.as_ref().expect("only a manual clock is moved");
        let micros = millis * 1_000;
        manual.wall_us.fetch_add(micros.cast_signed(), Ordering::Relaxed);
        manual.uptime_us.fetch_add(micros, Ordering::Relaxed);
    }

    /// Sets the wall clock, as an administrator or a time server does; no time passes.
    #[cfg(any(test, feature = "testing"))]
    pub fn set_wall(&self, to: Timestamp) {
        let manual = self.0.manual.as_ref().expect("only a manual clock is set");
        manual.wall_us.store(to.micros(), Ordering::Relaxed);
    }

    /// What a record that comes now is stamped with.
    pub fn now(&self) -> Timestamp {
        let wall = self.wall_us();
        let later = |last: i64| if last.saturating_sub(wall) > AHEAD_MAX_US { wall } else { wall.max(last.saturating_add(1)) };
        let last = self.0.last_us.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(later(last)));
        Timestamp::from_micros(later(last.expect("the update always succeeds")))
    }

    /// What waits and spans are measured with.
    pub fn uptime(&self) -> Uptime {
        #[cfg(any(test, feature = "testing"))]
        if let Some(manual) = &self.0.manual {
            return Uptime { micros: manual.uptime_us.load(Ordering::Relaxed) };
        }
        Uptime { micros: u64::try_from(self.0.began.elapsed().as_micros()).unwrap_or(u64::MAX) }
    }

    fn wall_us(&self) -> i64 {
        #[cfg(any(test, feature = "testing"))]
        if let Some(manual) = &self.0.manual {
            return manual.wall_us.load(Ordering::Relaxed);
        }
        wall_clock_us()
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

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn time_is_strictly_increasing() {
        let clock = Clock::system();
        let times: Vec<_> = (0..1_000).map(|_| clock.now()).collect();
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn a_clock_set_back_a_little_keeps_the_order_and_one_set_back_far_is_followed() {
        let clock = Clock::manual(at(1_000));
        let before = clock.now();
        clock.set_wall(at(996));
        assert_eq!([clock.now(), clock.now()], [before.plus_micros(1), before.plus_micros(2)]);
        clock.set_wall(at(990));
        assert_eq!(clock.now(), at(990));
        clock.advance_ms(1_000);
        assert_eq!(clock.now(), at(991));
    }

    #[test]
    fn a_clock_that_was_ahead_for_a_while_stamps_nothing_with_the_future_afterwards() {
        let clock = Clock::manual(at(1_000));
        clock.set_wall(at(1_000_000));
        assert_eq!(clock.now(), at(1_000_000));
        clock.set_wall(at(1_001));
        assert_eq!(clock.now(), at(1_001));
        assert!(clock.now() < at(1_002));
    }

    #[test]
    fn no_time_passes_when_the_wall_clock_is_set() {
        let clock = Clock::manual(at(1_000));
        let began = clock.uptime();
        for seconds in [0, 2_000, 500] {
            clock.set_wall(at(seconds));
            assert_eq!(clock.uptime(), began);
        }
        clock.advance_ms(7);
        assert_eq!(clock.uptime().millis_since(began), 7);
        assert_eq!(began.plus_millis(u64::MAX).since(clock.uptime()), Duration::from_micros(u64::MAX - 7_000));
    }
}
