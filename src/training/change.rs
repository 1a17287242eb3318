//! Promotion and rollback by a person: what the fold would ignore is refused here, with what to do instead.

use crate::clock::Clock;
use crate::core::event::{Event, ModelPart, ModelPromoted, ModelRolledBack, ModelVersion, NewRecord};
use crate::core::state::State;

const SOURCE: &str = "pml/model";

/// Why a version cannot serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error("no version '{0}' is known; `pml model list` or GET /v1/models lists them")]
    Unknown(ModelVersion),
    #[error("the gate refused {version} ({reason}), so its parameters were not recorded; train again with `pml train`")]
    Refused { version: ModelVersion, reason: String },
    #[error("the parameters of {0} are no longer kept, or have not all arrived; train again with `pml train`")]
    Gone(ModelVersion),
    #[error("{0} serves already")]
    Serving(ModelVersion),
    #[error("no version of the part {0} serves, so there is nothing to roll back; `pml model promote VERSION` makes one serve")]
    NothingServes(ModelPart),
}

impl ChangeError {
    /// Whether what was named does not exist, rather than being in the wrong state.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}

/// The event that makes a version serve.
pub(crate) fn promotion(state: &State, version: &ModelVersion) -> Result<Event, ChangeError> {
    let trained = &state.trained;
    if trained.serving(version.part()).current.as_ref() == Some(version) {
        return Err(ChangeError::Serving(version.clone()));
    }
    let kept = trained.versions().find(|stored| stored.run.event.version == *version);
    if kept.is_some_and(|stored| stored.bytes().is_some()) {
        let reason = "promoted by a person".to_owned();
        return Ok(Event::ModelPromoted(ModelPromoted { version: version.clone(), reason }));
    }
    let run = trained.runs().rev().find(|run| run.event.version == *version);
    Err(match run {
        Some(run) if !run.event.accepted => ChangeError::Refused { version: version.clone(), reason: run.event.reason.clone() },
        Some(_) => ChangeError::Gone(version.clone()),
        None if kept.is_some() => ChangeError::Gone(version.clone()),
        None => ChangeError::Unknown(version.clone()),
    })
}

/// The event that returns a part to the version that served before, or to none.
pub(crate) fn rollback(state: &State, part: ModelPart) -> Result<Event, ChangeError> {
    let serving = state.trained.serving(part);
    if serving.current.is_none() {
        return Err(ChangeError::NothingServes(part));
    }
    let kept = |version: &&ModelVersion| state.trained.versions().any(|stored| stored.run.event.version == **version);
    let to = serving.previous.as_ref().filter(kept).cloned();
    Ok(Event::ModelRolledBack(ModelRolledBack { part, to, reason: "rolled back by a person".to_owned() }))
}

/// The record of a change.
pub(crate) fn change_record(event: Event, clock: &Clock) -> NewRecord {
    NewRecord { id: clock.fresh_id(), time: clock.now(), source: SOURCE.into(), causation: None, envelope: None, event }
}
