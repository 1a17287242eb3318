//! Strategic discovery: the capabilities that the calls so far are part of (S3 3.2).
//!
//! score = overlap * (1 + boost): overlap is the share of the capability's tools among the calls so far; boost is 0.5 if the
//! capability is in the active cluster, else 0.25 times the share of its tools in it. The active cluster is the community that most
//! of the calls so far belong to.

use std::collections::BTreeMap;

use crate::graph::Node;
use crate::graph::measures::Measures;
use crate::id::Callee;
use crate::state::State;

const BOOST_INSIDE: f64 = 0.5;
const BOOST_PARTLY: f64 = 0.25;

/// A capability that the calls so far are part of.
#[derive(Clone, Debug, PartialEq)]
pub struct Underway {
    pub capability: Node,
    pub score: f64,
    pub overlap: f64,
    pub boost: f64,
    /// Its members not called yet, in node order.
    pub missing: Vec<Node>,
}

/// Returns the capabilities under way, the best first, at most `limit`; ties by id. Capabilities with all members called are left
/// out.
pub fn underway(state: &State, measures: &Measures, context: &[Callee], limit: usize) -> Vec<Underway> {
    let called: Vec<Node> = context.iter().filter_map(|callee| state.find(callee)).collect();
    let active = active_cluster(measures, &called);
    let mut found: Vec<Underway> = Vec::new();
    for position in state.capabilities.positions() {
        let capability = state.capabilities.at(position);
        let missing: Vec<Node> = capability.members.iter().copied().filter(|member| !called.contains(member)).collect();
        let common = capability.members.len() - missing.len();
        if common == 0 || missing.is_empty() || !capability.is_offered() {
            continue;
        }
        let overlap = share(common, capability.members.len());
        let node = Node::capability(position);
        let boost = boost(measures, active, node, &capability.members);
        found.push(Underway { capability: node, score: overlap * (1.0 + boost), overlap, boost, missing });
    }
    // A stable sort: positions are in the order of the ids.
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    found.truncate(limit);
    found
}

/// The community that most of the calls belong to; of equals the one with the smallest node.
fn active_cluster(measures: &Measures, called: &[Node]) -> Option<Node> {
    let mut counts: BTreeMap<Node, usize> = BTreeMap::new();
    for community in called.iter().filter_map(|node| measures.community(*node)) {
        *counts.entry(community).or_default() += 1;
    }
    let most = counts.into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best });
    most.map(|(community, _)| community)
}

fn boost(measures: &Measures, active: Option<Node>, capability: Node, members: &[Node]) -> f64 {
    if active.is_none() {
        return 0.0;
    }
    if measures.community(capability) == active {
        return BOOST_INSIDE;
    }
    let inside = members.iter().filter(|member| measures.community(**member) == active).count();
    BOOST_PARTLY * share(inside, members.len())
}

#[expect(clippy::cast_precision_loss, reason = "a capability has few members")]
fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}
