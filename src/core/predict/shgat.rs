//! SHGAT as a trained part: which capability an intent asks for, and which tools that capability comes down to.
//!
//! A trained SHGAT is stored with the hypergraph that it was trained for: the capabilities, their vectors and all features. So it is a
//! function of its bytes and of the tools' texts: a trace that is learnt later changes no score, costs no recomputation, and a restored
//! state answers as the original did. A tool registered later is scored by its text; a capability learnt later is in the hypergraph of
//! the next training.

pub(crate) mod bytes;
pub(crate) mod capability_graph;

use std::collections::BTreeMap;

use ndarray::Array2;
use pml_model::shgat::{Enriched, Hypergraph, Parameters, Priorities, Scorer, Switches, Vectors};

use super::corpus::top;
use super::parts::LOG_MIN;
use crate::graph::Node;
use crate::state::State;
use capability_graph::CapabilityGraph;

/// Added to a target mass before the logarithm: a smaller share says no more than none.
const MASS_MIN: f32 = 1e-3;
/// Target capabilities that are kept for an intent.
const AIMS_MAX: usize = 16;

/// What SHGAT says about one intent. All is empty without SHGAT.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetScores {
    /// By position of the tool: logarithm of the probability that the intent asks for it.
    pub(crate) tools: Vec<f32>,
    /// By position of the tool: logarithm of the probability that the target capability contains it, plus [`MASS_MIN`].
    pub(crate) mass: Vec<f32>,
    /// The likeliest target capabilities, at most [`AIMS_MAX`], with their probabilities, the likeliest first.
    pub(crate) aims: Vec<(Node, f32)>,
}

impl TargetScores {
    /// `rows` are those of the scorer's hypergraph.
    pub(crate) fn new(scorer: &Scorer, rows: &OfferedRows, intent: &[f32]) -> Self {
        let log = |score: f32| libm::logf(score).max(LOG_MIN);
        let shares = rows.shares(scorer.target_shares(intent));
        let mass = scorer.target_mass(&shares).into_iter().map(|mass| libm::logf(mass + MASS_MIN)).collect();
        let likeliest = top(shares.into_iter().enumerate(), AIMS_MAX);
        let aim = |(row, share): (usize, f32)| Some((rows.aims[row].filter(|_| rows.counted_in[row] == Some(row))?, share));
        Self {
            tools: scorer.tool_scores(intent).into_iter().map(log).collect(),
            mass,
            aims: likeliest.into_iter().filter_map(aim).collect(),
        }
    }
}

/// What people decided about the capabilities of a hypergraph's rows: whom each row speaks for.
pub(crate) struct OfferedRows {
    /// By row: the capability that may be recommended for it; none if all of its capabilities were retired.
    aims: Vec<Option<Node>>,
    /// By row: the row that its share counts for; none without an aim.
    counted_in: Vec<Option<usize>>,
}

impl OfferedRows {
    /// `positions` are those of the capabilities, by row.
    pub(crate) fn new(state: &State, positions: &[Vec<u32>]) -> Self {
        let table = &state.capabilities;
        let is_own = |position: &&u32| table.offered(**position) == Some(**position);
        let offered = |row: &Vec<u32>| {
            row.iter().find(is_own).copied().or_else(|| row.iter().find_map(|position| table.offered(*position)))
        };
        let offered: Vec<Option<u32>> = positions.iter().map(offered).collect();
        let own_row: BTreeMap<u32, usize> =
            (0..).zip(positions).flat_map(|(row, positions)| positions.iter().map(move |position| (*position, row))).collect();
        // One that was learnt after the training has no row: then the row of the one merged into it speaks for it.
        let counted_in = |(row, offered): (usize, &Option<u32>)| offered.map(|it| own_row.get(&it).copied().unwrap_or(row));
        Self {
            counted_in: offered.iter().enumerate().map(counted_in).collect(),
            aims: offered.into_iter().map(|position| position.map(Node::capability)).collect(),
        }
    }

    /// The probabilities of the rows, given that no retired capability is the target. Untouched where nobody decided anything.
    fn shares(&self, mut shares: Vec<f32>) -> Vec<f32> {
        let mut dropped = 0.0;
        for (row, counted_in) in self.counted_in.iter().enumerate().filter(|(row, counted_in)| **counted_in != Some(*row)) {
            let share = std::mem::take(&mut shares[row]);
            match counted_in {
                Some(other) => shares[*other] += share,
                None => dropped += share,
            }
        }
        let left: f32 = shares.iter().sum();
        if dropped > 0.0 && left > 0.0 {
            for share in &mut shares {
                *share *= (left + dropped) / left;
            }
        }
        shares
    }
}

/// `ShgatModel` holds trained parameters and the hypergraph that they were trained for, without the vectors of the tools.
#[derive(Clone, Debug)]
pub(crate) struct ShgatModel {
    pub(crate) parameters: Parameters,
    pub(crate) switches: Switches,
    pub(crate) graph: CapabilityGraph,
    /// How surprising every trace was to it, by the position of the trace's record: where the next training begins.
    pub(crate) priorities: Priorities,
}

impl ShgatModel {
    pub(crate) fn dim(&self) -> usize {
        self.parameters.shape().dim
    }

    /// The scorer for these tools, which are those of the training and later ones. One pass over the hypergraph.
    pub(crate) fn scorer(&self, tools: &Array2<f32>) -> Scorer {
        let mut graph: Hypergraph = self.graph.graph.clone();
        while graph.tools() < tools.nrows() {
            graph.add_tool();
        }
        let vectors = Vectors { tools: tools.clone(), capabilities: self.graph.vectors.capabilities.clone() };
        let graph = CapabilityGraph { graph, vectors, ..self.graph.clone() };
        scorer(&graph, &self.parameters, self.switches)
    }
}

/// The scorer of a hypergraph with all vectors.
pub(crate) fn scorer(graph: &CapabilityGraph, parameters: &Parameters, switches: Switches) -> Scorer {
    let mut parameters = parameters.clone();
    parameters.grow(graph.graph.level_count());
    let enriched = if switches.message_passing {
        Enriched::new(&graph.graph, &graph.vectors, &parameters, 1)
    } else {
        Enriched::unchanged(&graph.vectors)
    };
    Scorer::new(&graph.graph, &enriched, &graph.features, &parameters, switches)
}

#[cfg(test)]
mod tests;
