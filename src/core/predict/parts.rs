//! The trained parts that serve, ready to answer: their parameters, and the tools' side of their scores.
//!
//! Derived from the trained versions, the tools and the vectors of the same state, so the digest leaves them out. The tools' side is
//! computed by the first question after a tool or a part changed: the fold itself never needs it.

use std::sync::{Arc, OnceLock};

use ndarray::Array2;
use pml_model::shgat::Priorities;
use pml_model::{Encoder, IntentHead, Next, Scores, ToolRows};

use super::ranker::RankerWeights;
use super::shgat::{ShgatModel, TargetScores};
use super::targets::Targets;
use crate::event::{ModelPart, ModelVersion};
use crate::graph::{Node, NodeKind};
use crate::state::State;
use crate::train::tool_rows;
use crate::trained::{StoredVersion, Trained};

/// The smallest logarithm of a probability that is told apart from less.
pub(crate) const LOG_MIN: f32 = -12.0;

/// The vectors of an intent and of its clauses.
#[derive(Clone, Debug)]
pub struct IntentVectors {
    pub whole: Vec<f32>,
    pub clauses: Vec<Vec<f32>>,
}

impl IntentVectors {
    fn clauses(&self) -> Vec<&[f32]> {
        self.clauses.iter().map(Vec::as_slice).collect()
    }
}

/// `Parts` holds the trained parts of one state. A part that was trained on the vectors of another embedding model is left out.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    head: Option<Arc<IntentHead>>,
    encoder: Option<Arc<Encoder>>,
    shgat: Option<(ModelVersion, Arc<ShgatModel>)>,
    ranker: Option<(ModelVersion, Arc<RankerWeights>)>,
    rows: Arc<OnceLock<PartRows>>,
}

/// The tools' side of the scores.
#[derive(Debug)]
struct PartRows {
    head: Option<Array2<f32>>,
    encoder: Option<ToolRows>,
    shgat: Option<Arc<Targets>>,
}

impl Parts {
    /// The parts that serve in a state with these trained versions and this embedding model.
    pub fn new(trained: &Trained, embedding_model: Option<&Arc<str>>) -> Self {
        let fits = |version: &&Arc<StoredVersion>| {
            let model = version.run.event.embedding_model.as_deref();
            model.is_none() || model == embedding_model.map(|model| &**model)
        };
        let bytes = |part| trained.current(part).filter(fits).and_then(|version| version.bytes());
        let head = bytes(ModelPart::Head).and_then(|bytes| IntentHead::from_bytes(&bytes).ok()).map(Arc::new);
        let encoder = bytes(ModelPart::Encoder).and_then(|bytes| Encoder::from_bytes(&bytes).ok()).map(Arc::new);
        let shgat = bytes(ModelPart::Shgat).and_then(|bytes| ShgatModel::from_bytes(&bytes)).map(Arc::new);
        let shgat = trained.serving(ModelPart::Shgat).current.clone().zip(shgat);
        let serves = |version: &ModelVersion| trained.serving(version.part()).current.as_ref() == Some(version);
        let weights = bytes(ModelPart::Ranker).and_then(|bytes| RankerWeights::from_bytes(&bytes));
        let weights = weights.filter(|weights| weights.requires.iter().all(serves)).map(Arc::new);
        let ranker = trained.serving(ModelPart::Ranker).current.clone().zip(weights);
        Self { head, encoder, shgat, ranker, rows: Arc::default() }
    }

    /// Forgets the tools' side, because the text or the vector of a tool changed.
    pub fn tools_changed(&mut self) {
        if self.rows.get().is_some() {
            self.rows = Arc::default();
        }
    }

    /// The fitted weights that serve, and their version. None while the parts that they were fitted with do not serve.
    pub fn ranker(&self) -> Option<(&ModelVersion, &RankerWeights)> {
        self.ranker.as_ref().map(|(version, weights)| (version, &**weights))
    }

    fn rows(&self, state: &State) -> &PartRows {
        self.rows.get_or_init(|| {
            let tools = tool_rows(state);
            // A log may hold a part for vectors of another length that names no embedding model.
            let head = self.head.as_ref().filter(|head| head.dim() == tools.ncols());
            let encoder = self.encoder.as_ref().filter(|encoder| encoder.dim() == tools.ncols());
            PartRows {
                head: head.map(|head| head.tool_rows(tools.view())),
                encoder: encoder.map(|encoder| encoder.tool_rows(tools.view())),
                shgat: self.shgat.as_ref().filter(|(_, shgat)| shgat.dim() == tools.ncols()).map(|(version, shgat)| {
                    let targets = Targets::trained(version.clone(), shgat, &tools);
                    Arc::new(targets)
                }),
            }
        })
    }

    /// What the head says about the intent; empty without a head.
    pub(crate) fn head_scores(&self, state: &State, intent: &IntentVectors) -> HeadScores {
        let Some(head) = self.head.as_ref().filter(|head| head.dim() == intent.whole.len()) else {
            return HeadScores::default();
        };
        let Some(rows) = &self.rows(state).head else { return HeadScores::default() };
        HeadScores::new(head.logits(&intent.whole, &intent.clauses(), rows))
    }

    /// What SHGAT says about the intent; empty without SHGAT.
    pub(crate) fn target_scores(&self, state: &State, intent: &IntentVectors) -> TargetScores {
        let targets = self.targets(state).filter(|targets| targets.dim() == intent.whole.len());
        targets.map(|targets| targets.target_scores(state, &intent.whole)).unwrap_or_default()
    }

    /// The scores of the trained SHGAT; `None` while none serves.
    pub fn targets(&self, state: &State) -> Option<&Arc<Targets>> {
        self.shgat.as_ref()?;
        self.rows(state).shgat.as_ref()
    }

    /// The priorities of the traces that the trained SHGAT left; none without SHGAT.
    pub(crate) fn priorities(&self) -> Priorities {
        self.shgat.as_ref().map(|(_, shgat)| shgat.priorities.clone()).unwrap_or_default()
    }

    /// The encoder's prediction after these calls; unknown callees and capabilities are left out.
    pub fn next(&self, state: &State, intent: Option<&IntentVectors>, context: &[Option<Node>]) -> Option<Next> {
        let encoder = self.encoder.as_ref()?;
        next_after(encoder, self.rows(state).encoder.as_ref()?, intent?, context)
    }
}

/// What the head says about one intent, by position of the tool. Both are empty without a head.
#[derive(Clone, Debug, Default)]
pub struct HeadScores {
    /// Logarithm of the probability.
    pub tools: Vec<f32>,
    /// The clause that the tool answers best; empty if no clause has a vector.
    pub clauses: Vec<u16>,
}

impl HeadScores {
    pub(crate) fn new(scores: Scores) -> Self {
        let clauses = scores.best_clauses.into_iter().map(|clause| u16::try_from(clause).unwrap_or(u16::MAX)).collect();
        Self { tools: log_softmax(scores.logits), clauses }
    }
}

/// An encoder that was trained without some intents, with the tools' side of its predictions.
#[derive(Debug)]
pub(crate) struct HeldOutEncoder {
    encoder: Encoder,
    rows: ToolRows,
}

impl HeldOutEncoder {
    pub(crate) fn new(encoder: Encoder, state: &State) -> Self {
        Self { rows: encoder.tool_rows(tool_rows(state).view()), encoder }
    }

    /// Its prediction after these calls.
    pub(crate) fn next(&self, intent: &IntentVectors, context: &[Option<Node>]) -> Option<Next> {
        next_after(&self.encoder, &self.rows, intent, context)
    }
}

fn next_after(encoder: &Encoder, rows: &ToolRows, intent: &IntentVectors, context: &[Option<Node>]) -> Option<Next> {
    let calls: Vec<usize> = context.iter().copied().flatten().filter_map(tool_row).collect();
    let fits = intent.whole.len() == encoder.dim();
    fits.then(|| floored(encoder.next_after(&intent.whole, &intent.clauses(), &calls, rows)))
}

fn tool_row(node: Node) -> Option<usize> {
    match node.kind() {
        NodeKind::Tool(position) => Some(position as usize),
        NodeKind::Capability(_) => None,
    }
}

/// A prediction whose logarithms are at least [`LOG_MIN`].
pub(crate) fn floored(mut next: Next) -> Next {
    for value in &mut next.tools {
        *value = value.max(LOG_MIN);
    }
    next.end = next.end.max(LOG_MIN);
    next
}

/// Logarithms of the softmax, at least [`LOG_MIN`].
pub(crate) fn log_softmax(mut logits: Vec<f32>) -> Vec<f32> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = logits.iter().map(|logit| libm::expf(logit - largest)).sum();
    let total = largest + libm::logf(sum);
    for logit in &mut logits {
        *logit = (*logit - total).max(LOG_MIN);
    }
    logits
}
