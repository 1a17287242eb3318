//! What one process does of the whole: `pml serve --nats URL --roles execution,trace`.
//!
//! Every process folds the log for itself: whoever admits, closes or answers needs the state. A role says what else it does.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Takes events, from the work queue and over HTTP, and appends them. One process per workspace.
    Execution,
    /// Closes executions. Several are harmless: the second closing of an execution is a duplicate.
    Trace,
    /// Records workflow templates and tells subscribers what was learnt. One process per workspace, or notices come twice.
    GraphSync,
    /// Gives texts their vectors. Several only do some work twice.
    Embedding,
    /// Tells live executions what comes next. One is enough; with several, subscribers hear each prediction from each.
    Prediction,
    /// Answers questions over NATS. As many as wanted.
    Query,
}

/// Named in the design, not part of this program.
const NOT_BUILT: [&str; 1] = ["trainer"];

impl Role {
    pub const ALL: [Self; 6] = [Self::Execution, Self::Trace, Self::GraphSync, Self::Embedding, Self::Prediction, Self::Query];

    pub fn name(self) -> &'static str {
        match self {
            Self::Execution => "execution",
            Self::Trace => "trace",
            Self::GraphSync => "graph-sync",
            Self::Embedding => "embedding",
            Self::Prediction => "prediction",
            Self::Query => "query",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownRole {
    #[error("the role '{0}' is not built yet; this program has {known}", known = Roles::all())]
    NotBuilt(String),
    #[error("'{0}' is no role; this program has {known}", known = Roles::all())]
    Unknown(String),
}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        match Self::ALL.into_iter().find(|role| role.name() == text) {
            Some(role) => Ok(role),
            None if NOT_BUILT.contains(&text) => Err(UnknownRole::NotBuilt(text.to_owned())),
            None => Err(UnknownRole::Unknown(text.to_owned())),
        }
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
    fn a_role_that_is_not_there_is_an_error_that_says_which_are() {
        let problem = |text: &str| text.parse::<Role>().unwrap_err().to_string();
        assert_eq!("graph-sync".parse(), Ok(Role::GraphSync));
        assert_eq!(
            problem("trainer"),
            "the role 'trainer' is not built yet; this program has execution, trace, graph-sync, embedding, prediction, query"
        );
        assert_eq!(
            problem("cook"),
            "'cook' is no role; this program has execution, trace, graph-sync, embedding, prediction, query"
        );
    }
}
