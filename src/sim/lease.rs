//! Leases in the simulator: a model of what `nats::Lease` promises. Silence is measured by the clock of whoever waits.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::life::Life;
use super::scenario::Bug;
use crate::clock::monotonic;
use crate::lease::LeaseState;

const LENGTH: Duration = Duration::from_millis(400);
const CHECK_EVERY: Duration = Duration::from_millis(25);

/// The key of the lease: who wrote it last, and how often it was written.
#[derive(Default)]
pub(super) struct LeaseKey(Mutex<Option<(u64, u64)>>);

impl LeaseKey {
    /// Deletes the key, as its holder does when it stops, or as somebody may by mistake.
    pub(super) fn delete(&self) {
        *self.0.lock() = None;
    }

    pub(super) fn holder(&self) -> Option<u64> {
        self.0.lock().map(|(holder, _)| holder)
    }
}

/// Holds or waits for the lease, until the process ends.
pub(super) async fn keep(life: Arc<Life>, state: watch::Sender<LeaseState>) {
    let mut observed: Option<(u64, Instant)> = None;
    let mut written = monotonic();
    while !life.is_dead() {
        if !life.is_cut_off() {
            let mut key = life.world.lease.0.lock();
            let now = monotonic();
            let takes = match *key {
                None => true,
                Some((holder, _)) if holder == life.id => true,
                Some((_, revision)) => {
                    let (seen, since) = *observed.get_or_insert((revision, now));
                    if seen != revision {
                        observed = Some((revision, now));
                    }
                    seen == revision && now - since >= LENGTH && life.world.bug != Some(Bug::KeepLease)
                }
            };
            if takes && !life.pass("lease", "write") {
                return;
            }
            if takes {
                let revision = key.map_or(0, |(_, revision)| revision) + 1;
                *key = Some((life.id, revision));
                (written, observed) = (now, None);
            }
            let holder = key.map(|(holder, _)| holder);
            drop(key);
            if takes && life.crashes_now() {
                return;
            }
            let now_is = if takes { LeaseState::Held } else { LeaseState::Waiting(holder.map(|holder| holder.to_string())) };
            set(&state, now_is);
        } else if monotonic() - written >= LENGTH * 3 / 4 {
            set(&state, LeaseState::Waiting(None));
        }
        sleep(CHECK_EVERY).await;
    }
}

fn set(state: &watch::Sender<LeaseState>, new: LeaseState) {
    state.send_if_modified(|state| std::mem::replace(state, new.clone()) != new);
}
