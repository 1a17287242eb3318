//! measures: keeps the graph measures (ranks, communities, neighbours) up to date with the newest view.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::ActorFailure;
use super::refresh::Refresh;
use crate::config;
use crate::core::graph::cold_start::ColdStart;
use crate::core::graph::measures::{Measures, tool_vectors};
use crate::core::state::State;
use crate::views::{Publish, Views};

/// The pause is at least this many times as long as the computation took, so that a large graph and a busy log cost a fifth of a
/// processor at most.
const PAUSE_FACTOR: u32 = 4;

#[derive(Clone)]
pub(crate) struct MeasuresParts {
    pub(crate) views: Views,
    pub(crate) measures: Publish<Measures>,
    pub(crate) settings: config::Graph,
    pub(crate) stop: watch::Receiver<bool>,
}

/// One life of the actor: computes the measures whenever the view is newer.
pub(crate) async fn run(MeasuresParts { views, measures, settings, stop }: MeasuresParts) -> Result<(), ActorFailure> {
    let pause_min = Duration::from_millis(settings.measures_every_ms);
    let refresh = Refresh {
        views,
        publish: measures,
        when_quiet: None,
        pause: Box::new(move |took| pause_min.max(took * PAUSE_FACTOR)),
        stop,
    };
    let cold_start = ColdStart::from(&settings);
    let next = move |previous: Arc<Measures>, view: Option<Arc<State>>| {
        let view = view.expect("nothing is computed in quiet moments");
        Measures::compute(&view, Some(&previous), cold_start, &tool_vectors(&view))
    };
    refresh.run(next).await
}
