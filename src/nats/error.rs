//! The errors of connecting to NATS and of its streams and work queue.

use super::Difference;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why an operation on NATS failed.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    #[error("nats.{key}: {problem}")]
    Setting { key: &'static str, problem: String },
    #[error("cannot reach NATS at {servers}; start nats-server there, or name another with --nats or nats.servers")]
    Connect {
        servers: String,
        #[source]
        source: Source,
    },
    #[error(
        "{servers} refused the login; check the user and password in the URL, or nats.user, nats.token, nats.nkey_seed, nats.credentials"
    )]
    Login {
        servers: String,
        #[source]
        source: Source,
    },
    #[error("{servers} runs nats-server {found}; pml needs 2.12 or newer, because older ones ignore settings of streams")]
    TooOld { servers: String, found: String },
    #[error("{servers} runs without JetStream; start nats-server with -js or a jetstream section")]
    NoJetStream { servers: String },
    #[error("cannot create or inspect the stream {stream}")]
    Stream {
        stream: String,
        #[source]
        source: Source,
    },
    #[error("the stream {stream} exists with other settings: {}", list(differences))]
    Different { stream: String, differences: Vec<Difference> },
    #[error("the work queue did not accept the events; sending them again is safe")]
    Queue(#[source] Source),
    #[error("cannot ask which processes of pml are connected")]
    Presence(#[source] Source),
    #[error("cannot start the threads of the NATS client")]
    Threads(#[source] std::io::Error),
}

fn list(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
