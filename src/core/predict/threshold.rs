//! Emission thresholds: a prediction is emitted if the probability of its first outcome reaches a threshold, which Thompson sampling
//! moves per outcome (S3 4.1, ALGORITHMS 12).
//!
//! threshold = risk + mode + 0.15 * (0.75 - sample), kept within 0.40..0.95. The sample is drawn from the Beta posterior of whether
//! predictions of that outcome were right, by a generator seeded with the record that caused the query: the same query on the same
//! state draws the same sample.

use imbl::OrdMap;

use crate::digest::{DigestWriter, Digestible};
use crate::graph::transition::Symbol;
use crate::graph::{Node, NodeKind};
use crate::hash::mix;
use crate::id::RecordId;
use crate::state::State;

const RISK_READ_ONLY: f64 = 0.55;
const RISK_DEFAULT: f64 = 0.70;
const RISK_DESTRUCTIVE: f64 = 0.85;
const MODE_ASKED: f64 = -0.10;
const MODE_PASSIVE: f64 = 0.0;
const MODE_SPECULATION: f64 = 0.05;
const SWING: f64 = 0.15;
const SAMPLE_EXPECTED: f64 = 0.75;
const THRESHOLD_MIN: f64 = 0.40;
const THRESHOLD_MAX: f64 = 0.95;
/// The factor by which each new observation reduces the weight of all earlier ones.
const DECAY: f64 = 0.99;

/// Why a prediction is made; the more is at stake, the higher the threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// An agent asked for it.
    Asked,
    /// It is streamed to subscribers.
    #[default]
    Passive,
    /// The call is to be run before an agent asks.
    Speculation,
}

/// Whether the first outcome reached its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Emit,
    Hold,
}

impl Decision {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Emit => "emit",
            Self::Hold => "hold",
        }
    }
}

/// The Beta posterior of whether predictions of one outcome are right; Beta(1, 1) before any observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Posterior {
    pub alpha: f64,
    pub beta: f64,
}

impl Default for Posterior {
    fn default() -> Self {
        Self { alpha: 1.0, beta: 1.0 }
    }
}

impl Posterior {
    /// Adds an observation. Earlier observations fade, the prior does not, so no posterior becomes certain.
    fn observe(&mut self, success: bool) {
        self.alpha = 1.0 + DECAY * (self.alpha - 1.0) + f64::from(u8::from(success));
        self.beta = 1.0 + DECAY * (self.beta - 1.0) + f64::from(u8::from(!success));
    }
}

/// `Thresholds` holds the posteriors, by the symbol of the outcome.
#[derive(Clone, Debug, Default)]
pub struct Thresholds {
    posteriors: OrdMap<Symbol, Posterior>,
}

impl Thresholds {
    /// Records whether a prediction of `outcome` was right.
    pub fn observe(&mut self, outcome: Symbol, success: bool) {
        self.posteriors.entry(outcome).or_default().observe(success);
    }

    /// The posterior of an outcome; the prior if it was never observed.
    pub fn posterior(&self, outcome: Symbol) -> Posterior {
        self.posteriors.get(&outcome).copied().unwrap_or_default()
    }

    /// Restores what [`Self::iter`] gave.
    pub fn from_rows(rows: impl IntoIterator<Item = (Symbol, Posterior)>) -> Self {
        Self { posteriors: rows.into_iter().collect() }
    }

    /// The probability that `outcome` must reach to be emitted.
    pub fn threshold(&self, state: &State, outcome: Symbol, mode: Mode, seed: RecordId) -> f64 {
        let mode = match mode {
            Mode::Asked => MODE_ASKED,
            Mode::Passive => MODE_PASSIVE,
            Mode::Speculation => MODE_SPECULATION,
        };
        // Predicting the end changes nothing in the world.
        let risk = outcome.node().map_or(RISK_READ_ONLY, |node| risk(state, node));
        let sample = Generator::new(seed, outcome).beta(self.posterior(outcome));
        (risk + mode + SWING * (SAMPLE_EXPECTED - sample)).clamp(THRESHOLD_MIN, THRESHOLD_MAX)
    }

    /// Every outcome with observations, in the order of the symbols.
    pub fn iter(&self) -> impl Iterator<Item = (Symbol, Posterior)> {
        self.posteriors.iter().map(|(symbol, posterior)| (*symbol, *posterior))
    }
}

/// The base threshold of a callee, by the annotations that the tool's server gave.
fn risk(state: &State, node: Node) -> f64 {
    let NodeKind::Tool(position) = node.kind() else { return RISK_DEFAULT };
    let registration = state.tools.at(position).registration.as_ref();
    match registration.and_then(|registration| registration.annotations.as_ref()) {
        Some(hints) if hints.read_only == Some(true) => RISK_READ_ONLY,
        Some(hints) if hints.destructive == Some(true) => RISK_DESTRUCTIVE,
        _ => RISK_DEFAULT,
    }
}

impl Digestible for Thresholds {
    fn digest(&self, writer: &mut DigestWriter) {
        writer.len(self.posteriors.len());
        for (symbol, posterior) in &self.posteriors {
            writer.u32(symbol.to_bits()).u64(posterior.alpha.to_bits()).u64(posterior.beta.to_bits());
        }
    }
}

/// A pseudorandom generator seeded with a record and an outcome.
struct Generator(u64);

impl Generator {
    #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
    fn new(seed: RecordId, outcome: Symbol) -> Self {
        let bits = seed.to_bits();
        Self(spread(bits as u64) ^ spread((bits >> 64) as u64).rotate_left(32) ^ spread(u64::from(outcome.to_bits())))
    }

    /// Uniform in (0, 1), both ends excluded.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(1);
        ((spread(self.0) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Standard normal (Box and Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * libm::log(self.uniform())).sqrt();
        radius * libm::cos(std::f64::consts::TAU * self.uniform())
    }

    /// Gamma with scale 1 (Marsaglia and Tsang, 2000), for shapes of at least 1.
    fn gamma(&mut self, shape: f64) -> f64 {
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let root = 1.0 + c * x;
            if root <= 0.0 {
                continue;
            }
            let v = root * root * root;
            if libm::log(self.uniform()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                return d * v;
            }
        }
    }

    fn beta(&mut self, Posterior { alpha, beta }: Posterior) -> f64 {
        let (one, other) = (self.gamma(alpha), self.gamma(beta));
        one / (one + other)
    }
}

/// Spreads a counter over all 64 bits.
fn spread(counter: u64) -> u64 {
    mix(counter.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, NewRecord, Record, ToolAnnotations, ToolRegistered};
    use crate::id::Seq;
    use crate::time::Timestamp;

    fn seed(number: u128) -> RecordId {
        RecordId::from_parts(Timestamp::from_micros(1), number)
    }

    fn state(hints: &[ToolAnnotations]) -> State {
        let mut state = State::default();
        for (number, annotations) in (1..).zip(hints) {
            let event = Event::ToolRegistered(ToolRegistered {
                tool: format!("s:t{number}").parse().unwrap(),
                name: String::new(),
                description: String::new(),
                input_schema: None,
                output_schema: None,
                annotations: Some(annotations.clone()),
            });
            let (time, id) = (Timestamp::from_micros(0), seed(u128::from(number)));
            let fact = NewRecord { id, time, source: "test".into(), causation: None, envelope: None, event };
            state.apply(&Record { seq: Seq(number), recorded_at: time, fact: fact.into() });
        }
        state
    }

    fn mean_threshold(state: &State, thresholds: &Thresholds, outcome: Symbol, mode: Mode) -> f64 {
        (0..2_000).map(|number| thresholds.threshold(state, outcome, mode, seed(number))).sum::<f64>() / 2_000.0
    }

    #[test]
    fn the_base_follows_risk_and_mode() {
        let read_only = ToolAnnotations { read_only: Some(true), ..ToolAnnotations::default() };
        let destructive = ToolAnnotations { destructive: Some(true), ..ToolAnnotations::default() };
        let state = state(&[read_only, ToolAnnotations::default(), destructive]);
        let tool = |position| Symbol::call(Node::tool(position));
        let thresholds = Thresholds::default();
        // An even coin: the sample is 0.5 in the mean, which lifts the threshold by 0.15 * 0.25.
        let check = |outcome: Symbol, mode: Mode, expected: f64| {
            let mean = mean_threshold(&state, &thresholds, outcome, mode);
            assert!((mean - expected - 0.0375).abs() < 0.005, "{outcome:?} {mode:?}: {mean}");
        };
        check(tool(0), Mode::Passive, 0.55);
        check(tool(1), Mode::Passive, 0.70);
        check(tool(2), Mode::Passive, 0.85);
        check(tool(1), Mode::Asked, 0.60);
        check(tool(1), Mode::Speculation, 0.75);
        check(Symbol::END, Mode::Asked, 0.45);
    }

    #[test]
    fn right_predictions_lower_the_threshold_and_wrong_ones_raise_it() {
        let state = state(&[ToolAnnotations::default()]);
        let outcome = Symbol::call(Node::tool(0));
        let after = |success: bool| {
            let mut thresholds = Thresholds::default();
            for _ in 0..50 {
                thresholds.observe(outcome, success);
            }
            mean_threshold(&state, &thresholds, outcome, Mode::Passive)
        };
        assert!((after(true) - (0.70 + 0.15 * (0.75 - 0.975))).abs() < 0.01, "{}", after(true));
        assert!((after(false) - (0.70 + 0.15 * (0.75 - 0.025))).abs() < 0.01, "{}", after(false));
    }

    #[test]
    fn the_record_decides_the_sample_and_observations_fade() {
        let state = state(&[ToolAnnotations::default()]);
        let outcome = Symbol::call(Node::tool(0));
        let threshold = |number| Thresholds::default().threshold(&state, outcome, Mode::Passive, seed(number)).to_bits();
        assert_eq!(threshold(1), threshold(1));
        assert_ne!(threshold(1), threshold(2));
        let mut thresholds = Thresholds::default();
        for _ in 0..10_000 {
            thresholds.observe(outcome, true);
        }
        let Posterior { alpha, beta } = thresholds.posterior(outcome);
        assert!((alpha - 101.0).abs() < 1e-6 && (beta - 1.0).abs() < 1e-12, "1 / (1 - 0.99) observations count: {alpha}");
    }
}
