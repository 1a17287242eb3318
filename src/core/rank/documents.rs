//! What can be found: every tool and capability has a slot, given in the order they appear and never taken back.

use std::sync::Arc;

use super::bm25::Bm25;
use super::reliability;
use super::rows::Rows;
use crate::core::capability::{Capability, Status};
use crate::core::graph::{Node, NodeKind};
use crate::core::state::State;
use crate::core::tool::Tool;
use crate::core::vectors::TextHash;

/// The text of a slot, and whether its vector stands in the rows.
#[derive(Clone, Debug)]
struct Text {
    content: Arc<str>,
    hash: TextHash,
    has_vector: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Documents {
    nodes: Vec<Node>,
    texts: Vec<Option<Text>>,
    /// How often it works; `None` for what cannot be used: withdrawn tools, and capabilities nobody described.
    success_rates: Vec<Option<f64>>,
    /// Slots of tools and of capabilities, by position.
    tools: Vec<u32>,
    capabilities: Vec<u32>,
    /// Of tools and of capabilities apart: learned capabilities repeat the names of their tools, which would make those words look
    /// common.
    tool_words: Arc<Bm25>,
    capability_words: Arc<Bm25>,
    /// Since the words were settled.
    texts_changed: bool,
    vectors: Rows,
}

impl Documents {
    /// Takes over what changed. O(items), and O(words) for those whose text changed.
    pub(super) fn update(&mut self, state: &State, dim: usize, model_changed: bool) {
        if model_changed {
            self.vectors = Rows::new(dim);
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
        for position in 0..self.tools.len() {
            let tool = state.tools.at(u32::try_from(position).expect("as above"));
            self.set_text(self.tools[position], Some(tool).filter(|tool| !tool.removed).and_then(Tool::text));
        }
        for position in 0..self.capabilities.len() {
            let capability = state.capabilities.at(u32::try_from(position).expect("as above"));
            self.set_text(self.capabilities[position], Capability::text(capability));
        }
        if self.texts_changed {
            Arc::make_mut(&mut self.tool_words).settle();
            Arc::make_mut(&mut self.capability_words).settle();
            self.texts_changed = false;
        }
        self.fill(state);
        self.success_rates = self.nodes.iter().map(|node| usable_rate(state, *node)).collect();
    }

    fn add(&mut self, node: Node) -> u32 {
        let slot = u32::try_from(self.nodes.len()).expect("fewer than 2^32 items");
        self.nodes.push(node);
        self.texts.push(None);
        self.vectors.push_empty();
        slot
    }

    fn set_text(&mut self, slot: u32, text: Option<String>) {
        let known = &mut self.texts[slot as usize];
        if known.as_ref().map(|known| &*known.content) == text.as_deref() {
            return;
        }
        let before = known.take();
        self.texts_changed = true;
        let words = match self.nodes[slot as usize].kind() {
            NodeKind::Tool(_) => &mut self.tool_words,
            NodeKind::Capability(_) => &mut self.capability_words,
        };
        Arc::make_mut(words).replace(slot, before.as_ref().map(|before| &*before.content), text.as_deref());
        if before.is_some_and(|before| before.has_vector) {
            self.vectors.clear(slot as usize);
        }
        *known = text.map(|text| Text { hash: TextHash::compute(&text), content: text.into(), has_vector: false });
    }

    fn fill(&mut self, state: &State) {
        for (slot, text) in self.texts.iter_mut().enumerate() {
            if let Some(text) = text.as_mut().filter(|text| !text.has_vector)
                && let Some(vector) = state.vectors.get(text.hash)
            {
                self.vectors.set(slot, vector);
                text.has_vector = true;
            }
        }
    }

    pub fn node(&self, slot: usize) -> Node {
        self.nodes[slot]
    }

    /// The slot of a node; `None` if it came after the index was made.
    pub fn slot(&self, node: Node) -> Option<usize> {
        let slot = match node.kind() {
            NodeKind::Tool(position) => self.tools.get(position as usize),
            NodeKind::Capability(position) => self.capabilities.get(position as usize),
        };
        slot.map(|slot| *slot as usize)
    }

    /// By slot: words in common with a question, the best 1.
    pub fn words(&self, question: &str) -> Vec<f32> {
        let mut scores = vec![0.0; self.len()];
        self.tool_words.add_scores(question, &mut scores);
        self.capability_words.add_scores(question, &mut scores);
        let best = scores.iter().copied().fold(0.0, f32::max);
        if best > 0.0 {
            for score in &mut scores {
                *score /= best;
            }
        }
        scores
    }

    /// By slot: the cosine with each of some vectors of the index's model.
    pub fn cosines(&self, vectors: &[&[f32]]) -> Vec<Vec<f32>> {
        self.vectors.products(vectors)
    }

    /// The vector of a slot; zeros while it has none.
    pub fn vector(&self, slot: usize) -> &[f32] {
        self.vectors.row(slot)
    }

    /// How often the item of a slot works; `None` for what cannot be used.
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
        NodeKind::Tool(position) => !state.tools.at(position).removed,
        NodeKind::Capability(position) => state.capabilities.at(position).status != Status::Stub,
    };
    usable.then(|| reliability::rate(state, node))
}
