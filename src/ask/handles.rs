//! The handles of the capabilities that an answer mentions by their ids.

use std::cell::RefCell;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::core::graph::Node;
use crate::core::id::Callee;
use crate::core::name::handle;
use crate::core::state::State;

/// The readable names of the capabilities that the answer mentions without one beside the id, by `capability:<id>`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(crate) struct Handles(BTreeMap<String, String>);

impl Handles {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, others: Self) {
        self.0.extend(others.0);
    }
}

/// `Mentions` writes the ids of tools and capabilities for one answer and collects the handles of the capabilities.
pub(crate) struct Mentions<'a> {
    pub(crate) state: &'a State,
    handles: RefCell<Handles>,
}

impl<'a> Mentions<'a> {
    pub(crate) fn new(state: &'a State) -> Self {
        Self { state, handles: RefCell::default() }
    }

    pub(crate) fn node(&self, node: Node) -> String {
        self.callee(&self.state.callee(node))
    }

    pub(crate) fn nodes<'n>(&self, nodes: impl IntoIterator<Item = &'n Node>) -> Vec<String> {
        nodes.into_iter().map(|node| self.node(*node)).collect()
    }

    pub(crate) fn callee(&self, callee: &Callee) -> String {
        let text = callee.to_string();
        if let Some(handle) = self.state.find(callee).and_then(|node| handle(self.state, node)) {
            self.handles.borrow_mut().0.insert(text.clone(), handle.to_owned());
        }
        text
    }

    /// The handles of all that was written.
    pub(crate) fn handles(self) -> Handles {
        self.handles.into_inner()
    }
}
