//! Who may do what over HTTP: keys and their scopes.

use serde::Deserialize;

/// An API key of the HTTP server, by its hash.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiKey {
    pub name: String,
    /// Hexadecimal BLAKE3 of the key.
    pub hash: String,
    pub scopes: Vec<Scope>,
}

/// A permission of an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Publish,
    Query,
    /// Calls tools of upstream servers and runs workflows.
    Execute,
    /// Approves calls that may destroy something, and plans that are not sure.
    Approve,
    Admin,
}

impl Scope {
    pub fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Query => "query",
            Self::Execute => "execute",
            Self::Approve => "approve",
            Self::Admin => "admin",
        }
    }
}
