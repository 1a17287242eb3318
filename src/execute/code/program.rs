//! A program with its reading and its arguments.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::code::sandbox::Launch;
use crate::code::structure::Reading;
use crate::core::capability::{Capability, Structure};
use crate::core::event::DeclaredStructure;
use crate::core::id::ExecutionId;
use crate::core::state::State;
use crate::core::time::Timestamp;
use crate::core::workflow::capability;
use crate::execute::RunError;

/// A program that can be run, with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub(super) source: String,
    pub(super) reading: Reading,
    pub(super) arguments: Map<String, Value>,
}

/// A program in a journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::execute) struct ProgramLine {
    pub(super) code: String,
    pub(super) arguments: Map<String, Value>,
    /// Whether all its calls were approved beforehand.
    pub(super) approved: bool,
    pub(super) depth: usize,
}

impl Program {
    /// Reads a program in TypeScript.
    pub fn read(source: String, arguments: Map<String, Value>) -> Result<Self, RunError> {
        let reading = crate::code::read(&source)?;
        Ok(Self { source, reading, arguments })
    }

    /// The program of a capability; `None` if it has none. Code that has another structure than its capability, or is not TypeScript, was
    /// declared by somebody for people to read, and is not run.
    pub(in crate::execute) fn of_capability(
        state: &State,
        capability: &Capability,
        arguments: &Map<String, Value>,
    ) -> Result<Option<Self>, RunError> {
        let Some(code) = &capability.code else { return Ok(None) };
        let Ok(program) = Self::read(code.clone(), arguments.clone()) else { return Ok(None) };
        let structure = program.declared(state);
        if structure.is_none_or(|structure| Structure::declared(&structure).0 != capability.id) {
            return Ok(None);
        }
        let schema: Value =
            capability.parameters_schema.as_ref().and_then(|json| serde_json::from_str(json.as_str()).ok()).unwrap_or_default();
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let missing: Vec<String> = required.filter(|name| !arguments.contains_key(*name)).map(str::to_owned).collect();
        if missing.is_empty() { Ok(Some(program)) } else { Err(RunError::MissingArguments(missing)) }
    }

    /// The structure that it declares; `None` if only a run can tell all its calls, or it makes none.
    pub(super) fn declared(&self, state: &State) -> Option<DeclaredStructure> {
        let resolve = |name: &str| capability::find(state, name).ok().map(|found| found.id);
        let declared = self.reading.declared(resolve);
        let is_whole = self.reading.unresolved.is_empty() && declared.nodes.len() == self.reading.calls.len();
        (is_whole && !declared.nodes.is_empty()).then_some(declared)
    }

    /// What it is, for a run without an intent.
    pub(super) fn summary(&self) -> String {
        let callees: BTreeSet<String> = self.reading.calls.iter().map(|call| call.callee.to_string()).collect();
        let names: Vec<String> = callees.into_iter().take(8).collect();
        if names.is_empty() { "run a program".to_owned() } else { format!("run a program that calls {}", names.join(", ")) }
    }

    /// The start of a run. Runs of the same id are the same.
    pub(super) fn launch(&self, run: &ExecutionId, created: Timestamp) -> Launch {
        let hash = blake3::hash(run.as_str().as_bytes());
        let [a, b, c, d, ..] = *hash.as_bytes();
        let arguments = Value::Object(self.arguments.clone()).to_string();
        Launch {
            javascript: self.reading.javascript.clone(),
            arguments: RawValue::from_string(arguments).expect("a JSON value as text"),
            clock_ms: created.micros() / 1_000,
            seed: u32::from_le_bytes([a, b, c, d]),
        }
    }
}
