//! Who goes first: while many agents wait for their acknowledgements, those who only learn from the log step back, for a while.
//!
//! Learning from an event takes about as long as storing it. In a burst that would be half of the machine, spent on views that
//! nobody can have asked for yet. What is put off is done at once when the burst ends, and in larger pieces, which costs less.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::monotonic;

/// This many events without an answer are a burst: agents at work have a few each, an import has hundreds.
const WAITING_EVENTS_MIN: usize = 512;
/// A burst is over when there was no sign of it for this long: longer than a commit takes.
const LULL: Duration = Duration::from_millis(20);
/// How long a follower that has caught up steps back, at most. Then it catches up again, burst or not.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What the actor that takes events knows and the followers of the log ask. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Rush(Arc<Inner>);

struct Inner {
    since: Instant,
    /// The last sign, in microseconds after `since`; zero before the first.
    last_sign_us: AtomicU64,
}

impl Rush {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner { since: monotonic(), last_sign_us: AtomicU64::new(0) }))
    }

    /// Says how many events wait for their answers.
    pub(crate) fn note(&self, waiting: usize) {
        if waiting >= WAITING_EVENTS_MIN {
            self.0.last_sign_us.store(self.now_us(), Ordering::Relaxed);
        }
    }

    fn is_on(&self) -> bool {
        let last = self.0.last_sign_us.load(Ordering::Relaxed);
        last > 0 && Duration::from_micros(self.now_us().saturating_sub(last)) < LULL
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.0.since.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Waits while there is a rush, but not beyond what is left of the patience of one that had caught up at `caught_up`.
    pub(super) async fn step_back(&self, caught_up: Instant) {
        while self.is_on() && caught_up.elapsed() < PATIENCE {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long one that has just caught up steps back.
    async fn stepped_back(rush: &Rush) -> Duration {
        let before = monotonic();
        rush.step_back(before).await;
        before.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn followers_step_back_while_many_wait_and_not_for_ever() {
        let rush = Rush::new();
        tokio::time::advance(Duration::from_secs(1)).await;
        rush.note(WAITING_EVENTS_MIN - 1);
        assert_eq!(stepped_back(&rush).await, Duration::ZERO, "agents at work");
        rush.note(WAITING_EVENTS_MIN);
        let waited = stepped_back(&rush).await;
        assert!((LULL..LULL + 2 * LOOK_EVERY).contains(&waited), "a burst that ends: {waited:?}");
        let noting = rush.clone();
        let burst = tokio::spawn(async move {
            loop {
                noting.note(WAITING_EVENTS_MIN);
                tokio::time::sleep(LULL / 2).await;
            }
        });
        tokio::task::yield_now().await;
        let caught_up = monotonic();
        rush.step_back(caught_up).await;
        let waited = caught_up.elapsed();
        assert!((PATIENCE..PATIENCE + 2 * LOOK_EVERY).contains(&waited), "a burst without end: {waited:?}");
        rush.step_back(caught_up).await;
        assert_eq!(caught_up.elapsed(), waited, "nor again before it has caught up");
        burst.abort();
    }
}
