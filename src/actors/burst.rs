//! Burst detection: while many published events wait for their acknowledgement, the actors that only follow the log pause.
//!
//! Folding an event takes about as long as storing it, so in a burst half of the processor time would go into views that nobody has
//! asked for yet. Paused followers catch up when the burst ends, in larger batches, which costs less per record.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::monotonic;

/// Unanswered events that make a burst. Agents at work have a few each, an import has hundreds.
const WAITING_EVENTS_MIN: usize = 512;
/// A burst is over when it was not reported for this long, which is longer than a commit takes.
const LULL: Duration = Duration::from_millis(20);
/// Longest pause of a follower that has caught up; after it the follower catches up again, burst or not.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Interval at which a paused follower checks whether the burst is over.
const CHECK_EVERY: Duration = Duration::from_millis(2);

/// `Burst` is shared by the execution actor, which reports how many events wait, and the followers of the log. Clones share one state.
#[derive(Clone)]
pub(crate) struct Burst(Arc<Inner>);

struct Inner {
    since: Instant,
    /// The last report of a burst, in microseconds after `since`; zero before the first.
    last_report_us: AtomicU64,
}

impl Burst {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner { since: monotonic(), last_report_us: AtomicU64::new(0) }))
    }

    /// Reports how many events wait for their verdicts.
    pub(crate) fn report(&self, waiting: usize) {
        if waiting >= WAITING_EVENTS_MIN {
            self.0.last_report_us.store(self.now_us(), Ordering::Relaxed);
        }
    }

    fn is_under_way(&self) -> bool {
        let last = self.0.last_report_us.load(Ordering::Relaxed);
        last > 0 && Duration::from_micros(self.now_us().saturating_sub(last)) < LULL
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.0.since.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Waits while there is a burst, at most until [`PAUSE_MAX`] after `caught_up`, the time the follower had last caught up.
    pub(super) async fn pause(&self, caught_up: Instant) {
        while self.is_under_way() && caught_up.elapsed() < PAUSE_MAX {
            tokio::time::sleep(CHECK_EVERY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a follower that has just caught up pauses.
    async fn paused_for(burst: &Burst) -> Duration {
        let before = monotonic();
        burst.pause(before).await;
        before.elapsed()
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
        let reporting = burst.clone();
        let endless = tokio::spawn(async move {
            loop {
                reporting.report(WAITING_EVENTS_MIN);
                tokio::time::sleep(LULL / 2).await;
            }
        });
        tokio::task::yield_now().await;
        let caught_up = monotonic();
        burst.pause(caught_up).await;
        let waited = caught_up.elapsed();
        assert!((PAUSE_MAX..PAUSE_MAX + 2 * CHECK_EVERY).contains(&waited), "a burst without end: {waited:?}");
        burst.pause(caught_up).await;
        assert_eq!(caught_up.elapsed(), waited, "nor again before it has caught up");
        endless.abort();
    }
}
