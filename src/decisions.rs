//! Decisions of people about capabilities: what the fold would ignore is refused here, with what to do instead. The HTTP routes and the
//! command line use this module, so both record the same facts.

use crate::clock::Clock;
use crate::core::capability::Status;
use crate::core::event::{CapabilityApproved, CapabilityMerged, CapabilityRenamed, CapabilityRetired, Event, NewRecord};
use crate::core::id::CapabilityId;
use crate::core::name::capability;
use crate::core::redact::Redactor;
use crate::core::state::State;

const SOURCE: &str = "pml/person";
/// The longest name that a person may give.
const NAME_BYTES_MAX: usize = 200;

/// What a person wants of a capability. `None` and `false` take the decision back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Rename(Option<String>),
    Merge(Option<String>),
    Approve(bool),
    Retire(bool),
}

/// Why a decision is not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecisionError {
    #[error("no capability is called '{0}'; GET /v1/capabilities or `pml discover` lists them")]
    Unknown(String),
    #[error("name: is blank; say how the capability is to be called")]
    Blank,
    #[error("name: has {0} bytes, the limit is {NAME_BYTES_MAX}")]
    Long(usize),
    #[error("into: '{0}' is the capability itself, or was merged into it; take that back first")]
    Circle(String),
    #[error("{0}, so there is nothing to take back")]
    Nothing(&'static str),
}

impl DecisionError {
    /// Whether what was named does not exist, rather than being in the wrong state.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }

    /// Whether the request makes no sense, whatever the state.
    pub(crate) fn is_invalid(&self) -> bool {
        matches!(self, Self::Blank | Self::Long(_))
    }
}

/// The event of a decision about the capability with this id, handle or name.
pub(crate) fn decision(
    state: &State,
    of: &str,
    wanted: Decision,
    redactor: &Redactor,
) -> Result<(CapabilityId, Event), DecisionError> {
    let id = known(state, of)?;
    let decided = &state.capabilities.get(id).ok_or_else(|| DecisionError::Unknown(of.to_owned()))?.decided;
    let event = match wanted {
        Decision::Rename(None) if decided.own_name.is_none() => return Err(DecisionError::Nothing("nobody renamed it")),
        Decision::Merge(None) if decided.merged_into.is_none() => return Err(DecisionError::Nothing("nobody merged it")),
        Decision::Approve(false) if decided.own_status.is_none() => return Err(DecisionError::Nothing("nobody approved it")),
        Decision::Retire(false) if !decided.retired => return Err(DecisionError::Nothing("nobody retired it")),
        Decision::Rename(name) => {
            let name = name.map(|name| checked_name(&name, redactor)).transpose()?;
            Event::CapabilityRenamed(CapabilityRenamed { capability: id, name })
        }
        Decision::Merge(into) => {
            let into = into.map(|into| target(state, id, &into)).transpose()?;
            Event::CapabilityMerged(CapabilityMerged { capability: id, into })
        }
        Decision::Approve(approved) => Event::CapabilityApproved(CapabilityApproved { capability: id, approved }),
        Decision::Retire(retired) => Event::CapabilityRetired(CapabilityRetired { capability: id, retired }),
    };
    Ok((id, event))
}

fn known(state: &State, text: &str) -> Result<CapabilityId, DecisionError> {
    let found = capability(state, text.strip_prefix("capability:").unwrap_or(text));
    let known = found.filter(|capability| capability.status != Status::Stub);
    known.map(|capability| capability.id).ok_or_else(|| DecisionError::Unknown(text.to_owned()))
}

/// The capability that is to stand for `id` too.
fn target(state: &State, id: CapabilityId, into: &str) -> Result<CapabilityId, DecisionError> {
    let target = known(state, into)?;
    if state.capabilities.standing_for(target) == id || target == id {
        return Err(DecisionError::Circle(into.to_owned()));
    }
    Ok(target)
}

/// The name without secrets.
fn checked_name(name: &str, redactor: &Redactor) -> Result<String, DecisionError> {
    let mut name = name.trim().to_owned();
    if name.is_empty() {
        return Err(DecisionError::Blank);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(DecisionError::Long(name.len()));
    }
    redactor.clean(&mut name);
    Ok(name)
}

/// The record of a decision.
pub(crate) fn decision_record(event: Event, clock: &Clock) -> NewRecord {
    NewRecord { id: clock.fresh_id(), time: clock.now(), source: SOURCE.into(), causation: None, envelope: None, event }
}
