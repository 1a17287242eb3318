//! The signal `hyperpath`: what comes next on the way to the target capability (S1). SHGAT picks the targets; without it they are the
//! capabilities that near past intents used, each with its share of the votes. On the hyperpath from the calls so far to a target, the
//! next calls are those of its procedure that were not made and wait for no other; they share what speaks for the target.
//!
//! For a live execution [`way_to_target`] tells the likeliest target and the shortest hyperpath to it from the current call.

use std::collections::BTreeMap;

use super::corpus::top;
use super::evidence::Evidence;
use crate::graph::{Node, NodeKind};
use crate::id::Callee;
use crate::paths::PathIndex;
use crate::paths::procedure::Procedure;
use crate::state::State;

/// A capability that an intent likely aims at, and what comes next on the way to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Aim {
    pub capability: Node,
    /// What speaks for it: by SHGAT the probability that it is the target, else the share of the near past intents that used it.
    pub share: f64,
    pub is_by_shgat: bool,
    /// The calls of its procedure that were not made and wait for no other, in node order.
    pub next: Vec<Node>,
}

/// The likeliest of the capabilities that an intent may aim at and `is_wanted` accepts, at most `count`, the likeliest first.
pub(super) fn likeliest_aims(
    state: &State,
    evidence: &Evidence,
    context: &[Callee],
    is_wanted: impl Fn(Node) -> bool,
    count: usize,
) -> Vec<Aim> {
    let context: Vec<Option<Node>> = context.iter().map(|callee| state.find(callee)).collect();
    let aim = |(capability, share)| Aim {
        capability,
        share,
        is_by_shgat: evidence.has_target(),
        next: next_calls(state, capability, &context),
    };
    let aims = evidence.aims().into_iter().filter(|(capability, _)| is_wanted(*capability));
    top(aims, count).into_iter().map(aim).collect()
}

/// The likeliest target of a live execution after `calls`, and the nodes of the shortest hyperpath to it from the last of them: none
/// before the first call, or if no hyperpath leads there. `paths` must be the index of `state` or of a later one; it keeps the distances
/// from that call.
pub fn way_to_target(
    state: &State,
    evidence: &Evidence,
    calls: &[Callee],
    paths: &mut PathIndex,
) -> Option<(Aim, Option<Vec<Node>>)> {
    let aim = likeliest_aims(state, evidence, calls, |_| true, 1).pop()?;
    let current = calls.last().and_then(|callee| state.find(callee));
    let path = current.and_then(|current| paths.path_from_live(current, aim.capability)).map(|path| path.nodes);
    Some((aim, path))
}

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

    #[test]
    fn what_a_person_retired_or_merged_is_no_target_and_its_votes_go_to_the_other() {
        let mut history = History::new(
            "run ok back up: fs:read, zip:pack < fs:read
             run ok back up now: db:dump, zip:pack < db:dump",
        );
        history.embed(|_| vec![1.0, 0.0]);
        let next = |history: &History| {
            let asked = AskedText { text: "back up", vector: Some(&[1.0, 0.0]) };
            let evidence = Evidence::compute(&history.state, asked, &[], &Excluded::default());
            let next = next_on_the_way(&history.state, &evidence, &[]);
            next.into_iter().map(|(node, share)| (history.name(node), share)).collect::<BTreeMap<_, _>>()
        };
        let before = next(&history);
        assert_eq!(before.keys().collect::<Vec<_>>(), ["db:dump", "fs:read"]);
        history.line("retire 0");
        assert_eq!(next(&history).keys().collect::<Vec<_>>(), ["db:dump"]);
        history.line("restore 0");
        history.line("merge 0 1");
        let merged = next(&history);
        assert!(merged.len() == 1 && (merged["db:dump"] - before["db:dump"] - before["fs:read"]).abs() < 1e-12, "{merged:?}");
        history.line("split 0");
        assert_eq!(next(&history), before);
    }

    #[test]
    fn the_way_of_a_live_execution_leads_from_its_current_call_to_the_target() {
        let mut history =
            History::new("run ok back up: fs:read, zip:pack < fs:read, net:send < zip:pack\nrun ok look: web:get");
        history.embed(|text| if text == "look" { vec![0.0, 1.0] } else { vec![1.0, 0.0] });
        let asked = AskedText { text: "back up", vector: Some(&[1.0, 0.0]) };
        let evidence = Evidence::compute(&history.state, asked, &[], &Excluded::default());
        let mut paths = PathIndex::from_state(&history.state);
        let mut way = |calls: &[&str]| {
            let calls: Vec<Callee> = calls.iter().map(|call| history.state.callee(history.node(call))).collect();
            let (aim, path) = way_to_target(&history.state, &evidence, &calls, &mut paths).unwrap();
            let names = |nodes: Vec<Node>| nodes.into_iter().map(|node| history.name(node)).collect::<Vec<_>>();
            (names(aim.next), path.map(|mut path| (path.pop() == Some(aim.capability), names(path))))
        };
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<String>>();
        assert_eq!(way(&[]), (names(&["fs:read"]), None));
        assert_eq!(way(&["fs:read"]), (names(&["zip:pack"]), Some((true, names(&["fs:read", "zip:pack", "net:send"])))));
        assert_eq!(way(&["fs:read", "zip:pack"]), (names(&["net:send"]), Some((true, names(&["zip:pack", "net:send"])))));
        assert_eq!(way(&["web:get"]), (names(&["fs:read"]), None), "nothing leads there from elsewhere");
        assert_eq!(paths.hyperedges().pinned().count(), 3);
    }
}
