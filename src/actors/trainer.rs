//! The trainer actor runs `core::train` on the newest view when enough was learnt since the last run, or when somebody asks, and
//! appends the result. It never promotes by itself: the records it appends do, when the fold meets them.
//!
//! ```text
//!  views --schedule: due?--> settled view --blocking thread: core::train--> records --append--> log --fold--> serving
//! ```
//!
//! One run at a time. A request that comes meanwhile is kept for the next run (`training::Trainer`). A run ends within an epoch of the
//! stop signal or of the loss of the lease, and leaves no record. What a killed process had recorded of a run in part is trained anew
//! by its successor; record ids are derived from version and position, so nothing is in the log twice.

mod run;
mod schedule;
pub(crate) mod throttle;

use std::sync::Arc;

use tokio::sync::watch;

use super::ActorFailure;
use crate::clock::Clock;
use crate::config;
use crate::log::SharedLog;
use crate::metrics::{ByVerdict, Metrics};
use crate::training::{EndedRun, RunVerdict, Trainer};
use crate::views::Views;
use schedule::Schedule;

/// What the actor is built from.
#[derive(Clone)]
pub(crate) struct TrainerParts {
    pub(crate) log: SharedLog,
    pub(crate) views: Views,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) trainer: Trainer,
    pub(crate) settings: config::Trainer,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Runs the actor until `stop`: waits until a run is due, trains, appends, and waits again.
pub(crate) async fn run(mut parts: TrainerParts) -> Result<(), ActorFailure> {
    let mut schedule = Schedule::from_log(&parts).await?;
    while !*parts.stop.borrow_and_update() {
        let view = tokio::select! {
            view = schedule.due(&parts.views, &parts.trainer) => view,
            _ = parts.stop.changed() => continue,
        };
        let Some(view) = view else { return Ok(()) }; // The fold has ended: the process is shutting down.
        schedule.began(&view);
        let (request, number) = parts.trainer.take_request();
        let began = parts.clock.uptime();
        let through = view.applied();
        parts.trainer.begin(through, request.seed(&view));
        parts.metrics.training.running.set(1);
        let outcome = run::train_and_append(&parts, view, &request).await;
        parts.metrics.training.running.set(0);
        let (verdict, problem) = match &outcome {
            Ok((verdict, problem)) => (*verdict, problem.clone()),
            Err(failure) => (RunVerdict::Failed, Some(failure.to_string())),
        };
        let seconds = parts.clock.uptime().since(began).as_secs_f64();
        let was_answered = verdict != RunVerdict::Stopped;
        parts.trainer.end(EndedRun { verdict, through, seconds, problem }, was_answered.then_some(number));
        if !was_answered {
            parts.trainer.put_back(request);
        }
        parts.metrics.training.runs.get_or_create(&ByVerdict { verdict: verdict.name() }).inc();
        parts.metrics.training.last_seconds.set(seconds);
        log_end(&parts.trainer);
        outcome?;
    }
    Ok(())
}

fn log_end(trainer: &Trainer) {
    let Some(EndedRun { verdict, through, seconds, problem }) = trainer.status().last else { return };
    let (verdict_name, through, problem) = (verdict.name(), through.0, problem.unwrap_or_default());
    if verdict == RunVerdict::Failed {
        tracing::error!(through, seconds, problem, "training run failed");
    } else {
        tracing::info!(verdict = verdict_name, through, seconds, problem, "training run ended");
    }
}
