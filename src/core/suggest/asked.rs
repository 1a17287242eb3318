//! A question with everything that is computed once for it: signals of all items, near past intents, and what is done already.

use super::past_runs::PastRuns;
use crate::graph::{Node, NodeKind};
use crate::predict::evidence::{Evidence, Excluded};
use crate::rank::calibrate::past_question;
use crate::rank::signals::Signals;
use crate::rank::{Index, Question};
use crate::state::State;

/// One question, asked of one state.
pub(super) struct Asked<'a> {
    pub(super) index: &'a Index,
    pub(super) runs: &'a PastRuns,
    pub(super) signals: Signals,
    pub(super) evidence: Evidence,
    /// The remembered intent that is asked about and must not answer for itself; none for a user's question.
    pub(super) excluded: Excluded,
    /// Calls made already, in order.
    pub(super) context: Vec<Node>,
}

impl<'a> Asked<'a> {
    /// A user's question.
    pub(super) fn new(index: &'a Index, runs: &'a PastRuns, question: &Question, context: Vec<Node>) -> Self {
        let signals = Signals::compute(index, question, None);
        let evidence = Evidence::for_question(index.state(), question);
        Self { index, runs, signals, evidence, excluded: Excluded::default(), context }
    }

    /// A remembered intent, asked as if it had never been seen; `None` if the memory has forgotten it.
    pub(super) fn past(index: &'a Index, runs: &'a PastRuns, entry: usize) -> Option<Self> {
        let question = past_question(index, entry);
        let signals = Signals::compute(index, &question, Some(entry));
        let remembered = index.intents().entry(entry);
        let number = index.state().memory.number(remembered.hash)?;
        let excluded = Excluded { number: Some(number), sequences: remembered.sequences.clone() };
        let clauses: Vec<&[f32]> = question.clauses.iter().filter_map(|clause| clause.vector.as_deref()).collect();
        let evidence = Evidence::from_vectors(index.state(), question.vector.as_deref(), &clauses, &excluded);
        Some(Self { index, runs, signals, evidence, excluded, context: Vec::new() })
    }

    pub(super) fn state(&self) -> &'a State {
        self.index.state()
    }

    /// Whether a node may be a task: a tool that is not removed and not done already.
    pub(super) fn is_open(&self, node: Node) -> bool {
        let usable = match node.kind() {
            NodeKind::Tool(position) => !self.state().tools.at(position).removed,
            NodeKind::Capability(_) => false,
        };
        usable && !self.context.contains(&node)
    }

    /// The clause of the question that a tool answers best.
    pub(super) fn clause(&self, node: Node) -> Option<usize> {
        match node.kind() {
            NodeKind::Tool(position) => self.evidence.best_clause(position).map(|(clause, _)| clause),
            NodeKind::Capability(_) => None,
        }
    }
}
