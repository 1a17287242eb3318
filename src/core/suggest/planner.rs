//! What suggestions need besides the state, kept together: the search index, the path index and the fitted plan model.

use std::sync::Arc;

use super::{PlanModel, Sources, Suggestion, suggest};
use crate::graph::adjacency::Adjacency;
use crate::id::Callee;
use crate::paths::PathIndex;
use crate::rank::{Index, Question};

/// The plan model is fitted again when the number of remembered intents differs from that of the last fit by this share of it.
const REFIT_SHARE: usize = 10;

/// Everything derived that suggestions are computed from, except for the graph, which belongs to the measures.
#[derive(Clone, Debug, Default)]
pub struct Planner {
    index: Arc<Index>,
    paths: PathIndex,
    model: PlanModel,
    /// The number of remembered intents at the last fit; `None` before the first.
    fitted_to: Option<usize>,
}

impl Planner {
    /// The planner for a newer index. The path index and the past runs follow by differences: O(remembered intents), plus what
    /// changed. The model is fitted again only when the memory has grown or shrunk by a tenth and the weights of `index` are fitted:
    /// at most 240 past intents with about three discovers each, so about a second with 10,000 tools.
    #[must_use]
    pub fn update(&self, index: Arc<Index>) -> Self {
        let mut paths = self.paths.clone();
        paths.update(index.state());
        let intents = index.intents().len();
        let is_stale = self.fitted_to.is_none_or(|fitted| intents.abs_diff(fitted) * REFIT_SHARE >= fitted.max(1));
        let is_due = is_stale && (index.is_calibrated() || !index.can_be_calibrated());
        let (model, fitted_to) =
            if is_due { (self.model.fitted(&index), Some(intents)) } else { (self.model.update(&index), self.fitted_to) };
        Self { index, paths, model, fitted_to }
    }

    /// The index that answers.
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// Suggests plans for a question, given the calls made already.
    pub fn suggest(&self, graph: &Adjacency, question: &Question, context: &[Callee]) -> Suggestion {
        suggest(Sources { index: &self.index, paths: &self.paths, graph, model: &self.model }, question, context)
    }
}
