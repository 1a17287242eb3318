//! When a training run is due: after enough new traces, after a while with a new trace, or on request.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::TrainerParts;
use crate::actors::ActorFailure;
use crate::clock::monotonic;
use crate::config;
use crate::core::event::{Event, Kind, ModelPart, Record};
use crate::core::id::Seq;
use crate::core::state::State;
use crate::core::trained::TrainingRun;
use crate::log::SharedLog;
use crate::training::{Trainer, promotion_id};
use crate::views::Views;

/// A run that is due begins when no trace has come for this long and every text has its vector, so that a burst gives one run.
const QUIET: Duration = Duration::from_millis(500);
/// It begins after this long in any case.
const QUIET_WAIT_MAX: Duration = Duration::from_secs(30);
/// Records read at once to count the traces since the last run.
const BATCH_RECORDS: usize = 4_096;

/// When the next run is due.
pub(super) struct Schedule {
    settings: config::Trainer,
    /// The number of traces that the last run could learn from; `None` before the first run.
    trained_on: Option<u64>,
    /// Whether the last run is in the log only in part, so that another one is due at once.
    unfinished: bool,
    last_began: Instant,
}

fn traces(state: &State) -> u64 {
    state.count(Kind::TraceCompleted)
}

impl Schedule {
    /// The schedule of a process that starts: what was trained on is read from the log.
    pub(super) async fn from_log(parts: &TrainerParts) -> Result<Self, ActorFailure> {
        let (view, settings) = (parts.views.current(), parts.settings.clone());
        let through = view.trained.runs().map(|run| run.event.through_seq).max();
        let trained_on = match through {
            Some(through) => {
                let new = traces_after(&parts.log, through, view.applied(), settings.after_traces).await?;
                Some(traces(&view).saturating_sub(new))
            }
            None => None,
        };
        let unfinished = is_unfinished(&parts.log, &view).await?;
        Ok(Self { settings, trained_on, unfinished, last_began: monotonic() })
    }

    /// The number of traces at which the next run is due.
    fn due_at(&self) -> u64 {
        match self.trained_on {
            Some(trained_on) => trained_on.saturating_add(self.settings.after_traces),
            None => self.settings.traces_min,
        }
    }

    /// The number of traces from which time alone makes a run due.
    fn due_in_time_at(&self) -> u64 {
        self.trained_on.map_or(0, |trained_on| trained_on.saturating_add(1)).max(self.settings.traces_min)
    }

    /// Waits until a run is due and returns the view to train on; `None` if the fold has ended.
    pub(super) async fn due(&self, views: &Views, trainer: &Trainer) -> Option<Arc<State>> {
        let in_time = async {
            sleep_until(self.last_began + Duration::from_secs(self.settings.every_s)).await;
            views.wait_until(|view| traces(view) >= self.due_in_time_at()).await
        };
        if !self.unfinished {
            tokio::select! {
                () = trainer.requested() => {}
                view = views.wait_until(|view| traces(view) >= self.due_at()) => { view?; }
                view = in_time, if self.settings.every_s > 0 => { view?; }
            }
        }
        settled(views).await
    }

    /// A run on this view has begun.
    pub(super) fn began(&mut self, view: &State) {
        self.trained_on = Some(traces(view));
        self.unfinished = false;
        self.last_began = monotonic();
    }
}

/// The first view without a new trace for [`QUIET`] in which every text has its vector, or the newest after [`QUIET_WAIT_MAX`].
async fn settled(views: &Views) -> Option<Arc<State>> {
    let deadline = monotonic() + QUIET_WAIT_MAX;
    let lacks_vectors = |view: &State| {
        let (embedded, wanted) = view.vectors.coverage();
        embedded < wanted
    };
    loop {
        let before = traces(&views.current());
        let moved = timeout(QUIET, views.wait_until(|view| traces(view) != before)).await;
        if let Ok(None) = moved {
            return None;
        }
        let view = views.current();
        let is_settled = moved.is_err() && !lacks_vectors(&view);
        if is_settled || monotonic() >= deadline {
            return Some(view);
        }
    }
}

/// The number of `trace.completed` records after `after`, up to `until`; counts no further than `enough`.
async fn traces_after(log: &SharedLog, mut after: Seq, until: Seq, enough: u64) -> Result<u64, ActorFailure> {
    let mut found = 0;
    while after < until && found < enough {
        let records = log.read(after, BATCH_RECORDS).await?;
        let Some(last) = records.last() else { break };
        after = last.seq;
        let counted = |record: &&Record| record.seq <= until && matches!(record.event(), Event::TraceCompleted(_));
        found += records.iter().filter(counted).count() as u64;
    }
    Ok(found)
}

/// Whether the latest run of a part was accepted but never promoted: a process was killed while it recorded the run.
async fn is_unfinished(log: &SharedLog, view: &State) -> Result<bool, ActorFailure> {
    for part in ModelPart::ALL {
        let latest = view.trained.runs().rev().find(|run| run.event.version.part() == part);
        if let Some(run) = latest.filter(|run| run.event.accepted)
            && !was_promoted(log, run).await?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn was_promoted(log: &SharedLog, run: &TrainingRun) -> Result<bool, ActorFailure> {
    let through = run.event.through_seq;
    let Some(record) = record_at(log, through).await? else { return Ok(true) };
    Ok(log.find(promotion_id(&run.event.version, &record)).await?.is_some())
}

/// The record at a position.
pub(super) async fn record_at(log: &SharedLog, seq: Seq) -> Result<Option<Record>, ActorFailure> {
    let found = log.read(Seq(seq.0.saturating_sub(1)), 1).await?;
    Ok(found.into_iter().find(|record| record.seq == seq))
}
