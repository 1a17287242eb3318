//! Scores for an intent, from enriched vectors that are kept.

use std::collections::BTreeMap;

use ndarray::Array2;

use super::Switches;
use super::batch::tools_below;
use super::features::{Features, HeadValues};
use super::forward::Enriched;
use super::hypergraph::{Hypergraph, Node, number};
use super::logits::{fixed_logits, normalise};
use super::parameters::Parameters;
use super::product::rows_times;
use super::real::{Real, add_scaled, dot};
use super::weights::ScoreWeights;

/// The probability of a node for which nothing is known, and of an empty path.
const UNKNOWN: f32 = 0.5;
/// How much more each node of a path counts than the one before it: the later ones decide.
const LATER: f32 = 0.5;

/// A node with its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    pub node: Node,
    /// The level of a capability; for a tool the lowest of the capabilities that contain it, `None` if none does.
    pub level: Option<usize>,
    /// The probability that the intent asks for this node.
    pub score: f32,
    /// Its logit, which orders also scores that are rounded to 1.
    pub logit: f32,
    /// The parts of the three heads (semantic, structure, temporal) in the logit of the score.
    pub heads: [f32; 3],
}

/// Everything of one kind of node that scoring needs.
#[derive(Clone, Debug)]
struct Kind {
    /// Enriched vectors of length one.
    units: Array2<f32>,
    heads: HeadValues<f32>,
    /// The part of the logit that does not depend on the intent, offset included.
    fixed: Vec<f32>,
}

/// `Scorer` answers for one state of the hypergraph and the parameters. Making one costs about as much as reading all vectors; keep it.
/// An intent MUST have the length of the vectors.
#[derive(Clone, Debug)]
pub struct Scorer {
    weights: ScoreWeights<f32>,
    tools: Kind,
    capabilities: Kind,
    tool_levels: Vec<Option<usize>>,
    capability_levels: Vec<usize>,
    tools_below: Vec<Vec<u32>>,
}

impl Scorer {
    pub fn new(
        graph: &Hypergraph,
        enriched: &Enriched,
        features: &Features,
        parameters: &Parameters,
        switches: Switches,
    ) -> Self {
        let weights = ScoreWeights::new(parameters, switches);
        Self {
            tools: Kind::new(&enriched.tools, features.of_tools(graph.tools()), &weights),
            capabilities: Kind::new(&enriched.capabilities, features.of_capabilities(graph.capabilities()), &weights),
            weights,
            tool_levels: (0..graph.tools()).map(|tool| graph.tool_level(tool)).collect(),
            capability_levels: (0..graph.capabilities()).map(|capability| graph.level(capability)).collect(),
            tools_below: tools_below(graph),
        }
    }

    /// The length of an intent.
    pub fn dim(&self) -> usize {
        self.weights.projection.nrows()
    }

    /// The number of tools that have a score.
    pub const fn tools(&self) -> usize {
        self.tool_levels.len()
    }

    /// Whether a node can be scored.
    pub const fn has(&self, node: Node) -> bool {
        match node {
            Node::Tool(tool) => tool < self.tool_levels.len(),
            Node::Capability(capability) => capability < self.capability_levels.len(),
        }
    }

    /// The score of every tool, by row.
    pub fn tool_scores(&self, intent: &[f32]) -> Vec<f32> {
        self.tools.logits(&self.project(intent), &self.weights).into_iter().map(Real::sigmoid).collect()
    }

    /// The score of every capability, by row.
    pub fn capability_scores(&self, intent: &[f32]) -> Vec<f32> {
        self.capabilities.logits(&self.project(intent), &self.weights).into_iter().map(Real::sigmoid).collect()
    }

    /// All tools, the best first.
    pub fn score_all_tools(&self, intent: &[f32]) -> Vec<Scored> {
        self.score_top_tools(intent, usize::MAX)
    }

    /// The `count` best tools and those whose logit equals that of the last, the best first. Less work than ranking all of them.
    pub fn score_top_tools(&self, intent: &[f32], count: usize) -> Vec<Scored> {
        let rows: Vec<u32> = (0..number(self.tool_levels.len())).collect();
        let scored = self.tools.rank(&rows, count, &self.project(intent), &self.weights);
        scored.into_iter().map(|(row, part)| part.of(Node::Tool(row), self.tool_levels[row])).collect()
    }

    /// All capabilities, the best first.
    pub fn score_all_capabilities(&self, intent: &[f32]) -> Vec<Scored> {
        self.score_capabilities(intent, |_| true)
    }

    /// The capabilities of level 0, the best first.
    pub fn score_leaf_capabilities(&self, intent: &[f32]) -> Vec<Scored> {
        self.score_capabilities(intent, |level| level == 0)
    }

    /// The capabilities of one level, the best first.
    pub fn score_meta_capabilities(&self, intent: &[f32], level: usize) -> Vec<Scored> {
        self.score_capabilities(intent, |of| of == level)
    }

    /// The `count` best capabilities of every level.
    pub fn top_by_level(&self, intent: &[f32], count: usize) -> BTreeMap<usize, Vec<Scored>> {
        let mut levels: BTreeMap<usize, Vec<Scored>> = BTreeMap::new();
        for scored in self.score_all_capabilities(intent) {
            let level = levels.entry(scored.level.unwrap_or(0)).or_default();
            if level.len() < count {
                level.push(scored);
            }
        }
        levels
    }

    /// The probability that a path of nodes succeeds: the mean of their scores, in which later nodes count more.
    pub fn predict_path_success(&self, intent: &[f32], path: &[Node]) -> f32 {
        path_success(self.score_nodes(intent, path).into_iter())
    }

    /// The scores of some nodes, one half for one that is not known.
    pub fn score_nodes(&self, intent: &[f32], nodes: &[Node]) -> Vec<f32> {
        let query = self.project(intent);
        let score = |node: &Node| match *node {
            _ if !self.has(*node) => UNKNOWN,
            Node::Tool(row) => self.tools.logit(row, &query, &self.weights).sigmoid(),
            Node::Capability(row) => self.capabilities.logit(row, &query, &self.weights).sigmoid(),
        };
        nodes.iter().map(score).collect()
    }

    /// For every tool the probability that the target capability contains it, given those of [`Self::target_shares`]: each capability
    /// gives its share to all tools it comes down to.
    pub fn target_mass(&self, shares: &[f32]) -> Vec<f32> {
        let mut mass = vec![0.0; self.tool_levels.len()];
        for (share, tools) in shares.iter().zip(&self.tools_below) {
            for tool in tools {
                mass[*tool as usize] += share;
            }
        }
        mass
    }

    /// For every capability the probability that it is the target: the softmax over capabilities.
    pub fn target_shares(&self, intent: &[f32]) -> Vec<f32> {
        let logits = self.capabilities.logits(&self.project(intent), &self.weights);
        let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let grown: Vec<f32> = logits.iter().map(|logit| (logit - highest).exp()).collect();
        let total: f32 = grown.iter().sum();
        grown.into_iter().map(|grown| grown / total).collect()
    }

    /// The tools that a capability comes down to, ascending.
    pub fn tools_below(&self, capability: usize) -> &[u32] {
        &self.tools_below[capability]
    }

    fn score_capabilities(&self, intent: &[f32], wanted: impl Fn(usize) -> bool) -> Vec<Scored> {
        let of_level = self.capability_levels.iter().enumerate().filter(|(_, level)| wanted(**level));
        let rows: Vec<u32> = of_level.map(|(row, _)| number(row)).collect();
        let scored = self.capabilities.rank(&rows, usize::MAX, &self.project(intent), &self.weights);
        scored.into_iter().map(|(row, part)| part.of(Node::Capability(row), Some(self.capability_levels[row]))).collect()
    }

    /// The projected intent, of length one.
    ///
    /// Row by row: a matrix product copies the matrix into blocks first, which for one intent costs more than the product.
    fn project(&self, intent: &[f32]) -> Vec<f32> {
        let projection = &self.weights.projection;
        assert_eq!(intent.len(), projection.nrows(), "an intent has the length of the vectors");
        let mut query = vec![0.0; projection.ncols()];
        for (value, row) in intent.iter().zip(projection.rows()) {
            add_scaled(&mut query, *value, row.to_slice().expect("rows in order"));
        }
        normalise(&mut query);
        query
    }
}

impl Kind {
    fn new(enriched: &Array2<f32>, heads: HeadValues<f32>, weights: &ScoreWeights<f32>) -> Self {
        let mut units = enriched.clone();
        units.rows_mut().into_iter().for_each(|mut row| {
            normalise(row.as_slice_mut().expect("rows in order"));
        });
        let fixed = fixed_logits(&heads, weights).into_iter().map(|logit| logit + weights.offset).collect();
        Self { units, heads, fixed }
    }

    fn logit(&self, row: usize, query: &[f32], weights: &ScoreWeights<f32>) -> f32 {
        let unit = self.units.row(row);
        weights.factor(0) * dot(unit.to_slice().expect("rows in order"), query) + self.fixed[row]
    }

    fn logits(&self, query: &[f32], weights: &ScoreWeights<f32>) -> Vec<f32> {
        let semantic = weights.factor(0);
        let cosines = rows_times(&self.units, query);
        cosines.iter().zip(&self.fixed).map(|(cosine, fixed)| semantic * cosine + fixed).collect()
    }

    /// The `count` best of some rows, with the parts of their scores.
    fn rank(&self, rows: &[u32], count: usize, query: &[f32], weights: &ScoreWeights<f32>) -> Vec<(usize, Parts)> {
        let logits = self.logits(query, weights);
        let ranked = best(rows, &logits, count, |row| logits[row] - self.fixed[row]);
        let parts = |row: usize| {
            let logit = logits[row];
            let structure = weights.factor(1) * self.heads.structure[row];
            let temporal = weights.factor(2) * self.heads.temporal[row];
            Parts { score: logit.sigmoid(), logit, heads: [logit - self.fixed[row], structure, temporal] }
        };
        ranked.into_iter().map(|row| (row, parts(row))).collect()
    }
}

/// A score and what it is made of.
struct Parts {
    score: f32,
    logit: f32,
    heads: [f32; 3],
}

impl Parts {
    const fn of(&self, node: Node, level: Option<usize>) -> Scored {
        Scored { node, level, score: self.score, logit: self.logit, heads: self.heads }
    }
}

/// The rows of the `count` best logits and of those equal to the last, the best first: by logit, which unlike its sigmoid is never
/// rounded to 1; equal ones by `semantic` part, then by row.
fn best(rows: &[u32], logits: &[f32], count: usize, semantic: impl Fn(usize) -> f32) -> Vec<usize> {
    // One number per node sorts several times faster than the nodes: the logit in an order of whole numbers, then the place.
    let descending = |logit: f32| {
        let bits = logit.to_bits();
        u64::from(if bits >> 31 == 0 { !(bits | 1 << 31) } else { bits })
    };
    let mut order: Vec<u64> = rows.iter().map(|row| descending(logits[*row as usize]) << 32 | u64::from(*row)).collect();
    if count == 0 {
        return Vec::new();
    }
    if count < order.len() {
        let (_, last, _) = order.select_nth_unstable(count - 1);
        let last = *last >> 32;
        order.retain(|key| key >> 32 <= last);
    }
    order.sort_unstable();
    #[expect(clippy::cast_possible_truncation, reason = "the low half is the row")]
    let mut ranked: Vec<usize> = order.iter().map(|key| *key as u32 as usize).collect();
    let mut start = 0;
    for equal in order.chunk_by(|a, b| a >> 32 == b >> 32) {
        ranked[start..start + equal.len()].sort_by(|a, b| semantic(*b).total_cmp(&semantic(*a)));
        start += equal.len();
    }
    ranked
}

/// The mean of the scores along a path, with weights 1, 1.5, 2, ...; one half for an empty path.
pub fn path_success(scores: impl Iterator<Item = f32>) -> f32 {
    let (mut sum, mut total, mut weight) = (0.0, 0.0, 1.0);
    for score in scores {
        sum += weight * score;
        total += weight;
        weight += LATER;
    }
    if total > 0.0 { sum / total } else { UNKNOWN }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "exact values are expected")]
mod tests;
