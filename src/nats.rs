//! The connection to NATS and the parts that several adapters share: the streams of a workspace (`streams`), leases (`lease`), which
//! processes run (`presence`), sending to the work queue (`queue`), and what is lost with a connection (`connection`). The log
//! on NATS is `log::jetstream`, the bus `bus::nats`, the gateway `gateway::nats`.
//!
//! The client runs on threads of its own. An actix arbiter is one thread: a client there would stop whenever that arbiter is busy, and
//! end with it.

mod connect;
pub(crate) mod connection;
mod error;
mod lease;
mod presence;
mod queue;
mod streams;

use std::sync::Arc;

use async_nats::jetstream;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::config;
use crate::subject::Subjects;
pub use error::NatsError;
pub use lease::Lease;
pub use presence::ProcessInfo;
pub use queue::{Queued, Repeats};
pub use streams::{Difference, StreamKind};

/// The oldest supported server version; older servers silently ignore stream settings that pml needs.
const SERVER_VERSION_MIN: (u32, u32) = (2, 12);
/// Threads of the client: one reads the socket while the other handles messages.
const WORKER_THREADS: usize = 2;

/// A connection and its threads. Cheap to clone; the threads end with the last clone.
#[derive(Clone)]
pub struct Nats {
    inner: Arc<Inner>,
}

struct Inner {
    client: async_nats::Client,
    jetstream: jetstream::Context,
    subjects: Subjects,
    settings: config::Nats,
    threads: Option<tokio::runtime::Runtime>,
}

impl Nats {
    /// Connects, and refuses servers that are too old or lack JetStream. Creates nothing on the server.
    pub async fn connect(settings: &config::Nats, subjects: Subjects) -> Result<Self, NatsError> {
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKER_THREADS)
            .thread_name("pml-nats")
            .enable_all()
            .build()
            .map_err(NatsError::Threads)?;
        let connecting = threads.spawn(connect::connect(settings.clone()));
        // Guarded, so that a failure below ends the threads without waiting for them.
        let mut threads = RuntimeGuard(Some(threads));
        let client = connecting.await.expect("connecting does not panic")?;
        let jetstream = jetstream::context::ContextBuilder::new()
            .timeout(std::time::Duration::from_secs(5))
            .max_ack_inflight(connect::PENDING_ACKS_MAX)
            .build(client.clone());
        let inner = Inner { client, jetstream, subjects, settings: settings.clone(), threads: threads.0.take() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Creates the streams of the workspace, or checks the settings of existing ones.
    pub async fn provision(&self, dead: &config::Dead, log: &config::Log) -> Result<(), NatsError> {
        let wanted = streams::wanted(&self.inner.subjects, &self.inner.settings, dead, log);
        let jetstream = self.inner.jetstream.clone();
        self.run(async move {
            for config in wanted {
                streams::ensure(&jetstream, config).await?;
            }
            Ok(())
        })
        .await
    }

    /// Runs `work` on the client's threads and returns its result.
    pub(crate) fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> BoxFuture<'static, T> {
        let running = self.spawn(work);
        async { running.await.expect("work on the client's threads does not panic") }.boxed()
    }

    /// Spawns a task on the client's threads.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.inner.threads.as_ref().expect("present until dropped").spawn(work)
    }

    pub fn client(&self) -> &async_nats::Client {
        &self.inner.client
    }

    pub fn jetstream(&self) -> &jetstream::Context {
        &self.inner.jetstream
    }

    pub fn subjects(&self) -> &Subjects {
        &self.inner.subjects
    }

    pub fn settings(&self) -> &config::Nats {
        &self.inner.settings
    }

    /// Returns the name of a stream of this workspace.
    pub fn stream_name(&self, kind: StreamKind) -> String {
        kind.name(&self.inner.subjects)
    }

    /// Returns the server's version and, if it is part of one, the name of its cluster.
    pub fn server(&self) -> (String, Option<String>) {
        let info = self.inner.client.server_info();
        (info.version, info.cluster)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        drop(RuntimeGuard(self.threads.take()));
    }
}

/// Ends a runtime on drop without waiting for its tasks, which is allowed on any thread.
struct RuntimeGuard(Option<tokio::runtime::Runtime>);

impl Drop for RuntimeGuard {
    fn drop(&mut self) {
        if let Some(threads) = self.0.take() {
            threads.shutdown_background();
        }
    }
}
