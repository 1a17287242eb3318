//! What a run of a program teaches: a capability with its program and its parameters.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::program::Program;
use crate::code::parameters::{self, Learnt, Ran};
use crate::core::capability::Structure;
use crate::core::event::{CapabilityDeclared, DeclaredStructure, Json};
use crate::core::id::CapabilityId;
use crate::core::redact::Redactor;
use crate::core::state::State;
use crate::execute::run::Run;

/// Programs that this process has learnt and that the newest view does not have yet. Held while a run is learnt from and until what it
/// teaches is given to the recorder, so that what two runs teach at the same time is joined, and declared in this order.
pub(in crate::execute) type NewPrograms = Mutex<BTreeMap<CapabilityId, Learnt>>;

/// What a successful run teaches.
pub(super) struct Lesson {
    pub(super) capability: CapabilityId,
    /// The declaration, if something is new.
    pub(super) declared: Option<CapabilityDeclared>,
}

/// What a successful run teaches; `None` if the program has parts that only a run can tell: then its trace is learnt like any other.
pub(super) fn learn(
    view: &State,
    run: &Run,
    program: &Program,
    new: &mut BTreeMap<CapabilityId, Learnt>,
    redactor: &Redactor,
) -> Option<Lesson> {
    let structure = program.declared(view)?;
    let (id, canonical) = Structure::declared(&structure);
    new.retain(|id, learnt| view.capabilities.get(*id).is_none_or(|known| known.code.as_ref() != Some(&learnt.code)));
    let known = new.get(&id).cloned().or_else(|| known(view, id));
    let is_secret = |path: &str, value: &Value| is_secret(path, value, redactor);
    let ran = Ran { source: &program.source, reading: &program.reading, arguments: &program.arguments, is_secret: &is_secret };
    let learnt = match &known {
        Some(known) => joined(known, ran),
        None => parameters::first(ran),
    };
    let declared = (known.as_ref() != Some(&learnt)).then(|| {
        new.insert(id, learnt.clone());
        declaration(view, id, structure, &canonical, &learnt, &run.head.intent)
    });
    Some(Lesson { capability: id, declared })
}

/// The capability that a program is; `None` if only a run can tell all its calls.
pub(super) fn capability(state: &State, program: &Program) -> Option<CapabilityId> {
    program.declared(state).map(|structure| Structure::declared(&structure).0)
}

/// The program and the parameters of a capability in the state, if it can be run.
fn known(state: &State, id: CapabilityId) -> Option<Learnt> {
    let capability = state.capabilities.get(id)?;
    let code = capability.code.clone()?;
    let program = Program::read(code.clone(), serde_json::Map::new()).ok()?;
    if Structure::declared(&program.declared(state)?).0 != id {
        return None;
    }
    let schema = capability.parameters_schema.as_ref().and_then(|json| serde_json::from_str(json.as_str()).ok());
    Some(Learnt { code, schema: schema.unwrap_or_else(|| json!({})) })
}

/// What is known after the run. Another order of the same calls teaches nothing about the literals.
fn joined(known: &Learnt, ran: Ran<'_>) -> Learnt {
    let reading = crate::code::read(&known.code);
    let joined = reading.ok().and_then(|reading| parameters::join(known, &reading, ran).ok());
    joined.unwrap_or_else(|| known.clone())
}

fn declaration(
    state: &State,
    id: CapabilityId,
    structure: DeclaredStructure,
    canonical: &Structure,
    learnt: &Learnt,
    intent: &str,
) -> CapabilityDeclared {
    let known = state.capabilities.get(id);
    let told = |text: Option<&String>| text.filter(|text| !text.is_empty()).cloned();
    CapabilityDeclared {
        name: told(known.map(|known| &known.name)).unwrap_or_else(|| canonical.summary()),
        description: told(known.map(|known| &known.description)).unwrap_or_else(|| intent.to_owned()),
        structure,
        code: Some(learnt.code.clone()),
        parameters_schema: Some(Json::from_valid(learnt.schema.to_string())),
    }
}

/// Whether the log would not keep this value of an argument.
fn is_secret(path: &str, value: &Value, redactor: &Redactor) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let member = json!({ name: value });
    redactor.json(&Json::from_valid(member.to_string()), usize::MAX).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_secret_by_its_name_by_its_shape_or_by_a_configured_pattern() {
        let redactor = Redactor::with_extra(&["ACME-[0-9]{8}".to_owned()]).unwrap();
        let check = |path: &str, value: &str| is_secret(path, &json!(value), &redactor);
        assert!(check("/password", "x") && check("/text", "ghp_0123456789abcdefghijABCDEFGHIJ012345"));
        assert!(check("/text", "for ACME-12345678") && !check("/text", "for ACME"));
    }
}
