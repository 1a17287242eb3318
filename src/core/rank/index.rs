//! The search index: everything a question is compared with, derived from one state. Never part of the log or the digest.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::blend::Weights;
use super::bm25::divide_by_largest;
use super::calibrate::calibrate;
use super::documents::Documents;
use super::intent_index::IntentIndex;
use crate::graph::Node;
use crate::id::Seq;
use crate::state::State;

/// Growth of the memory since the last fit, as a factor, from which the weights are stale.
const CALIBRATE_AT_GROWTH: f64 = 1.2;

/// Items, past intents, popularity and fitted weights of one state.
#[derive(Clone, Debug, Default)]
pub struct Index {
    state: Arc<State>,
    model: Option<Arc<str>>,
    documents: Documents,
    intents: IntentIndex,
    /// Runs in which a node succeeded, summed over the remembered intents.
    uses: Arc<BTreeMap<Node, u32>>,
    /// Popularity by slot, computed from `uses`.
    popularity: Arc<Vec<f32>>,
    weights: Weights,
    /// What the weights were fitted to.
    fitted_to: Option<FitBasis>,
}

/// The data a fit was computed from; when it changes, the fit is out of date. Vectors belong to it because a slow embedder delivers
/// them long after the intents, and weights fitted without them trust words and popularity alone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FitBasis {
    intents: usize,
    vectors: usize,
    model: Option<Arc<str>>,
}

impl Index {
    /// The index of `state`, updated from this one, which must stem from an earlier state of the same log. The weights are kept.
    #[must_use]
    pub fn update(&self, state: Arc<State>) -> Self {
        let mut next = self.clone();
        let model_changed = next.model.as_ref() != state.vectors.model();
        next.model = state.vectors.model().cloned();
        let dim = state.vectors.dim();
        next.documents.update(&self.state, &state, dim, model_changed);
        next.intents.update(&state, dim, model_changed);
        next.uses = Arc::new(uses(&state));
        next.popularity = Arc::new(next.popularity_without(&[]));
        next.state = state;
        next
    }

    /// The same index with weights fitted to the whole memory.
    #[must_use]
    pub fn calibrated(self) -> Self {
        let weights = calibrate(&self);
        Self { weights, fitted_to: Some(self.basis()), ..self }
    }

    fn basis(&self) -> FitBasis {
        FitBasis { intents: self.intents.len(), vectors: self.state.vectors.coverage().0, model: self.model.clone() }
    }

    /// Whether the memory has grown enough since the last fit to make another one worthwhile.
    #[expect(clippy::cast_precision_loss, reason = "the memory is bounded")]
    pub fn weights_are_stale(&self) -> bool {
        let fitted_to = self.fitted_to.as_ref().filter(|basis| basis.model == self.model).map_or(0, |basis| basis.intents);
        self.can_be_calibrated() && self.intents.len() as f64 > fitted_to as f64 * CALIBRATE_AT_GROWTH
    }

    /// The state this index was derived from.
    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// The last record in that state.
    pub fn applied(&self) -> Seq {
        self.state.applied()
    }

    /// The model that question vectors must come from.
    pub fn model(&self) -> Option<&Arc<str>> {
        self.model.as_ref()
    }

    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    pub fn intents(&self) -> &IntentIndex {
        &self.intents
    }

    /// The weights that answer: those fitted by the trainer, or while none serve, those of this index.
    pub fn serving_weights(&self) -> &Weights {
        let fitted = self.state().predictor.parts.ranker().and_then(|(_, ranker)| ranker.discover.as_ref());
        fitted.unwrap_or(self.weights())
    }

    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Whether the weights were fitted to the memory and vectors of this index.
    pub fn is_calibrated(&self) -> bool {
        self.intents.is_empty() || self.fitted_to.as_ref() == Some(&self.basis())
    }

    /// Whether at least nine tenths of the texts have vectors; without its vector an intent looks unlike everything.
    pub fn can_be_calibrated(&self) -> bool {
        let (have, wanted) = self.state.vectors.coverage();
        have * 10 >= wanted * 9
    }

    /// By slot: the logarithm of the runs in which it succeeded, divided by the largest one. The runs of past intent `except` are not
    /// counted.
    pub fn popularity(&self, except: Option<usize>) -> Vec<f32> {
        match except {
            Some(entry) => self.popularity_without(&self.intents.entry(entry).used),
            None => self.popularity.to_vec(),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a logarithm; the last digits do not matter")]
    fn popularity_without(&self, less: &[(Node, u32)]) -> Vec<f32> {
        let mut runs = vec![0_u32; self.documents.len()];
        for (node, times) in self.uses.iter() {
            let own = less.binary_search_by_key(node, |(node, _)| *node).map_or(0, |at| less[at].1);
            if let Some(slot) = self.documents.counted_slot(*node) {
                runs[slot] = runs[slot].saturating_add(times - own);
            }
        }
        let mut popularity: Vec<f32> = runs.into_iter().map(|runs| (runs as f32).ln_1p()).collect();
        divide_by_largest(&mut popularity);
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
