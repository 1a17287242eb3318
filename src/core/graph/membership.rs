//! Measures of the graph that joins capabilities with their members (ALGORITHMS 5): hypergraph `PageRank`, Adamic-Adar, heat.
//!
//! Functions of a hypergraph and of counts. Logarithms, roots and exponentials come from `libm`, and every sum has a fixed order, so a
//! state gives the same values on every machine.

use super::adjacency::Adjacency;
use super::pagerank::pagerank;

/// The weight of a capability in a capability; a tool in a capability has 1 (the kind `contains` of ALGORITHMS 4).
const CONTAINS: f64 = 0.8;
/// Terms of the series of the heat; the next one is below a millionth.
const HEAT_TERMS: u32 = 10;
/// A node that joins more than this relates nobody: bounds the time of Adamic-Adar where one tool is in every capability.
const SHARED_MAX: usize = 256;

/// The graph without direction. Nodes are tools, then capabilities, by their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Membership {
    tools: usize,
    /// By node: its neighbours in the order of their numbers, with weights.
    links: Vec<Vec<(u32, f64)>>,
    /// By node: one over the root of the sum of its weights, 0 if it has none.
    scales: Vec<f64>,
}

impl Membership {
    /// The graph of so many tools and capabilities. `members` are pairs of nodes: a capability and what it calls, each pair once.
    pub(crate) fn new(tools: usize, capabilities: usize, members: impl Iterator<Item = (usize, usize)>) -> Self {
        let mut links: Vec<Vec<(u32, f64)>> = vec![Vec::new(); tools + capabilities];
        for (capability, member) in members {
            let weight = if member < tools { 1.0 } else { CONTAINS };
            links[capability].push((number(member), weight));
            links[member].push((number(capability), weight));
        }
        for links in &mut links {
            links.sort_unstable_by_key(|(node, _)| *node);
        }
        let scale = |links: &Vec<(u32, f64)>| {
            let sum: f64 = links.iter().map(|(_, weight)| weight).sum();
            if sum > 0.0 { 1.0 / libm::sqrt(sum) } else { 0.0 }
        };
        Self { tools, scales: links.iter().map(scale).collect(), links }
    }

    /// The normalised adjacency, D^-1/2 A D^-1/2, times a vector. Its eigenvalues lie between -1 and 1.
    fn times(&self, values: &[f64]) -> Vec<f64> {
        let row = |(links, scale): (&Vec<(u32, f64)>, &f64)| {
            let term = |(node, weight): &(u32, f64)| weight * self.scales[*node as usize] * values[*node as usize];
            scale * links.iter().map(term).sum::<f64>()
        };
        self.links.iter().zip(&self.scales).map(row).collect()
    }

    /// Heat diffusion: e^-L times the start values, with the normalised Laplacian L = 1 - D^-1/2 A D^-1/2. The series of e^(1 - L) / e
    /// has no negative term, so nothing cancels.
    pub(crate) fn heat(&self, start: &[f64]) -> Vec<f64> {
        let mut term = start.to_vec();
        let mut sum = start.to_vec();
        for number in 1..=HEAT_TERMS {
            term = self.times(&term);
            for (sum, term) in sum.iter_mut().zip(&mut term) {
                *term /= f64::from(number);
                *sum += *term;
            }
        }
        let whole = libm::exp(-1.0);
        sum.into_iter().map(|value| whole * value).collect()
    }

    /// `PageRank` of a walk over the hypergraph: from a member to a capability in proportion to the uses of the capability, from a
    /// capability to any member. `uses` are by capability; one more is counted, so that a declared capability is reached. The members of
    /// a capability must have lower numbers.
    pub(crate) fn page_ranks(&self, uses: &[f64]) -> Vec<f64> {
        let mut edges = Vec::new();
        for (capability, uses) in uses.iter().enumerate() {
            let own = self.tools + capability;
            // The links with what contains it come with that one.
            for (node, weight) in self.links[own].iter().filter(|(node, _)| (*node as usize) < own) {
                edges.push((number(own), *node, *weight));
                edges.push((*node, number(own), weight * (1.0 + uses)));
            }
        }
        pagerank(&Adjacency::from_weights(number(self.links.len()), &edges), None).ranks
    }

    /// By node: the highest Adamic-Adar index with another node of its kind, tools by the capabilities they share, capabilities by
    /// their members and by what contains them. O(links x [`SHARED_MAX`]).
    pub(crate) fn adamic_adar(&self) -> Vec<f64> {
        let (mut sums, mut best) = (vec![0.0_f64; self.links.len()], vec![0.0_f64; self.links.len()]);
        let is_tool = |node: usize| node < self.tools;
        for (node, links) in self.links.iter().enumerate() {
            let mut touched = Vec::new();
            for (shared, weight) in links {
                let others = &self.links[*shared as usize];
                if others.len() > SHARED_MAX {
                    continue;
                }
                for (other, other_weight) in others {
                    let other = *other as usize;
                    if other == node || is_tool(other) != is_tool(node) {
                        continue;
                    }
                    if sums[other] == 0.0 {
                        touched.push(other);
                    }
                    // A shared neighbour has two links at least, so its logarithm is above 0.
                    sums[other] += f64::midpoint(*weight, *other_weight) / libm::log(size(others));
                }
            }
            for other in touched {
                best[node] = best[node].max(sums[other]);
                sums[other] = 0.0;
            }
        }
        best
    }
}

#[expect(clippy::cast_precision_loss, reason = "at most SHARED_MAX")]
fn size(links: &[(u32, f64)]) -> f64 {
    links.len() as f64
}

fn number(node: usize) -> u32 {
    u32::try_from(node).expect("positions have 32 bits")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tools 0 and 1 in capability 4, tools 1 and 2 in capability 5, which also contains capability 4; tool 3 in none.
    fn sample() -> Membership {
        Membership::new(4, 2, [(4, 0), (4, 1), (5, 1), (5, 2), (5, 4)].into_iter())
    }

    fn check(values: &[f64], expected: &[f64]) {
        let close = values.len() == expected.len() && values.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(close, "{values:?} {expected:?}");
    }

    /// ```python
    /// L = identity - S, S[i][j] = A[i][j] / sqrt(d[i] * d[j]); A joins 0-4, 1-4, 1-5, 2-5 with 1 and 4-5 with 0.8
    /// term = total = [1, 0, 0, 1, 0, 0]
    /// for k in range(1, 80): term = -(L @ term) / k; total = total + term
    /// ```
    #[test]
    fn heat_spreads_as_the_exponential_of_the_laplacian() {
        check(&sample().heat(&[1.0, 0.0, 0.0, 1.0, 0.0, 0.0]), HEAT);
    }

    const HEAT: &[f64] = &[0.437_152_910, 0.054_391_033, 0.007_647_068, 0.367_879_441, 0.244_315_346, 0.041_511_316];

    #[test]
    fn nodes_that_share_rare_neighbours_are_related() {
        let by = |degree: f64| 1.0 / degree.ln();
        // Tools 0 and 1 share capability 4, tools 1 and 2 capability 5, both with three links; the capabilities share tool 1, with two.
        let expected = [by(3.0), by(3.0), by(3.0), 0.0, by(2.0), by(2.0)];
        check(&sample().adamic_adar(), &expected);
    }

    #[test]
    fn a_capability_that_is_used_more_has_the_higher_rank() {
        let graph = sample();
        let (even, first) = (graph.page_ranks(&[0.0, 0.0]), graph.page_ranks(&[9.0, 0.0]));
        assert!((even.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(first[4] > even[4] && first[0] > even[0] && first[2] < even[2]);
        assert!(even[3] < even[0], "what nothing contains has the lowest rank");
    }

    const TOOLS: usize = 6;

    /// Capabilities with tools, and with earlier capabilities; each pair once.
    fn memberships() -> impl Strategy<Value = Membership> {
        let members = proptest::collection::btree_set(0..TOOLS + 8, 1..4);
        proptest::collection::vec(members, 1..8).prop_map(|capabilities| {
            let pair = |(at, members): (usize, &std::collections::BTreeSet<usize>)| {
                let own = TOOLS + at;
                members.iter().copied().filter(move |member| *member < own).map(move |member| (own, member)).collect::<Vec<_>>()
            };
            Membership::new(TOOLS, capabilities.len(), capabilities.iter().enumerate().flat_map(pair))
        })
    }

    proptest! {
        #[test]
        fn measures_are_finite_and_heat_is_linear_and_never_grows(membership in memberships(), seeds in proptest::collection::vec(0.0_f64..1.0, TOOLS + 8)) {
            let start = &seeds[..membership.links.len()];
            let heat = membership.heat(start);
            let norm = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
            prop_assert!(heat.iter().all(|value| *value >= 0.0) && norm(&heat) <= norm(start) + 1e-9);
            let twice = membership.heat(&start.iter().map(|value| 2.0 * value).collect::<Vec<_>>());
            prop_assert!(heat.iter().zip(&twice).all(|(one, two)| (2.0 * one - two).abs() < 1e-9));
            let ranks = membership.page_ranks(&vec![1.0; membership.links.len() - TOOLS]);
            prop_assert!((ranks.iter().sum::<f64>() - 1.0).abs() < 1e-6 && ranks.iter().all(|rank| *rank > 0.0));
            let related = membership.adamic_adar();
            prop_assert!(related.iter().all(|value| value.is_finite() && *value >= 0.0));
            // The best index of a pair belongs to both of them, so the highest value of a kind occurs twice, or is 0.
            for kind in [&related[..TOOLS], &related[TOOLS..]] {
                let highest = kind.iter().copied().fold(0.0, f64::max);
                let with_it = kind.iter().filter(|value| (**value - highest).abs() < 1e-12).count();
                prop_assert!(highest == 0.0 || with_it >= 2, "{:?}", kind);
            }
        }
    }
}
