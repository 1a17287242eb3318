//! Learnt and declared procedures as workflows (`expand`).

use serde_json::{Map, Value};

use super::expand::{Draft, ExpandError, MissingArguments, expand};
use super::{Workflow, WorkflowError};
use crate::capability::{Capability, Structure};
use crate::name;
use crate::state::State;
use crate::suggest::SuggestedPlan;

/// Why a capability cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapabilityError {
    #[error("no capability is called '{0}'; `pml discover` finds them")]
    Unknown(String),
    #[error("'{name}' is the name of {count} capabilities; give the id")]
    Ambiguous { name: String, count: usize },
    #[error(transparent)]
    Expand(#[from] ExpandError),
    #[error("arguments are missing: {}", describe(.0))]
    Missing(Vec<MissingArguments>),
    #[error(transparent)]
    Workflow(#[from] WorkflowError),
}

fn describe(missing: &[MissingArguments]) -> String {
    let one = |missing: &MissingArguments| format!("{} of {} ({})", missing.names.join(", "), missing.task, missing.tool);
    missing.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The capability with this id, handle or name.
pub fn find<'a>(state: &'a State, text: &str) -> Result<&'a Capability, CapabilityError> {
    let unknown = || CapabilityError::Unknown(text.to_owned());
    let bare = text.strip_prefix("capability:").unwrap_or(text);
    if let Some(capability) = name::capability(state, bare) {
        return Ok(capability);
    }
    let named: Vec<&Capability> = state.capabilities.iter().filter(|capability| capability.name == text).collect();
    match named.as_slice() {
        [] | [_] => Err(unknown()),
        several => Err(CapabilityError::Ambiguous { name: text.to_owned(), count: several.len() }),
    }
}

/// The workflow that runs `capability` with `arguments`, of at most `tasks_max` tasks.
pub fn workflow(
    state: &State,
    capability: &Capability,
    arguments: &Map<String, Value>,
    tasks_max: usize,
) -> Result<Workflow, CapabilityError> {
    let draft = expand(state, &capability.structure, arguments, tasks_max)?;
    if draft.missing.is_empty() { Ok(Workflow::new(draft.tasks)?) } else { Err(CapabilityError::Missing(draft.missing)) }
}

/// The tasks of a suggested plan with `arguments`, and what they lack.
pub fn planned(
    state: &State,
    plan: &SuggestedPlan,
    arguments: &Map<String, Value>,
    tasks_max: usize,
) -> Result<Draft, ExpandError> {
    let position = |at: usize| u16::try_from(at).expect("a plan has far fewer than 2^16 tasks");
    let flow = |(to, on): (usize, &[usize])| on.iter().map(|from| (position(*from), position(to))).collect::<Vec<_>>();
    let procedure = Structure {
        calls: plan.tasks.iter().map(|task| task.callee.clone()).collect(),
        flow: plan.tasks.iter().enumerate().flat_map(|(to, task)| flow((to, task.depends_on.as_slice()))).collect(),
    };
    expand(state, &procedure, arguments, tasks_max)
}
