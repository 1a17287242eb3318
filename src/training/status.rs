//! `Trainer` connects the trainer actor of a process with those who ask for a run or for its progress.

use tokio::sync::watch;

use super::TrainRequest;
use crate::core::id::Seq;
use crate::core::train::TrainProgress;
use crate::lease::LeaseState;

/// Epochs of the running training that are kept, the latest ones.
const CURVE_MAX: usize = 512;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunVerdict {
    /// At least one part was accepted by the gate.
    Accepted,
    /// No part was accepted.
    Refused,
    /// It was stopped before its end; nothing was recorded.
    Stopped,
    /// It ended with an error or a panic; nothing was recorded.
    Failed,
    /// It was not started: it would take more than `trainer.memory_mb`.
    OverMemory,
}

impl RunVerdict {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::OverMemory => "over_memory",
        }
    }
}

/// The run under way.
#[derive(Clone, Debug)]
pub struct RunningRun {
    pub through: Seq,
    pub seed: u64,
    /// The epochs so far, the latest [`CURVE_MAX`].
    pub curve: Vec<TrainProgress>,
    /// Epochs so far, also those that `curve` no longer holds.
    pub epochs: usize,
}

/// The run that ended last in this process.
#[derive(Clone, Debug)]
pub struct EndedRun {
    pub verdict: RunVerdict,
    pub through: Seq,
    pub seconds: f64,
    /// Why it ended, if not by itself.
    pub problem: Option<String>,
}

/// What the trainer of a process does.
#[derive(Clone, Debug, Default)]
pub struct TrainerStatus {
    /// The number of requests so far. Each request is known by its number.
    pub requested: u64,
    /// The last request that an ended run has answered.
    pub answered: u64,
    pub running: Option<RunningRun>,
    pub last: Option<EndedRun>,
    /// The requests that wait for the next run, merged.
    waiting: Option<TrainRequest>,
}

/// The trainer of a process: takes requests, shows progress. Clones share one trainer.
#[derive(Clone)]
pub struct Trainer {
    status: watch::Sender<TrainerStatus>,
    lease: watch::Receiver<LeaseState>,
}

impl Trainer {
    pub(crate) fn new(lease: watch::Receiver<LeaseState>) -> Self {
        Self { status: watch::Sender::new(TrainerStatus::default()), lease }
    }

    /// Whether this process may train, or who does.
    pub fn lease(&self) -> LeaseState {
        self.lease.borrow().clone()
    }

    pub fn status(&self) -> TrainerStatus {
        self.status.borrow().clone()
    }

    /// Asks for a run. Requests that come while one runs are merged into the next. Returns the number of the request.
    pub fn request(&self, request: TrainRequest) -> u64 {
        let mut number = 0;
        self.status.send_modify(|status| {
            status.requested += 1;
            number = status.requested;
            status.add(request);
        });
        number
    }

    /// Resolves when a request waits.
    pub(crate) async fn requested(&self) {
        // `self` keeps the channel open.
        drop(self.status.subscribe().wait_for(|status| status.waiting.is_some()).await);
    }

    /// Takes the waiting requests, merged, with the number of the last one; the default request if none waits.
    pub(crate) fn take_request(&self) -> (TrainRequest, u64) {
        let mut taken = (TrainRequest::default(), 0);
        self.status.send_modify(|status| taken = (status.waiting.take().unwrap_or_default(), status.requested));
        taken
    }

    /// Puts a request back whose run was stopped, so that a later run answers it.
    pub(crate) fn put_back(&self, request: TrainRequest) {
        self.status.send_modify(|status| {
            if status.requested > status.answered {
                status.add(request);
            }
        });
    }

    pub(crate) fn begin(&self, through: Seq, seed: u64) {
        self.status.send_modify(|status| {
            status.running = Some(RunningRun { through, seed, curve: Vec::new(), epochs: 0 });
        });
    }

    pub(crate) fn progress(&self, progress: TrainProgress) {
        self.status.send_modify(|status| {
            let Some(running) = &mut status.running else { return };
            if running.curve.len() == CURVE_MAX {
                running.curve.remove(0);
            }
            running.curve.push(progress);
            running.epochs += 1;
        });
    }

    /// Ends the run. It has answered all requests up to `answered`, if given.
    pub(crate) fn end(&self, ended: EndedRun, answered: Option<u64>) {
        self.status.send_modify(|status| {
            status.running = None;
            status.answered = status.answered.max(answered.unwrap_or(0));
            status.last = Some(ended);
        });
    }
}

impl TrainerStatus {
    fn add(&mut self, request: TrainRequest) {
        self.waiting = Some(match self.waiting.take() {
            Some(waiting) => waiting.merge(request),
            None => request,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::ModelPart;

    #[test]
    fn a_request_while_a_run_is_under_way_waits_for_the_next() {
        let trainer = Trainer::new(LeaseState::always());
        let head = TrainRequest { parts: vec![ModelPart::Head], seed: None };
        assert_eq!(trainer.request(head.clone()), 1);
        let (taken, number) = trainer.take_request();
        assert_eq!((&taken, number), (&head, 1));
        trainer.begin(Seq(9), 1);
        assert_eq!(trainer.request(head.clone()), 2);
        let ended = EndedRun { verdict: RunVerdict::Refused, through: Seq(9), seconds: 0.5, problem: None };
        trainer.end(ended, Some(number));
        assert_eq!(trainer.status().answered, 1);
        assert_eq!(trainer.take_request(), (head, 2));
    }
}
