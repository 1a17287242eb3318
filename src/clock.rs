//! The clock: the only module that reads the system time and makes random ids.
//!
//! [`Clock::now`] is the wall clock, which gives records their timestamps and may be set. [`Clock::uptime`] measures waits and
//! durations; it cannot be set, so no wait ends early or never.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::core::id::RecordId;
use crate::core::time::Timestamp;

/// How far timestamps may run ahead of the wall clock to keep their order. If the wall clock is set back by less, timestamps grow by a
/// microsecond each until it has caught up; if by more, they follow it at once, because otherwise they would be wrong for as long as
/// the clock was wrong.
const AHEAD_MAX_US: i64 = 5_000_000;

/// `Clock` gives timestamps and durations. Each timestamp is later than the one before, so that events without a time of their own keep
/// their order of arrival, unless the wall clock was set back by more than a few seconds. Clones share one clock.
#[derive(Clone)]
pub struct Clock(Arc<Inner>);

struct Inner {
    last_us: AtomicI64,
    /// The time at which this clock was created.
    began: tokio::time::Instant,
    #[cfg(any(test, feature = "testing"))]
    manual: Option<Manual>,
}

/// The times of a manual clock, which does not read the system's.
#[cfg(any(test, feature = "testing"))]
struct Manual {
    wall_us: AtomicI64,
    uptime_us: std::sync::atomic::AtomicU64,
    /// Tells the ids of several simulated clocks apart. `None` if the clock does not run by itself.
    runs_as: Option<u64>,
}

/// The time since a clock was created. Values of different clocks are not comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uptime {
    micros: u64,
}

impl Uptime {
    pub const ZERO: Self = Self { micros: 0 };

    #[must_use]
    pub const fn plus_millis(self, millis: u64) -> Self {
        // A wait of more than 584,000 years saturates: it never ends.
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

    /// A clock that advances only by [`advance_ms`](Self::advance_ms), and by a microsecond per timestamp.
    #[cfg(any(test, feature = "testing"))]
    pub fn manual(start: Timestamp) -> Self {
        Self::with_manual(start, None)
    }

    /// A clock that runs with tokio's, which may be paused, and whose ids follow from `number` and the time.
    #[cfg(feature = "testing")]
    pub fn simulated(start: Timestamp, number: u64) -> Self {
        Self::with_manual(start, Some(number))
    }

    #[cfg(any(test, feature = "testing"))]
    fn with_manual(start: Timestamp, runs_as: Option<u64>) -> Self {
        let uptime_us = std::sync::atomic::AtomicU64::new(0);
        let manual = Manual { wall_us: AtomicI64::new(start.micros()), uptime_us, runs_as };
        Self(Arc::new(Inner { last_us: AtomicI64::new(i64::MIN), began: monotonic(), manual: Some(manual) }))
    }

    /// The time that has passed on a manual clock that runs by itself.
    #[cfg(any(test, feature = "testing"))]
    fn ran_us(&self, manual: &Manual) -> u64 {
        manual.runs_as.map_or(0, |_| u64::try_from(self.0.began.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// Advances both times of a manual clock.
    #[cfg(any(test, feature = "testing"))]
    pub fn advance_ms(&self, millis: u64) {
        let manual = self.0.manual.as_ref().expect("only a manual clock is moved");
        let micros = millis * 1_000;
        manual.wall_us.fetch_add(micros.cast_signed(), Ordering::Relaxed);
        manual.uptime_us.fetch_add(micros, Ordering::Relaxed);
    }

    /// Sets the wall clock of a manual clock, as an administrator or a time server does. The uptime does not change.
    #[cfg(any(test, feature = "testing"))]
    pub fn set_wall(&self, to: Timestamp) {
        let manual = self.0.manual.as_ref().expect("only a manual clock is set");
        manual.wall_us.store(to.micros().saturating_sub_unsigned(self.ran_us(manual)), Ordering::Relaxed);
    }

    /// The timestamp for a record made now.
    pub fn now(&self) -> Timestamp {
        let wall = self.wall_us();
        let later = |last: i64| if last.saturating_sub(wall) > AHEAD_MAX_US { wall } else { wall.max(last.saturating_add(1)) };
        let last = self.0.last_us.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(later(last)));
        Timestamp::from_micros(later(last.expect("the update always succeeds")))
    }

    /// The time since the clock was created, for waits and durations.
    pub fn uptime(&self) -> Uptime {
        #[cfg(any(test, feature = "testing"))]
        if let Some(manual) = &self.0.manual {
            return Uptime { micros: manual.uptime_us.load(Ordering::Relaxed).saturating_add(self.ran_us(manual)) };
        }
        Uptime { micros: u64::try_from(self.0.began.elapsed().as_micros()).unwrap_or(u64::MAX) }
    }

    fn wall_us(&self) -> i64 {
        #[cfg(any(test, feature = "testing"))]
        if let Some(manual) = &self.0.manual {
            return manual.wall_us.load(Ordering::Relaxed).saturating_add_unsigned(self.ran_us(manual));
        }
        wall_clock_us()
    }

    /// A new random ULID.
    pub fn fresh_id(&self) -> RecordId {
        let now = self.now();
        #[cfg(any(test, feature = "testing"))]
        if let Some(number) = self.0.manual.as_ref().and_then(|manual| manual.runs_as) {
            return RecordId::derived(now, &[&number.to_string(), &now.micros().to_string()]);
        }
        RecordId::from_parts(now, entropy())
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the only place that reads the system clock")]
fn wall_clock_us() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX)
}

/// The current instant of the monotonic clock, for measuring durations.
pub fn monotonic() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// 128 random bits from the operating system.
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
    fn a_clock_that_was_ahead_for_a_while_gives_no_future_timestamps_afterwards() {
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
