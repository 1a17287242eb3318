//! The signals of a candidate: one number each, and their table. The score of a candidate is the sum of weights times values; the
//! weights are learnt (`logit`).

use std::collections::BTreeMap;

use pml_model::Next;

use super::candidates::Candidate;
use super::chances::{Chance, Chances};
use super::evidence::Evidence;
use super::hyperpath::next_on_the_way;
use crate::graph::{Node, NodeKind};
use crate::state::State;

/// The number of signals, live and reserved. Weights are stored and digested in the order of [`Signal::ALL`].
pub const SIGNALS: usize = 29;
/// The number of live signals: the rows and columns of the curvature.
pub const LIVE_SIGNALS: usize = count_live();

/// Added to a vote before the logarithm: a smaller share says no more than none.
const VOTE_MIN: f64 = 0.02;

/// The values of one candidate, in the order of [`Signal::ALL`].
pub type Values = [f64; SIGNALS];

/// Which step of a run is predicted. The first has weights of its own: nothing was called yet, so the same signals say other things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    First,
    Later,
}

impl StepKind {
    pub const ALL: [Self; 2] = [Self::First, Self::Later];

    /// The kind of the step after this many calls.
    pub const fn after(calls: usize) -> Self {
        if calls == 0 { Self::First } else { Self::Later }
    }

    /// As in answers and snapshots.
    pub const fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Later => "later",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Logarithm of the smoothed probability after the last call.
    Transition,
    /// Logarithm of the factor by which the call before the last changes that probability.
    TransitionTwo,
    /// Logarithm of the probability regardless of the calls so far.
    Popularity,
    /// Logarithm of the factor by which near past intents change the probability: what they called after the same call.
    MemoryNext,
    /// Logarithm of the factor by which the very nearest of them change it further.
    MemoryNearest,
    /// Logarithm of the share of near past intents that used it at all.
    Memory,
    /// Logarithm of the share of near past runs in which it comes first among what this run has not called yet.
    MemoryRemaining,
    /// Cosine of the whole intent and the tool's text.
    Intent,
    /// Cosine of the best fitting clause and the tool's text.
    Clause,
    /// BM25 score of the tool's text for the whole intent, divided by the best one.
    Words,
    /// The same for the clause in which the tool does best.
    ClauseWords,
    /// How much better the tool fits some clause than the tools already called do.
    Uncovered,
    /// 1 if its clause follows that of the last call; at the start, if its clause is the first.
    ClauseNext,
    /// 1 if its clause comes before that of the last call.
    ClauseBack,
    /// 1 if it was called already.
    Used,
    /// 1 if it is the last call again.
    Repeat,
    /// 1 for the end.
    Done,
    /// For the end: the logarithm of 1 plus the number of calls so far.
    Position,
    /// For the end: the votes for tools that near past intents used and this run has not called yet.
    Left,
    /// Logarithm of the share of its calls that succeeded.
    Reliability,
    /// Votes for the capabilities of near past intents that share members with the calls so far and contain it (S3 3.2).
    Strategic,
    Community,
    AdamicAdar,
    PageRank,
    /// Logarithm of the probability that the intent head gives it, regardless of the calls so far.
    IntentHead,
    /// Logarithm of the probability that the recurrent encoder gives it after the calls so far.
    Recurrent,
    /// Logarithm of the probability that the capability which SHGAT takes for the target contains it.
    TargetMass,
    /// Logarithm of the votes for capabilities on whose way it comes next.
    Hyperpath,
    /// Logarithm of the probability that SHGAT gives it.
    Shgat,
}

/// The fixed properties of one signal.
struct Spec {
    signal: Signal,
    /// As in answers and snapshots.
    name: &'static str,
    /// The weight before anything was learnt, of the first step and of later ones.
    prior: [f64; 2],
    /// Whether [`SignalInputs::values`] computes it and the logit learns its weight. A reserved signal has value 0 and keeps its
    /// prior.
    live: bool,
}

impl Spec {
    const fn live(signal: Signal, name: &'static str, first: f64, later: f64) -> Self {
        Self { signal, name, prior: [first, later], live: true }
    }

    const fn reserved(signal: Signal, name: &'static str) -> Self {
        Self { signal, name, prior: [0.0; 2], live: false }
    }
}

/// One row per signal, in the order of the variants. The priors say: what followed before follows again, what reads like the intent
/// is meant, and nothing is called twice. They are close to the means of what was learnt on five datasets, so that a workspace with
/// few traces starts from there. A reserved signal may become live at any position: the flag decides.
const SPECS: [Spec; SIGNALS] = [
    Spec::live(Signal::Transition, "transition", 0.4, 0.6),
    Spec::live(Signal::TransitionTwo, "transition_two", 0.0, 0.8),
    Spec::live(Signal::Popularity, "popularity", -0.4, -0.3),
    Spec::live(Signal::MemoryNext, "memory_next", 0.4, 0.3),
    Spec::live(Signal::MemoryNearest, "memory_nearest", 0.4, 0.2),
    Spec::live(Signal::Memory, "memory", 0.9, 0.7),
    Spec::live(Signal::MemoryRemaining, "memory_remaining", 0.5, 0.2),
    Spec::live(Signal::Intent, "intent", 1.0, 1.0),
    Spec::live(Signal::Clause, "clause", 1.6, 1.7),
    Spec::live(Signal::Words, "words", 0.6, 0.8),
    Spec::live(Signal::ClauseWords, "clause_words", 0.6, 0.4),
    Spec::live(Signal::Uncovered, "uncovered", 2.0, 2.7),
    Spec::live(Signal::ClauseNext, "clause_next", 0.6, 0.4),
    Spec::live(Signal::ClauseBack, "clause_back", 0.0, -0.2),
    Spec::live(Signal::Used, "used", 0.0, -2.0),
    Spec::live(Signal::Repeat, "repeat", 0.0, 0.3),
    Spec::live(Signal::Done, "done", -0.9, -0.8),
    Spec::live(Signal::Position, "position", 0.0, 1.5),
    Spec::live(Signal::Left, "left", -0.6, -0.6),
    Spec::live(Signal::Reliability, "reliability", 1.0, 1.0),
    Spec::live(Signal::Strategic, "strategic", 0.0, 0.0),
    Spec::reserved(Signal::Community, "community"),
    Spec::reserved(Signal::AdamicAdar, "adamic_adar"),
    Spec::reserved(Signal::PageRank, "pagerank"),
    Spec::reserved(Signal::IntentHead, "intent_head"),
    Spec::reserved(Signal::Recurrent, "recurrent"),
    Spec::reserved(Signal::TargetMass, "target_mass"),
    Spec::reserved(Signal::Hyperpath, "hyperpath"),
    Spec::reserved(Signal::Shgat, "shgat"),
];

const fn count_live() -> usize {
    let (mut at, mut live) = (0, 0);
    while at < SIGNALS {
        assert!(SPECS[at].signal as usize == at, "SPECS has the order of the variants");
        live += SPECS[at].live as usize;
        at += 1;
    }
    live
}

impl Signal {
    /// All signals, in the order of their weights.
    pub const ALL: [Self; SIGNALS] = {
        let mut all = [Self::Transition; SIGNALS];
        let mut at = 0;
        while at < SIGNALS {
            all[at] = SPECS[at].signal;
            at += 1;
        }
        all
    };

    /// The live signals, in the order of [`Self::ALL`]: that of the rows and columns of the curvature.
    pub const LIVE: [Self; LIVE_SIGNALS] = {
        let mut live = [Self::Transition; LIVE_SIGNALS];
        let (mut at, mut next) = (0, 0);
        while at < SIGNALS {
            if SPECS[at].live {
                live[next] = SPECS[at].signal;
                next += 1;
            }
            at += 1;
        }
        live
    };

    pub const fn name(self) -> &'static str {
        SPECS[self as usize].name
    }

    pub const fn prior(self, step: StepKind) -> f64 {
        SPECS[self as usize].prior[step as usize]
    }
}

/// `SignalInputs` holds what the signals of all candidates for one step are computed from.
pub struct SignalInputs<'a> {
    state: &'a State,
    evidence: &'a Evidence,
    chances: &'a Chances<'a>,
    /// By clause: its similarity with the best fitting tool called already.
    covered: Vec<f64>,
    /// The clause of the last call.
    clause: Option<usize>,
    /// The members of each capability voted for that shares some with the calls so far, and the weight of that overlap.
    strategic: Vec<(&'a [Node], f64)>,
    /// Votes for tools not called yet.
    remaining: f64,
    /// The recurrent encoder's prediction of this step.
    next: Option<&'a Next>,
    /// What the trained parts say about a callee that they do not know: as much as about any tool.
    unknown: f64,
    /// What comes next on the way to the target capabilities; `None` if nobody asks.
    on_the_way: Option<BTreeMap<Node, f64>>,
}

impl<'a> SignalInputs<'a> {
    pub fn new(state: &'a State, evidence: &'a Evidence, chances: &'a Chances<'a>, next: Option<&'a Next>) -> Self {
        let context = chances.context();
        let called: Vec<u32> = context.iter().copied().flatten().filter_map(position).collect();
        let best = |clause: usize| called.iter().map(|tool| evidence.clause_similarity(clause, *tool)).fold(0.0, f64::max);
        Self {
            state,
            evidence,
            chances,
            covered: (0..evidence.clause_count()).map(best).collect(),
            clause: called.last().and_then(|tool| evidence.best_clause(*tool)).map(|(clause, _)| clause),
            strategic: strategic(state, evidence, context),
            remaining: evidence.remaining_votes(context),
            next,
            unknown: -libm::log1p(real(state.tools.len())),
            on_the_way: None,
        }
    }

    /// Computes the signal `hyperpath` as well. The weights learnt in the fold do without it, so that lessons stay cheap.
    #[must_use]
    pub fn with_hyperpaths(mut self) -> Self {
        self.on_the_way = Some(next_on_the_way(self.state, self.evidence, self.chances.context()));
        self
    }

    /// The values of all signals; 0 where a signal is reserved or does not apply.
    pub fn values(&self, candidate: Candidate) -> Values {
        let Chance { any, last, two, near, nearest, remaining } = self.chances.chance(candidate);
        let mut values = [0.0; SIGNALS];
        let mut set = |signal: Signal, value: f64| values[signal as usize] = value;
        set(Signal::Transition, libm::log(last));
        set(Signal::TransitionTwo, libm::log(two / last));
        set(Signal::Popularity, libm::log(any));
        set(Signal::MemoryNext, libm::log(near / two));
        set(Signal::MemoryNearest, libm::log(nearest / near));
        set(Signal::MemoryRemaining, libm::log(remaining + VOTE_MIN));
        match candidate {
            Candidate::Done => {
                set(Signal::Done, 1.0);
                set(Signal::Position, libm::log1p(real(self.chances.context().len())));
                set(Signal::Left, self.remaining);
                set(Signal::Recurrent, self.next.map_or(0.0, |next| f64::from(next.end)));
            }
            Candidate::Call(node) => self.set_call_values(node, set),
        }
        values
    }

    fn set_call_values(&self, node: Node, mut set: impl FnMut(Signal, f64)) {
        set(Signal::Memory, libm::log(self.evidence.vote(node) + VOTE_MIN));
        set(Signal::Used, flag(self.chances.context().contains(&Some(node))));
        set(Signal::Repeat, flag(self.chances.context().last() == Some(&Some(node))));
        set(Signal::Reliability, libm::log(self.reliability(node)));
        let shares = self.strategic.iter().filter(|(members, _)| members.binary_search(&node).is_ok());
        set(Signal::Strategic, shares.map(|(_, share)| share).sum());
        if let Some(on_the_way) = &self.on_the_way {
            set(Signal::Hyperpath, libm::log(on_the_way.get(&node).copied().unwrap_or(0.0) + VOTE_MIN));
        }
        let tool = position(node);
        if let Some(next) = self.next {
            let known = tool.and_then(|tool| next.tools.get(tool as usize));
            set(Signal::Recurrent, known.map_or(self.unknown, |value| f64::from(*value)));
        }
        if self.evidence.has_head() {
            set(Signal::IntentHead, tool.and_then(|tool| self.evidence.head_score(tool)).unwrap_or(self.unknown));
        }
        if self.evidence.has_target() {
            let (score, mass) = tool.and_then(|tool| self.evidence.target_score(tool)).unwrap_or((self.unknown, self.unknown));
            set(Signal::Shgat, score);
            set(Signal::TargetMass, mass);
        }
        let Some(tool) = tool else { return };
        set(Signal::Intent, self.evidence.intent_similarity(tool));
        set(Signal::Words, self.evidence.word_score(tool));
        set(Signal::ClauseWords, self.evidence.clause_word_score(tool));
        let Some((clause, fit)) = self.evidence.best_clause(tool) else { return };
        set(Signal::Clause, fit);
        let more = |clause: usize| self.evidence.clause_similarity(clause, tool) - self.covered[clause];
        set(Signal::Uncovered, (0..self.covered.len()).map(more).fold(f64::MIN, f64::max));
        set(Signal::ClauseNext, flag(self.clause.map_or(clause == 0, |last| clause == last + 1)));
        set(Signal::ClauseBack, flag(self.clause.is_some_and(|last| clause < last)));
    }

    /// The success rate with two successes added, so that a callee never tried is not distrusted.
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

/// The capabilities voted for that share members with the calls so far: members, and their share called times the vote.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_signals_are_those_flagged_in_the_order_of_all() {
        let flagged: Vec<Signal> = SPECS.iter().filter(|spec| spec.live).map(|spec| spec.signal).collect();
        assert_eq!(Signal::LIVE.as_slice(), flagged);
        assert_eq!(LIVE_SIGNALS, 21, "the digest of every state covers a curvature of this size");
        let names: std::collections::BTreeSet<&str> = Signal::ALL.into_iter().map(Signal::name).collect();
        assert_eq!(names.len(), SIGNALS, "snapshots store signals by name");
    }
}
