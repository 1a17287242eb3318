//! The signal `hyperpath`: what comes next on the way to the target capability (S1). SHGAT picks the targets; without it they are the
//! capabilities that near past intents used, each with its share of the votes. On the hyperpath from the calls so far to a target, the
//! next calls are those of its procedure that were not made and wait for no other; they share what speaks for the target.

use std::collections::BTreeMap;

use super::evidence::Evidence;
use crate::graph::{Node, NodeKind};
use crate::paths::procedure::Procedure;
use crate::state::State;

/// By node: the shares of the targets on whose way it comes next. O(calls^2) per target.
pub(super) fn next_on_the_way(state: &State, evidence: &Evidence, context: &[Option<Node>]) -> BTreeMap<Node, f64> {
    let mut next: BTreeMap<Node, f64> = BTreeMap::new();
    for (target, share) in evidence.aims() {
        let ready = next_calls(state, target, context);
        #[expect(clippy::cast_precision_loss, reason = "a capability has few calls")]
        let share = share / ready.len().max(1) as f64;
        for node in ready {
            *next.entry(node).or_default() += share;
        }
    }
    next
}

/// The calls of a capability's procedure that were not made and wait for no other, in node order, each once.
pub(super) fn next_calls(state: &State, target: Node, context: &[Option<Node>]) -> Vec<Node> {
    let NodeKind::Capability(position) = target.kind() else { return Vec::new() };
    let Some(procedure) = Procedure::new(state, state.capabilities.at(position)) else { return Vec::new() };
    let is_done = |node: &Node| context.contains(&Some(*node));
    let is_ready = |call: &usize| !is_done(&procedure.calls[*call]) && procedure.feeding(*call).iter().all(is_done);
    let mut ready: Vec<Node> = (0..procedure.calls.len()).filter(is_ready).map(|call| procedure.calls[call]).collect();
    ready.sort_unstable();
    ready.dedup();
    ready
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::given::History;
    use crate::predict::evidence::{AskedText, Excluded};

    #[test]
    fn the_next_calls_are_those_that_wait_for_nothing() {
        let mut history = History::new("run ok back up: fs:read, db:dump, zip:pack < fs:read + db:dump, net:send < zip:pack");
        history.embed(|_| vec![1.0, 0.0]);
        let asked = AskedText { text: "back up", vector: Some(&[1.0, 0.0]) };
        let evidence = Evidence::compute(&history.state, asked, &[], &Excluded::default());
        let next = |calls: &[&str]| -> Vec<String> {
            let context: Vec<Option<Node>> = calls.iter().map(|call| Some(history.node(call))).collect();
            let next = next_on_the_way(&history.state, &evidence, &context);
            assert!(next.values().all(|vote| (0.0..=1.0).contains(vote)));
            next.keys().map(|node| history.name(*node)).collect()
        };
        assert_eq!(next(&[]), ["fs:read", "db:dump"]);
        assert_eq!(next(&["db:dump"]), ["fs:read"]);
        assert_eq!(next(&["db:dump", "fs:read"]), ["zip:pack"]);
        assert_eq!(next(&["db:dump", "fs:read", "zip:pack", "net:send"]), [""; 0]);
    }
}
