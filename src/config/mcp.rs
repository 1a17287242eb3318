//! Settings of the MCP gateway.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::validate::require_positive;

/// Least `mcp.answer_bytes_max`.
const ANSWER_BYTES_MIN: usize = 1_024;

/// Settings of the MCP gateway.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Mcp {
    pub expose: Expose,
    pub allowed_hosts: Vec<String>,
    pub sessions_max: usize,
    pub session_idle_s: u64,
    pub execution_idle_ms: u64,
    pub answer_bytes_max: usize,
    pub pages_bytes_max: usize,
    pub redact_results: bool,
}

impl Mcp {
    /// Returns the first setting that cannot work. `has_keys` says whether there are API keys.
    pub(super) fn validate(&self, has_keys: bool) -> Result<(), ConfigError> {
        let refused = |key, problem: String| Err(ConfigError::Value { key, problem });
        let positive = [
            ("mcp.sessions_max", self.sessions_max as u64),
            ("mcp.session_idle_s", self.session_idle_s),
            ("mcp.execution_idle_ms", self.execution_idle_ms),
        ];
        require_positive(positive)?;
        if self.answer_bytes_max < ANSWER_BYTES_MIN {
            let problem = format!("must be at least {ANSWER_BYTES_MIN}: an answer would hold next to nothing");
            return refused("mcp.answer_bytes_max", problem);
        }
        if self.allowed_hosts.iter().any(|host| host == "*") && !has_keys {
            let problem = "allows every host, which needs API keys; make one with `pml key` first".to_owned();
            return refused("mcp.allowed_hosts", problem);
        }
        Ok(())
    }
}

/// Which tools of other servers are listed beside pml's own. All that are offered can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum Expose {
    Meta,
    All,
    /// The ones that were used most.
    Top(usize),
}

impl FromStr for Expose {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = |text: &str| text.parse().ok().filter(|count| *count > 0).map(Self::Top);
        match text {
            "meta" => Ok(Self::Meta),
            "all" => Ok(Self::All),
            _ => text.strip_prefix("top-").and_then(count).ok_or_else(|| format!("'{text}' is not meta, all or top-N")),
        }
    }
}

impl TryFrom<String> for Expose {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Expose> for String {
    fn from(expose: Expose) -> Self {
        expose.to_string()
    }
}

impl fmt::Display for Expose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Meta => f.write_str("meta"),
            Self::All => f.write_str("all"),
            Self::Top(count) => write!(f, "top-{count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_exposed_is_read_as_it_is_written() {
        for text in ["meta", "all", "top-20"] {
            assert_eq!(text.parse::<Expose>().unwrap().to_string(), text);
        }
        for text in ["", "top", "top-", "top-0", "top--1", "none"] {
            assert_eq!(text.parse::<Expose>(), Err(format!("'{text}' is not meta, all or top-N")));
        }
    }
}
