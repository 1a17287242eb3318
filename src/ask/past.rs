//! Questions about the past: answered from the state at a moment of the log, folded from the nearest state at or before it that is at
//! hand: one that was asked for lately, or a snapshot.
//!
//! One thread does all of it, one question after the other, so that however many ask, the present loses at most one processor core. The
//! thread has a lower priority than others and yields while it folds, so that few of them wait for the end of a time slice. A question whose asker has gone is dropped, also in
//! the middle of a fold.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::{mpsc, oneshot};

use super::{Asker, embed_lacking, measures_of};
use crate::config::{Config, Graph};
use crate::core::graph::measures::Measures;
use crate::core::id::Seq;
use crate::core::state::State;
use crate::embed::{EmbedError, SharedEmbedder};
use crate::history::{Moment, position_at};
use crate::log::{EventLog, ReadError, SharedLog};
use crate::snapshot::{self, Store};
use crate::views::{Latest, Views};

/// Questions that wait; further ones are refused.
const WAITING_MAX: usize = 16;
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

/// The niceness of the thread: beside a busy thread of the present it gets about a tenth of a core. At 19 it would get a hundredth, and
/// nobody would wait for its answers on a busy machine.
const NICENESS: i32 = 10;

/// Why a question about the past was not answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PastError {
    #[error("at: {at} is beyond the end of the log; its last record is {tail}")]
    Beyond { at: Seq, tail: Seq },
    #[error("at: {0} is before the first record of the log")]
    Before(Moment),
    #[error("{WAITING_MAX} questions about the past wait already; ask again in a moment")]
    Busy,
    #[error("the server is stopping")]
    Stopping,
    #[error("the question could not be answered; the log of the server says why")]
    Panicked,
    #[error("cannot read the log")]
    Read(#[from] ReadError),
}

/// A state of the past, with what answers need beside it, made when first needed.
pub(crate) struct PastState {
    pub(crate) state: Arc<State>,
    tools: Arc<PastTools>,
    /// Those of the state as it was: vectors that were recorded later belong to no measure of that time.
    measures: Latest<Measures>,
    asker: OnceLock<Asker>,
}

/// What askers of the past are made with.
struct PastTools {
    embedder: SharedEmbedder,
    graph: Graph,
    batch_texts_max: usize,
    intent_bytes_max: usize,
}

impl PastState {
    fn new(state: State, tools: &Arc<PastTools>) -> Self {
        let state = Arc::new(state);
        let measures = measures_of(&state, &tools.graph);
        Self { state, tools: Arc::clone(tools), measures, asker: OnceLock::new() }
    }

    /// The measures of its graph.
    pub(crate) fn measures(&self) -> Arc<Measures> {
        self.measures.current()
    }

    /// An asker that answers from it.
    pub(crate) fn asker(&self) -> Result<&Asker, EmbedError> {
        if self.asker.get().is_none() {
            let PastTools { embedder, batch_texts_max, intent_bytes_max, .. } = &*self.tools;
            let mut state = State::clone(&self.state);
            embed_lacking(&mut state, &**embedder, *batch_texts_max)?;
            let asker = Asker::of_state(Arc::new(state), self.measures.clone(), embedder, *intent_bytes_max);
            // The only thread that sets it is this one.
            drop(self.asker.set(asker));
        }
        Ok(self.asker.get().expect("it was set"))
    }
}

type Question = Box<dyn FnOnce(Result<&PastState, PastError>) + Send>;

struct Job {
    at: Moment,
    question: Question,
    /// Whether nobody waits for the answer any more.
    is_dropped: Box<dyn Fn() -> bool + Send>,
}

/// The asker of the past; the thread behind it ends when all its clones are gone.
#[derive(Clone)]
pub(crate) struct Past {
    jobs: mpsc::Sender<Job>,
}

impl Past {
    /// Starts the thread.
    pub(crate) fn start(
        config: &Config,
        store: Store,
        (log, views): (&SharedLog, &Views),
        embedder: &SharedEmbedder,
    ) -> std::io::Result<Self> {
        let (jobs, waiting) = mpsc::channel(WAITING_MAX);
        let folder = Folder {
            log: Arc::downgrade(log),
            views: views.clone(),
            store,
            tools: Arc::new(PastTools {
                embedder: Arc::clone(embedder),
                graph: config.graph.clone(),
                batch_texts_max: config.embedding.batch_texts_max,
                intent_bytes_max: config.limits.intent_bytes_max,
            }),
            kept: Vec::new(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let answer_all = move || {
            lower_priority();
            runtime.block_on(folder.run(waiting));
        };
        std::thread::Builder::new().name("pml-past".to_owned()).spawn(answer_all)?;
        Ok(Self { jobs })
    }

    /// Answers a question from the state at a moment.
    pub(crate) async fn ask<T: Send + 'static, E: Send + 'static + From<PastError>>(
        &self,
        at: Moment,
        question: impl FnOnce(&PastState) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let (reply, answer) = oneshot::channel();
        let reply = Arc::new(std::sync::Mutex::new(Some(reply)));
        let waits = Arc::clone(&reply);
        let is_dropped = move || waits.lock().is_ok_and(|reply| reply.as_ref().is_some_and(oneshot::Sender::is_closed));
        let question: Question = Box::new(move |past| {
            let answer = past.map_err(E::from).and_then(question);
            if let Some(reply) = reply.lock().ok().and_then(|mut reply| reply.take()) {
                // Whoever asked may have gone.
                drop(reply.send(answer));
            }
        });
        let job = Job { at, question, is_dropped: Box::new(is_dropped) };
        self.jobs.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => PastError::Busy,
            mpsc::error::TrySendError::Closed(_) => PastError::Stopping,
        })?;
        answer
            .await
            .unwrap_or_else(|_| Err(if self.jobs.is_closed() { PastError::Stopping } else { PastError::Panicked }.into()))
    }
}

/// What the thread owns.
struct Folder {
    /// Held only while a question is answered, so that the log closes with the process that opened it.
    log: Weak<dyn EventLog>,
    views: Views,
    store: Store,
    tools: Arc<PastTools>,
    /// The one used last comes last.
    kept: Vec<Arc<PastState>>,
}

impl Folder {
    async fn run(mut self, mut waiting: mpsc::Receiver<Job>) {
        while let Some(Job { at, question, is_dropped }) = waiting.recv().await {
            if is_dropped() {
                continue;
            }
            let found = match self.state_at(at, &is_dropped).await {
                Ok(Some(past)) => Ok(past),
                Ok(None) => continue,
                Err(error) => Err(error),
            };
            answer(question, found);
        }
    }

    /// The state at a moment; `None` if the question was dropped meanwhile.
    async fn state_at(
        &mut self,
        at: Moment,
        is_dropped: &(dyn Fn() -> bool + Send),
    ) -> Result<Option<Arc<PastState>>, PastError> {
        let log = self.log.upgrade().ok_or(PastError::Stopping)?;
        let seq = position(log.as_ref(), at).await?;
        if let Some(past) = self.kept_at_or_before(seq).filter(|past| past.state.applied() == seq) {
            return Ok(Some(past));
        }
        let mut state = self.nearest(log.as_ref(), seq).await;
        let mut before_last_part = Some(Seq(seq.0 - (seq.0 - state.applied().0) / PARTS_OF_A_FOLD));
        while state.applied() < seq {
            if is_dropped() {
                return Ok(None);
            }
            let records = log.read(state.applied(), BATCH_RECORDS).await?;
            let until = records.partition_point(|record| record.seq <= seq);
            for some in records[..until].chunks(RECORDS_BETWEEN_YIELDS) {
                for record in some {
                    state.apply(record);
                }
                if before_last_part.take_if(|before| (*before..seq).contains(&state.applied())).is_some() {
                    self.keep(state.clone());
                }
                // A thread of the present that woke up on this core would wait for the end of a time slice.
                std::thread::yield_now();
            }
            // Between the position asked for and the one before it there may be a hole.
            if until < records.len() || records.is_empty() {
                break;
            }
        }
        Ok(Some(self.keep(state)))
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

/// Answers a question. One that panics loses its own answer and not those of all later ones.
fn answer(question: Question, found: Result<Arc<PastState>, PastError>) {
    let answered = catch_unwind(AssertUnwindSafe(|| match found {
        Ok(past) => question(Ok(&past)),
        Err(error) => question(Err(error)),
    }));
    if answered.is_err() {
        tracing::error!("a question about the past panicked");
    }
}

/// Lowers the priority of this thread. Only Linux gives each thread a niceness of its own; elsewhere it would be that of the process.
fn lower_priority() {
    if cfg!(target_os = "linux")
        && let Err(error) = rustix::process::nice(NICENESS)
    {
        tracing::debug!(%error, "the thread for questions about the past keeps its priority");
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
    use super::*;
    use crate::clock::Clock;
    use crate::core::event::{Event, Record, ToolRemoved};
    use crate::dataset::Dataset;
    use crate::decisions::decision_record;
    use crate::embed;
    use crate::log::MemoryLog;

    fn tools(config: &Config) -> Arc<PastTools> {
        Arc::new(PastTools {
            embedder: embed::builtin(),
            graph: config.graph.clone(),
            batch_texts_max: config.embedding.batch_texts_max,
            intent_bytes_max: config.limits.intent_bytes_max,
        })
    }

    fn folded(records: &[Record]) -> State {
        let mut state = State::default();
        for record in records {
            state.apply(record);
        }
        state
    }

    #[test]
    fn the_graph_and_the_answers_of_a_past_state_share_its_measures() {
        let past = PastState::new(State::default(), &tools(&Config::load(None, []).unwrap()));
        let of_asker = past.asker().unwrap().measures.current();
        assert!(Arc::ptr_eq(&past.measures(), &of_asker));
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
        let mut folder = Folder { log: Arc::downgrade(&log), views, store, tools: tools(&config), kept: Vec::new() };
        for at in [tail.0 - 1, tail.0 - 30, tail.0 - 200, 500, 1, 499, tail.0, 501].map(Seq) {
            let past = folder.state_at(Moment::At(at), &|| false).await.unwrap().unwrap();
            assert_eq!(past.state.digest(), folded(&records[..usize::try_from(at.0).unwrap()]).digest(), "at {at}");
        }
        assert_eq!(folder.kept.len(), STATES_KEPT);
    }

    #[tokio::test]
    async fn a_question_that_panics_loses_its_own_answer_only() {
        let config = Config::load(None, []).unwrap();
        let home = tempfile::TempDir::new().unwrap();
        let store = Store::at(&home.path().display().to_string(), &config).unwrap();
        let clock = Clock::system();
        let log: SharedLog = Arc::new(MemoryLog::new(clock.clone()));
        let event = Event::ToolRemoved(ToolRemoved { tool: "x:tool".parse().unwrap() });
        log.append(vec![Arc::new(decision_record(event, &clock))]).await.unwrap();
        let past = Past::start(&config, store, (&log, &Views::fixed(Arc::default())), &embed::builtin()).unwrap();
        let broken = |_: &PastState| -> Result<(), PastError> { panic!("a defect") };
        assert!(matches!(past.ask(Moment::Now, broken).await, Err(PastError::Panicked)));
        let applied = past.ask(Moment::Now, |past| Ok::<_, PastError>(past.state.applied())).await;
        assert_eq!(applied.unwrap(), Seq(1));
    }
}
