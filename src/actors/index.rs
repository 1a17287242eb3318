//! The index actor keeps the search index of discover up to date with the newest view, and fits its weights.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::ActorFailure;
use super::refresh::{Refresh, WhenQuiet};
use crate::clock::monotonic;
use crate::core::rank::Index;
use crate::views::{LatestSender, Views};

/// Shortest pause between two updates.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The pause is at least this many times as long as the update took, so that a busy log costs a bounded share of a processor.
const PAUSE_FACTOR: u32 = 9;
/// The weights are fitted to the whole memory when no newer view has come for this long. A fit takes a good part of a second, which
/// would slow publishers down.
const QUIET: Duration = Duration::from_millis(300);
/// Without such a pause, stale weights are fitted again this long after the last fit.
const FIT_EVERY: Duration = Duration::from_secs(10);

/// What the actor is built from.
#[derive(Clone)]
pub(crate) struct IndexParts {
    pub(crate) views: Views,
    pub(crate) index: LatestSender<Index>,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Runs the actor until `stop`: updates the index whenever there is a newer view.
pub(crate) async fn run(IndexParts { views, index, stop }: IndexParts) -> Result<(), ActorFailure> {
    let refresh = Refresh {
        views,
        publish: index,
        when_quiet: Some(WhenQuiet { after: QUIET, wanted: |index| index.can_be_calibrated() && !index.is_calibrated() }),
        pause: Box::new(|took| PAUSE_MIN.max(took * PAUSE_FACTOR)),
        stop,
    };
    let mut fitted = monotonic();
    let next = move |previous: Arc<Index>, view: Option<_>| {
        let updated = match view {
            None => Index::clone(&previous),
            Some(view) => {
                let updated = previous.update(view);
                if fitted.elapsed() < FIT_EVERY || !updated.weights_are_stale() {
                    return updated;
                }
                updated
            }
        };
        let calibrated = updated.calibrated();
        fitted = monotonic();
        calibrated
    };
    refresh.run(next).await
}
