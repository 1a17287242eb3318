//! `search_tools`, deprecated but served (S0, S3 2.1): semantic rank mixed with how close a tool stands to those already in use.

use super::Question;
use super::discover::{Found, Hit, Only, Wanted, discover};
use super::index::Index;
use crate::core::graph::Node;
use crate::core::graph::measures::Measures;

/// Semantic answers that are ranked again with the graph.
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

#[derive(Clone, Debug)]
pub struct FoundTools {
    pub hits: Vec<ToolHit>,
    /// How much the semantic half counted.
    pub alpha: f64,
    pub total: usize,
}

/// The best tools for the question, given those in use.
pub fn search_tools(index: &Index, measures: &Measures, question: &Question, context: &[Node], limit: usize) -> FoundTools {
    let wanted = Wanted { only: Only::Tools, score_min: 0.0, limit: CANDIDATES.max(limit) };
    let Found { hits, tools, .. } = discover(index, question, wanted);
    let alpha = measures.alpha(!context.is_empty());
    let rank = |hit: Hit| {
        let graph = measures.relatedness(hit.node, context);
        ToolHit { graph, score: alpha * hit.semantic + (1.0 - alpha) * graph, hit }
    };
    let mut hits: Vec<ToolHit> = hits.into_iter().map(rank).collect();
    // Stable: what ties keeps the order of the semantic answer.
    hits.sort_by(|a, b| b.score.total_cmp(&a.score));
    hits.truncate(limit);
    FoundTools { hits, alpha, total: tools }
}
