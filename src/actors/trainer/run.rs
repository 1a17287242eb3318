//! One training run: on a thread of its own, stopped on demand, recorded once.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::TrainerParts;
use super::schedule::record_at;
use super::throttle::Throttle;
use crate::actors::ActorFailure;
use crate::core::event::NewRecord;
use crate::core::state::State;
use crate::core::train::{TrainError, TrainStep, TrainedPart, train};
use crate::failpoint;
use crate::log::{AppendError, append_patiently};
use crate::training::{RunVerdict, TrainRequest, memory_estimate, training_records};

/// Pause before a result is appended again that the log did not take. The ids are the same, so repeating is harmless.
const APPEND_PAUSE: Duration = Duration::from_secs(5);
/// How long a stopped run is waited for. A thread that takes longer, between two pieces of work, ends by itself and its result is dropped.
const STOP_WAIT_MAX: Duration = Duration::from_secs(1);
const MEGABYTE: u64 = 1 << 20;

/// How a run ended, and why if not by itself.
pub(super) type Ended = (RunVerdict, Option<String>);

/// Trains on a view and appends the result. An error means that the log cannot be used.
pub(super) async fn train_and_append(
    parts: &TrainerParts,
    view: Arc<State>,
    request: &TrainRequest,
) -> Result<Ended, ActorFailure> {
    let (estimate_mb, memory_mb) = (memory_estimate(&view).div_ceil(MEGABYTE), parts.settings.memory_mb);
    if estimate_mb > memory_mb {
        let problem = format!("it would take about {estimate_mb} MB, the limit is {memory_mb} (trainer.memory_mb)");
        tracing::warn!(estimate_mb, memory_mb, tools = view.tools.len(), "training run not started: over trainer.memory_mb");
        return Ok((RunVerdict::OverMemory, Some(problem)));
    }
    let Some(through) = record_at(&parts.log, view.applied()).await? else {
        return Ok((RunVerdict::Failed, Some("the log is empty".to_owned())));
    };
    let trained = match compute(parts, view, request).await {
        Ok(trained) => trained,
        Err(ended) => return Ok(ended),
    };
    for part in &trained {
        let (event, accepted) = (&part.event, part.event.accepted);
        tracing::info!(version = %event.version, accepted, reason = event.reason, examples = event.examples, "part trained");
    }
    let accepted = trained.iter().any(|part| part.event.accepted);
    let records = training_records(&trained, &through, parts.clock.now());
    if !append(parts, records).await? {
        return Ok((RunVerdict::Stopped, None));
    }
    Ok((if accepted { RunVerdict::Accepted } else { RunVerdict::Refused }, None))
}

/// Trains on a thread of its own. A panic ends the run and not the actor, which would repeat it at once.
async fn compute(parts: &TrainerParts, view: Arc<State>, request: &TrainRequest) -> Result<Vec<TrainedPart>, Ended> {
    let failed = |problem: &str| (RunVerdict::Failed, Some(problem.to_owned()));
    let (send, mut result) = oneshot::channel();
    let work = training(parts, view, request);
    let spawned = std::thread::Builder::new().name("pml-trainer".to_owned()).spawn(move || {
        // Nobody waits for the result of a run that was stopped.
        drop(send.send(work()));
    });
    if let Err(error) = spawned {
        return Err(failed(&format!("no thread: {error}")));
    }
    let mut stop = parts.stop.clone();
    let ended = tokio::select! {
        ended = &mut result => Some(ended),
        _ = stop.wait_for(|stop| *stop) => timeout(STOP_WAIT_MAX, &mut result).await.ok(),
    };
    match ended {
        Some(Ok(Ok(result))) => Ok(result),
        Some(Ok(Err(TrainError::Stopped))) | None => Err((RunVerdict::Stopped, None)),
        Some(Ok(Err(error))) => Err(failed(&error.to_string())),
        Some(Err(_)) => Err(failed("the training thread panicked")),
    }
}

/// The work of the thread: trains, tells the progress, and pauses after every piece of work.
fn training(
    parts: &TrainerParts,
    view: Arc<State>,
    request: &TrainRequest,
) -> impl FnOnce() -> Result<Vec<TrainedPart>, TrainError> + Send + 'static {
    let (settings, seed) = (request.settings(), request.seed(&view));
    let trainer = parts.trainer.clone();
    let mut throttle = Throttle::new(parts.settings.core_share, parts.stop.clone());
    move || {
        failpoint::pass("trainer.run");
        let mut observer = |step: TrainStep| {
            if let TrainStep::Epoch(progress) = step {
                trainer.progress(progress);
            }
            throttle.pause();
            if throttle.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        train(&view, &settings, seed, &mut observer)
    }
}

/// Appends the records of a run in one call, again while the log cannot take them. Returns whether they are in the log: not if the run
/// was stopped before.
async fn append(parts: &TrainerParts, records: Vec<Arc<NewRecord>>) -> Result<bool, ActorFailure> {
    let mut stop = parts.stop.clone();
    if records.is_empty() {
        return Ok(true);
    }
    while !*stop.borrow_and_update() {
        match append_patiently(&parts.log, records.clone()).await {
            Ok(_) => return Ok(true),
            Err(error @ (AppendError::Closed | AppendError::Damaged(_))) => return Err(error.into()),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "training run not recorded; trying again");
                tokio::select! {
                    () = tokio::time::sleep(APPEND_PAUSE) => {}
                    _ = stop.changed() => {}
                }
            }
        }
    }
    Ok(false)
}
