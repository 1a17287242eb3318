//! Configuration: one struct per component, defaults from `config/pml.toml` (compiled in), overridden by a file and by the environment.
//! No other module reads settings.

mod code;
mod http;
mod layers;
mod mcp;
mod otlp;
mod upstream;
mod validate;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::Value;

use crate::core::graph::cold_start::ColdStart;
use crate::core::intake::Limits;
use crate::core::redact::Redactor;
pub use code::Code;
pub use http::{ApiKey, Http, Scope};
pub use layers::changed;
use layers::{invalid, merge, nested, read};
pub use mcp::{Expose, Mcp};
pub use otlp::Otlp;
pub use upstream::{Approval, Environment, Execute, Upstream};

/// The default configuration file, which documents every key.
pub const DEFAULTS: &str = include_str!("../config/pml.toml");

/// Prefix of the environment variables that override keys.
const ENV_PREFIX: &str = "PML__";
/// Variable by which other programs find ONNX Runtime; used if `embedding.library` is empty.
const LIBRARY_VARIABLE: &str = "ORT_DYLIB_PATH";
/// Prefixes of the variables that hold regions, endpoints and credentials of object stores.
const OBJECT_STORE_VARIABLES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// A configuration that cannot be read or is not valid.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{origin}: {problem}")]
    Invalid { origin: String, problem: String },
    #[error("{key}: {problem}")]
    Value { key: &'static str, problem: String },
}

/// The configuration of a process.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub workspace: String,
    pub data_dir: PathBuf,
    pub default_server: String,
    pub http: Http,
    pub mcp: Mcp,
    pub otlp: Otlp,
    pub limits: LimitKeys,
    pub log: Log,
    pub dead: Dead,
    pub redact: Redact,
    pub execution: Execution,
    pub trace: Trace,
    pub graph_sync: GraphSync,
    pub embedding: Embedding,
    pub prediction: Prediction,
    pub trainer: Trainer,
    pub graph: Graph,
    pub templates: Templates,
    pub snapshots: Snapshots,
    pub upstream: Upstream,
    pub execute: Execute,
    pub code: Code,
    pub nats: Nats,
}

/// Limits of published events.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LimitKeys {
    pub intent_bytes_max: usize,
    pub text_bytes_max: usize,
    pub json_bytes_max: usize,
    pub string_bytes_max: usize,
    pub steps_max: usize,
    pub dependencies_max: usize,
    pub open_executions_max: usize,
}

impl From<&Config> for Limits {
    fn from(Config { limits: keys, redact, default_server, .. }: &Config) -> Self {
        Self {
            redactor: Redactor::with_extra(&redact.extra).expect("patterns are checked when the configuration is read"),
            default_server: Some(default_server.clone()).filter(|name| !name.is_empty()),
            intent_bytes_max: keys.intent_bytes_max,
            text_bytes_max: keys.text_bytes_max,
            json_bytes_max: keys.json_bytes_max,
            string_bytes_max: keys.string_bytes_max,
            steps_max: keys.steps_max,
            dependencies_max: keys.dependencies_max,
            open_executions_max: keys.open_executions_max,
        }
    }
}

/// Settings of the log.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    pub group_records_max: usize,
    pub queue_appends_max: usize,
    pub free_bytes_min: u64,
    pub hot_records: u64,
    pub hot_days: u64,
    pub archive: String,
}

/// Limits of the dead letters.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Dead {
    pub letters_max: usize,
    pub letter_bytes_max: usize,
    pub bytes_max: u64,
}

/// Settings of the redaction.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Redact {
    pub extra: Vec<String>,
}

/// Settings of the execution actor.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Execution {
    pub mailbox: usize,
    pub queue_events_max: usize,
    pub queue_bytes_max: usize,
    pub reorder_wait_ms: u64,
    pub reorder_events_max: usize,
}

/// Settings of the trace actor.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    pub mailbox: usize,
    pub settle_ms: u64,
    pub late_ms: u64,
    pub abandon_ms: u64,
}

/// Settings of the graph-sync actor.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSync {
    pub mailbox: usize,
    pub batch_records_max: usize,
}

/// Settings of the embedder.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Embedding {
    pub embedder: EmbedderKind,
    pub model_dir: PathBuf,
    pub library: PathBuf,
    pub threads: usize,
    pub batch_texts_max: usize,
}

/// The implementation of the embedder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EmbedderKind {
    Static,
    Onnx,
}

/// Settings of the prediction actor.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    pub serve: Serve,
    pub ranked_max: usize,
    pub waiting_max: usize,
    pub fresh_ms: u64,
    pub mailbox: usize,
}

/// Which executions are served a prediction after each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Serve {
    Asked,
    All,
    None,
}

/// Settings of the trainer.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Trainer {
    pub enabled: bool,
    pub traces_min: u64,
    pub after_traces: u64,
    pub every_s: u64,
    pub core_share: f64,
    pub memory_mb: u64,
}

/// Settings of the graph measures.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    pub measures_every_ms: u64,
    pub category_edges: bool,
    pub similar_edges: bool,
}

impl From<&Graph> for ColdStart {
    fn from(keys: &Graph) -> Self {
        Self { category_edges: keys.category_edges, similar_edges: keys.similar_edges }
    }
}

/// Settings of the workflow templates.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Templates {
    pub path: String,
}

/// Settings of the snapshots.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshots {
    pub url: String,
    pub every_records: u64,
    pub every_s: u64,
    pub keep: usize,
    /// The environment variables of object stores: those that begin with one of [`OBJECT_STORE_VARIABLES`].
    #[serde(skip)]
    pub environment: Vec<(String, Secret)>,
}

impl Snapshots {
    /// The settings of an object store: its region, endpoint and credentials.
    pub(crate) fn object_store_options(&self) -> impl Iterator<Item = (String, String)> {
        self.environment.iter().map(|(name, value)| (name.to_lowercase(), value.reveal().to_owned()))
    }
}

/// Settings of the connection to NATS.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Nats {
    pub servers: Vec<Secret>,
    pub user: String,
    pub password: Secret,
    pub token: Secret,
    pub nkey_seed: Secret,
    pub credentials: PathBuf,
    pub tls_ca: PathBuf,
    pub tls_cert: PathBuf,
    pub tls_key: PathBuf,
    pub tls_required: bool,
    pub replicas: usize,
    pub append: AppendMode,
    pub duplicate_window_s: u64,
    pub intake_events_max: usize,
    pub lease_ms: u64,
}

/// How records are appended to the log stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AppendMode {
    Atomic,
    Pipelined,
}

/// Text that is never printed: keys, passwords, and addresses that may hold them.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(if self.0.is_empty() { "" } else { layers::HIDDEN })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "(none)" } else { "(hidden)" })
    }
}

impl Config {
    /// The settings in force as JSON, for people to look at; secrets are hidden.
    pub fn shown(&self) -> serde_json::Value {
        let mut shown = serde_json::to_value(self).unwrap_or_default();
        layers::hide_shapes(&mut shown);
        shown
    }

    /// Loads the defaults, overridden by `file` if given, then by `PML__SECTION__KEY` from `environment`.
    pub fn load(file: Option<&Path>, environment: impl IntoIterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let mut table = layers::defaults();
        if let Some(path) = file {
            merge(&mut table, read(path)?);
        }
        let (mut library, mut object_stores, mut variables) = (None, Vec::new(), Environment::default());
        for (name, value) in environment {
            variables.add(&name, &value);
            if OBJECT_STORE_VARIABLES.iter().any(|prefix| name.starts_with(prefix)) {
                object_stores.push((name.clone(), Secret::new(value.clone())));
            }
            if name == LIBRARY_VARIABLE {
                library = Some(PathBuf::from(&value));
            }
            if let Some(path) = name.strip_prefix(ENV_PREFIX) {
                merge(&mut table, nested(&path.to_lowercase(), &value).ok_or_else(|| invalid(&name, "names no key"))?);
            }
        }
        let origin = file.map_or_else(|| "configuration".to_owned(), |path| path.display().to_string());
        let mut config: Self =
            Value::Table(table).try_into().map_err(|error: toml::de::Error| invalid(&origin, error.to_string().trim()))?;
        if config.embedding.library.as_os_str().is_empty() {
            config.embedding.library = library.unwrap_or_default();
        }
        config.snapshots.environment = object_stores;
        config.upstream.environment = variables;
        config.validate()?;
        Ok(config)
    }

    /// Returns the text of a valid configuration file with the settings of `file`, overridden by `settings` (dotted keys).
    pub fn overrides(file: Option<&Path>, settings: &[(String, String)]) -> Result<String, ConfigError> {
        let mut overrides = file.map(read).transpose()?.unwrap_or_default();
        for (key, value) in settings {
            let path = key.replace('.', "__");
            merge(&mut overrides, nested(&path, value).ok_or_else(|| invalid(key, "names no key"))?);
        }
        let mut table = layers::defaults();
        merge(&mut table, overrides.clone());
        let config: Self =
            Value::Table(table).try_into().map_err(|error: toml::de::Error| invalid("settings", error.to_string().trim()))?;
        config.validate()?;
        Ok(overrides.to_string())
    }

    /// Returns a copy with the log in `directory` and without NATS servers.
    #[must_use]
    pub fn embedded_in(&self, directory: &Path) -> Self {
        let mut config = Self { data_dir: directory.to_owned(), ..self.clone() };
        config.nats.servers.clear();
        config
    }

    /// Overrides the configured address, under the same rules.
    pub fn set_listen(&mut self, listen: SocketAddr) -> Result<(), ConfigError> {
        self.http.listen = listen;
        self.validate()
    }
}

#[cfg(test)]
mod tests {
    use toml::Table;

    use super::*;

    fn from_env(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::load(None, pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    fn check_refused(pairs: &[(&str, &str)], expected: &str) {
        let error = from_env(pairs).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn the_shipped_file_holds_every_key() {
        let config = from_env(&[]).unwrap();
        assert_eq!(config.http.listen.to_string(), "127.0.0.1:8080");
    }

    #[test]
    fn the_environment_overrides_with_toml_values_or_plain_text() {
        let config = from_env(&[
            ("PML__TRACE__SETTLE_MS", "7"),
            ("PML__WORKSPACE", "lab"),
            ("PML__DATA_DIR", "/tmp/x y"),
            ("PATH", "/bin"),
        ])
        .unwrap();
        assert_eq!((config.trace.settle_ms, config.workspace.as_str()), (7, "lab"));
        assert_eq!(config.data_dir, Path::new("/tmp/x y"));
    }

    #[test]
    fn the_library_of_other_programs_is_used_unless_one_is_configured() {
        let config = from_env(&[("ORT_DYLIB_PATH", "/theirs.so")]).unwrap();
        assert_eq!(config.embedding.library, Path::new("/theirs.so"));
        let config = from_env(&[("PML__EMBEDDING__LIBRARY", "/ours.so"), ("ORT_DYLIB_PATH", "/theirs.so")]).unwrap();
        assert_eq!(config.embedding.library, Path::new("/ours.so"));
    }

    #[test]
    fn overrides_are_a_file_that_says_what_was_set() {
        let set = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            Config::overrides(None, &pairs)
        };
        let text = set(&[("trace.settle_ms", "7"), ("workspace", "lab"), ("trace.late_ms", "9")]).unwrap();
        let expected: Table = "workspace = 'lab'\n[trace]\nsettle_ms = 7\nlate_ms = 9".parse().unwrap();
        assert_eq!(text.parse::<Table>().unwrap(), expected);
        assert!(set(&[("trace.setle_ms", "7")]).unwrap_err().to_string().contains("setle_ms"));
        assert!(set(&[("http.workers", "0")]).unwrap_err().to_string().contains("http.workers: must be at least 1"));
    }

    #[test]
    fn what_is_in_effect_can_be_shown_without_its_secrets() {
        let pairs = [
            ("PML__TRACE__SETTLE_MS", "7"),
            ("PML__NATS__TOKEN", "hunter2"),
            ("PML__NATS__SERVERS", "['nats://me:hunter2@host']"),
        ];
        let environment = || pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let effective = Config::effective(None, environment()).unwrap();
        assert_eq!(effective["trace"]["settle_ms"].as_integer(), Some(7));
        assert_eq!(effective["http"]["workers"].as_integer(), Some(2), "defaults are shown too");
        let shown = changed(&effective).to_string();
        assert!(shown.contains("settle_ms = 7") && !shown.contains("workers") && !shown.contains("hunter2"), "{shown}");
        assert!(Config::effective(None, [("PML__HTTP__WORKERS".to_owned(), "0".to_owned())]).is_err());
    }

    #[test]
    fn secrets_are_not_shown() {
        let config =
            from_env(&[("PML__NATS__PASSWORD", "hunter2"), ("PML__NATS__SERVERS", "['nats://me:hunter2@host']")]).unwrap();
        assert_eq!(config.nats.password.reveal(), "hunter2");
        let shown = format!("{config:?}");
        assert!(shown.contains("password: (hidden)") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn invalid_values_are_refused_by_key() {
        check_refused(&[("PML__TRACE__SETLE_MS", "7")], "setle_ms");
        check_refused(&[("PML__HTTP__WORKERS", "0")], "http.workers: must be at least 1");
        check_refused(&[("PML__HTTP__WORKERS", "513")], "http.workers: must be at most 512");
        check_refused(&[("PML__TRACE__MAILBOX", "9223372036854775807")], "trace.mailbox: must be at most 16777216");
        check_refused(&[("PML__TRAINER__EVERY_S", "9223372036854775807")], "trainer.every_s: must be at most 3162240000");
        check_refused(&[("PML__HTTP__LISTEN", "0.0.0.0:80")], "http.listen: 0.0.0.0:80 is not a loopback address");
        check_refused(&[("PML__LIMITS__STEPS_MAX", "70000")], "limits.steps_max: must be at most 65535");
        check_refused(&[("PML__HTTP__KEYS", "[{name = 'a', hash = 'b', scopes = ['query']}]")], "hash of 'a'");
    }
}
