//! What people decide about capabilities: another name, that two are one, approval, retirement. Every decision keeps what it replaced,
//! so that taking it back gives what would be there without it.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::OrdMap;

use super::{Capabilities, Capability, Status};
use crate::digest::DigestWriter;
use crate::graph::{Node, NodeKind};
use crate::id::{CapabilityId, Seq};

/// Intents told of a capability together with those that were merged into it, at most.
const INTENTS_TOLD: usize = 64;

/// The decisions in force about one capability.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// The name that it has by itself, while a person gave it another.
    pub own_name: Option<String>,
    /// The position of the capability that stands for this one too.
    pub merged_into: Option<u32>,
    /// The status that it has by itself, while a person approved it.
    pub own_status: Option<Status>,
    pub retired: bool,
}

impl Decisions {
    pub(super) fn digest(&self, writer: &mut DigestWriter) {
        writer.optional(self.own_name.as_deref(), |writer, name| {
            writer.text(name);
        });
        writer.optional(self.merged_into, |writer, into| {
            writer.u32(into);
        });
        writer.optional(self.own_status, |writer, status| {
            writer.text(status.name());
        });
        writer.u32(u32::from(self.retired));
    }
}

/// By position: the capabilities that were merged into it, directly.
pub(super) fn merges(rows: &[Capability]) -> OrdMap<u32, BTreeSet<u32>> {
    let mut merged: OrdMap<u32, BTreeSet<u32>> = OrdMap::new();
    for (position, capability) in (0..).zip(rows) {
        if let Some(into) = capability.decided.merged_into {
            merged.entry(into).or_default().insert(position);
        }
    }
    merged
}

impl Capabilities {
    /// Gives a capability another name, or takes that back. Nothing happens to one that is not known.
    pub fn rename(&mut self, id: CapabilityId, name: Option<&str>, seq: Seq) {
        let Some(position) = self.known(id) else { return };
        let capability = self.at_mut(position);
        match name {
            Some(name) => {
                let before = std::mem::replace(&mut capability.name, name.to_owned());
                capability.decided.own_name.get_or_insert(before);
            }
            None => {
                if let Some(own) = capability.decided.own_name.take() {
                    capability.name = own;
                }
            }
        }
        capability.last_seq = seq;
    }

    /// Approves a capability, or takes that back.
    pub fn approve(&mut self, id: CapabilityId, is_approved: bool, seq: Seq) {
        let Some(position) = self.known(id) else { return };
        let capability = self.at_mut(position);
        if is_approved {
            capability.decided.own_status.get_or_insert(capability.status);
            capability.status = Status::Approved;
        } else if let Some(own) = capability.decided.own_status.take() {
            capability.status = own;
        }
        capability.last_seq = seq;
    }

    /// Retires a capability, or takes that back.
    pub fn retire(&mut self, id: CapabilityId, is_retired: bool, seq: Seq) {
        let Some(position) = self.known(id) else { return };
        let capability = self.at_mut(position);
        capability.decided.retired = is_retired;
        capability.last_seq = seq;
    }

    /// Merges a capability into another, which has its counts from then on, or takes that back. Nothing happens if the other one was
    /// itself merged into it.
    pub fn merge(&mut self, id: CapabilityId, into: Option<CapabilityId>, seq: Seq) {
        let Some(position) = self.known(id) else { return };
        let into = match into.map(|into| self.known(into)) {
            Some(None) => return,
            Some(Some(into)) if self.with_merged(into).contains(&position) => return,
            other => other.flatten(),
        };
        self.count_merged(position, false, seq);
        let before = std::mem::replace(&mut self.at_mut(position).decided.merged_into, into);
        if let Some(before) = before {
            self.merged.entry(before).or_default().remove(&position);
        }
        if let Some(into) = into {
            self.merged.entry(into).or_default().insert(position);
        }
        self.count_merged(position, true, seq);
        self.at_mut(position).last_seq = seq;
    }

    /// Adds the counts of a capability to all that it is merged into, or takes them away.
    fn count_merged(&mut self, position: u32, is_added: bool, seq: Seq) {
        let (usage, successes, duration) = {
            let own = self.at(position);
            (own.usage, own.successes, own.duration_total_ms)
        };
        for other in self.with_merged(position).into_iter().skip(1) {
            let other = self.at_mut(other);
            let change = |sum: &mut u64, by: u64| *sum = if is_added { sum.saturating_add(by) } else { sum.saturating_sub(by) };
            change(&mut other.usage, usage);
            change(&mut other.successes, successes);
            change(&mut other.duration_total_ms, duration);
            other.last_seq = seq;
        }
    }

    /// The position and those that stand for it, one after the other.
    pub(super) fn with_merged(&self, position: u32) -> Vec<u32> {
        self.chain(position).collect()
    }

    fn chain(&self, position: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(position), |at| self.at(*at).decided.merged_into)
    }

    /// The position of the capability that is recommended in place of this one: itself, or the one that it was merged into. `None` if
    /// that one is retired, if its structure is not known, or if there is none at this position.
    pub fn offered(&self, position: u32) -> Option<u32> {
        self.table.get(position as usize)?;
        self.chain(position).last().filter(|last| self.at(*last).is_offered())
    }

    /// The node to recommend where this one was used: a tool is one for itself.
    pub fn offered_node(&self, node: Node) -> Option<Node> {
        match node.kind() {
            NodeKind::Tool(_) => Some(node),
            NodeKind::Capability(position) => self.offered(position).map(Node::capability),
        }
    }

    /// Whether its procedure may be followed: it is offered, or one that calls it is followed.
    pub fn is_followed(&self, position: u32) -> bool {
        let capability = self.at(position);
        let calls_it = |parent: &Node| matches!(parent.kind(), NodeKind::Capability(parent) if self.is_followed(parent));
        capability.is_offered() || capability.parents.iter().any(calls_it)
    }

    /// The distinct intents that a capability and those merged into it were used for, at most [`INTENTS_TOLD`]: its own last, and of
    /// each the latest last.
    pub fn intents(&self, id: CapabilityId) -> Vec<Arc<str>> {
        let (mut newest_first, mut waiting): (Vec<Arc<str>>, Vec<u32>) = (Vec::new(), self.position(id).into_iter().collect());
        while let Some(at) = waiting.pop() {
            for intent in self.at(at).intents.iter().rev() {
                if newest_first.len() < INTENTS_TOLD && !newest_first.contains(intent) {
                    newest_first.push(Arc::clone(intent));
                }
            }
            waiting.extend(self.merged_into(at));
        }
        newest_first.reverse();
        newest_first
    }

    /// The capability that stands for this one: itself, unless it was merged into another.
    pub fn standing_for(&self, id: CapabilityId) -> CapabilityId {
        let last = self.position(id).and_then(|position| self.with_merged(position).pop());
        last.map_or(id, |position| self.at(position).id)
    }

    /// The capabilities that were merged into this one, directly.
    pub fn merged_into(&self, position: u32) -> impl Iterator<Item = u32> {
        self.merged.get(&position).into_iter().flatten().copied()
    }

    /// The position of a capability whose structure is known.
    fn known(&self, id: CapabilityId) -> Option<u32> {
        self.position(id).filter(|position| self.at(*position).status != Status::Stub)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::given::History;

    /// Two capabilities; the second one ran twice.
    fn two() -> (History, CapabilityId, CapabilityId) {
        let history = History::new(
            "run ok zip: fs:list, fs:zip < fs:list
             run ok mail: fs:list, mail:send < fs:list
             run ok mail: fs:list, mail:send < fs:list",
        );
        let [a, b] = [0, 1].map(|position| history.state.capabilities.at(position).id);
        (history, a, b)
    }

    #[test]
    fn what_is_taken_back_leaves_no_trace() {
        let (history, a, b) = two();
        let mut table = history.state.capabilities.clone();
        let seq = history.state.applied();
        for id in [a, b] {
            table.rename(id, Some("one"), seq);
            table.rename(id, Some("two"), seq);
            table.approve(id, true, seq);
            table.retire(id, true, seq);
        }
        table.merge(a, Some(b), seq);
        let merged = table.get(b).unwrap();
        assert_eq!((merged.usage, merged.name.as_str(), merged.status), (3, "two", Status::Approved));
        assert!(!table.get(a).unwrap().is_offered() && table.standing_for(a) == b);
        assert_eq!((table.offered(0), table.offered(1)), (None, None), "the one that stands for both is retired");
        table.retire(b, false, seq);
        assert_eq!((table.offered(0), table.offered(1)), (Some(1), Some(1)));
        assert_eq!(table.intents(b).iter().map(|intent| &**intent).collect::<Vec<_>>(), ["zip", "mail"]);
        assert_eq!(table.intents(a).len(), 1);
        table.merge(b, Some(a), seq);
        assert_eq!(table.standing_for(a), b, "no circle");
        for id in [a, b] {
            table.rename(id, None, seq);
            table.approve(id, false, seq);
            table.retire(id, false, seq);
            table.merge(id, None, seq);
        }
        for (row, was) in table.rows().zip(history.state.capabilities.rows()) {
            assert_eq!((&row.name, row.status, row.usage, row.successes), (&was.name, was.status, was.usage, was.successes));
            assert_eq!((&row.decided, row.duration_total_ms), (&Decisions::default(), was.duration_total_ms));
        }
        assert_eq!(table.intents(b).len(), 1, "the intents of the other one are its own again");
    }

    #[test]
    fn a_run_of_a_merged_capability_counts_for_all_that_stand_for_it() {
        let (mut history, a, b) = two();
        let seq = history.state.applied();
        history.state.capabilities.merge(a, Some(b), seq);
        history.line("run ok zip again: fs:list, fs:zip < fs:list");
        let usage = |history: &History| [a, b].map(|id| history.state.capabilities.get(id).unwrap().usage);
        assert_eq!(usage(&history), [2, 4]);
        history.state.capabilities.merge(a, None, seq);
        assert_eq!(usage(&history), [2, 2]);
    }

    #[test]
    fn a_declared_name_waits_behind_the_name_that_a_person_gave() {
        let (mut history, a, _) = two();
        let seq = history.state.applied();
        history.state.capabilities.rename(a, Some("pack"), seq);
        history.line("declare archive: fs:list, fs:zip < fs:list");
        assert_eq!(history.state.capabilities.get(a).unwrap().name, "pack");
        history.state.capabilities.rename(a, None, seq);
        assert_eq!(history.state.capabilities.get(a).unwrap().name, "archive");
    }
}
