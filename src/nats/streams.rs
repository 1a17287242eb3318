//! The streams of a workspace: their settings, and how those of existing streams differ.

use std::fmt;
use std::time::Duration;

use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, ErrorCode};

use super::NatsError;
use crate::config;
use crate::subject::Subjects;

/// Attempts to create a stream: a cluster that has just elected a leader may not answer at once.
const ATTEMPTS_MAX: u32 = 20;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(500);

/// The streams of a workspace, by purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// The work queue: events published by agents, until the execution actor has acknowledged them.
    In,
    /// The log of record.
    Log,
    /// Refused events.
    Dead,
}

impl StreamKind {
    fn word(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Log => "log",
            Self::Dead => "dead",
        }
    }

    /// Returns the stream's name. The kind comes last, so that no two workspaces share a name.
    pub(super) fn name(self, subjects: &Subjects) -> String {
        format!("pml_{}_{}", subjects.workspace(), self.word())
    }
}

/// A setting of a stream that differs from what pml needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    setting: &'static str,
    wanted: String,
    found: String,
}

impl Difference {
    /// Returns whether the setting only limits the size of the stream.
    fn is_size_limit(&self) -> bool {
        ["max_msgs", "max_bytes"].contains(&self.setting)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, pml needs {}", self.setting, self.found, self.wanted)
    }
}

/// Returns the settings that the streams of a workspace must have.
pub(super) fn wanted(subjects: &Subjects, settings: &config::Nats, dead: &config::Dead, log: &config::Log) -> Vec<Config> {
    let base = |kind: StreamKind, description: &str| Config {
        name: kind.name(subjects),
        subjects: vec![subjects.all(kind.word()).to_string()],
        description: Some(description.to_owned()),
        storage: StorageType::File,
        num_replicas: settings.replicas,
        duplicate_window: Duration::from_secs(settings.duplicate_window_s),
        max_messages: -1,
        max_bytes: -1,
        max_messages_per_subject: -1,
        max_consumers: -1,
        allow_direct: true,
        ..Config::default()
    };
    vec![
        Config { retention: RetentionPolicy::WorkQueue, ..base(StreamKind::In, "pml: what agents publish") },
        Config {
            retention: RetentionPolicy::Limits,
            allow_atomic_publish: true,
            deny_delete: true,
            // Tiering removes records that the archive holds.
            deny_purge: log.hot_records == 0 && log.hot_days == 0,
            ..base(StreamKind::Log, "pml: the log of record, written by pml only")
        },
        Config {
            retention: RetentionPolicy::Limits,
            discard: DiscardPolicy::Old,
            max_messages: i64::try_from(dead.letters_max).unwrap_or(i64::MAX),
            max_bytes: i64::try_from(dead.bytes_max).unwrap_or(i64::MAX),
            ..base(StreamKind::Dead, "pml: refused events")
        },
    ]
}

/// Creates the stream if it is missing. Fails with the differences if it exists with other settings.
pub(super) async fn ensure(jetstream: &jetstream::Context, wanted: Config) -> Result<(), NatsError> {
    let stream = wanted.name.clone();
    let mut attempt = 0;
    loop {
        attempt += 1;
        let outcome = match jetstream.get_stream(&stream).await {
            Ok(found) => match differences(&wanted, &found.cached_info().config) {
                found if found.is_empty() => return Ok(()),
                // The limits of the dead letters may be configured differently from one start to the next.
                found if found.iter().all(Difference::is_size_limit) && wanted.max_bytes > 0 => {
                    jetstream.update_stream(&wanted).await.map(drop).map_err(Into::into)
                }
                differences => return Err(NatsError::Different { stream, differences }),
            },
            Err(error) if is_missing(&error) => jetstream.create_stream(&wanted).await.map(drop).map_err(Into::into),
            Err(error) => Err(error.into()),
        };
        match outcome {
            Ok(()) => return Ok(()),
            Err(source) if attempt == ATTEMPTS_MAX => return Err(NatsError::Stream { stream, source }),
            // Another process may have created it meanwhile, or the cluster has no leader yet.
            Err(_) => tokio::time::sleep(ATTEMPT_PAUSE).await,
        }
    }
}

fn is_missing(error: &GetStreamError) -> bool {
    matches!(error.kind(), GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

fn differences(wanted: &Config, found: &Config) -> Vec<Difference> {
    fn shown(config: &Config) -> [(&'static str, String); 12] {
        // Servers print "no limit" as 0 or -1.
        let limit = |value: i64| if value <= 0 { "unlimited".to_owned() } else { value.to_string() };
        [
            ("subjects", config.subjects.join(", ")),
            ("retention", format!("{:?}", config.retention).to_lowercase()),
            ("storage", format!("{:?}", config.storage).to_lowercase()),
            ("replicas", config.num_replicas.to_string()),
            ("duplicate_window", format!("{} s", config.duplicate_window.as_secs())),
            ("max_msgs", limit(config.max_messages)),
            ("max_bytes", limit(config.max_bytes)),
            ("max_age", format!("{} s", config.max_age.as_secs())),
            ("allow_atomic", config.allow_atomic_publish.to_string()),
            ("allow_direct", config.allow_direct.to_string()),
            ("deny_delete", config.deny_delete.to_string()),
            ("deny_purge", config.deny_purge.to_string()),
        ]
    }
    let pairs = shown(wanted).into_iter().zip(shown(found));
    // A stream that tiering was once turned on for may be used without it.
    let is_allowed = |setting: &str| setting == "deny_purge" && !found.deny_purge;
    let differing = pairs.filter(|((setting, wanted), (_, found))| wanted != found && !is_allowed(setting));
    differing.map(|((setting, wanted), (_, found))| Difference { setting, wanted, found }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Config {
        let subjects = Subjects::new("a".parse().unwrap());
        let config = crate::config::Config::load(None, []).unwrap();
        wanted(&subjects, &config.nats, &config.dead, &config.log).remove(1)
    }

    #[test]
    fn each_setting_that_differs_is_named() {
        assert_eq!(differences(&log(), &log()), []);
        let found = Config { num_replicas: 3, max_age: Duration::from_mins(1), max_messages: 0, ..log() };
        let error = NatsError::Different { stream: "pml_a_log".to_owned(), differences: differences(&log(), &found) };
        assert_eq!(
            error.to_string(),
            "the stream pml_a_log exists with other settings: replicas is 3, pml needs 1; max_age is 60 s, pml needs 0 s"
        );
    }
}
