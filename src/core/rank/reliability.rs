//! Reliability of items: the factor by which an observed success rate changes a score (S1, S3 3.1, S4).

use std::collections::BTreeSet;

use crate::graph::{Node, NodeKind};
use crate::state::State;

/// Success rates below which an item is unreliable and above which it is proven. Both bounds are strict.
const UNRELIABLE_BELOW: f64 = 0.5;
const PROVEN_ABOVE: f64 = 0.9;
/// Factors for unreliable and proven items; all others have 1.
const UNRELIABLE: f64 = 0.1;
const PROVEN: f64 = 1.2;

/// Upper bound of every score: no answer is certain.
pub const SCORE_MAX: f64 = 0.95;

/// The factor of a success rate.
pub fn factor(rate: f64) -> f64 {
    if rate < UNRELIABLE_BELOW {
        UNRELIABLE
    } else if rate > PROVEN_ABOVE {
        PROVEN
    } else {
        1.0
    }
}

/// The success rate of a node: for a tool its own, for a capability the smallest among its own and those of everything it calls,
/// transitively. 1 if nothing was observed (S4 AC12).
pub fn success_rate(state: &State, node: Node) -> f64 {
    if let NodeKind::Tool(position) = node.kind() {
        return state.tools.at(position).success_rate();
    }
    let mut seen = BTreeSet::new();
    let mut waiting = vec![node];
    let mut lowest = 1.0_f64;
    while let Some(node) = waiting.pop() {
        if !seen.insert(node) {
            continue;
        }
        lowest = lowest.min(match node.kind() {
            NodeKind::Tool(position) => state.tools.at(position).success_rate(),
            NodeKind::Capability(position) => {
                let capability = state.capabilities.at(position);
                waiting.extend(&capability.members);
                capability.success_rate()
            }
        });
    }
    lowest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_strict() {
        let check = |rate: f64, expected: f64| assert!((factor(rate) - expected).abs() < 1e-12, "{rate}");
        check(0.0, 0.1);
        check(0.499, 0.1);
        check(0.5, 1.0);
        check(0.9, 1.0);
        check(0.901, 1.2);
        check(1.0, 1.2);
    }
}
