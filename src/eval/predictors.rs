//! Threads that predict the decisions of runs, each from the state before the run, while the fold goes on.
//!
//! A state is a handful of shared pointers, so every run takes its own copy along, and what is folded meanwhile changes nothing in it.

use std::num::NonZero;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use crate::core::graph::Node;
use crate::core::predict::candidates::Candidate;
use crate::core::predict::evidence::Evidence;
use crate::core::predict::probabilities;
use crate::core::rank::Question;
use crate::core::state::State;
use crate::readers::report::Prediction;

/// Threads, at most; there are no more than processor cores.
const THREADS_MAX: usize = 8;
/// Runs that wait for each thread. The fold waits for a thread that has more to do.
const WAITING_MAX: usize = 8;

/// A run before it is learnt.
pub(super) struct AskedRun {
    pub(super) state: State,
    pub(super) question: Question,
    /// The calls that came; `None` for one that the state does not know.
    pub(super) calls: Vec<Option<Node>>,
}

/// The threads. Each answers every so many runs, so the answers are in the order of the runs.
pub(super) struct Predictors {
    threads: Vec<(SyncSender<AskedRun>, Receiver<Vec<Prediction>>)>,
    asked: usize,
}

impl Predictors {
    pub(super) fn start() -> std::io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads = (0..cores.min(THREADS_MAX)).map(|_| {
            let ((ask, asked), (answer, answers)) = (sync_channel(WAITING_MAX), channel());
            std::thread::Builder::new().name("pml-report".to_owned()).spawn(move || predict_all(&asked, &answer))?;
            Ok((ask, answers))
        });
        Ok(Self { threads: threads.collect::<std::io::Result<_>>()?, asked: 0 })
    }

    /// Hands a run to its thread.
    pub(super) fn ask(&mut self, run: AskedRun) {
        let (ask, _) = &self.threads[self.asked % self.threads.len()];
        ask.send(run).expect("a thread ends when nobody can ask it any more");
        self.asked += 1;
    }

    /// Waits for the predictions of all runs: of each run those of its calls and of its end.
    pub(super) fn finish(self) -> Vec<Vec<Prediction>> {
        let answer = |run: usize| self.threads[run % self.threads.len()].1.recv().expect("a thread answers every run");
        (0..self.asked).map(answer).collect()
    }
}

fn predict_all(asked: &Receiver<AskedRun>, answer: &Sender<Vec<Prediction>>) {
    for run in asked {
        if answer.send(predict(&run)).is_err() {
            return;
        }
    }
}

fn predict(AskedRun { state, question, calls }: &AskedRun) -> Vec<Prediction> {
    let evidence = Evidence::for_question(state, question);
    let decision = |at: usize| first_call(&probabilities(state, &evidence, &calls[..at]), calls.get(at).copied().flatten());
    (0..=calls.len()).map(decision).collect()
}

/// The first call or end among the candidates, before the decision `actual`: a call, or the end. Capabilities are made of calls.
fn first_call(ranked: &[(Candidate, f64)], actual: Option<Node>) -> Prediction {
    let first = ranked.iter().find(|(candidate, _)| candidate.tool().is_some() || *candidate == Candidate::Done);
    match first.and_then(|(candidate, p)| Some((candidate.tool()?, *p))) {
        Some((tool, p)) => Prediction { confidence: p, right: actual == Some(Node::tool(tool)) },
        None => Prediction { confidence: 0.0, right: false },
    }
}
