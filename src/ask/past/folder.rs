//! States of the past: folded from the nearest state at hand, and a few of them kept.

use std::sync::{Arc, Weak};

use super::{PastError, PastState, PastTools};
use crate::core::id::Seq;
use crate::core::state::State;
use crate::history::{Moment, position_at};
use crate::log::{EventLog, SharedLog};
use crate::snapshot::{self, Store};
use crate::views::Views;

/// Past states that are kept, those used last.
const STATES_KEPT: usize = 4;
/// A fold also keeps the state before its last part of this many: the question after it is often about a moment a little earlier, as when
/// a person drags a slider back.
const PARTS_OF_A_FOLD: u64 = 8;
/// Records read and folded at once.
const BATCH_RECORDS: usize = 1_024;
/// Records folded between two moments at which another thread may take over: a fraction of a millisecond, also of tools, whose words are
/// indexed.
const RECORDS_BETWEEN_YIELDS: usize = 8;

/// `Folder` finds states of the past.
pub(super) struct Folder {
    /// Held only while a question is worked on, so that the log closes with the process that opened it.
    log: Weak<dyn EventLog>,
    views: Views,
    store: Store,
    tools: Arc<PastTools>,
    /// The one used last comes last.
    kept: Vec<Arc<PastState>>,
}

/// How far the state at a moment is found.
pub(super) enum Progress {
    Asked,
    Folding(Box<Fold>),
    Reached(Arc<PastState>),
}

/// A fold under way.
pub(super) struct Fold {
    state: State,
    until: Seq,
    /// Where a state is kept on the way.
    keep_at: Option<Seq>,
}

impl Folder {
    pub(super) fn new(log: &SharedLog, views: Views, store: Store, tools: Arc<PastTools>) -> Self {
        Self { log: Arc::downgrade(log), views, store, tools, kept: Vec::new() }
    }

    /// Takes one step towards the state at a moment: finds where to begin, or folds a batch of records.
    pub(super) async fn advance(&mut self, progress: Progress, at: Moment) -> Result<Progress, PastError> {
        let log = self.log.upgrade().ok_or(PastError::Stopping)?;
        match progress {
            Progress::Asked => self.begin(log.as_ref(), at).await,
            Progress::Folding(fold) => self.fold_batch(log.as_ref(), fold).await,
            Progress::Reached(past) => Ok(Progress::Reached(past)),
        }
    }

    async fn begin(&mut self, log: &dyn EventLog, at: Moment) -> Result<Progress, PastError> {
        let until = position(log, at).await?;
        if let Some(past) = self.kept_at_or_before(until).filter(|past| past.state.applied() == until) {
            return Ok(Progress::Reached(past));
        }
        let state = self.nearest(log, until).await;
        let keep_at = Some(Seq(until.0 - (until.0 - state.applied().0) / PARTS_OF_A_FOLD));
        Ok(Progress::Folding(Box::new(Fold { state, until, keep_at })))
    }

    async fn fold_batch(&mut self, log: &dyn EventLog, mut fold: Box<Fold>) -> Result<Progress, PastError> {
        let Fold { state, until, keep_at } = &mut *fold;
        if state.applied() >= *until {
            return Ok(Progress::Reached(self.keep(fold.state)));
        }
        let records = log.read(state.applied(), BATCH_RECORDS).await?;
        let wanted = records.partition_point(|record| record.seq <= *until);
        for some in records[..wanted].chunks(RECORDS_BETWEEN_YIELDS) {
            for record in some {
                state.apply(record);
            }
            if keep_at.take_if(|keep_at| (*keep_at..*until).contains(&state.applied())).is_some() {
                self.keep(state.clone());
            }
            // Without idle time, a thread of the present that woke up on this core would wait for the end of a time slice.
            std::thread::yield_now();
        }
        // Between the position asked for and the one before it there may be a hole.
        let is_reached = state.applied() >= *until || wanted < records.len() || records.is_empty();
        Ok(if is_reached { Progress::Reached(self.keep(fold.state)) } else { Progress::Folding(fold) })
    }

    /// Keeps a state instead of the one whose last use is longest ago.
    fn keep(&mut self, state: State) -> Arc<PastState> {
        if self.kept.len() == STATES_KEPT {
            self.kept.remove(0);
        }
        let past = Arc::new(PastState::new(state, &self.tools));
        self.kept.push(Arc::clone(&past));
        past
    }

    /// The kept state nearest to a position, at or before it, which is used now.
    fn kept_at_or_before(&mut self, seq: Seq) -> Option<Arc<PastState>> {
        let before = self.kept.iter().enumerate().filter(|(_, past)| past.state.applied() <= seq);
        let (found, _) = before.max_by_key(|(_, past)| past.state.applied())?;
        let past = self.kept.remove(found);
        self.kept.push(Arc::clone(&past));
        Some(past)
    }

    /// The state nearest to a position among those at hand, to fold on from.
    async fn nearest(&mut self, log: &dyn EventLog, seq: Seq) -> State {
        let view = self.views.current();
        if view.applied() <= seq {
            return State::clone(&view);
        }
        let kept = self.kept_at_or_before(seq).map(|past| State::clone(&past.state));
        let kept_at = kept.as_ref().map_or(Seq::ZERO, State::applied);
        if self.store.positions().await.is_ok_and(|positions| positions.iter().any(|at| *at <= seq && *at > kept_at)) {
            match snapshot::newest_at_or_before(&self.store, log, seq).await {
                Ok(Some(state)) if state.applied() > kept_at => return state,
                Ok(_) => {}
                Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "folding the past without a snapshot"),
            }
        }
        kept.unwrap_or_default()
    }
}

/// The last position that a moment includes.
async fn position(log: &dyn EventLog, at: Moment) -> Result<Seq, PastError> {
    let tail = *log.tail().borrow();
    let seq = match at {
        Moment::At(seq) if seq > tail => return Err(PastError::Beyond { at: seq, tail }),
        Moment::At(seq) => seq,
        Moment::Time(time) => position_at(log, time).await?,
        Moment::Now => tail,
    };
    if seq == Seq::ZERO { Err(PastError::Before(at)) } else { Ok(seq) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::tools;
    use super::*;
    use crate::clock::Clock;
    use crate::config::Config;
    use crate::core::event::Record;
    use crate::dataset::Dataset;
    use crate::log::MemoryLog;

    fn folded(records: &[Record]) -> State {
        let mut state = State::default();
        for record in records {
            state.apply(record);
        }
        state
    }

    #[tokio::test]
    async fn moments_in_any_order_give_the_states_of_a_fold_from_the_beginning() {
        let directory = tempfile::tempdir().unwrap();
        let config = Config::load(None, []).unwrap().embedded_in(directory.path());
        let clock = Clock::system();
        let log: SharedLog = Arc::new(MemoryLog::new(clock.clone()));
        let dataset = Dataset::demo(clock.now());
        let runs = dataset.traces.iter().take(300).flat_map(|trace| trace.events(clock.now()).unwrap());
        log.append(dataset.tools.iter().cloned().chain(runs).map(Arc::new).collect()).await.unwrap();
        let tail = *log.tail().borrow();
        let records = log.read(Seq::ZERO, usize::try_from(tail.0).unwrap()).await.unwrap();
        let (views, store) = (Views::fixed(Arc::new(folded(&records))), Store::configured(&config).unwrap());
        let mut folder = Folder::new(&log, views, store, tools(&config));
        for at in [tail.0 - 1, tail.0 - 30, tail.0 - 200, 500, 1, 499, tail.0, 501].map(Seq) {
            let mut progress = Progress::Asked;
            let past = loop {
                match folder.advance(progress, Moment::At(at)).await.unwrap() {
                    Progress::Reached(past) => break past,
                    further => progress = further,
                }
            };
            assert_eq!(past.state.digest(), folded(&records[..usize::try_from(at.0).unwrap()]).digest(), "at {at}");
        }
        assert_eq!(folder.kept.len(), STATES_KEPT);
    }
}
