//! A simulated process: the product's actors and publisher on simulated ports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use super::life::Life;
use super::ports::{SimBus, SimDeadLetters, SimLog};
use super::scenario::Bug;
use super::world::Shared;
use super::{executor, lease};
use super::{tiering, trainer};
use crate::actors::ActorFailure;
use crate::actors::announce::Announcements;
use crate::actors::burst::Burst;
use crate::actors::execution::{self, ExecutionParts};
use crate::actors::graph_sync::{self, GraphSyncParts};
use crate::actors::supervisor::{Reports, supervise};
use crate::actors::trace::{self, TraceParts};
use crate::bus::{MemoryBus, SharedBus};
use crate::clock::Clock;
use crate::core::intake::Limits;
use crate::core::state::State;
use crate::execute::Runner;
use crate::lease::{LeaseState, while_leased};
use crate::log::SharedLog;
use crate::metrics::Metrics;
use crate::publisher::{AddressSender, Publisher};
use crate::subject::Subjects;
use crate::views::{LatestSender, Views};

/// A process from its start to its end.
pub(super) struct Process {
    pub(super) life: Arc<Life>,
    pub(super) publisher: Publisher,
    pub(super) views: Views,
    pub(super) runner: Runner,
    stop: watch::Sender<bool>,
    ends: Vec<tokio::sync::oneshot::Receiver<()>>,
}

/// What the actors of one process share.
struct Parts {
    life: Arc<Life>,
    views: Views,
    burst: Burst,
    metrics: Arc<Metrics>,
    stop: watch::Sender<bool>,
    ends: Vec<tokio::sync::oneshot::Receiver<()>>,
}

impl Process {
    /// Starts a process on a state: the fold first, and the other actors once it has caught up, as the runtime does.
    pub(super) fn start(world: &Arc<Shared>, number: usize, clock: Clock, state: State) -> Self {
        let life = Life::new(Arc::clone(world), number, clock);
        let (view_sender, views) = Views::channel(state);
        let (address, addresses) = watch::channel(None);
        let (lease_state, lease) = watch::channel(LeaseState::Waiting(None));
        let metrics = Arc::new(Metrics::new());
        let limits = Arc::clone(&world.limits);
        let publisher =
            Publisher::new(addresses, Arc::clone(&limits), lease.clone(), &world.config.execution, Arc::clone(&metrics));
        let stop = watch::Sender::new(false);
        let mut parts = Parts {
            life: Arc::clone(&life),
            views: views.clone(),
            burst: Burst::new(),
            metrics,
            stop: stop.clone(),
            ends: Vec::new(),
        };
        parts.start_graph_sync(view_sender);
        tokio::task::spawn_local(lease::keep(Arc::clone(&life), lease_state));
        let runner = executor::runner(&life, &views, &publisher, &limits, (&parts.metrics, &lease));
        parts.start_execution(limits, address, lease.clone());
        parts.start_trace();
        if world.tiering {
            parts.start_tiering(lease.clone());
        }
        tokio::task::spawn_local(trainer::run(Arc::clone(&life), views.clone(), lease));
        Self { life, publisher, views, runner, stop, ends: parts.ends }
    }

    /// Stops the actors in order and releases the lease.
    pub(super) async fn stop(self) {
        let mut died = self.life.died();
        tokio::select! {
            biased;
            _ = died.wait_for(|dead| *dead) => {}
            () = self.runner.stop() => {}
        }
        self.stop.send_replace(true);
        for end in self.ends {
            // The sender is dropped, never used. An actor that hangs on a port of a process that crashed meanwhile never ends.
            let mut died = self.life.died();
            tokio::select! {
                biased;
                _ = died.wait_for(|dead| *dead) => {}
                _ = end => {}
            }
        }
        let releases = !self.life.is_dead() && !self.life.is_cut_off() && self.life.world.bug != Some(Bug::KeepLease);
        if releases && self.life.world.lease.holder() == Some(self.life.id) {
            self.life.world.lease.delete();
        }
        self.life.die();
    }
}

impl Parts {
    fn log(&self, site: &'static str) -> SharedLog {
        Arc::new(SimLog { life: Arc::clone(&self.life), site })
    }

    fn supervise<F, R>(&mut self, name: &'static str, incarnation: F)
    where
        F: Fn() -> R + Send + 'static,
        R: Future<Output = Result<(), ActorFailure>> + 'static,
    {
        let reports = Reports { metrics: Arc::clone(&self.metrics), damaged: watch::Sender::new(None) };
        let arbiter = actix_rt::Arbiter::current();
        self.ends.push(supervise(name, &arbiter, self.life.clock.clone(), reports, self.stop.subscribe(), incarnation));
    }

    fn start_graph_sync(&mut self, views: LatestSender<State>) {
        let bus: SharedBus = Arc::new(SimBus { life: Arc::clone(&self.life), inner: MemoryBus::default() });
        let workspace = "sim".parse().expect("a plain name");
        let parts = GraphSyncParts {
            log: self.log("graph_sync"),
            views,
            bus,
            subjects: Subjects::new(workspace),
            clock: self.life.clock.clone(),
            mailbox: self.life.world.config.graph_sync.mailbox,
            batch_records_max: self.life.world.config.graph_sync.batch_records_max,
            burst: self.burst.clone(),
            stop: self.stop.subscribe(),
        };
        let (life, first) = (Arc::clone(&self.life), AtomicBool::new(true));
        self.supervise("graph_sync", move || {
            let is_again = !first.swap(false, Ordering::Relaxed);
            if is_again && life.world.bug == Some(Bug::ApplyTwice) && life.repeated.load(Ordering::Relaxed) == 0 {
                life.repeated.store(parts.views.borrow().applied().0, Ordering::Relaxed);
            }
            graph_sync::run(parts.clone())
        });
    }

    fn start_execution(&mut self, limits: Arc<Limits>, address: AddressSender, lease: watch::Receiver<LeaseState>) {
        let stop = self.stop.subscribe();
        let config = self.life.world.config;
        let parts = ExecutionParts {
            log: self.log("execution"),
            dead: Arc::new(SimDeadLetters(Arc::clone(&self.life))),
            views: self.views.clone(),
            clock: self.life.clock.clone(),
            limits,
            settings: config.execution.clone(),
            letter_bytes_max: config.dead.letter_bytes_max,
            metrics: Arc::clone(&self.metrics),
            address,
            announcements: Announcements::new(),
            burst: self.burst.clone(),
            stop: stop.clone(),
        };
        self.supervise("execution", move || {
            let parts = parts.clone();
            while_leased(lease.clone(), stop.clone(), move |end| execution::run(ExecutionParts { stop: end, ..parts.clone() }))
        });
    }

    fn start_trace(&mut self) {
        let parts = TraceParts {
            log: self.log("trace"),
            views: self.views.clone(),
            clock: self.life.clock.clone(),
            settings: self.life.world.config.trace.clone(),
            burst: self.burst.clone(),
            stop: self.stop.subscribe(),
        };
        self.supervise("trace", move || trace::run(parts.clone()));
    }

    fn start_tiering(&mut self, lease: watch::Receiver<LeaseState>) {
        let (life, stop) = (Arc::clone(&self.life), self.stop.subscribe());
        self.supervise("tiering", move || {
            let life = Arc::clone(&life);
            while_leased(lease.clone(), stop.clone(), move |end| tiering::run(Arc::clone(&life), end))
        });
    }
}
