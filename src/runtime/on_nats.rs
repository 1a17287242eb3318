//! A process on NATS: what it runs besides the actors, how it starts and how it stops.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::watch;

use super::leases::Leases;
use super::{Environment, Runtime, StartError, subjects};
use crate::actors::ActorFailure;
use crate::bus::NatsBus;
use crate::clock::Clock;
use crate::config::Config;
use crate::core::intake::Limits;
use crate::data_dir::stream_options;
use crate::gateway;
use crate::gateway::nats::{IntakeParts, RunsParts, Service};
use crate::lease::while_leased;
use crate::log::{JetStreamLog, SharedLog, StreamDeadLetters};
use crate::nats::{Nats, ProcessInfo};
use crate::role::{Role, Roles};

/// Longest time for an orderly stop. Nothing is lost beyond it: events that were not acknowledged are delivered again.
const STOP_MAX: Duration = Duration::from_secs(3);

/// What a process on NATS runs besides the actors.
#[derive(Default)]
pub(super) struct OnNats {
    intake: Option<LeasedTask>,
    runs: Option<LeasedTask>,
    service: Option<Service>,
    presence: Option<tokio::task::JoinHandle<()>>,
}

/// A task that works while this process holds a lease. It has a stop signal of its own because it ends before the actors do.
struct LeasedTask {
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<Result<(), ActorFailure>>,
}

impl Runtime {
    /// Connects to NATS, creates or checks the streams, and starts the actors of `roles` with their NATS gateways.
    pub async fn start_on_nats(config: &Config, clock: Clock, roles: Roles) -> Result<Self, StartError> {
        let nats = Nats::connect(&config.nats, subjects(config)?).await?;
        nats.provision(&config.dead, &config.log).await?;
        let log = Arc::new(JetStreamLog::open(nats.clone(), stream_options(config, true), clock.clone()).await?);
        let environment = Environment {
            log: Arc::clone(&log) as SharedLog,
            hot: Some(log),
            dead: Arc::new(StreamDeadLetters::new(nats.clone(), clock.clone(), Limits::from(config).redactor)),
            bus: Arc::new(NatsBus::new(nats.clone())),
            subjects: nats.subjects().clone(),
            leases: Leases::request(&nats, &config.nats, &roles, &clock).await?,
            clock,
            roles,
            queue: Some(nats.clone()),
        };
        let mut runtime = Self::start_actors(config, environment).await?;
        let mut on_nats = OnNats::default();
        if runtime.roles.contains(Role::Execution) {
            on_nats.intake = Some(runtime.start_intake(&nats));
        }
        if runtime.roles.contains(Role::Upstream) {
            on_nats.runs = Some(runtime.start_runs(&nats));
        }
        if runtime.roles.contains(Role::Query) {
            let redactor = &runtime.publisher.limits().redactor;
            let service = Service::start(&nats, &runtime.views, &runtime.asker, redactor).await;
            on_nats.service = Some(service.map_err(StartError::Service)?);
        }
        let roles = runtime.roles.names().into_iter().map(str::to_owned).collect();
        let info = ProcessInfo { process: std::process::id(), version: env!("CARGO_PKG_VERSION").to_owned(), roles };
        on_nats.presence = Some(nats.announce(&info).await?);
        runtime.nats = Some(on_nats);
        Ok(runtime)
    }

    /// Starts to read the work queue while this process holds the lease of the role `execution`.
    fn start_intake(&self, nats: &Nats) -> LeasedTask {
        let (queue, publisher) = (nats.clone(), self.publisher.clone());
        self.start_leased(nats, Role::Execution, move |stop| {
            gateway::nats::run_intake(IntakeParts { nats: queue.clone(), publisher: publisher.clone(), stop })
        })
    }

    /// Starts to answer requests for runs while this process holds the lease of the role `upstream`.
    fn start_runs(&self, nats: &Nats) -> LeasedTask {
        let (requests, runner) = (nats.clone(), self.runner.clone());
        self.start_leased(nats, Role::Upstream, move |stop| {
            gateway::nats::serve_runs(RunsParts { nats: requests.clone(), runner: runner.clone(), stop })
        })
    }

    /// Starts a task that does `work` while this process holds the lease of `role`.
    fn start_leased<Work>(
        &self,
        nats: &Nats,
        role: Role,
        work: impl Fn(watch::Receiver<bool>) -> Work + Send + 'static,
    ) -> LeasedTask
    where
        Work: Future<Output = ()> + Send + 'static,
    {
        let (stop, stopping) = watch::channel(false);
        let working = while_leased(self.leases.state(role), stopping, move |end| work(end).map(Ok));
        LeasedTask { stop, task: nats.spawn(working) }
    }
}

/// Stops the gateways, then the actors, within [`STOP_MAX`].
pub(super) async fn stop(runtime: &mut Runtime, OnNats { intake, runs, service, presence }: OnNats) {
    let stopping = async {
        if let Some(presence) = presence {
            presence.abort();
        }
        if let Some(service) = service {
            service.stop().await;
        }
        // The events of the work queue that were handed over get their verdicts and acknowledgements first.
        for LeasedTask { stop, task } in [runs, intake].into_iter().flatten() {
            stop.send_replace(true);
            if task.await.is_err() {
                tracing::error!("a task of the NATS gateway had panicked");
            }
        }
        runtime.stop_actors().await;
    };
    if tokio::time::timeout(STOP_MAX, stopping).await.is_err() {
        tracing::warn!("NATS does not answer; stopping without it; events that were not acknowledged will be delivered again");
    }
}
