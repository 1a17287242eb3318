//! `Diff` is the difference between two states of one log.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::core::name::readable;
use crate::core::state::State;

/// One item that differs; `None` on the side where it did not exist.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change<F> {
    pub id: String,
    pub before: Option<F>,
    pub after: Option<F>,
}

/// What is compared of a tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolSummary {
    /// Registered and not removed.
    pub offered: bool,
    pub description: Option<String>,
    pub calls: u64,
    pub successes: u64,
}

/// What is compared of a capability.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CapabilitySummary {
    /// Its readable name.
    pub handle: String,
    pub name: String,
    pub status: &'static str,
    pub usage: u64,
    pub successes: u64,
}

/// What is compared of an edge of the tool graph.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EdgeSummary {
    pub source: &'static str,
    pub weight: f64,
    pub observations: u32,
    pub successes: u32,
}

/// Rank and score of an item in the answer to a question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankedItem {
    pub rank: usize,
    pub score: f64,
}

/// Everything that differs between two states, each list sorted by id.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    pub tools: Vec<Change<ToolSummary>>,
    pub capabilities: Vec<Change<CapabilitySummary>>,
    pub edges: Vec<Change<EdgeSummary>>,
    /// The model whose vectors are used, under the id `embedding`.
    pub models: Vec<Change<String>>,
}

impl Diff {
    /// Compares two states.
    pub fn between(before: &State, after: &State) -> Self {
        Self {
            tools: changes(tools(before), tools(after)),
            capabilities: changes(capabilities(before), capabilities(after)),
            edges: changes(edges(before), edges(after)),
            models: changes(models(before), models(after)),
        }
    }
}

fn tools(state: &State) -> BTreeMap<String, ToolSummary> {
    let summaries = state.tools.iter().map(|tool| {
        let description = tool.registration.as_ref().map(|registration| registration.description.clone());
        let offered = !tool.is_stub() && tool.is_offered();
        (tool.id.to_string(), ToolSummary { offered, description, calls: tool.calls, successes: tool.successes })
    });
    summaries.collect()
}

fn capabilities(state: &State) -> BTreeMap<String, CapabilitySummary> {
    let summaries = state.capabilities.iter().map(|capability| {
        let summary = CapabilitySummary {
            handle: capability.handle.to_string(),
            name: capability.name.clone(),
            status: capability.status.name(),
            usage: capability.usage,
            successes: capability.successes,
        };
        (capability.id.to_string(), summary)
    });
    summaries.collect()
}

fn edges(state: &State) -> BTreeMap<String, EdgeSummary> {
    let summaries = state.graph.edges().map(|(&(from, to, kind), edge)| {
        let id = format!("{} -{}-> {}", readable(state, from), kind.name(), readable(state, to));
        let summary = EdgeSummary {
            source: edge.source().name(),
            weight: edge.weight(kind),
            observations: edge.observations,
            successes: edge.successes,
        };
        (id, summary)
    });
    summaries.collect()
}

fn models(state: &State) -> BTreeMap<String, String> {
    state.vectors.model().map(|model| ("embedding".to_owned(), model.to_string())).into_iter().collect()
}

/// Everything that differs between two tables, sorted by id.
fn changes<F: PartialEq>(before: BTreeMap<String, F>, mut after: BTreeMap<String, F>) -> Vec<Change<F>> {
    let mut changes: Vec<Change<F>> = Vec::new();
    for (id, old) in before {
        let new = after.remove(&id);
        if new.as_ref() != Some(&old) {
            changes.push(Change { id, before: Some(old), after: new });
        }
    }
    changes.extend(after.into_iter().map(|(id, new)| Change { id, before: None, after: Some(new) }));
    changes.sort_by(|a, b| a.id.cmp(&b.id));
    changes
}

/// Compares two answers to one question, each a list of items with scores in the order of the ranks. Items with the same rank and
/// score in both are left out; the others come in the order of the later answer, then of the earlier.
pub fn ranks(before: &[(String, f64)], after: &[(String, f64)]) -> Vec<Change<RankedItem>> {
    let table = |answer: &[(String, f64)]| -> BTreeMap<String, RankedItem> {
        (1..).zip(answer).map(|(rank, (id, score))| (id.clone(), RankedItem { rank, score: *score })).collect()
    };
    let mut changed = changes(table(before), table(after));
    let rank = |side: &Option<RankedItem>| side.as_ref().map_or(usize::MAX, |item| item.rank);
    changed.sort_by_key(|change| (rank(&change.after), rank(&change.before)));
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(pairs: &[(&str, u32)]) -> BTreeMap<String, u32> {
        pairs.iter().map(|(id, value)| ((*id).to_owned(), *value)).collect()
    }

    #[test]
    fn items_that_were_added_removed_or_changed_are_listed_and_others_are_not() {
        let changed = changes(table(&[("a", 1), ("b", 1), ("c", 1)]), table(&[("b", 1), ("c", 2), ("d", 1)]));
        let told: Vec<_> = changed.iter().map(|change| (change.id.as_str(), change.before, change.after)).collect();
        assert_eq!(told, [("a", Some(1), None), ("c", Some(1), Some(2)), ("d", None, Some(1))]);
    }

    #[test]
    fn ranks_come_in_the_order_of_the_later_answer() {
        let answer = |ids: &[&str]| ids.iter().map(|id| ((*id).to_owned(), 0.5)).collect::<Vec<_>>();
        let changed = ranks(&answer(&["a", "b", "c", "x"]), &answer(&["a", "c", "new", "b"]));
        let told: Vec<_> = changed
            .iter()
            .map(|change| (change.id.as_str(), change.before.as_ref().map(|f| f.rank), change.after.as_ref().map(|f| f.rank)))
            .collect();
        assert_eq!(
            told,
            [("c", Some(3), Some(2)), ("new", None, Some(3)), ("b", Some(2), Some(4)), ("x", Some(4), None)],
            "a stands where it stood"
        );
    }
}
