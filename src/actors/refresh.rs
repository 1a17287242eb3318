//! The shared loop of the actors that keep a value derived from the state up to date (`index`, `measures`): compute the next value on
//! a blocking thread whenever a newer view exists, publish it, pause. Readers keep the last value meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::ActorFailure;
use crate::clock::monotonic;
use crate::core::state::State;
use crate::views::{AsOf, LatestSender, Views};

/// A value derived from the state, and how it is kept up to date.
pub(super) struct Refresh<T> {
    pub(super) views: Views,
    pub(super) publish: LatestSender<T>,
    /// Work that waits until no newer view comes for a while.
    pub(super) when_quiet: Option<WhenQuiet<T>>,
    /// The pause after a computation, given how long that took.
    pub(super) pause: Box<dyn Fn(Duration) -> Duration>,
    pub(super) stop: watch::Receiver<bool>,
}

/// Work that a value may want once no newer view has come for a while.
pub(super) struct WhenQuiet<T> {
    pub(super) after: Duration,
    pub(super) wanted: fn(&T) -> bool,
}

impl<T: AsOf + Send + Sync + 'static> Refresh<T> {
    /// Runs until `stop` or until the fold ends. `next` gets the value published last and the newer view, or `None` for the work of
    /// [`WhenQuiet`].
    pub(super) async fn run<N>(mut self, mut next: N) -> Result<(), ActorFailure>
    where
        N: FnMut(Arc<T>, Option<Arc<State>>) -> T + Send + 'static,
    {
        while !*self.stop.borrow_and_update() {
            let previous = Arc::clone(&self.publish.borrow());
            let quiet = self.when_quiet.as_ref().filter(|quiet| (quiet.wanted)(&previous)).map(|quiet| quiet.after);
            let view = tokio::select! {
                newer = self.views.at_least(previous.as_of().next()) => match newer {
                    Some(view) => Some(view),
                    None => return Ok(()), // The fold has ended: the process is shutting down.
                },
                () = tokio::time::sleep(quiet.unwrap_or_default()), if quiet.is_some() => None,
                _ = self.stop.changed() => continue,
            };
            let began = monotonic();
            let compute = move || {
                let value = next(previous, view);
                (next, value)
            };
            let value;
            (next, value) = tokio::task::spawn_blocking(compute).await.map_err(|_| ActorFailure::Gone)?;
            self.publish.send_replace(Arc::new(value));
            tokio::select! {
                () = tokio::time::sleep((self.pause)(began.elapsed())) => {}
                _ = self.stop.changed() => {}
            }
        }
        Ok(())
    }
}
