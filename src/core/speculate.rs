//! Speculation: which calls may be run before an agent asks for them. For a known plan the calls whose inputs are there, for a stream
//! the predicted call if it reaches the threshold of speculation. Only what does no harm if nobody asks for it is run: tools that their
//! server marks read-only, or idempotent and not destructive, and capabilities of nothing but such tools.

use std::collections::BTreeSet;

use super::event::Outcome;
use super::graph::{Node, NodeKind};
use super::id::Callee;
use super::predict::Prediction;
use super::predict::threshold::Decision;
use super::state::State;

/// A call of a known plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCall {
    pub callee: Callee,
    /// Positions of the calls whose output it uses.
    pub depends_on: Vec<usize>,
}

/// Why a call is not run ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAhead {
    /// The state does not know the callee.
    Unknown,
    /// The tool, or a tool of the capability, was removed by its server or is in quarantine.
    Removed,
    /// Its server marks it neither read-only nor idempotent, or destructive.
    MayChangeSomething,
    /// Its probability stays below the threshold.
    Unlikely,
}

impl NotAhead {
    /// The name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Removed => "removed",
            Self::MayChangeSomething => "may_change_something",
            Self::Unlikely => "unlikely",
        }
    }
}

/// A call that comes next, and whether it may be run ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextCall {
    pub callee: Callee,
    /// The position in the plan; `None` for a predicted call.
    pub position: Option<usize>,
    pub verdict: Result<(), NotAhead>,
}

/// The calls of a plan that are not done and depend on nothing but what is, by position.
pub fn next_layer(state: &State, plan: &[PlannedCall], done: &BTreeSet<usize>) -> Vec<NextCall> {
    let is_ready = |call: &PlannedCall| call.depends_on.iter().all(|on| done.contains(on));
    let next = plan.iter().enumerate().filter(|(position, call)| !done.contains(position) && is_ready(call));
    next.map(|(position, call)| NextCall {
        callee: call.callee.clone(),
        position: Some(position),
        verdict: may_run_ahead(state, &call.callee),
    })
    .collect()
}

/// The most likely call of a prediction that was made in the mode of speculation; none if the run is expected to end.
pub fn predicted_call(state: &State, prediction: &Prediction) -> Option<NextCall> {
    let Outcome::Call(callee) = &prediction.ranked.first()?.outcome else { return None };
    let verdict = match prediction.decision {
        Decision::Emit => may_run_ahead(state, callee),
        Decision::Hold => Err(NotAhead::Unlikely),
    };
    Some(NextCall { callee: callee.clone(), position: None, verdict })
}

/// Whether a call does no harm if nobody asks for it.
pub fn may_run_ahead(state: &State, callee: &Callee) -> Result<(), NotAhead> {
    check(state, state.find(callee).ok_or(NotAhead::Unknown)?, &mut BTreeSet::new())
}

/// `entered` holds the capabilities on the way here: one that contains itself adds nothing.
fn check(state: &State, node: Node, entered: &mut BTreeSet<Node>) -> Result<(), NotAhead> {
    match node.kind() {
        NodeKind::Tool(position) => {
            let tool = state.tools.at(position);
            let hints = tool.registration.as_ref().and_then(|registration| registration.annotations.as_ref());
            if !tool.is_offered() {
                return Err(NotAhead::Removed);
            }
            let is_harmless = hints.is_some_and(|hints| {
                let is_repeatable = hints.idempotent == Some(true) && hints.destructive != Some(true);
                hints.read_only == Some(true) || is_repeatable
            });
            if is_harmless { Ok(()) } else { Err(NotAhead::MayChangeSomething) }
        }
        NodeKind::Capability(position) if entered.insert(node) => {
            let members = &state.capabilities.at(position).members;
            members.iter().try_for_each(|member| check(state, *member, entered))
        }
        NodeKind::Capability(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::given::History;

    fn plan(calls: &[(&str, &[usize])]) -> Vec<PlannedCall> {
        let call = |(callee, depends_on): &(&str, &[usize])| PlannedCall {
            callee: callee.parse().unwrap(),
            depends_on: depends_on.to_vec(),
        };
        calls.iter().map(call).collect()
    }

    #[test]
    fn the_next_layer_is_what_waits_for_nothing_and_only_harmless_tools_run_ahead() {
        let mut history = History::new("tool fs:read path\ntool net:send text\nremove net:send");
        history.annotate("fs:read", Some(true), None);
        history.annotate("db:put", None, Some(true));
        history.annotate("db:drop", Some(false), Some(false));
        let plan = plan(&[
            ("fs:read", &[]),
            ("db:put", &[0]),
            ("db:drop", &[0]),
            ("net:send", &[0]),
            ("a:b", &[0]),
            ("fs:read", &[1]),
        ]);
        let shown = |done: &[usize]| -> Vec<(usize, Result<(), NotAhead>)> {
            let next = next_layer(&history.state, &plan, &done.iter().copied().collect());
            next.into_iter().map(|call| (call.position.unwrap(), call.verdict)).collect()
        };
        assert_eq!(shown(&[]), [(0, Ok(()))]);
        let refused =
            [(1, Ok(())), (2, Err(NotAhead::MayChangeSomething)), (3, Err(NotAhead::Removed)), (4, Err(NotAhead::Unknown))];
        assert_eq!(shown(&[0]), refused);
        assert_eq!(shown(&[0, 1, 2, 3, 4]), [(5, Ok(()))]);
        assert_eq!(shown(&[0, 1, 2, 3, 4, 5]), []);
    }

    #[test]
    fn a_capability_runs_ahead_if_all_its_tools_may() {
        let mut history =
            History::new("run ok read and look: fs:read, fs:stat < fs:read\nrun ok read and send: fs:read, net:send < fs:read");
        for tool in ["fs:read", "fs:stat"] {
            history.annotate(tool, Some(true), None);
        }
        let state = &history.state;
        let verdict = |tool: &str| {
            let with = |position: &u32| state.capabilities.at(*position).members.contains(&history.node(tool));
            let position = (0..2).find(with).unwrap();
            check(state, Node::capability(position), &mut BTreeSet::new())
        };
        assert_eq!(verdict("fs:stat"), Ok(()));
        assert_eq!(verdict("net:send"), Err(NotAhead::MayChangeSomething));
    }
}
