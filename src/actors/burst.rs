//! Burst detection: while many published events wait for their acknowledgement, the actors that only follow the log pause.
//!
//! Folding an event takes about as long as storing it, so in a burst half of the processor time would go into views that nobody has
//! asked for yet. Paused followers catch up when the burst ends, in larger batches, which costs less per record.
//!
//! A burst without end is taken no faster than it is followed: beyond [`BEHIND_RECORDS_MAX`] the followers would have to read and decode
//! what the log no longer has in memory, each of them, and all would become slower.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::monotonic;
use crate::core::id::Seq;
use crate::log::RECENT_RECORDS_MAX;

/// Unanswered events that make a burst. Agents at work have a few each, an import has hundreds.
const WAITING_EVENTS_MIN: usize = 512;
/// A burst is over when it was not reported for this long, which is longer than a commit takes.
const LULL: Duration = Duration::from_millis(20);
/// Longest pause of a follower that has caught up; after it the follower catches up again, burst or not.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How far a follower may be behind the log, which keeps somewhat more records in memory: further, it does not pause, and no events are
/// appended until it has come nearer.
const BEHIND_RECORDS_MAX: u64 = RECENT_RECORDS_MAX as u64 / 4 * 3;
/// Interval at which a paused follower checks whether the burst is over.
const CHECK_EVERY: Duration = Duration::from_millis(2);
/// A load is over when no burst was reported for this long: within a load, bursts end while the followers catch up.
const QUIET: Duration = Duration::from_secs(2);

/// `Burst` is shared by the execution actor, which reports how many events wait, and the followers of the log. Clones share one state.
#[derive(Clone)]
pub(crate) struct Burst(Arc<Inner>);

struct Inner {
    since: Instant,
    /// The last report of a burst, in microseconds after `since`; zero before the first.
    last_report_us: AtomicU64,
    /// The positions of the followers that have been near the end of the log.
    followers: Mutex<Vec<Arc<AtomicU64>>>,
}

impl Inner {
    fn followers(&self) -> MutexGuard<'_, Vec<Arc<AtomicU64>>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Burst {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner { since: monotonic(), last_report_us: AtomicU64::new(0), followers: Mutex::default() }))
    }

    /// Reports how many events wait for their verdicts.
    pub(crate) fn report(&self, waiting: usize) {
        if waiting >= WAITING_EVENTS_MIN {
            self.0.last_report_us.store(self.now_us(), Ordering::Relaxed);
        }
    }

    fn is_under_way(&self) -> bool {
        self.since_report().is_some_and(|since| since < LULL)
    }

    /// Waits until the load is over that bursts are part of; it may have no end.
    pub(super) async fn load_over(&self) {
        while self.since_report().is_some_and(|since| since < QUIET) {
            tokio::time::sleep(LULL).await;
        }
    }

    /// The time since the last report of a burst.
    fn since_report(&self) -> Option<Duration> {
        let last = self.0.last_report_us.load(Ordering::Relaxed);
        (last > 0).then(|| Duration::from_micros(self.now_us().saturating_sub(last)))
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.0.since.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Whether a follower is so far behind `tail` that nothing more should be appended.
    pub(super) fn outruns_followers(&self, tail: Seq) -> bool {
        let is_behind =
            |position: &Arc<AtomicU64>| tail.0.saturating_sub(position.load(Ordering::Relaxed)) > BEHIND_RECORDS_MAX;
        self.0.followers().iter().any(is_behind)
    }

    /// A follower of the log. It counts from when it is near the end: whoever starts far behind holds nobody up.
    pub(super) fn follower(&self) -> Follower {
        Follower { burst: self.clone(), position: Arc::default(), counts: false, catches_up: false }
    }
}

/// A follower of the log that pauses in bursts.
pub(super) struct Follower {
    burst: Burst,
    position: Arc<AtomicU64>,
    counts: bool,
    /// Whether it has been too far behind since it had last caught up.
    catches_up: bool,
}

impl Follower {
    /// Reports the position of the follower, and the end of the log.
    pub(super) fn report(&mut self, position: Seq, tail: Seq) {
        self.position.store(position.0, Ordering::Relaxed);
        self.catches_up = self.catches_up && position < tail;
        if !self.counts && tail.0.saturating_sub(position.0) < BEHIND_RECORDS_MAX {
            self.counts = true;
            self.burst.0.followers().push(Arc::clone(&self.position));
        }
    }

    /// Waits while there is a burst, at most until [`PAUSE_MAX`] after `caught_up`, the time the follower had last caught up, or until
    /// it is too far behind the end of the log, which `tail` returns.
    pub(super) async fn pause(&mut self, caught_up: Instant, tail: impl Fn() -> Seq) {
        while !self.catches_up && self.burst.is_under_way() && caught_up.elapsed() < PAUSE_MAX {
            let behind = tail().0.saturating_sub(self.position.load(Ordering::Relaxed));
            self.catches_up = self.counts && behind >= BEHIND_RECORDS_MAX;
            if !self.catches_up {
                tokio::time::sleep(CHECK_EVERY).await;
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.burst.0.followers().retain(|position| !Arc::ptr_eq(position, &self.position));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a follower that has just caught up pauses.
    async fn paused_for(burst: &Burst) -> Duration {
        let before = monotonic();
        burst.follower().pause(before, || Seq::ZERO).await;
        before.elapsed()
    }

    /// Reports a burst until it is aborted.
    fn endless(burst: &Burst) -> tokio::task::JoinHandle<()> {
        let burst = burst.clone();
        tokio::spawn(async move {
            loop {
                burst.report(WAITING_EVENTS_MIN);
                tokio::time::sleep(LULL / 2).await;
            }
        })
    }

    #[tokio::test(start_paused = true)]
    async fn followers_pause_while_many_events_wait_but_not_for_ever() {
        let burst = Burst::new();
        tokio::time::advance(Duration::from_secs(1)).await;
        burst.report(WAITING_EVENTS_MIN - 1);
        assert_eq!(paused_for(&burst).await, Duration::ZERO, "agents at work");
        burst.report(WAITING_EVENTS_MIN);
        let waited = paused_for(&burst).await;
        assert!((LULL..LULL + 2 * CHECK_EVERY).contains(&waited), "a burst that ends: {waited:?}");
        let endless = endless(&burst);
        tokio::task::yield_now().await;
        let (caught_up, mut follower) = (monotonic(), burst.follower());
        follower.pause(caught_up, || Seq::ZERO).await;
        let waited = caught_up.elapsed();
        assert!((PAUSE_MAX..PAUSE_MAX + 2 * CHECK_EVERY).contains(&waited), "a burst without end: {waited:?}");
        follower.pause(caught_up, || Seq::ZERO).await;
        assert_eq!(caught_up.elapsed(), waited, "nor again before it has caught up");
        endless.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_follower_that_is_too_far_behind_does_not_pause_until_it_has_caught_up() {
        let burst = Burst::new();
        tokio::time::advance(Duration::from_secs(1)).await;
        let endless = endless(&burst);
        tokio::task::yield_now().await;
        let (mut follower, far) = (burst.follower(), Seq(BEHIND_RECORDS_MAX));
        follower.report(Seq(1), Seq(1));
        assert!(!burst.outruns_followers(far.next()) && burst.outruns_followers(far.next().next()));
        let pauses = async |follower: &mut Follower, tail: Seq| {
            let before = monotonic();
            follower.pause(before, || tail).await;
            before.elapsed() > Duration::ZERO
        };
        assert!(pauses(&mut follower, far).await, "it is near enough");
        assert!(!pauses(&mut follower, far.next()).await);
        follower.report(Seq(9), far);
        assert!(!pauses(&mut follower, far).await, "it has not caught up");
        follower.report(far, far);
        assert!(pauses(&mut follower, far).await);
        drop(follower);
        assert!(!burst.outruns_followers(Seq(u64::MAX)), "nobody follows");
        endless.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_load_is_over_some_time_after_its_last_burst() {
        let (burst, before) = (Burst::new(), monotonic());
        burst.load_over().await;
        assert_eq!(before.elapsed(), Duration::ZERO, "there was none");
        tokio::time::advance(Duration::from_secs(1)).await;
        let (endless, before) = (endless(&burst), monotonic());
        tokio::task::yield_now().await;
        assert!(tokio::time::timeout(2 * QUIET, burst.load_over()).await.is_err());
        endless.abort();
        burst.load_over().await;
        let waited = before.elapsed();
        assert!(waited + LULL >= 3 * QUIET && waited < 3 * QUIET + 2 * LULL, "{waited:?}");
    }

    #[test]
    fn a_follower_that_starts_far_behind_holds_nobody_up() {
        let burst = Burst::new();
        let (mut follower, tail) = (burst.follower(), Seq(10 * BEHIND_RECORDS_MAX));
        follower.report(Seq(1), tail);
        assert!(!burst.outruns_followers(tail));
        follower.report(Seq(tail.0 - 1), tail);
        assert!(burst.outruns_followers(Seq(2 * tail.0)), "from now on it counts");
    }
}
