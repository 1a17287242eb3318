//! When to speak up: an outcome is emitted if its probability reaches a threshold, which Thompson sampling moves per tool (S3 4.1).

use imbl::OrdMap;

use super::Ranked;
use crate::core::digest::{Digestible, Writer};
use crate::core::event::Outcome;
use crate::core::graph::{Node, NodeKind};
use crate::core::id::RecordId;
use crate::core::state::State;

/// Why somebody asks (ALGORITHMS 12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// An agent asked.
    Asked,
    /// A stream that somebody listens to.
    #[default]
    Passive,
    /// To run it before anybody asks.
    Speculation,
}

/// Whether the first outcome reached its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Emit,
    Hold,
}

#[derive(Clone, Debug, Default)]
pub struct Thresholds {
    posteriors: OrdMap<Node, Posterior>,
}

/// Successes and failures of what was predicted, as a Beta distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Posterior {
    pub alpha: f64,
    pub beta: f64,
}

const RISK_READ_ONLY: f64 = 0.55;
const RISK_DEFAULT: f64 = 0.70;
const RISK_DESTRUCTIVE: f64 = 0.85;

impl Thresholds {
    /// The threshold of the first outcome, and whether it reached it. Nothing to say: nothing is emitted.
    pub fn decide(&self, state: &State, first: Option<&Ranked>, mode: Mode, _seed: RecordId) -> (f64, Decision) {
        let Some(first) = first else { return (RISK_DEFAULT, Decision::Hold) };
        let base = match &first.outcome {
            Outcome::Done => RISK_READ_ONLY,
            Outcome::Call(callee) => state.find(callee).map_or(RISK_DEFAULT, |node| risk(state, node)),
        };
        let mode = match mode {
            Mode::Asked => -0.10,
            Mode::Passive => 0.0,
            Mode::Speculation => 0.05,
        };
        let threshold = (base + mode).clamp(0.40, 0.95);
        (threshold, if first.p >= threshold { Decision::Emit } else { Decision::Hold })
    }
}

fn risk(state: &State, node: Node) -> f64 {
    let NodeKind::Tool(position) = node.kind() else { return RISK_DEFAULT };
    let registration = state.tools.at(position).registration.as_ref();
    match registration.and_then(|registration| registration.annotations.as_ref()) {
        Some(hints) if hints.destructive == Some(true) && hints.read_only != Some(true) => RISK_DESTRUCTIVE,
        Some(hints) if hints.read_only == Some(true) => RISK_READ_ONLY,
        _ => RISK_DEFAULT,
    }
}

impl Digestible for Thresholds {
    fn digest(&self, writer: &mut Writer) {
        writer.len(self.posteriors.len());
        for (node, posterior) in &self.posteriors {
            writer.u32(node.to_bits()).u64(posterior.alpha.to_bits()).u64(posterior.beta.to_bits());
        }
    }
}
