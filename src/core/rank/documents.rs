//! The searchable items: every tool and capability has a slot, assigned in the order they appear and never reused.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bm25::{Bm25, distinct_words, divide_by_largest};
use super::packed::PackedRows;
use super::reliability;
use crate::capability::Capability;
use crate::graph::{Node, NodeKind};
use crate::state::State;
use crate::tool::Tool;
use crate::vectors::TextHash;

/// The text of a slot, and whether its vector is in the rows.
#[derive(Clone, Debug)]
struct SlotText {
    content: Arc<str>,
    hash: TextHash,
    has_vector: bool,
}

/// Texts, words, vectors and success rates by slot.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    nodes: Vec<Node>,
    texts: Vec<Option<SlotText>>,
    /// By slot; `None` for items that cannot be used: removed tools, stubs of capabilities, and those that a person retired or merged.
    success_rates: Vec<Option<f64>>,
    /// Slots of tools and of capabilities, by position.
    tools: Vec<u32>,
    capabilities: Vec<u32>,
    /// By position of a capability that was merged: that of the one that stands for it.
    merged: BTreeMap<u32, u32>,
    /// Separate for tools and capabilities: learned capabilities repeat the names of their tools, which would make those words
    /// look common.
    tool_words: Arc<Bm25>,
    capability_words: Arc<Bm25>,
    vectors: PackedRows,
}

impl Documents {
    /// Brings everything from the state `before` up to `state`. O(items), and O(words) for items whose text changed.
    pub(super) fn update(&mut self, before: &State, state: &State, dim: usize, model_changed: bool) {
        if model_changed {
            self.vectors = PackedRows::new(dim);
            for text in &mut self.texts {
                self.vectors.push_empty();
                if let Some(text) = text {
                    text.has_vector = false;
                }
            }
        }
        for position in self.tools.len()..state.tools.len() {
            let position = u32::try_from(position).expect("fewer than 2^32 tools");
            let slot = self.add(Node::tool(position));
            self.tools.push(slot);
        }
        for position in self.capabilities.len()..state.capabilities.len() {
            let position = u32::try_from(position).expect("fewer than 2^32 capabilities");
            let slot = self.add(Node::capability(position));
            self.capabilities.push(slot);
        }
        let known_tools = before.tools.rows().map(Some).chain(std::iter::repeat(None));
        for (position, (tool, known)) in state.tools.rows().zip(known_tools).enumerate() {
            if known.is_none_or(|known| !tool.has_text_of(known)) {
                self.set_text(self.tools[position], Some(tool).filter(|tool| tool.is_offered()).and_then(Tool::text));
            }
        }
        for position in state.capabilities.changed(&before.capabilities) {
            let capability = state.capabilities.at(position);
            let text = Some(capability).filter(|found| found.is_offered()).and_then(Capability::text);
            self.set_text(self.capabilities[position as usize], text);
        }
        let merged = |(position, capability): (u32, &Capability)| {
            capability.decided.merged_into.and_then(|_| Some((position, state.capabilities.offered(position)?)))
        };
        self.merged = (0..).zip(state.capabilities.rows()).filter_map(merged).collect();
        self.fill_vectors(state);
        self.success_rates = self.nodes.iter().map(|node| usable_rate(state, *node)).collect();
    }

    fn add(&mut self, node: Node) -> u32 {
        let slot = u32::try_from(self.nodes.len()).expect("fewer than 2^32 items");
        self.nodes.push(node);
        self.texts.push(None);
        self.vectors.push_empty();
        slot
    }

    /// Replaces the text of a slot if it changed; its vector is then missing until [`Self::fill_vectors`] finds the new one.
    fn set_text(&mut self, slot: u32, text: Option<String>) {
        let known = &mut self.texts[slot as usize];
        if known.as_ref().map(|known| &*known.content) == text.as_deref() {
            return;
        }
        let before = known.take();
        let words = match self.nodes[slot as usize].kind() {
            NodeKind::Tool(_) => &mut self.tool_words,
            NodeKind::Capability(_) => &mut self.capability_words,
        };
        Arc::make_mut(words).replace(slot, before.as_ref().map(|before| &*before.content), text.as_deref());
        if before.is_some_and(|before| before.has_vector) {
            self.vectors.set(slot as usize, None);
        }
        *known = text.map(|text| SlotText { hash: TextHash::compute(&text), content: text.into(), has_vector: false });
    }

    /// Copies vectors that have become known into the rows.
    fn fill_vectors(&mut self, state: &State) {
        for (slot, text) in self.texts.iter_mut().enumerate() {
            if let Some(text) = text.as_mut().filter(|text| !text.has_vector)
                && let Some(vector) = state.vectors.get(text.hash)
            {
                self.vectors.set(slot, Some(vector));
                text.has_vector = true;
            }
        }
    }

    pub fn node(&self, slot: usize) -> Node {
        self.nodes[slot]
    }

    /// The slot of a node; `None` if the node is newer than the index.
    pub fn slot(&self, node: Node) -> Option<usize> {
        let slot = match node.kind() {
            NodeKind::Tool(position) => self.tools.get(position as usize),
            NodeKind::Capability(position) => self.capabilities.get(position as usize),
        };
        slot.map(|slot| *slot as usize)
    }

    /// The slot that what is remembered about a node counts for: its own, or that of the capability it was merged into.
    pub fn counted_slot(&self, node: Node) -> Option<usize> {
        let into = match node.kind() {
            NodeKind::Tool(_) => None,
            NodeKind::Capability(position) => self.merged.get(&position),
        };
        self.slot(into.map_or(node, |into| Node::capability(*into)))
    }

    /// The BM25 score of every slot for a question, divided by the best one.
    pub fn words(&self, question: &str) -> Vec<f32> {
        let mut scores = vec![0.0; self.len()];
        let question = distinct_words(question);
        self.tool_words.add_scores(&question, &mut scores);
        self.capability_words.add_scores(&question, &mut scores);
        divide_by_largest(&mut scores);
        scores
    }

    /// For each of `vectors`, which must be of the index's model, its cosine with every slot.
    pub fn cosines(&self, vectors: &[&[f32]]) -> Vec<Vec<f32>> {
        self.vectors.products(vectors)
    }

    /// The success rate of a slot; `None` for an item that cannot be used.
    pub fn success_rate(&self, slot: usize) -> Option<f64> {
        self.success_rates[slot]
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

fn usable_rate(state: &State, node: Node) -> Option<f64> {
    let usable = match node.kind() {
        NodeKind::Tool(position) => state.tools.at(position).is_offered(),
        NodeKind::Capability(position) => state.capabilities.at(position).is_offered(),
    };
    usable.then(|| reliability::success_rate(state, node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::given::History;

    #[test]
    fn documents_kept_up_to_date_are_those_made_at_once() {
        let lines = [
            "tool fs:read path",
            "run ok back up: fs:read, zip:pack < fs:read",
            "tool zip:pack path",
            "tool fs:read path depth?",
            "run ok back up now: db:dump, zip:pack < db:dump",
            "remove zip:pack",
            "retire 0",
            "tool zip:pack path",
            "restore 0",
            "merge 0 1",
            "declare backup: fs:read, zip:pack < fs:read",
            "split 0",
        ];
        let (mut history, mut before, mut kept) = (History::default(), State::default(), Documents::default());
        for line in lines {
            history.line(line);
            kept.update(&before, &history.state, 0, false);
            before = history.state.clone();
            let mut made = Documents::default();
            made.update(&State::default(), &history.state, 0, false);
            // Slots are numbered in the order in which the items became known to the index.
            let by_node = |documents: &Documents| -> BTreeMap<Node, Option<Arc<str>>> {
                let texts = documents.texts.iter().map(|text| text.as_ref().map(|text| Arc::clone(&text.content)));
                documents.nodes.iter().copied().zip(texts).collect()
            };
            assert_eq!(by_node(&kept), by_node(&made), "{line}");
            let scores = |documents: &Documents, text: &str| -> BTreeMap<Node, f32> {
                documents.nodes.iter().copied().zip(documents.words(text)).collect()
            };
            assert_eq!(scores(&kept, "read and pack a path"), scores(&made, "read and pack a path"), "{line}");
        }
    }
}
