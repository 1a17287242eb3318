//! The canonical form of a procedure: its calls and the data flow between them, independent of step names and of the order in which
//! independent calls ran.
//!
//! Each call has a label, refined in rounds by the labels of its neighbours (Weisfeiler and Leman, 1968); the calls are sorted by
//! label and the whole is hashed. Two procedures have the same id if their refined labels agree, which for the few calls of a
//! procedure means that they are the same.

use std::collections::BTreeMap;

use crate::digest::{DigestWriter, Digestible};
use crate::event::DeclaredStructure;
use crate::graph::edge::EdgeKind;
use crate::hash::{fnv1a, mix};
use crate::id::{Callee, CapabilityId, StepId};

/// Rounds of refinement, at most; data flow further away than this does not distinguish calls.
const ROUNDS_MAX: usize = 8;

/// Calls in a generated name, at most.
const SUMMARY_CALLS: usize = 4;

/// The calls of a procedure and the data flow between them, in canonical order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Structure {
    /// In canonical order.
    pub calls: Vec<Callee>,
    /// Data flow between positions in `calls`, sorted.
    pub flow: Vec<(u16, u16)>,
}

impl Structure {
    /// The id and the canonical structure of `calls` with data flow between their positions.
    /// O(rounds x (calls log calls + flow)).
    pub fn canonical(calls: &[&Callee], flow: &[(usize, usize)]) -> (CapabilityId, Self) {
        let labels = refined_labels(calls, flow);
        let mut order: Vec<usize> = (0..calls.len()).collect();
        order.sort_by(|&a, &b| (calls[a], labels[a]).cmp(&(calls[b], labels[b])));
        let mut position = vec![0_u16; calls.len()];
        for (to, &from) in order.iter().enumerate() {
            position[from] = u16::try_from(to).expect("executions have far fewer than 2^16 steps");
        }
        let mut positioned: Vec<(u16, u16)> = flow.iter().map(|&(from, to)| (position[from], position[to])).collect();
        positioned.sort_unstable();
        positioned.dedup();
        let structure = Self { calls: order.iter().map(|&at| calls[at].clone()).collect(), flow: positioned };
        let ordered_labels: Vec<u64> = order.iter().map(|&at| labels[at]).collect();
        let mut labelled: Vec<(u64, u64)> = flow.iter().map(|&(from, to)| (labels[from], labels[to])).collect();
        labelled.sort_unstable();
        labelled.dedup();
        (structure.identity(&ordered_labels, &labelled), structure)
    }

    /// The id and the canonical form of a declared structure.
    pub fn declared(declared: &DeclaredStructure) -> (CapabilityId, Self) {
        let calls: Vec<&Callee> = declared.nodes.iter().map(|node| &node.callee).collect();
        Self::canonical(&calls, &declared_flow(declared))
    }

    /// The digest over calls, labels and flow. Labels replace positions, since the order of calls with equal labels is arbitrary.
    fn identity(&self, labels: &[u64], labelled_flow: &[(u64, u64)]) -> CapabilityId {
        let mut hasher = blake3::Hasher::new();
        for (call, label) in self.calls.iter().zip(labels) {
            let text = call.text();
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes()).update(&label.to_le_bytes());
        }
        for (from, to) in labelled_flow {
            hasher.update(&from.to_le_bytes()).update(&to.to_le_bytes());
        }
        let mut bits = [0; 16];
        bits.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        CapabilityId::from_bits(u128::from_be_bytes(bits))
    }

    /// A generated name that lists the calls in the order of data flow: `fs:read > zip:pack`.
    pub fn summary(&self) -> String {
        let named = self.in_order_of_flow().into_iter().take(SUMMARY_CALLS).map(ToString::to_string);
        let more = self.calls.len().saturating_sub(SUMMARY_CALLS);
        let rest = (more > 0).then(|| format!("{more} more"));
        named.chain(rest).collect::<Vec<_>>().join(" > ")
    }

    /// The calls, those that others depend on first.
    pub(super) fn in_order_of_flow(&self) -> Vec<&Callee> {
        let depths = self.depths();
        let mut order: Vec<usize> = (0..self.calls.len()).collect();
        order.sort_by_key(|&at| (depths[at], at));
        order.into_iter().map(|at| &self.calls[at]).collect()
    }

    /// Longest chain of data flow that ends at each call; the number of calls where a loop leads there. O(calls + flow).
    pub fn depths(&self) -> Vec<usize> {
        let mut missing = vec![0_usize; self.calls.len()];
        for &(_, to) in &self.flow {
            missing[usize::from(to)] += 1;
        }
        let mut ready: Vec<usize> = (0..self.calls.len()).filter(|at| missing[*at] == 0).collect();
        let (mut longest, mut depths) = (vec![0; self.calls.len()], vec![self.calls.len(); self.calls.len()]);
        while let Some(at) = ready.pop() {
            depths[at] = longest[at];
            // Sorted by where the flow comes from.
            let first = self.flow.partition_point(|(from, _)| usize::from(*from) < at);
            for &(_, to) in self.flow[first..].iter().take_while(|(from, _)| usize::from(*from) == at) {
                let to = usize::from(to);
                longest[to] = longest[to].max(longest[at] + 1);
                missing[to] -= 1;
                if missing[to] == 0 {
                    ready.push(to);
                }
            }
        }
        depths
    }
}

impl Digestible for Structure {
    fn digest(&self, writer: &mut DigestWriter) {
        writer.len(self.calls.len());
        for call in &self.calls {
            writer.text(&call.text());
        }
        writer.len(self.flow.len());
        for &(from, to) in &self.flow {
            writer.u32(from.into()).u32(to.into());
        }
    }
}

/// The data flow of a declared structure, between the positions of its nodes.
pub fn declared_flow(declared: &DeclaredStructure) -> Vec<(usize, usize)> {
    let mut positions: BTreeMap<&StepId, usize> = BTreeMap::new();
    for (at, node) in declared.nodes.iter().enumerate() {
        positions.entry(&node.id).or_insert(at);
    }
    let position = |id: &StepId| positions.get(id).copied();
    let provides = declared.edges.iter().filter(|edge| edge.kind == EdgeKind::Provides);
    provides.filter_map(|edge| position(&edge.from).zip(position(&edge.to))).collect()
}

fn refined_labels(calls: &[&Callee], flow: &[(usize, usize)]) -> Vec<u64> {
    let mut labels: Vec<u64> = calls.iter().map(|call| label_of(call)).collect();
    if flow.is_empty() {
        return labels;
    }
    for _ in 0..calls.len().min(ROUNDS_MAX) {
        // Labels of neighbours are summed, so the order of the flow does not matter.
        let mut next: Vec<u64> = labels.iter().map(|&label| mix(label)).collect();
        for &(from, to) in flow {
            next[to] = next[to].wrapping_add(mix(labels[from] ^ 0x5bd1_e995_0000_0001));
            next[from] = next[from].wrapping_add(mix(labels[to] ^ 0xc2b2_ae3d_0000_0002));
        }
        labels = next.into_iter().map(mix).collect();
    }
    labels
}

fn label_of(call: &Callee) -> u64 {
    match call {
        Callee::Tool(tool) => tool.text_hash(),
        Callee::Capability(id) => mix(fnv1a(&id.to_bits().to_be_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(calls: &[&str], flow: &[(usize, usize)]) -> CapabilityId {
        let calls: Vec<Callee> = calls.iter().map(|call| call.parse().unwrap()).collect();
        Structure::canonical(&calls.iter().collect::<Vec<_>>(), flow).0
    }

    #[test]
    fn the_same_procedure_has_one_identity_whatever_the_order_of_independent_calls() {
        let diamond = identity(&["a:in", "b:x", "b:y", "c:out"], &[(0, 1), (0, 2), (1, 3), (2, 3)]);
        assert_eq!(diamond, identity(&["a:in", "b:y", "b:x", "c:out"], &[(0, 1), (0, 2), (2, 3), (1, 3)]));
        assert_eq!(diamond, identity(&["c:out", "b:y", "b:x", "a:in"], &[(3, 1), (3, 2), (1, 0), (2, 0)]));
    }

    #[test]
    fn different_procedures_differ() {
        let chain = identity(&["a:x", "b:x"], &[(0, 1)]);
        assert_ne!(chain, identity(&["a:x", "b:x"], &[(1, 0)]));
        assert_ne!(chain, identity(&["a:x", "b:x"], &[]));
        assert_ne!(chain, identity(&["a:x", "b:x", "b:x"], &[(0, 1), (0, 2)]));
        // The same calls and the same number of edges, wired differently.
        let one_hub = identity(&["a:x", "a:x", "b:x", "b:x"], &[(0, 2), (0, 3)]);
        assert_ne!(one_hub, identity(&["a:x", "a:x", "b:x", "b:x"], &[(0, 2), (1, 3)]));
    }

    #[test]
    fn a_summary_follows_the_data() {
        let calls: Vec<Callee> = ["zip:pack", "fs:read", "net:send"].iter().map(|call| call.parse().unwrap()).collect();
        let (_, structure) = Structure::canonical(&calls.iter().collect::<Vec<_>>(), &[(1, 0), (0, 2)]);
        assert_eq!(structure.summary(), "fs:read > zip:pack > net:send");
    }

    /// What [`Structure::depths`] means, told the long way: lengthen every chain until none can grow.
    fn depths_by_relaxing(structure: &Structure) -> Vec<usize> {
        let mut depths = vec![0; structure.calls.len()];
        for _ in 0..depths.len() {
            for &(from, to) in &structure.flow {
                depths[usize::from(to)] = depths[usize::from(to)].max((depths[usize::from(from)] + 1).min(depths.len()));
            }
        }
        depths
    }

    proptest::proptest! {
        #[test]
        fn depths_are_longest_chains_also_where_flow_loops(flow in proptest::collection::vec((0_u16..12, 0_u16..12), 0..30)) {
            let mut flow = flow;
            flow.sort_unstable();
            flow.dedup();
            let structure = Structure { calls: vec!["a:x".parse().unwrap(); 12], flow };
            proptest::prop_assert_eq!(structure.depths(), depths_by_relaxing(&structure));
        }
    }
}
