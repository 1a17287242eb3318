//! measures: computes the graph measures beside the fold, on a thread that may block, and swaps the result in.
//!
//! However many views came in the meantime, the next computation takes the newest one. After each there is a pause: the configured
//! one, or four times as long as it took, so that a large graph and a busy log cost a fifth of a processor at most. Readers never
//! wait: they get the last result and the record it stands at.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Failure;
use super::graph_sync::Views;
use crate::clock::Clock;
use crate::config;
use crate::core::graph::cold_start::ColdStart;
use crate::core::graph::measures::Measures;
use crate::core::id::Seq;
use crate::core::state::State;
use crate::core::vectors::TextHash;

/// How many times as long as it computed it rests at least.
const REST: u64 = 4;

/// Readers' side: the newest measures.
#[derive(Clone)]
pub struct Measured(watch::Receiver<Arc<Measures>>);

impl Measured {
    pub(crate) fn channel() -> (watch::Sender<Arc<Measures>>, Self) {
        let (sender, receiver) = watch::channel(Arc::default());
        (sender, Self(receiver))
    }

    /// Measures that never change.
    pub(crate) fn fixed(measures: Measures) -> Self {
        Self(watch::channel(Arc::new(measures)).1)
    }

    pub fn current(&self) -> Arc<Measures> {
        Arc::clone(&self.0.borrow())
    }

    /// The first measures that know everything up to `seq`; `None` if computing stopped before.
    pub async fn at_least(&self, seq: Seq) -> Option<Arc<Measures>> {
        let mut receiver = self.0.clone();
        let measures = receiver.wait_for(|measures| measures.at() >= seq).await.ok()?;
        Some(Arc::clone(&measures))
    }
}

#[derive(Clone)]
pub(crate) struct MeasuresParts {
    pub(crate) views: Views,
    pub(crate) measures: watch::Sender<Arc<Measures>>,
    pub(crate) clock: Clock,
    pub(crate) settings: config::Graph,
    pub(crate) stop: watch::Receiver<bool>,
}

/// One life: computes whenever the view is newer than the measures.
pub(crate) async fn run(mut parts: MeasuresParts) -> Result<(), Failure> {
    let wanted = ColdStart::from(&parts.settings);
    while !*parts.stop.borrow_and_update() {
        let previous = Arc::clone(&parts.measures.borrow());
        let pause_ms = tokio::select! {
            newer = parts.views.at_least(previous.at().next()) => {
                let Some(view) = newer else { return Ok(()) }; // The fold is gone: shutting down.
                let begun = parts.clock.uptime();
                let compute = move || Measures::compute(&view, Some(&previous), wanted, &tool_vectors(&view));
                let measures = tokio::task::spawn_blocking(compute).await.map_err(|_| Failure::Gone)?;
                parts.measures.send_replace(Arc::new(measures));
                parts.settings.measures_every_ms.max(parts.clock.uptime().millis_since(begun) * REST)
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

/// Vectors of the tools' texts by position.
pub(crate) fn tool_vectors(view: &State) -> Vec<Option<&[f32]>> {
    let vector = |position| {
        let text = view.tools.at(position).text()?;
        view.vectors.get(TextHash::of(&text)).map(|vector| &**vector)
    };
    (0..).take(view.tools.len()).map(vector).collect()
}
