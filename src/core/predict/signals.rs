//! What speaks for an outcome, one number per signal. A score is the sum of weights times values; the weights are learnt (`logit`).

use super::candidates::Candidate;
use super::chances::{Chance, Chances};
use super::evidence::Evidence;
use crate::core::graph::{Node, NodeKind};
use crate::core::state::State;

/// All signals, and how many of them have values today: the others are places for parts that are measured or trained apart.
pub const SIGNALS: usize = 24;
pub const LIVE: usize = 17;

/// Below this share a vote says no more than none.
const VOTE_MIN: f64 = 0.02;

pub type Values = [f64; SIGNALS];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Logarithm of the smoothed chance after the last call.
    Transition,
    /// What the call before the last adds to it.
    TransitionTwo,
    /// Logarithm of the chance whatever went before.
    Popularity,
    /// What past intents near this one add: what they did after the same call.
    MemoryNext,
    /// What the very nearest of them add to that.
    MemoryNearest,
    /// Logarithm of the share of past intents near this one that used it at all.
    Memory,
    /// Cosine of the whole intent and the tool's text.
    Intent,
    /// The same for the clause that fits best.
    Clause,
    /// How much better it fits some clause than what was called already does.
    Uncovered,
    /// Whether its clause is the one after that of the last call; at the start, the first one.
    ClauseNext,
    /// Whether its clause comes before that of the last call.
    ClauseBack,
    /// Whether it was called already.
    Used,
    /// 1 for the end.
    Done,
    /// For the end: the logarithm of how many calls there were.
    Position,
    /// For the end: what past intents near this one used and this run did not yet.
    Left,
    /// Logarithm of how often it works.
    Reliability,
    /// Share of the capabilities of past intents near this one that the calls so far are part of and it is part of, too (S3 3.2).
    Strategic,
    // No values yet.
    Community,
    AdamicAdar,
    PageRank,
    IntentHead,
    Recurrent,
    TargetMass,
    Hyperpath,
}

impl Signal {
    pub const ALL: [Self; SIGNALS] = [
        Self::Transition,
        Self::TransitionTwo,
        Self::Popularity,
        Self::MemoryNext,
        Self::MemoryNearest,
        Self::Memory,
        Self::Intent,
        Self::Clause,
        Self::Uncovered,
        Self::ClauseNext,
        Self::ClauseBack,
        Self::Used,
        Self::Done,
        Self::Position,
        Self::Left,
        Self::Reliability,
        Self::Strategic,
        Self::Community,
        Self::AdamicAdar,
        Self::PageRank,
        Self::IntentHead,
        Self::Recurrent,
        Self::TargetMass,
        Self::Hyperpath,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Transition => "transition",
            Self::TransitionTwo => "transition_two",
            Self::Popularity => "popularity",
            Self::MemoryNext => "memory_next",
            Self::MemoryNearest => "memory_nearest",
            Self::Memory => "memory",
            Self::Intent => "intent",
            Self::Clause => "clause",
            Self::Uncovered => "uncovered",
            Self::ClauseNext => "clause_next",
            Self::ClauseBack => "clause_back",
            Self::Used => "used",
            Self::Done => "done",
            Self::Position => "position",
            Self::Left => "left",
            Self::Reliability => "reliability",
            Self::Strategic => "strategic",
            Self::Community => "community",
            Self::AdamicAdar => "adamic_adar",
            Self::PageRank => "pagerank",
            Self::IntentHead => "intent_head",
            Self::Recurrent => "recurrent",
            Self::TargetMass => "target_mass",
            Self::Hyperpath => "hyperpath",
        }
    }

    /// What is believed before anything was seen: what followed before follows again, what reads like the intent is meant, and
    /// nothing is called twice.
    pub const fn prior(self) -> f64 {
        match self {
            Self::Transition | Self::TransitionTwo => 0.7,
            Self::Popularity | Self::ClauseBack => -0.2,
            Self::MemoryNext | Self::MemoryNearest => 0.5,
            Self::Memory => 0.8,
            Self::Intent | Self::Clause | Self::Uncovered => 2.0,
            Self::ClauseNext => 0.3,
            Self::Used => -1.5,
            Self::Position | Self::Reliability => 1.0,
            Self::Left => -0.5,
            Self::Done
            | Self::Strategic
            | Self::Community
            | Self::AdamicAdar
            | Self::PageRank
            | Self::IntentHead
            | Self::Recurrent
            | Self::TargetMass
            | Self::Hyperpath => 0.0,
        }
    }
}

/// What is the same for all candidates of one place in a run.
pub struct Scene<'a> {
    state: &'a State,
    evidence: &'a Evidence,
    chances: &'a Chances<'a>,
    /// How well each clause is answered by what was called already.
    covered: Vec<f64>,
    /// The clause of the last call.
    clause: Option<usize>,
    /// By capability of the near past that the calls so far are part of: the weight of its overlap.
    strategic: Vec<(&'a [Node], f64)>,
    left: f64,
}

impl<'a> Scene<'a> {
    pub fn new(state: &'a State, evidence: &'a Evidence, chances: &'a Chances<'a>) -> Self {
        let context = chances.context();
        let called: Vec<u32> = context.iter().copied().flatten().filter_map(position).collect();
        let best = |clause: usize| called.iter().map(|tool| evidence.clause(clause, *tool)).fold(0.0, f64::max);
        Self {
            state,
            evidence,
            chances,
            covered: (0..evidence.clauses()).map(best).collect(),
            clause: called.last().and_then(|tool| evidence.best_clause(*tool)).map(|(clause, _)| clause),
            strategic: strategic(state, evidence, context),
            left: evidence.left(context),
        }
    }

    pub fn values(&self, candidate: Candidate) -> Values {
        let Chance { any, last, two, near, nearest } = self.chances.chance(candidate);
        let mut values = [0.0; SIGNALS];
        let mut set = |signal: Signal, value: f64| values[signal as usize] = value;
        set(Signal::Transition, libm::log(last));
        set(Signal::TransitionTwo, libm::log(two / last));
        set(Signal::Popularity, libm::log(any));
        set(Signal::MemoryNext, libm::log(near / two));
        set(Signal::MemoryNearest, libm::log(nearest / near));
        match candidate {
            Candidate::Done => {
                set(Signal::Done, 1.0);
                set(Signal::Position, libm::log1p(real(self.chances.context().len())));
                set(Signal::Left, self.left);
            }
            Candidate::Call(node) => self.of_call(node, set),
        }
        values
    }

    fn of_call(&self, node: Node, mut set: impl FnMut(Signal, f64)) {
        set(Signal::Memory, libm::log(self.evidence.vote(node) + VOTE_MIN));
        set(Signal::Used, flag(self.chances.context().contains(&Some(node))));
        set(Signal::Reliability, libm::log(self.reliability(node)));
        let shares = self.strategic.iter().filter(|(members, _)| members.binary_search(&node).is_ok());
        set(Signal::Strategic, shares.map(|(_, share)| share).sum());
        let Some(tool) = position(node) else { return };
        set(Signal::Intent, self.evidence.whole(tool));
        let Some((clause, fit)) = self.evidence.best_clause(tool) else { return };
        set(Signal::Clause, fit);
        let more = |clause: usize| self.evidence.clause(clause, tool) - self.covered[clause];
        set(Signal::Uncovered, (0..self.covered.len()).map(more).fold(f64::MIN, f64::max));
        set(Signal::ClauseNext, flag(self.clause.map_or(clause == 0, |last| clause == last + 1)));
        set(Signal::ClauseBack, flag(self.clause.is_some_and(|last| clause < last)));
    }

    /// As if it had worked twice more than it did, so that what was never tried is not distrusted.
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    fn reliability(&self, node: Node) -> f64 {
        let (successes, calls) = match node.kind() {
            NodeKind::Tool(position) => (self.state.tools.at(position).successes, self.state.tools.at(position).calls),
            NodeKind::Capability(position) => {
                let capability = self.state.capabilities.at(position);
                (capability.successes, capability.usage)
            }
        };
        (successes as f64 + 2.0) / (calls as f64 + 2.0)
    }
}

/// Overlap of a capability's members with the calls so far, weighed by its share of the votes.
fn strategic<'a>(state: &'a State, evidence: &Evidence, context: &[Option<Node>]) -> Vec<(&'a [Node], f64)> {
    let mut matching = Vec::new();
    for (node, vote) in evidence.votes() {
        let NodeKind::Capability(position) = node.kind() else { continue };
        let members = state.capabilities.at(position).members.as_slice();
        let common = members.iter().filter(|member| context.contains(&Some(**member))).count();
        if common > 0 {
            matching.push((members, vote * real(common) / real(members.len())));
        }
    }
    matching
}

fn position(node: Node) -> Option<u32> {
    match node.kind() {
        NodeKind::Tool(position) => Some(position),
        NodeKind::Capability(_) => None,
    }
}

fn flag(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn real(count: usize) -> f64 {
    count as f64
}
