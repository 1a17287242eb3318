//! Guessed links between tools that were not used together yet: tools of one server, and tools with similar descriptions (S0).
//!
//! Guesses are weak, have the source `template`, are never in the log or the digest, and give way to any edge of the same pair.
//! Both kinds are bounded per tool, so the graph stays sparse however many tools a server has.
//!
//! O(tools) for categories and the cost of [`similar_pairs`] for similar descriptions; recomputed only when tools or vectors change.

use super::Node;
use super::adjacency::{Guess, LinkKind};
use super::similar::similar_pairs;
use crate::state::State;

/// How many next tools of its server a tool is linked to. The order is that of the ids, closed to a ring, so a server is connected.
pub const CATEGORY_NEXT: usize = 2;
/// Similar tools linked to one tool, at most.
pub const SIMILAR_MAX: usize = 3;
/// Cosine from which two descriptions count as similar.
pub const SIMILAR_COSINE_MIN: f32 = 0.85;

/// Which kinds of guesses are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColdStart {
    pub category_edges: bool,
    pub similar_edges: bool,
}

/// The guesses for one state.
#[derive(Clone, Debug, Default)]
pub struct ColdEdges {
    pub guesses: Vec<Guess>,
    /// Hash of everything the guesses depend on.
    fingerprint: u64,
}

impl ColdEdges {
    /// Computes the guesses, or returns `previous` if nothing they depend on has changed. `vectors` are those of the tools, by
    /// position; a missing one, or one beyond the end, is unknown.
    pub fn compute(state: &State, settings: ColdStart, vectors: &[Option<&[f32]>], previous: Option<&Self>) -> Self {
        let offered = |position: &u32| {
            let tool = state.tools.at(*position);
            !tool.is_stub() && tool.is_offered()
        };
        let tools: Vec<u32> = state.tools.positions().filter(offered).collect();
        let vectors: Vec<Option<&[f32]>> = if settings.similar_edges {
            tools.iter().map(|position| vectors.get(*position as usize).copied().flatten()).collect()
        } else {
            Vec::new()
        };
        let fingerprint = fingerprint(settings, &tools, &vectors);
        if let Some(same) = previous.filter(|previous| previous.fingerprint == fingerprint) {
            return same.clone();
        }
        let mut guesses = if settings.category_edges { categories(state, &tools) } else { Vec::new() };
        let tool = |at: u32| Node::tool(tools[at as usize]);
        let similar = similar_pairs(&vectors, SIMILAR_COSINE_MIN, SIMILAR_MAX);
        guesses.extend(similar.into_iter().map(|(a, b)| Guess { ends: (tool(a), tool(b)), kind: LinkKind::Similar }));
        Self { guesses, fingerprint }
    }
}

/// Links within each server. Ids begin with the server, so in the order of ids the tools of one server are adjacent.
fn categories(state: &State, tools: &[u32]) -> Vec<Guess> {
    let server = |position: &u32| state.tools.at(*position).id.server();
    let mut guesses = Vec::new();
    for tools in tools.chunk_by(|a, b| server(a) == server(b)) {
        for (at, first) in tools.iter().enumerate() {
            // In a ring of two or three tools, a second step would repeat a link.
            for step in 1..=CATEGORY_NEXT.min(tools.len() / 2) {
                let next = tools[(at + step) % tools.len()];
                guesses.push(Guess { ends: (Node::tool(*first), Node::tool(next)), kind: LinkKind::Category });
            }
        }
    }
    guesses
}

fn fingerprint(settings: ColdStart, tools: &[u32], vectors: &[Option<&[f32]>]) -> u64 {
    let switches = [u32::from(settings.category_edges), u32::from(settings.similar_edges)];
    // A missing vector is a word that is the bits of no finite number, so it differs from every vector.
    let values = vectors.iter().flat_map(|vector| match vector {
        Some(vector) => vector.iter().map(|value| value.to_bits()).collect(),
        None => vec![u32::MAX],
    });
    let words = switches.into_iter().chain(tools.iter().copied()).chain(values);
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ u64::from(word)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ToolRegistered;

    fn registered(state: &mut State, id: &str) {
        state.tools.register(ToolRegistered {
            tool: id.parse().unwrap(),
            name: id.to_owned(),
            description: String::new(),
            input_schema: None,
            output_schema: None,
            annotations: None,
        });
    }

    fn check(settings: ColdStart, ids: &[&str], vectors: &[Option<&[f32]>], expected: &[(u32, u32, LinkKind)]) {
        let mut state = State::default();
        for id in ids {
            registered(&mut state, id);
        }
        let digest = state.digest();
        let guesses = ColdEdges::compute(&state, settings, vectors, None).guesses;
        let expected: Vec<_> =
            expected.iter().map(|&(a, b, kind)| Guess { ends: (Node::tool(a), Node::tool(b)), kind }).collect();
        assert_eq!(guesses, expected);
        assert_eq!(state.digest(), digest);
    }

    #[test]
    fn tools_of_one_server_are_joined_in_a_ring() {
        let settings = ColdStart { category_edges: true, similar_edges: false };
        let pair = |a, b| (a, b, LinkKind::Category);
        check(settings, &["b:x", "a:x", "c:x"], &[], &[]);
        check(settings, &["b:x", "a:x", "b:a"], &[], &[pair(2, 0), pair(0, 2)]);
        check(settings, &["a:1", "a:2", "a:3"], &[], &[pair(0, 1), pair(1, 2), pair(2, 0)]);
        let many: Vec<String> = (10..60).map(|number| format!("a:{number}")).collect();
        let mut state = State::default();
        for id in &many {
            registered(&mut state, id);
        }
        assert_eq!(ColdEdges::compute(&state, settings, &[], None).guesses.len(), 50 * CATEGORY_NEXT);
        state.tools.remove(&"a:10".parse().unwrap());
        assert_eq!(ColdEdges::compute(&state, settings, &[], None).guesses.len(), 49 * CATEGORY_NEXT);
        assert_eq!(ColdEdges::compute(&state, ColdStart::default(), &[], None).guesses, []);
    }

    #[test]
    fn similar_descriptions_are_joined_across_servers() {
        let settings = ColdStart { category_edges: false, similar_edges: true };
        let vectors: [Option<&[f32]>; 3] = [Some(&[1.0, 0.1]), Some(&[0.0, 1.0]), Some(&[1.0, 0.0])];
        check(settings, &["a:x", "b:x", "c:x", "d:x"], &vectors, &[(0, 2, LinkKind::Similar)]);
        check(settings, &["a:x", "b:x"], &[], &[]);
        check(ColdStart::default(), &["a:x", "b:x", "c:x"], &vectors, &[]);
    }

    #[test]
    fn what_was_found_is_kept_until_tools_or_vectors_change() {
        let settings = ColdStart { category_edges: true, similar_edges: true };
        let mut state = State::default();
        for id in ["a:x", "b:x"] {
            registered(&mut state, id);
        }
        let vectors: [Option<&[f32]>; 2] = [Some(&[1.0, 0.0]), Some(&[0.0, 1.0])];
        let first = ColdEdges::compute(&state, settings, &vectors, None);
        let marked =
            ColdEdges { guesses: vec![Guess { ends: (Node::tool(7), Node::tool(8)), kind: LinkKind::Similar }], ..first };
        assert_eq!(ColdEdges::compute(&state, settings, &vectors, Some(&marked)).guesses, marked.guesses);
        let moved: [Option<&[f32]>; 2] = [Some(&[1.0, 0.0]), Some(&[1.0, 0.0])];
        assert_eq!(ColdEdges::compute(&state, settings, &moved, Some(&marked)).guesses.len(), 1);
        assert_eq!(ColdEdges::compute(&state, settings, &[], Some(&marked)).guesses, []);
        registered(&mut state, "a:y");
        assert_ne!(ColdEdges::compute(&state, settings, &vectors, Some(&marked)).guesses, marked.guesses);
    }
}
