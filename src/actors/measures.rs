//! measures: computes the graph measures beside the fold, on a thread that may block, and swaps the result in.
//!
//! However many views came in the meantime, the next computation takes the newest one. After each there is a pause: the configured
//! one, or four times as long as it took, so that a large graph and a busy log cost a fifth of a processor at most. Readers never
//! wait: they get the last result and the record it stands at.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::ActorFailure;
use crate::clock::Clock;
use crate::config;
use crate::core::graph::cold_start::ColdStart;
use crate::core::graph::measures::{Measures, tool_vectors};
use crate::views::{Publish, Views};

/// How many times as long as it computed it rests at least.
const REST: u64 = 4;

#[derive(Clone)]
pub(crate) struct MeasuresParts {
    pub(crate) views: Views,
    pub(crate) measures: Publish<Measures>,
    pub(crate) clock: Clock,
    pub(crate) settings: config::Graph,
    pub(crate) stop: watch::Receiver<bool>,
}

/// One life: computes whenever the view is newer than the measures.
pub(crate) async fn run(mut parts: MeasuresParts) -> Result<(), ActorFailure> {
    let wanted = ColdStart::from(&parts.settings);
    while !*parts.stop.borrow_and_update() {
        let previous = Arc::clone(&parts.measures.borrow());
        let pause_ms = tokio::select! {
            newer = parts.views.at_least(previous.at().next()) => {
                let Some(view) = newer else { return Ok(()) }; // The fold is gone: shutting down.
                let begun = parts.clock.now();
                let compute = move || Measures::compute(&view, Some(&previous), wanted, &tool_vectors(&view));
                let measures = tokio::task::spawn_blocking(compute).await.map_err(|_| ActorFailure::Gone)?;
                parts.measures.send_replace(Arc::new(measures));
                parts.settings.measures_every_ms.max(parts.clock.now().millis_since(begun) * REST)
            }
            _ = parts.stop.changed() => continue,
        };
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(pause_ms)) => {}
            _ = parts.stop.changed() => {}
        }
    }
    Ok(())
}
