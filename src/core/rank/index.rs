//! Everything a question is compared with, made from one state and kept beside it. Derived: never part of the log or the digest.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::blend::Weights;
use super::calibrate::calibrate;
use super::documents::Documents;
use super::recall::Recall;
use crate::core::graph::Node;
use crate::core::id::Seq;
use crate::core::state::State;

/// The weights are worth fitting anew when the memory has grown by this factor.
const CALIBRATE_AT_GROWTH: f64 = 1.2;

#[derive(Clone, Debug, Default)]
pub struct Index {
    state: Arc<State>,
    model: Option<Arc<str>>,
    documents: Documents,
    recall: Recall,
    /// Runs in which a node succeeded, over the remembered intents.
    uses: Arc<BTreeMap<Node, u32>>,
    /// What follows from them, by slot.
    popularity: Arc<Vec<f32>>,
    weights: Weights,
    /// What the weights were fitted to.
    fitted_to: Option<Basis>,
}

/// What a fit rests on. When it changes, the fit is out of date; vectors count as well: a slow embedder delivers them long after the
/// intents, and weights fitted without them trust words and popularity alone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Basis {
    intents: usize,
    vectors: usize,
    model: Option<Arc<str>>,
}

impl Index {
    /// The index of `state`, from this one, which was made from an earlier state of the same log. The weights stay.
    #[must_use]
    pub fn update(&self, state: Arc<State>) -> Self {
        let mut next = self.clone();
        let model_changed = next.model.as_ref() != state.vectors.model();
        next.model = state.vectors.model().cloned();
        let dim = state.vectors.dim();
        next.documents.update(&state, dim, model_changed);
        next.recall.update(&state, dim, model_changed);
        next.uses = Arc::new(uses(&state));
        next.popularity = Arc::new(next.popularity_without(&[]));
        next.state = state;
        next
    }

    /// The same with weights fitted to all that is remembered.
    #[must_use]
    pub fn calibrated(self) -> Self {
        let weights = calibrate(&self);
        Self { weights, fitted_to: Some(self.basis()), ..self }
    }

    fn basis(&self) -> Basis {
        Basis { intents: self.recall.len(), vectors: self.state.vectors.coverage().0, model: self.model.clone() }
    }

    /// Whether the memory holds much that the weights do not know.
    #[expect(clippy::cast_precision_loss, reason = "the memory is bounded")]
    pub fn has_outgrown_its_weights(&self) -> bool {
        let fitted_to = self.fitted_to.as_ref().filter(|basis| basis.model == self.model).map_or(0, |basis| basis.intents);
        self.can_be_calibrated() && self.recall.len() as f64 > fitted_to as f64 * CALIBRATE_AT_GROWTH
    }

    /// The state that the answers are about.
    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    pub fn at(&self) -> Seq {
        self.state.applied()
    }

    /// The model that question vectors must come from.
    pub fn model(&self) -> Option<&Arc<str>> {
        self.model.as_ref()
    }

    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    pub fn recall(&self) -> &Recall {
        &self.recall
    }

    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Whether the weights are those of the memory as it is.
    pub fn is_calibrated(&self) -> bool {
        self.recall.is_empty() || self.fitted_to.as_ref() == Some(&self.basis())
    }

    /// Not while many vectors are still on their way: what has none looks like a stranger.
    pub fn can_be_calibrated(&self) -> bool {
        let (have, wanted) = self.state.vectors.coverage();
        have * 10 >= wanted * 9
    }

    /// By slot: how often it succeeded, on a logarithmic scale, the most used one 1. The runs of `except` are not counted.
    pub fn popularity(&self, except: Option<usize>) -> Vec<f32> {
        match except {
            Some(entry) => self.popularity_without(&self.recall.entry(entry).used),
            None => self.popularity.to_vec(),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a logarithm; the last digits do not matter")]
    fn popularity_without(&self, less: &[(Node, u32)]) -> Vec<f32> {
        let mut popularity = vec![0.0_f32; self.documents.len()];
        for (node, times) in self.uses.iter() {
            let own = less.binary_search_by_key(node, |(node, _)| *node).map_or(0, |at| less[at].1);
            if let Some(slot) = self.documents.slot(*node) {
                popularity[slot] = ((times - own) as f32).ln_1p();
            }
        }
        let most = popularity.iter().copied().fold(0.0, f32::max);
        if most > 0.0 {
            for value in &mut popularity {
                *value /= most;
            }
        }
        popularity
    }
}

fn uses(state: &State) -> BTreeMap<Node, u32> {
    let mut uses = BTreeMap::new();
    for (node, times) in state.memory.iter().flat_map(|(_, entry)| &entry.used) {
        *uses.entry(*node).or_insert(0_u32) += times;
    }
    uses
}
