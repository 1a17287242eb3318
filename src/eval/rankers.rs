//! The rankers that `discover` is evaluated with: what pml serves, and plain baselines. Each ranks every tool; ties are broken by id.

use std::collections::BTreeSet;

use crate::core::graph::{Node, NodeKind};
use crate::core::id::ToolId;
use crate::core::rank::discover::{DiscoverOptions, ItemFilter, discover};
use crate::core::rank::intent_index::Reach;
use crate::core::rank::{Index, Question};

/// The baseline `memory`: the 50 nearest past runs vote with their similarity to the eighth power, which did well over all datasets
/// among the values tried.
const MEMORY: Reach = Reach { runs: 50, power: 8 };

/// A ranker of tools for an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranker {
    Pml,
    Popularity,
    Bm25,
    Cosine,
    Memory,
    /// The trained SHGAT alone.
    Shgat,
}

impl Ranker {
    pub const ALL: [Self; 6] = [Self::Pml, Self::Popularity, Self::Bm25, Self::Cosine, Self::Memory, Self::Shgat];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Pml => "pml",
            Self::Popularity => "popularity",
            Self::Bm25 => "bm25",
            Self::Cosine => "cosine",
            Self::Memory => "memory",
            Self::Shgat => "shgat",
        }
    }

    /// Returns all tools, the best first; `None` if the ranker needs a trained part that does not serve.
    pub fn rank(self, index: &Index, question: &Question) -> Option<Vec<ToolId>> {
        let documents = index.documents();
        let none = || vec![0.0; documents.len()];
        let scores = match self {
            Self::Pml => return Some(served(index, question)),
            Self::Shgat => return shgat(index, question),
            Self::Popularity => index.popularity(None),
            Self::Bm25 => documents.words(&question.intent),
            Self::Cosine => question.vector.as_ref().map_or_else(none, |vector| documents.cosines(&[vector]).remove(0)),
            Self::Memory => question.vector.as_ref().map_or_else(none, |vector| {
                let intents = index.intents();
                let [near] = intents.nearest(vector, [MEMORY], None);
                intents.votes(&near, documents)
            }),
        };
        let mut tools: Vec<(f32, ToolId)> = scores
            .into_iter()
            .enumerate()
            .filter_map(|(slot, score)| Some((score, tool(index, documents.node(slot))?)))
            .collect();
        tools.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        Some(tools.into_iter().map(|(_, tool)| tool).collect())
    }
}

/// Returns the tools by the scores of the trained SHGAT.
fn shgat(index: &Index, question: &Question) -> Option<Vec<ToolId>> {
    let (state, vector) = (index.state(), question.vector.as_ref()?);
    let targets = state.predictor.parts.targets(state).filter(|targets| targets.dim() == vector.len())?;
    let scores = targets.tools(state, vector, usize::MAX);
    Some(scores.iter().filter_map(|score| tool(index, score.node)).collect())
}

/// Returns the tools that `discover` answers, then all others by id.
fn served(index: &Index, question: &Question) -> Vec<ToolId> {
    let wanted = DiscoverOptions { only: ItemFilter::Tools, score_min: 0.0, limit: usize::MAX };
    let hits = discover(index, question, wanted).hits;
    let mut tools: Vec<ToolId> = hits.iter().filter_map(|hit| tool(index, hit.node)).collect();
    let named: BTreeSet<ToolId> = tools.iter().cloned().collect();
    tools.extend(index.state().tools.iter().map(|tool| tool.id.clone()).filter(|id| !named.contains(id)));
    tools
}

fn tool(index: &Index, node: Node) -> Option<ToolId> {
    match node.kind() {
        NodeKind::Tool(position) => Some(index.state().tools.at(position).id.clone()),
        NodeKind::Capability(_) => None,
    }
}
