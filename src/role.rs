//! Roles say which parts of pml a process runs: `pml serve --nats URL --roles execution,trace`.
//!
//! Every process folds the log itself, because all roles need the state. A role says what the process does besides.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// One part of pml that a process can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Accepts events from the work queue and over HTTP and appends them. One process per workspace.
    Execution,
    /// Closes executions. Several processes are harmless: closing an execution again is a duplicate.
    Trace,
    /// Records workflow templates and publishes notices of what was learnt. One process per workspace; more repeat the notices.
    GraphSync,
    /// Computes the vectors of texts. Several processes repeat some work.
    Embedding,
    /// Publishes predictions for live executions. One process is enough; with several, subscribers get each prediction several times.
    Prediction,
    /// Trains the parts of the model and records the runs. One process per workspace.
    Trainer,
    /// Answers questions over NATS. Any number of processes.
    Query,
    /// Runs the MCP servers and executes workflows. One process per workspace.
    Upstream,
}

impl Role {
    pub const ALL: [Self; 8] = [
        Self::Execution,
        Self::Trace,
        Self::GraphSync,
        Self::Embedding,
        Self::Prediction,
        Self::Trainer,
        Self::Query,
        Self::Upstream,
    ];

    /// What does not happen while no process has the role.
    pub fn missing_means(self) -> &'static str {
        match self {
            Self::Execution => "events stay in the work queue, and HTTP answers publishing with 503",
            Self::Trace => "executions are not closed, so nothing is learnt from them",
            Self::GraphSync => "workflow templates are not recorded and notices are not published",
            Self::Embedding => "new texts get no vectors, so they are found by words only",
            Self::Prediction => "no predictions are published for live executions",
            Self::Trainer => "no part of the model is trained",
            Self::Query => "questions on pml.<ws>.q.* are not answered; HTTP answers them",
            Self::Upstream => "MCP servers are not run and workflows are not executed",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Execution => "execution",
            Self::Trace => "trace",
            Self::GraphSync => "graph-sync",
            Self::Embedding => "embedding",
            Self::Prediction => "prediction",
            Self::Trainer => "trainer",
            Self::Query => "query",
            Self::Upstream => "upstream",
        }
    }
}

/// A text that names no role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no role; this program has {known}", known = Roles::all())]
pub struct UnknownRole(String);

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        Self::ALL.into_iter().find(|role| role.name() == text).ok_or_else(|| UnknownRole(text.to_owned()))
    }
}

/// The roles of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles(BTreeSet<Role>);

impl Roles {
    pub fn all() -> Self {
        Self(Role::ALL.into())
    }

    pub fn contains(&self, role: Role) -> bool {
        self.0.contains(&role)
    }

    pub fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|role| role.name()).collect()
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Self {
        Self(roles.into_iter().collect())
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_role_is_an_error_that_lists_the_known_ones() {
        assert_eq!("graph-sync".parse(), Ok(Role::GraphSync));
        assert_eq!(
            "cook".parse::<Role>().unwrap_err().to_string(),
            "'cook' is no role; this program has execution, trace, graph-sync, embedding, prediction, trainer, query, upstream"
        );
    }
}
