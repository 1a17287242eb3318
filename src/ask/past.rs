//! Questions about the past: answered from the state at a moment of the log, folded from the nearest state at or before it that is at
//! hand: one that was asked for lately, or a snapshot.
//!
//! One question is worked on after the other, piece by piece in idle time (`idle`), so that however many ask, the present loses next to
//! nothing; on a machine without idle time, by a thread of low priority. A question whose asker has gone is dropped, also in the middle of
//! a fold.

mod folder;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use self::folder::{Folder, Progress};
use super::{Asker, embed_lacking, measures_of};
use crate::config::{Config, Graph};
use crate::core::graph::measures::Measures;
use crate::core::id::Seq;
use crate::core::state::State;
use crate::embed::{EmbedError, SharedEmbedder};
use crate::history::Moment;
use crate::idle::IdleTime;
use crate::log::{ReadError, SharedLog};
use crate::snapshot::Store;
use crate::views::{Latest, Views};

/// Questions that wait; further ones are refused.
const WAITING_MAX: usize = 16;
/// Batches of records folded in one piece of work; what is worked on in idle time goes on elsewhere after a piece, if the machine became busy.
const BATCHES_PER_PIECE: usize = 4;
/// The niceness of the thread, for a machine without idle time: beside a busy thread of the present it gets about a tenth of a core. At 19
/// it would get a hundredth, and nobody would wait for its answers.
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
        let tools = Arc::new(PastTools {
            embedder: Arc::clone(embedder),
            graph: config.graph.clone(),
            batch_texts_max: config.embedding.batch_texts_max,
            intent_bytes_max: config.limits.intent_bytes_max,
        });
        let folder = Folder::new(log, views.clone(), store, tools);
        let runtime = Arc::new(tokio::runtime::Builder::new_current_thread().enable_all().build()?);
        let answer_all = move || {
            lower_priority();
            answer_all(folder, waiting, &runtime);
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

/// Works on one question after the other until nobody can ask any more.
fn answer_all(mut folder: Folder, mut waiting: mpsc::Receiver<Job>, runtime: &Arc<Runtime>) {
    while let Some(job) = runtime.block_on(waiting.recv()) {
        let mut idle = IdleTime::default();
        let mut left = Some(Work { job, progress: Progress::Asked });
        while let Some(work) = left {
            let (runtime, mut owned) = (Arc::clone(runtime), folder);
            (folder, left) = idle.run(move || {
                let left = runtime.block_on(work.do_piece(&mut owned));
                (owned, left)
            });
        }
    }
}

/// A question, and how far it is worked on.
struct Work {
    job: Job,
    progress: Progress,
}

impl Work {
    /// Works until the question is answered or dropped, or a piece is done: then it returns what is left.
    async fn do_piece(mut self, folder: &mut Folder) -> Option<Self> {
        for _ in 0..BATCHES_PER_PIECE {
            if (self.job.is_dropped)() {
                return None;
            }
            self.progress = match folder.advance(self.progress, self.job.at).await {
                Ok(Progress::Reached(past)) => {
                    answer(self.job.question, Ok(&past));
                    return None;
                }
                Ok(progress) => progress,
                Err(error) => {
                    answer(self.job.question, Err(error));
                    return None;
                }
            };
        }
        Some(self)
    }
}

/// Answers a question. One that panics loses its own answer and not those of all later ones.
fn answer(question: Question, found: Result<&PastState, PastError>) {
    let answered = catch_unwind(AssertUnwindSafe(|| question(found)));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::core::event::{Event, ToolRemoved};
    use crate::decisions::decision_record;
    use crate::embed;
    use crate::log::MemoryLog;

    pub(super) fn tools(config: &Config) -> Arc<PastTools> {
        Arc::new(PastTools {
            embedder: embed::builtin(),
            graph: config.graph.clone(),
            batch_texts_max: config.embedding.batch_texts_max,
            intent_bytes_max: config.limits.intent_bytes_max,
        })
    }

    #[test]
    fn the_graph_and_the_answers_of_a_past_state_share_its_measures() {
        let past = PastState::new(State::default(), &tools(&Config::load(None, []).unwrap()));
        let of_asker = past.asker().unwrap().measures.current();
        assert!(Arc::ptr_eq(&past.measures(), &of_asker));
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
