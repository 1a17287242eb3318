//! What changed between two states of one log: a pure comparison, thing by thing.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::core::state::State;

/// One thing that is not as it was; absent on a side where it was not known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changed<F> {
    pub id: String,
    pub before: Option<F>,
    pub after: Option<F>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolFacts {
    /// Registered and not withdrawn.
    pub offered: bool,
    pub description: Option<String>,
    pub calls: u64,
    pub successes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CapabilityFacts {
    pub name: String,
    pub status: &'static str,
    pub usage: u64,
    pub successes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EdgeFacts {
    pub source: &'static str,
    pub weight: f64,
    pub observations: u32,
    pub successes: u32,
}

/// Where something stands in the answer to a question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankFacts {
    pub rank: usize,
    pub score: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    pub tools: Vec<Changed<ToolFacts>>,
    pub capabilities: Vec<Changed<CapabilityFacts>>,
    pub edges: Vec<Changed<EdgeFacts>>,
    /// The model whose vectors serve, under the one id `embedding`.
    pub models: Vec<Changed<String>>,
}

impl Diff {
    pub fn between(before: &State, after: &State) -> Self {
        Self {
            tools: changes(tools(before), tools(after)),
            capabilities: changes(capabilities(before), capabilities(after)),
            edges: changes(edges(before), edges(after)),
            models: changes(models(before), models(after)),
        }
    }
}

fn tools(state: &State) -> BTreeMap<String, ToolFacts> {
    let facts = state.tools.iter().map(|tool| {
        let description = tool.registration.as_ref().map(|registration| registration.description.clone());
        let offered = !tool.is_stub() && !tool.removed;
        (tool.id.to_string(), ToolFacts { offered, description, calls: tool.calls, successes: tool.successes })
    });
    facts.collect()
}

fn capabilities(state: &State) -> BTreeMap<String, CapabilityFacts> {
    let facts = state.capabilities.iter().map(|capability| {
        let facts = CapabilityFacts {
            name: capability.name.clone(),
            status: capability.status.name(),
            usage: capability.usage,
            successes: capability.successes,
        };
        (capability.id.to_string(), facts)
    });
    facts.collect()
}

fn edges(state: &State) -> BTreeMap<String, EdgeFacts> {
    let facts = state.graph.edges().map(|(&(from, to, kind), edge)| {
        let id = format!("{} -{}-> {}", state.callee(from), kind.name(), state.callee(to));
        let facts = EdgeFacts {
            source: edge.source().name(),
            weight: edge.weight(kind),
            observations: edge.observations,
            successes: edge.successes,
        };
        (id, facts)
    });
    facts.collect()
}

fn models(state: &State) -> BTreeMap<String, String> {
    state.vectors.model().map(|model| ("embedding".to_owned(), model.to_string())).into_iter().collect()
}

/// Everything that differs between two tables, by id.
fn changes<F: PartialEq>(before: BTreeMap<String, F>, mut after: BTreeMap<String, F>) -> Vec<Changed<F>> {
    let mut changed: Vec<Changed<F>> = Vec::new();
    for (id, was) in before {
        let is = after.remove(&id);
        if is.as_ref() != Some(&was) {
            changed.push(Changed { id, before: Some(was), after: is });
        }
    }
    changed.extend(after.into_iter().map(|(id, is)| Changed { id, before: None, after: Some(is) }));
    changed.sort_by(|a, b| a.id.cmp(&b.id));
    changed
}

/// Two answers to one question, each with scores in the order of the ranks. What stands where it stood with the same score is left
/// out; the rest comes in the order of the later answer, then of the earlier.
pub fn ranks(before: &[(String, f64)], after: &[(String, f64)]) -> Vec<Changed<RankFacts>> {
    let table = |answer: &[(String, f64)]| -> BTreeMap<String, RankFacts> {
        (1..).zip(answer).map(|(rank, (id, score))| (id.clone(), RankFacts { rank, score: *score })).collect()
    };
    let mut changed = changes(table(before), table(after));
    let rank = |side: &Option<RankFacts>| side.as_ref().map_or(usize::MAX, |facts| facts.rank);
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
    fn what_came_went_or_changed_is_told_and_what_stayed_is_not() {
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
