//! The weights that parameters stand for: starting points added, logarithms and shares resolved.

use ndarray::Array2;

use super::Switches;
use super::parameters::{Group, Parameters};
use super::real::Real;

/// The factor of the semantic head at the start: what a temperature of e^-3 is to a softmax over cosines, before its share of the fusion.
const SEMANTIC_FACTOR: f64 = 20.0;
/// The factor of the structure and temporal heads at the start: small beside the semantic head.
const FEATURE_FACTOR: f64 = 5.0;
/// The fusion logits at the start: most of the share is the semantic head's.
const FUSION_START: [f64; 3] = [2.0, 0.0, 0.0];
/// What is added to logits at the start: an untrained network calls a cosine of one half a probability of one half.
const OFFSET_START: f64 = -8.0;
/// The offset of the gate that keeps a capability's own vector: 0.88 of it stays (replacement destroyed the intent, ALGORITHMS 9).
const KEEP_START: f64 = 2.0;
/// The offset of the gate of what is added on the way down: a message adds 0.12 of itself.
const ADD_START: f64 = -2.0;

/// A gate: sigmoid(slope * ln(n + 1) + offset) for a node with n neighbours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate<R> {
    slope: R,
    offset: R,
}

impl<R: Real> Gate<R> {
    /// The logarithm that the slope multiplies.
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 neighbours")]
    pub(crate) fn size(neighbours: usize) -> R {
        R::from_f64(libm::log((neighbours + 1) as f64))
    }

    pub(crate) fn open(self, neighbours: usize) -> R {
        (self.slope * Self::size(neighbours) + self.offset).sigmoid()
    }
}

/// The weights of one level of capabilities.
#[derive(Clone, Debug)]
pub(crate) struct LevelWeights<R> {
    pub(crate) up: Array2<R>,
    pub(crate) up_attention: Vec<R>,
    pub(crate) up_gate: Gate<R>,
    pub(crate) down: Array2<R>,
    pub(crate) down_attention: Vec<R>,
    pub(crate) down_gate: Gate<R>,
}

/// The weights of the network.
#[derive(Clone, Debug)]
pub(crate) struct Weights<R> {
    pub(crate) heads: usize,
    pub(crate) tool_gate: Gate<R>,
    pub(crate) levels: Vec<LevelWeights<R>>,
}

impl<R: Real> Weights<R> {
    pub(crate) fn new(parameters: &Parameters<R>) -> Self {
        let gate = |group, start| {
            let values = parameters.group(group);
            Gate { slope: values[0], offset: values[1] + R::from_f64(start) }
        };
        let levels = (0..parameters.levels())
            .map(|level| LevelWeights {
                up: parameters.matrix(Group::UpMatrix(level)),
                up_attention: parameters.group(Group::UpAttention(level)).to_vec(),
                up_gate: gate(Group::UpGate(level), KEEP_START),
                down: parameters.matrix(Group::DownMatrix(level)),
                down_attention: parameters.group(Group::DownAttention(level)).to_vec(),
                down_gate: gate(Group::DownGate(level), ADD_START),
            })
            .collect();
        Self { heads: parameters.shape().heads, tool_gate: gate(Group::ToolGate, ADD_START), levels }
    }
}

/// The weights of the three scoring heads.
#[derive(Clone, Debug)]
pub(crate) struct ScoreWeights<R> {
    /// The projection of the intent; an intent is a row and is multiplied from the left.
    pub(crate) projection: Array2<R>,
    /// The share of each head in the fusion; 0 for a head that is off.
    pub(crate) shares: [R; 3],
    /// The factor of each head.
    pub(crate) factors: [R; 3],
    pub(crate) offset: R,
}

impl<R: Real> ScoreWeights<R> {
    pub(crate) fn new(parameters: &Parameters<R>, switches: Switches) -> Self {
        let starts = [SEMANTIC_FACTOR, FEATURE_FACTOR, FEATURE_FACTOR];
        let features = parameters.group(Group::Features);
        let fusion = parameters.group(Group::Fusion);
        let on = [switches.semantic, switches.structure, switches.temporal];
        let grown: [R; 3] =
            std::array::from_fn(|head| if on[head] { (fusion[head] + R::from_f64(FUSION_START[head])).exp() } else { R::ZERO });
        let total = grown[0] + grown[1] + grown[2];
        Self {
            projection: parameters.matrix(Group::Projection),
            shares: grown.map(|grown| if total > R::ZERO { grown / total } else { R::ZERO }),
            factors: std::array::from_fn(|head| R::from_f64(starts[head]) * features[head].exp()),
            offset: parameters.group(Group::Offset)[0] + R::from_f64(OFFSET_START),
        }
    }

    /// What multiplies the value of a head in the logit.
    pub(crate) fn factor(&self, head: usize) -> R {
        self.shares[head] * self.factors[head]
    }

    /// The gradient by the parameters of the heads from that by their factors in the logit.
    pub(crate) fn backward(&self, by_factor: [R; 3], parameters: &Parameters<R>, gradient: &mut [R]) {
        let (features, fusion) = (parameters.range(Group::Features).start, parameters.range(Group::Fusion).start);
        let by_share: [R; 3] = std::array::from_fn(|head| by_factor[head] * self.factors[head]);
        let mean = (0..3).map(|head| self.shares[head] * by_share[head]).sum::<R>();
        for head in 0..3 {
            gradient[features + head] += by_factor[head] * self.factor(head);
            gradient[fusion + head] += self.shares[head] * (by_share[head] - mean);
        }
    }
}
