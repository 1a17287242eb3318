//! Settings of the HTTP server and its API keys.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::ConfigError;

/// Settings of the HTTP server.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    pub listen: SocketAddr,
    pub workers: usize,
    pub body_bytes_max: usize,
    pub body_timeout_ms: u64,
    pub batch_events_max: usize,
    pub streams_max: usize,
    pub cors_origins: Vec<String>,
    pub keys: Vec<ApiKey>,
}

/// An API key of the HTTP server, by its hash.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ApiKey {
    pub name: String,
    /// Hexadecimal BLAKE3 of the key.
    #[serde(skip_serializing)]
    pub hash: String,
    pub scopes: Vec<Scope>,
}

/// A permission of an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
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
    pub const ALL: [Self; 5] = [Self::Publish, Self::Query, Self::Execute, Self::Approve, Self::Admin];

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

impl Http {
    /// Returns the first setting that cannot work, by its key.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.body_timeout_ms == 0 {
            let problem = "must be at least 1: no body could arrive in time".to_owned();
            return Err(ConfigError::Value { key: "http.body_timeout_ms", problem });
        }
        if !self.listen.ip().is_loopback() && self.keys.is_empty() {
            let problem = format!("{} is not a loopback address; make an API key with `pml key` first", self.listen);
            return Err(ConfigError::Value { key: "http.listen", problem });
        }
        for key in &self.keys {
            if blake3::Hash::from_hex(&key.hash).is_err() {
                let problem = format!("hash of '{}' is not 64 hexadecimal digits; `pml key` prints it", key.name);
                return Err(ConfigError::Value { key: "http.keys", problem });
            }
        }
        self.validate_origins()
    }

    /// Returns the first origin that cannot work.
    fn validate_origins(&self) -> Result<(), ConfigError> {
        let wrong = |problem: String| Err(ConfigError::Value { key: "http.cors_origins", problem });
        for origin in &self.cors_origins {
            let host = origin.split_once("://").map(|(_, host)| host);
            if origin == "*" && self.keys.is_empty() {
                return wrong("allows any page, which needs API keys; make one with `pml key`, or name the origins".to_owned());
            }
            if origin != "*" && host.is_none_or(|host| host.is_empty() || host.contains('/')) {
                return wrong(format!("'{origin}' is no origin such as https://app.example.com"));
            }
        }
        Ok(())
    }
}
