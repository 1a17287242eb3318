//! index: keeps what questions are compared with up to date, beside the fold, on a thread that may block, and swaps it in.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Failure;
use super::graph_sync::Views;
use crate::clock::Clock;
use crate::core::id::Seq;
use crate::core::rank::Index;

/// Pause between two updates, at least; and at least this many times what the last one took, so that a busy log costs a bounded
/// share of a processor.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_FACTOR: u32 = 3;
/// When nothing has come for this long, the weights are fitted to all that is remembered. Fitting takes a good part of a second, and
/// whoever publishes would feel it.
const QUIET: Duration = Duration::from_millis(300);
/// While something always comes, weights that the memory has outgrown are fitted anew this long after the last time.
const FIT_EVERY_MS: u64 = 10_000;

/// Readers' side: the newest index.
#[derive(Clone)]
pub struct Indexed(watch::Receiver<Arc<Index>>);

impl Indexed {
    pub(crate) fn channel() -> (watch::Sender<Arc<Index>>, Self) {
        let (sender, receiver) = watch::channel(Arc::default());
        (sender, Self(receiver))
    }

    /// An index that never changes.
    pub(crate) fn fixed(index: Index) -> Self {
        Self(watch::channel(Arc::new(index)).1)
    }

    pub fn current(&self) -> Arc<Index> {
        Arc::clone(&self.0.borrow())
    }

    /// The first index that knows everything up to `seq`, with all vectors and weights to match; `None` if indexing stopped before.
    pub async fn complete(&self, seq: Seq) -> Option<Arc<Index>> {
        let complete = |index: &Arc<Index>| {
            let (have, wanted) = index.state().vectors.coverage();
            index.at() >= seq && have == wanted && index.is_calibrated()
        };
        let mut receiver = self.0.clone();
        let index = receiver.wait_for(complete).await.ok()?;
        Some(Arc::clone(&index))
    }
}

#[derive(Clone)]
pub(crate) struct IndexParts {
    pub(crate) views: Views,
    pub(crate) index: watch::Sender<Arc<Index>>,
    pub(crate) clock: Clock,
    pub(crate) stop: watch::Receiver<bool>,
}

/// One life: updates whenever the view is newer than the index.
pub(crate) async fn run(mut parts: IndexParts) -> Result<(), Failure> {
    let mut fitted = parts.clock.uptime();
    while !*parts.stop.borrow_and_update() {
        let previous = Arc::clone(&parts.index.borrow());
        let began = parts.clock.uptime();
        tokio::select! {
            newer = parts.views.at_least(previous.at().next()) => {
                let Some(view) = newer else { return Ok(()) }; // The fold is gone: shutting down.
                let may_fit = began.millis_since(fitted) >= FIT_EVERY_MS;
                let update = move || {
                    let index = previous.update(view);
                    if may_fit && index.has_outgrown_its_weights() { (index.calibrated(), true) } else { (index, false) }
                };
                let (index, fit) = tokio::task::spawn_blocking(update).await.map_err(|_| Failure::Gone)?;
                fitted = if fit { parts.clock.uptime() } else { fitted };
                parts.index.send_replace(Arc::new(index));
            }
            () = tokio::time::sleep(QUIET), if previous.can_be_calibrated() && !previous.is_calibrated() => {
                let fit = move || Index::clone(&previous).calibrated();
                let index = tokio::task::spawn_blocking(fit).await.map_err(|_| Failure::Gone)?;
                fitted = parts.clock.uptime();
                parts.index.send_replace(Arc::new(index));
            }
            _ = parts.stop.changed() => continue,
        }
        let took = parts.clock.uptime().since(began);
        tokio::select! {
            () = tokio::time::sleep(PAUSE_MIN.max(took * PAUSE_FACTOR)) => {}
            _ = parts.stop.changed() => {}
        }
    }
    Ok(())
}
