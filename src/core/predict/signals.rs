//! What speaks for an outcome, one number per signal. A score is the sum of weights times values; the weights are learnt (`logit`).

use super::candidates::Candidate;
use super::chances::{Chance, Chances};
use super::evidence::Evidence;
use crate::core::graph::{Node, NodeKind};
use crate::core::state::State;

pub const SIGNALS: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Logarithm of the smoothed chance after the last call.
    Transition,
    /// What the call before that adds to it.
    TransitionTwo,
    /// What past intents near this one add: what they did after the same call.
    MemoryNext,
    /// Cosine of the whole intent and the tool's text.
    Intent,
    /// The same for the clause that fits best.
    Clause,
    /// Whether it was called already.
    Used,
    /// 1 for the end.
    Done,
    /// How often it works: the logarithm of the smoothed rate.
    Reliability,
    // Signals of parts that are trained apart have their places; until those arrive their values are 0.
    IntentHead,
    Recurrent,
    TargetMass,
    Hyperpath,
}

impl Signal {
    pub const ALL: [Self; SIGNALS] = [
        Self::Transition,
        Self::TransitionTwo,
        Self::MemoryNext,
        Self::Intent,
        Self::Clause,
        Self::Used,
        Self::Done,
        Self::Reliability,
        Self::IntentHead,
        Self::Recurrent,
        Self::TargetMass,
        Self::Hyperpath,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Transition => "transition",
            Self::TransitionTwo => "transition_two",
            Self::MemoryNext => "memory_next",
            Self::Intent => "intent",
            Self::Clause => "clause",
            Self::Used => "used",
            Self::Done => "done",
            Self::Reliability => "reliability",
            Self::IntentHead => "intent_head",
            Self::Recurrent => "recurrent",
            Self::TargetMass => "target_mass",
            Self::Hyperpath => "hyperpath",
        }
    }
}

/// What is believed before anything was seen.
pub const PRIOR: [f64; SIGNALS] = [1.0, 1.0, 1.0, 2.0, 2.0, -1.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0];

pub fn of(state: &State, evidence: &Evidence, chances: &Chances<'_>, candidate: Candidate) -> [f64; SIGNALS] {
    let Chance { last, two, near, .. } = chances.chance(candidate);
    let mut values = [0.0; SIGNALS];
    let mut set = |signal: Signal, value: f64| values[signal as usize] = value;
    set(Signal::Transition, libm::log(last));
    set(Signal::TransitionTwo, libm::log(two / last));
    set(Signal::MemoryNext, libm::log(near / two));
    match candidate {
        Candidate::Done => set(Signal::Done, 1.0),
        Candidate::Call(node) => {
            set(Signal::Used, f64::from(u8::from(chances.context().contains(&Some(node)))));
            set(Signal::Reliability, libm::log(reliability(state, node)));
            if let NodeKind::Tool(position) = node.kind() {
                set(Signal::Intent, evidence.whole(position));
                set(Signal::Clause, evidence.best_clause(position));
            }
        }
    }
    values
}

/// As if it had worked once more and failed once more than it did, so that nothing is certain.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn reliability(state: &State, node: Node) -> f64 {
    let (successes, calls) = match node.kind() {
        NodeKind::Tool(position) => (state.tools.at(position).successes, state.tools.at(position).calls),
        NodeKind::Capability(position) => {
            let capability = state.capabilities.at(position);
            (capability.successes, capability.usage)
        }
    };
    (successes as f64 + 1.0) / (calls as f64 + 2.0)
}
