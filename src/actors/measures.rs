//! The measures actor keeps the graph measures (ranks, communities, neighbours) up to date with the newest view.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::ActorFailure;
use super::refresh::Refresh;
use crate::config;
use crate::core::graph::cold_start::ColdStart;
use crate::core::graph::measures::{Measures, tool_vectors};
use crate::core::state::State;
use crate::views::{LatestSender, Views};

/// The pause is at least this many times as long as the computation took, so that a large graph and a busy log cost a fifth of a
/// processor at most.
const PAUSE_FACTOR: u32 = 4;

/// What the actor is built from.
#[derive(Clone)]
pub(crate) struct MeasuresParts {
    pub(crate) views: Views,
    pub(crate) measures: LatestSender<Measures>,
    pub(crate) settings: config::Graph,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Runs the actor until `stop`: computes the measures whenever there is a newer view.
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
        let view = view.expect("without `when_quiet`, there is always a newer view");
        Measures::compute(&view, Some(&previous), cold_start, &tool_vectors(&view))
    };
    refresh.run(next).await
}
