//! A question with what is computed once for it: near past intents, the tools' fit, and what is done already.

use super::past_runs::PastRuns;
use crate::graph::{Node, NodeKind};
use crate::predict::candidates::Candidate;
use crate::predict::evidence::{AskedText, Evidence, Excluded};
use crate::predict::lesson::HeldOutScores;
use crate::predict::{Ranking, probabilities_by};
use crate::rank::calibrate::past_question;
use crate::rank::{Clause, Index, Question};
use crate::state::State;

/// One question, asked of one state.
pub(super) struct Asked<'a> {
    pub(super) state: &'a State,
    pub(super) runs: &'a PastRuns,
    pub(super) evidence: Evidence,
    /// The remembered intent that is asked about and must not answer for itself; none for a user's question.
    pub(super) excluded: Excluded,
    /// Calls made already, in order.
    pub(super) context: Vec<Node>,
    /// What ranks the next calls.
    ranking: Ranking<'a>,
}

/// What trained parts that have not seen a past intent say about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldOut<'a> {
    pub(crate) scores: &'a HeldOutScores,
    pub(crate) ranking: Ranking<'a>,
}

impl<'a> Asked<'a> {
    /// A user's question.
    pub(super) fn new(
        state: &'a State,
        runs: &'a PastRuns,
        question: &Question,
        context: Vec<Node>,
        ranking: Ranking<'a>,
    ) -> Self {
        let evidence = Evidence::for_question(state, question);
        Self { state, runs, evidence, excluded: Excluded::default(), context, ranking }
    }

    /// A remembered intent, asked as if it had never been seen; `None` if the memory has forgotten it.
    pub(super) fn past(index: &'a Index, runs: &'a PastRuns, entry: usize, held_out: Option<HeldOut<'a>>) -> Option<Self> {
        let (state, question) = (index.state(), past_question(index, entry));
        let remembered = index.intents().entry(entry);
        let number = state.memory.number(remembered.hash)?;
        let excluded = Excluded { number: Some(number), sequences: remembered.sequences.clone() };
        let whole = AskedText { text: &question.intent, vector: question.vector.as_deref() };
        let clauses = question.clauses.iter().map(|Clause { text, vector }| AskedText { text, vector: vector.as_deref() });
        let mut evidence = Evidence::compute(state, whole, &clauses.collect::<Vec<_>>(), &excluded);
        if let Some(HeldOut { scores, .. }) = held_out {
            evidence.add_vectors(question.vectors());
            evidence.add_head(scores.head.clone());
            evidence.add_target(scores.target.clone());
        }
        let ranking = held_out.map_or(Ranking::Online, |held_out| held_out.ranking);
        Some(Self { state, runs, evidence, excluded, context: Vec::new(), ranking })
    }

    /// What may come after the calls made already and these, the likeliest first.
    pub(super) fn next_calls(&self, planned: &[Node]) -> Vec<(Candidate, f64)> {
        let context: Vec<Option<Node>> = self.context.iter().chain(planned).map(|node| Some(*node)).collect();
        probabilities_by(self.state, &self.evidence, &context, &self.excluded, self.ranking)
    }

    /// Whether a node may be a task: a tool that is not removed and not done already.
    pub(super) fn is_open(&self, node: Node) -> bool {
        let usable = match node.kind() {
            NodeKind::Tool(position) => !self.state.tools.at(position).removed,
            NodeKind::Capability(_) => false,
        };
        usable && !self.context.contains(&node)
    }

    /// The clause of the question that a tool answers best.
    pub(super) fn clause(&self, node: Node) -> Option<usize> {
        match node.kind() {
            NodeKind::Tool(position) => self.evidence.answered_clause(position),
            NodeKind::Capability(_) => None,
        }
    }

    /// The similarity of the nearest past intent, 0 to 1.
    pub(super) fn familiarity(&self) -> f64 {
        self.evidence.near.first().map_or(0.0, |past| f64::from(past.similarity).clamp(0.0, 1.0))
    }
}
