//! `search_tools`, deprecated but served (S0, S3 2.1): tools by semantic score and relatedness to the tools already in use.

use super::Question;
use super::discover::{DiscoverOptions, Discovery, Hit, ItemFilter, discover};
use super::index::Index;
use crate::graph::Node;
use crate::graph::measures::Measures;

/// Semantic hits that are ranked again with the graph.
const CANDIDATES: usize = 50;

/// A tool with both halves of its score.
#[derive(Clone, Debug)]
pub struct ToolHit {
    pub hit: Hit,
    /// Relatedness to the context.
    pub graph: f64,
    /// alpha * semantic + (1 - alpha) * graph.
    pub score: f64,
}

/// The answer to a `search_tools` question.
#[derive(Clone, Debug)]
pub struct FoundTools {
    pub hits: Vec<ToolHit>,
    /// Weight of the semantic score.
    pub alpha: f64,
    /// Tools that match semantically, whatever the limit.
    pub total: usize,
}

/// Ranks the tools for a question, given the tools in use (`context`).
pub fn search_tools(index: &Index, measures: &Measures, question: &Question, context: &[Node], limit: usize) -> FoundTools {
    let wanted = DiscoverOptions { only: ItemFilter::Tools, score_min: 0.0, limit: CANDIDATES.max(limit) };
    let Discovery { hits, tools, .. } = discover(index, question, wanted);
    let alpha = measures.alpha(!context.is_empty());
    let rank = |hit: Hit| {
        let graph = measures.relatedness(hit.node, context);
        ToolHit { graph, score: alpha * hit.semantic + (1.0 - alpha) * graph, hit }
    };
    let mut hits: Vec<ToolHit> = hits.into_iter().map(rank).collect();
    // The sort is stable: ties keep the order of the semantic score.
    hits.sort_by(|a, b| b.score.total_cmp(&a.score));
    hits.truncate(limit);
    FoundTools { hits, alpha, total: tools }
}
