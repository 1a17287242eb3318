//! Validation of the configuration: ranges of values, and settings that depend on each other.

use super::{Config, ConfigError};
use crate::core::id::ToolId;
use crate::core::redact::Redactor;
use crate::files::Place;

/// Least `nats.lease_ms`: a shorter lease would expire whenever a server is busy.
const LEASE_MS_MIN: u64 = 500;

/// Most workers that the HTTP server can have.
const WORKERS_MAX: usize = 512;
/// Most messages of a queue, and calls at the same time: far more than are of use, and as many as the queues can count.
const QUEUE_MAX: usize = 1 << 24;
/// Longest pause, in seconds: a hundred years. Moments further away cannot be computed with.
const PAUSE_S_MAX: u64 = 100 * 366 * 24 * 60 * 60;

/// Refuses the first value above its maximum, by its key.
fn require_at_most<T: PartialOrd + std::fmt::Display>(
    max: T,
    values: impl IntoIterator<Item = (&'static str, T)>,
) -> Result<(), ConfigError> {
    match values.into_iter().find(|(_, value)| *value > max) {
        Some((key, _)) => Err(ConfigError::Value { key, problem: format!("must be at most {max}") }),
        None => Ok(()),
    }
}

/// Refuses the first value that is zero, by its key.
pub(super) fn require_positive<T: Default + PartialEq>(
    values: impl IntoIterator<Item = (&'static str, T)>,
) -> Result<(), ConfigError> {
    match values.into_iter().find(|(_, value)| *value == T::default()) {
        Some((key, _)) => Err(ConfigError::Value { key, problem: "must be at least 1".to_owned() }),
        None => Ok(()),
    }
}

impl Config {
    /// Returns the first setting that cannot work, by its key.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let positive = [
            ("http.workers", self.http.workers),
            ("http.body_bytes_max", self.http.body_bytes_max),
            ("http.batch_events_max", self.http.batch_events_max),
            ("limits.steps_max", self.limits.steps_max),
            ("limits.dependencies_max", self.limits.dependencies_max),
            ("limits.open_executions_max", self.limits.open_executions_max),
            ("log.group_records_max", self.log.group_records_max),
            ("log.queue_appends_max", self.log.queue_appends_max),
            ("dead.letter_bytes_max", self.dead.letter_bytes_max),
            ("execution.mailbox", self.execution.mailbox),
            ("execution.queue_events_max", self.execution.queue_events_max),
            ("execution.queue_bytes_max", self.execution.queue_bytes_max),
            ("trace.mailbox", self.trace.mailbox),
            ("graph_sync.mailbox", self.graph_sync.mailbox),
            ("graph_sync.batch_records_max", self.graph_sync.batch_records_max),
            ("embedding.threads", self.embedding.threads),
            ("embedding.batch_texts_max", self.embedding.batch_texts_max),
            ("snapshots.keep", self.snapshots.keep),
            ("prediction.ranked_max", self.prediction.ranked_max),
            ("prediction.waiting_max", self.prediction.waiting_max),
            ("prediction.mailbox", self.prediction.mailbox),
            ("nats.replicas", self.nats.replicas),
            ("nats.intake_events_max", self.nats.intake_events_max),
        ];
        require_positive(positive)?;
        self.validate_queues()?;
        if let Err(problem) = Place::at(&self.log.archive, self.snapshots.object_store_options()) {
            return Err(ConfigError::Value { key: "log.archive", problem: format!("'{}': {problem}", self.log.archive) });
        }
        self.validate_default_server()?;
        self.validate_trainer()?;
        self.mcp.validate(!self.http.keys.is_empty())?;
        self.validate_upstream()?;
        self.otlp.validate()?;
        self.code.validate()?;
        // The data flow of a capability is stored as pairs of 16-bit positions.
        require_at_most(usize::from(u16::MAX), [("limits.steps_max", self.limits.steps_max)])?;
        if self.nats.lease_ms < LEASE_MS_MIN {
            let problem = format!("must be at least {LEASE_MS_MIN}: the holder writes several times in it");
            return Err(ConfigError::Value { key: "nats.lease_ms", problem });
        }
        if self.execution.queue_events_max < self.http.batch_events_max {
            let problem = "must be at least http.batch_events_max, or full batches could never be taken".to_owned();
            return Err(ConfigError::Value { key: "execution.queue_events_max", problem });
        }
        if self.dead.bytes_max < self.dead.letter_bytes_max as u64 {
            let problem = "must be at least dead.letter_bytes_max, or a long letter could never be kept".to_owned();
            return Err(ConfigError::Value { key: "dead.bytes_max", problem });
        }
        self.http.validate()?;
        if let Err(error) = Redactor::with_extra(&self.redact.extra) {
            return Err(ConfigError::Value { key: "redact.extra", problem: error.to_string() });
        }
        Ok(())
    }

    fn validate_queues(&self) -> Result<(), ConfigError> {
        require_at_most(WORKERS_MAX, [("http.workers", self.http.workers)])?;
        let queues = [
            ("log.queue_appends_max", self.log.queue_appends_max),
            ("execution.mailbox", self.execution.mailbox),
            ("trace.mailbox", self.trace.mailbox),
            ("graph_sync.mailbox", self.graph_sync.mailbox),
            ("prediction.mailbox", self.prediction.mailbox),
            ("execute.runs_max", self.execute.runs_max),
            ("execute.parallel_max", self.execute.parallel_max),
            ("upstream.concurrency", self.upstream.concurrency),
            ("code.processes_max", self.code.processes_max),
        ];
        require_at_most(QUEUE_MAX, queues)?;
        let pauses = [("trainer.every_s", self.trainer.every_s), ("snapshots.every_s", self.snapshots.every_s)];
        require_at_most(PAUSE_S_MAX, pauses)
    }

    fn validate_default_server(&self) -> Result<(), ConfigError> {
        if !self.default_server.is_empty() && format!("{}:x", self.default_server).parse::<ToolId>().is_err() {
            let problem = format!("'{}' cannot be the server of a tool id server:name", self.default_server);
            return Err(ConfigError::Value { key: "default_server", problem });
        }
        Ok(())
    }

    fn validate_upstream(&self) -> Result<(), ConfigError> {
        let (upstream, execute) = (&self.upstream, &self.execute);
        let positive = [
            ("upstream.connect_timeout_ms", upstream.connect_timeout_ms),
            ("upstream.call_timeout_ms", upstream.call_timeout_ms),
            ("upstream.reconnect_ms_max", upstream.reconnect_ms_max),
            ("upstream.concurrency", upstream.concurrency as u64),
            ("upstream.waiting_max", upstream.waiting_max as u64),
            ("upstream.message_bytes_max", upstream.message_bytes_max as u64),
            ("upstream.tools_max", upstream.tools_max as u64),
            ("execute.runs_max", execute.runs_max as u64),
            ("execute.parallel_max", execute.parallel_max as u64),
            ("execute.results_bytes_max", execute.results_bytes_max as u64),
        ];
        require_positive(positive)
    }

    fn validate_trainer(&self) -> Result<(), ConfigError> {
        let trainer = &self.trainer;
        let positive = [
            ("trainer.traces_min", trainer.traces_min),
            ("trainer.after_traces", trainer.after_traces),
            ("trainer.memory_mb", trainer.memory_mb),
        ];
        require_positive(positive)?;
        if !(trainer.core_share > 0.0 && trainer.core_share <= 1.0) {
            let problem = "must be above 0 and at most 1: the share of one core".to_owned();
            return Err(ConfigError::Value { key: "trainer.core_share", problem });
        }
        Ok(())
    }
}
