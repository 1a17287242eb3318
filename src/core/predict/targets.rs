//! Scores of all tools and capabilities for an intent: how likely it asks for each of them, on one scale (ALGORITHMS 9).
//!
//! The scores are SHGAT's. While no trained version serves, the network answers as it starts and passes no messages: the similarity of
//! the vectors, use and recency, in fixed shares. Such scores put nodes in order; nothing was fitted to make them probabilities.

use std::collections::{BTreeMap, BTreeSet};

use ndarray::Array2;
use pml_model::shgat::{Node as Row, Parameters, Scored, Scorer, Shape, Switches, path_success};

use super::shgat::capability_graph::CapabilityGraph;
use super::shgat::{OfferedRows, ShgatModel, TargetScores, scorer};
use crate::event::ModelVersion;
use crate::graph::{Node, NodeKind};
use crate::state::State;
use crate::train::tool_rows;

/// The score of a tool or capability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetScore {
    pub node: Node,
    /// The level of a capability; for a tool the lowest level of the capabilities that contain it, `None` if none does.
    pub level: Option<usize>,
    /// The probability that the intent asks for it.
    pub score: f32,
    /// What the semantic, the structure and the temporal head add to the logit of the score.
    pub heads: [f32; 3],
    logit: f32,
}

/// `Targets` scores the nodes of one state. Making one costs a pass over all vectors; keep it.
#[derive(Debug)]
pub struct Targets {
    version: Option<ModelVersion>,
    scorer: Scorer,
    /// By row of the hypergraph: the positions of the capabilities with these members.
    positions: Vec<Vec<u32>>,
    /// The row of a capability by its position.
    rows: BTreeMap<u32, usize>,
}

impl Targets {
    /// The scores of a trained version for these tools, by position.
    pub(super) fn trained(version: ModelVersion, model: &ShgatModel, tools: &Array2<f32>) -> Self {
        Self::new(Some(version), model.scorer(tools), model.graph.positions.clone())
    }

    /// The scores of the untrained network. `None` while no text has a vector, or if the capabilities form no hypergraph.
    pub fn untrained(state: &State) -> Option<Self> {
        let tools = tool_rows(state);
        if tools.ncols() == 0 {
            return None;
        }
        let graph = CapabilityGraph::new(state, &tools, &|_| true).ok()?;
        let parameters = Parameters::new(Shape::new(tools.ncols(), 1), graph.graph.level_count());
        let scorer = scorer(&graph, &parameters, Switches { message_passing: false, ..Switches::default() });
        Some(Self::new(None, scorer, graph.positions))
    }

    fn new(version: Option<ModelVersion>, scorer: Scorer, positions: Vec<Vec<u32>>) -> Self {
        let rows = (0..).zip(&positions).flat_map(|(row, positions)| positions.iter().map(move |position| (*position, row)));
        Self { version, scorer, rows: rows.collect(), positions }
    }

    /// The trained version that scores; `None` for the untrained network.
    pub fn version(&self) -> Option<&ModelVersion> {
        self.version.as_ref()
    }

    /// The length of an intent's vector.
    pub fn dim(&self) -> usize {
        self.scorer.dim()
    }

    /// The number of tools and of offered capabilities that have a score.
    pub fn counts(&self, state: &State) -> (usize, usize) {
        let offered: BTreeSet<u32> = self.rows.keys().filter_map(|position| state.capabilities.offered(*position)).collect();
        (self.scorer.tools(), offered.len())
    }

    /// Whether a node has a score. A capability that was learnt after the training has none.
    pub fn has(&self, node: Node) -> bool {
        self.row(node).is_some()
    }

    /// What is said about an intent, for the signals of predict and discover.
    pub(super) fn target_scores(&self, state: &State, intent: &[f32]) -> TargetScores {
        TargetScores::new(&self.scorer, &OfferedRows::new(state, &self.positions), intent)
    }

    fn row(&self, node: Node) -> Option<Row> {
        let row = match node.kind() {
            NodeKind::Tool(position) => Some(Row::Tool(position as usize)),
            NodeKind::Capability(position) => self.rows.get(&position).map(|row| Row::Capability(*row)),
        };
        row.filter(|row| self.scorer.has(*row))
    }

    /// The `count` best tools that are offered, the best first.
    pub fn tools(&self, state: &State, intent: &[f32], count: usize) -> Vec<TargetScore> {
        let mut asked = count;
        loop {
            let scored = self.scorer.score_top_tools(intent, asked);
            let is_all = scored.len() == self.scorer.tools();
            let offered: Vec<TargetScore> = scored.iter().flat_map(|scored| self.scores(state, scored)).collect();
            // Tools that are not offered may take the first places: then more are asked for.
            if is_all || offered.len() >= count {
                return ranked(state, offered, count);
            }
            asked *= 2;
        }
    }

    /// The `count` best capabilities, all or those of one level, the best first. Level 0 holds those that contain tools only.
    pub fn capabilities(&self, state: &State, intent: &[f32], level: Option<usize>, count: usize) -> Vec<TargetScore> {
        let scored = match level {
            None => self.scorer.score_all_capabilities(intent),
            Some(0) => self.scorer.score_leaf_capabilities(intent),
            Some(level) => self.scorer.score_meta_capabilities(intent, level),
        };
        ranked(state, scored.iter().flat_map(|scored| self.scores(state, scored)).collect(), count)
    }

    /// The `count` best tools and capabilities in one list.
    pub fn all(&self, state: &State, intent: &[f32], count: usize) -> Vec<TargetScore> {
        let mut scores = self.tools(state, intent, count);
        scores.extend(self.capabilities(state, intent, None, count));
        ranked(state, scores, count)
    }

    /// The `count` best capabilities of every level.
    pub fn top_by_level(&self, state: &State, intent: &[f32], count: usize) -> BTreeMap<usize, Vec<TargetScore>> {
        let scored = self.scorer.score_all_capabilities(intent);
        let levels: BTreeSet<usize> = scored.iter().filter_map(|scored| scored.level).collect();
        let at_level = |level: usize| scored.iter().filter(move |scored| scored.level == Some(level));
        let best = |level| ranked(state, at_level(level).flat_map(|scored| self.scores(state, scored)).collect(), count);
        levels.into_iter().map(|level| (level, best(level))).collect()
    }

    /// The scores of the nodes of a path, one half for a node without one, and the probability that the path succeeds: their mean, in
    /// which later nodes count more.
    pub fn path(&self, intent: &[f32], path: &[Option<Node>]) -> (Vec<f32>, f32) {
        // A row that no hypergraph has stands for a node without a score.
        let row = |node: &Option<Node>| node.and_then(|node| self.row(node)).unwrap_or(Row::Tool(usize::MAX));
        let scores = self.scorer.score_nodes(intent, &path.iter().map(row).collect::<Vec<_>>());
        let success = path_success(scores.iter().copied());
        (scores, success)
    }

    /// The nodes that a scored row stands for and that are offered. A capability that was merged into another of its level speaks for
    /// that one.
    fn scores(&self, state: &State, scored: &Scored) -> Vec<TargetScore> {
        let Scored { node, level, score, logit, heads } = *scored;
        let score = |node| TargetScore { node, level, score, heads, logit };
        let offered = |position: &u32| {
            let (table, position) = (&state.capabilities, *position);
            let is_level = |offered: &u32| table.at(*offered).level == table.at(position).level;
            table.offered(position).filter(is_level).map(Node::capability)
        };
        match node {
            Row::Tool(position) => {
                let position = u32::try_from(position).ok().filter(|position| state.tools.at(*position).is_offered());
                position.map(|position| score(Node::tool(position))).into_iter().collect()
            }
            Row::Capability(row) => self.positions[row].iter().filter_map(offered).map(score).collect(),
        }
    }
}

/// The `count` best scores, of each node the best: by logit, then by the semantic part, then by id.
fn ranked(state: &State, mut scores: Vec<TargetScore>, count: usize) -> Vec<TargetScore> {
    let by_score = |a: &TargetScore, b: &TargetScore| b.logit.total_cmp(&a.logit).then(b.heads[0].total_cmp(&a.heads[0]));
    scores.sort_by(|a, b| by_score(a, b).then_with(|| state.callee(a.node).cmp(&state.callee(b.node))));
    let mut seen = BTreeSet::new();
    scores.retain(|score| seen.insert(score.node));
    scores.truncate(count);
    scores
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::given::History;

    #[test]
    fn scores_leave_out_what_a_person_retired_and_find_the_one_that_others_were_merged_into() {
        let mut history = History::new(
            "tool a:a x
             run ok alpha: a:a, b:b < a:a
             run ok beta: c:c, d:d < c:c",
        );
        history.embed(|text| match text {
            "alpha" => vec![1.0, 0.0],
            "beta" => vec![0.0, 1.0],
            _ => vec![0.1, 0.1],
        });
        let trained_before = Targets::untrained(&history.state).unwrap();
        let names = |targets: &Targets, history: &History| -> Vec<u32> {
            let found = targets.capabilities(&history.state, &[1.0, 0.0], None, 10);
            let by_level = targets.top_by_level(&history.state, &[1.0, 0.0], 10);
            assert_eq!(by_level.values().flatten().count(), found.len());
            let position = |score: TargetScore| match score.node.kind() {
                NodeKind::Capability(position) => position,
                NodeKind::Tool(_) => unreachable!("only capabilities were asked for"),
            };
            found.into_iter().map(position).collect()
        };
        let fresh = |history: &History| Targets::untrained(&history.state).unwrap();
        assert_eq!(names(&trained_before, &history), [0, 1]);
        history.line("retire 0");
        for targets in [&trained_before, &fresh(&history)] {
            assert_eq!(names(targets, &history), [1]);
            assert_eq!(targets.counts(&history.state).1, 1);
        }
        history.line("restore 0");
        let apart = fresh(&history).capabilities(&history.state, &[1.0, 0.0], None, 10)[1].score;
        history.line("merge 0 1");
        for targets in [&trained_before, &fresh(&history)] {
            assert_eq!(names(targets, &history), [1]);
            let score = targets.capabilities(&history.state, &[1.0, 0.0], None, 10)[0].score;
            assert!(score > apart, "{score} {apart}: the intents of the merged one count for it");
        }
        history.line("remove a:a");
        assert!(trained_before.tools(&history.state, &[1.0, 0.0], 10).iter().all(|tool| tool.node != history.node("a:a")));
    }
}
