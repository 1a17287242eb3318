//! What a run executes: a workflow, or a program.

use serde_json::{Map, Value};

use super::RunError;
use super::code::Program;
use super::run::Run;
use crate::core::capability::Capability;
use crate::core::state::State;
use crate::core::workflow::{Workflow, capability};

/// What a run executes.
#[derive(Clone, Debug)]
pub enum Work {
    Workflow(Workflow),
    Program(Box<Program>),
}

impl From<Workflow> for Work {
    fn from(workflow: Workflow) -> Self {
        Self::Workflow(workflow)
    }
}

impl From<Program> for Work {
    fn from(program: Program) -> Self {
        Self::Program(Box::new(program))
    }
}

impl Work {
    /// The program of a capability, or else the workflow of its structure.
    pub(super) fn found(
        state: &State,
        found: &Capability,
        arguments: &Map<String, Value>,
        tasks_max: usize,
    ) -> Result<Self, RunError> {
        match Program::of_capability(state, found, arguments)? {
            Some(program) => Ok(program.into()),
            None => Ok(capability::workflow(state, found, arguments, tasks_max)?.into()),
        }
    }

    /// Whether the run executes the same.
    pub(super) fn is_that_of(&self, run: &Run) -> bool {
        match (self, &run.head.program) {
            (Self::Program(own), Some(other)) => **own == *other.program,
            (Self::Workflow(own), None) => *own == run.head.workflow,
            _ => false,
        }
    }
}

/// What a capability is for, for a run without an intent.
pub(super) fn words(capability: &Capability) -> String {
    let Capability { name, description, .. } = capability;
    if description.is_empty() { name.clone() } else { description.clone() }
}

impl Run {
    /// What it executes.
    pub(super) fn work(&self) -> Work {
        match &self.head.program {
            Some(own) => Program::clone(&own.program).into(),
            None => self.head.workflow.clone().into(),
        }
    }
}
