//! Keeps a training thread within its share of one core: it sleeps after each step of a run, in proportion to how long the step took.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock::monotonic;

/// Longest sleep before the stop signal is looked at again.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// The pacemaker of one training thread.
pub(crate) struct Throttle {
    core_share: f64,
    stop: watch::Receiver<bool>,
    working_since: Instant,
}

impl Throttle {
    pub(crate) fn new(core_share: f64, stop: watch::Receiver<bool>) -> Self {
        Self { core_share, stop, working_since: monotonic() }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Sleeps as long as the share asks for, given the time since the last pause; less if the run is stopped.
    pub(crate) fn pause(&mut self) {
        let mut left = pause_after(self.working_since.elapsed(), self.core_share);
        while !left.is_zero() && !self.is_stopped() {
            let slice = left.min(SLEEP_MAX);
            std::thread::sleep(slice);
            left -= slice;
        }
        self.working_since = monotonic();
    }
}

/// The pause after `worked`, so that work is at most `core_share` of the time.
fn pause_after(worked: Duration, core_share: f64) -> Duration {
    worked.mul_f64(1.0 / core_share - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_leaves_the_share_of_a_core() {
        let worked = Duration::from_millis(100);
        assert_eq!(pause_after(worked, 1.0), Duration::ZERO);
        assert_eq!(pause_after(worked, 0.5), worked);
        assert_eq!(pause_after(worked, 0.25), worked * 3);
    }

    #[test]
    fn a_stopped_run_does_not_sleep() {
        let (stop, stopping) = watch::channel(true);
        let mut throttle = Throttle::new(1e-9, stopping);
        throttle.pause();
        assert!(throttle.is_stopped());
        drop(stop);
    }
}
