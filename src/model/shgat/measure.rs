//! How well a network ranks, and what it predicts, on traces whose outcome is known.

use ndarray::{Array2, ArrayView1, Axis};

use super::Switches;
use super::batch::Ground;
use super::hypergraph::Node;
use super::logits::Queries;
use super::parameters::Parameters;
use super::real::Real;
use super::score::path_success;
use super::trace::Part;
use super::weights::ScoreWeights;

/// The number of intents that are scored at a time.
const CHUNK: usize = 256;
/// The number of ranks that recall and NDCG look at.
const RANKS: usize = 5;

/// The mean quality of the rankings of one kind of node, over the successful traces that have such nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// The number of traces.
    pub traces: usize,
    /// The share of the nodes of the path among the best five.
    pub recall_at_5: f64,
    /// The mean of one over the rank of the first node of the path.
    pub mrr: f64,
    /// The discounted gain of the best five, as a share of the best possible.
    pub ndcg_at_5: f64,
}

/// The rankings of tools and of capabilities on the successful traces of a part.
pub fn measure(part: &Part, parameters: &Parameters, switches: Switches, threads: usize) -> [Measured; 2] {
    let ground = Ground::new(part.graph, part.vectors.clone(), part.features);
    measure_on(&ground, part, parameters, switches, threads)
}

pub(crate) fn measure_on(
    ground: &Ground<f32>,
    part: &Part,
    parameters: &Parameters,
    switches: Switches,
    threads: usize,
) -> [Measured; 2] {
    let mut measured = [Measured::default(); 2];
    let wanted = |index: &usize| part.traces[*index].succeeded && part.refusal(&part.traces[*index]).is_none();
    let traces: Vec<usize> = (0..part.traces.len()).filter(wanted).collect();
    for_each_row(ground, part, &traces, (parameters, switches, threads), |trace, kind, logits, _| {
        let mut targets = ground.targets(kind, &part.traces[trace].path);
        targets.sort_unstable();
        targets.dedup();
        if !targets.is_empty() {
            measured[kind].add(&targets, logits);
        }
    });
    measured.map(Measured::mean)
}

/// What the network predicts for every trace of a part: the probability of success, one half if it cannot be asked.
pub fn path_successes(part: &Part, parameters: &Parameters, switches: Switches, threads: usize) -> Vec<f32> {
    let ground = Ground::new(part.graph, part.vectors.clone(), part.features);
    path_successes_on(&ground, part, parameters, switches, threads)
}

pub(crate) fn path_successes_on(
    ground: &Ground<f32>,
    part: &Part,
    parameters: &Parameters,
    switches: Switches,
    threads: usize,
) -> Vec<f32> {
    let traces: Vec<usize> = (0..part.traces.len()).filter(|index| part.refusal(&part.traces[*index]).is_none()).collect();
    let mut scores: Vec<Vec<f32>> = part.traces.iter().map(|trace| vec![0.0; trace.path.len()]).collect();
    for_each_row(ground, part, &traces, (parameters, switches, threads), |trace, kind, logits, offset| {
        for (score, node) in scores[trace].iter_mut().zip(&part.traces[trace].path) {
            match (kind, node) {
                (0, Node::Tool(row)) | (1, Node::Capability(row)) => *score = (logits[*row] + offset).sigmoid(),
                _ => {}
            }
        }
    });
    let mut asked = vec![false; part.traces.len()];
    for trace in &traces {
        asked[*trace] = true;
    }
    let unasked = path_success(std::iter::empty());
    scores
        .into_iter()
        .zip(asked)
        .map(|(scores, asked)| if asked { path_success(scores.into_iter()) } else { unasked })
        .collect()
}

/// Calls `visit` with every trace, the kind of candidates, their logits and the offset.
fn for_each_row(
    ground: &Ground<f32>,
    part: &Part,
    traces: &[usize],
    (parameters, switches, threads): (&Parameters, Switches, usize),
    mut visit: impl FnMut(usize, usize, ArrayView1<f32>, f32),
) {
    let weights = ScoreWeights::new(parameters, switches);
    let candidates = ground.candidates(&ground.enrich(parameters, switches, threads, None));
    for chunk in traces.chunks(CHUNK) {
        let queries = Queries::new(intents(part, chunk), &weights, threads);
        for (kind, candidates) in candidates.iter().enumerate() {
            let logits = candidates.logits(&queries, &weights, threads);
            for (trace, row) in chunk.iter().zip(logits.values.rows()) {
                visit(*trace, kind, row, weights.offset);
            }
        }
    }
}

/// The vectors of the intents of some traces.
pub(crate) fn intents(part: &Part, traces: &[usize]) -> Array2<f32> {
    let rows: Vec<usize> = traces.iter().map(|trace| part.traces[*trace].intent).collect();
    part.intents.select(Axis(0), &rows)
}

impl Measured {
    fn add(&mut self, targets: &[Vec<u32>], logits: ArrayView1<f32>) {
        let mut ranks: Vec<usize> = targets.iter().map(|right| best_rank(right, logits)).collect();
        ranks.sort_unstable();
        let gain = |rank: usize| 1.0 / libm::log2(to_f64(rank) + 1.0);
        let possible: f64 = (1..=ranks.len().min(RANKS)).map(gain).sum();
        let found = ranks.iter().filter(|rank| **rank <= RANKS);
        self.traces += 1;
        self.recall_at_5 += to_f64(found.clone().count()) / to_f64(ranks.len());
        self.ndcg_at_5 += found.map(|rank| gain(*rank)).sum::<f64>() / possible;
        self.mrr += 1.0 / to_f64(ranks[0]);
    }

    fn mean(self) -> Self {
        let traces = to_f64(self.traces.max(1));
        Self {
            traces: self.traces,
            recall_at_5: self.recall_at_5 / traces,
            mrr: self.mrr / traces,
            ndcg_at_5: self.ndcg_at_5 / traces,
        }
    }
}

/// The rank, from 1, of the best of some candidates; of equal logits the first comes first.
fn best_rank(right: &[u32], logits: ArrayView1<f32>) -> usize {
    let rank = |at: usize| {
        let before = |(other, logit): (usize, &f32)| logit.total_cmp(&logits[at]).then(at.cmp(&other)).is_gt();
        1 + logits.iter().enumerate().filter(|other| before(*other)).count()
    };
    right.iter().map(|at| rank(*at as usize)).min().expect("a target has at least one right candidate")
}

#[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 ranks")]
fn to_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "exact values are expected")]
mod tests {
    use super::*;

    #[test]
    fn rankings_are_measured_as_the_definitions_say() {
        let logits = ndarray::array![0.1_f32, 0.9, 0.5, 0.5, -1.0, 0.2, 0.0];
        let mut measured = Measured::default();
        // Ranks 1 (row 1), 3 (row 3, equal to row 2, which comes first) and 7 (row 4).
        measured.add(&[vec![4], vec![1], vec![3]], logits.view());
        let possible = 1.0 + 1.0 / libm::log2(3.0) + 0.5;
        assert!((measured.recall_at_5 - 2.0 / 3.0).abs() < 1e-12 && measured.mrr == 1.0);
        assert!((measured.ndcg_at_5 - 1.5 / possible).abs() < 1e-12);
        // Of equivalent candidates the best counts.
        let mut measured = Measured::default();
        measured.add(&[vec![4, 2]], logits.view());
        assert_eq!(measured.mrr, 0.5);
    }
}
