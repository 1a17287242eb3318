//! The parts that call tools: the runner of workflows, and the tasks of the gateways that record by themselves.

use std::sync::Arc;

use tokio::sync::watch;

use super::Runtime;
use crate::ask::Asker;
use crate::clock::Clock;
use crate::code::sandbox::ChildCommand;
use crate::config::Config;
use crate::core::intake::Limits;
use crate::data_dir;
use crate::execute::{Runner, RunnerParts};
use crate::gateway::mcp::{Mcp, McpParts};
use crate::lease::LeaseState;
use crate::log::SharedLog;
use crate::metrics::Metrics;
use crate::recorder::Recorder;
use crate::upstream::{HubParts, Upstreams};
use crate::views::Views;

/// The connections with upstream servers; only the holder of `lease` connects.
pub(super) fn upstreams(
    config: &Config,
    (views, log): (&Views, &SharedLog),
    (clock, metrics, limits): (&Clock, &Arc<Metrics>, &Arc<Limits>),
    lease: Option<watch::Receiver<LeaseState>>,
) -> std::io::Result<Upstreams> {
    Upstreams::new(HubParts {
        settings: config.upstream.clone(),
        views: views.clone(),
        log: Arc::clone(log),
        limits: Arc::clone(limits),
        clock: clock.clone(),
        metrics: Arc::clone(metrics),
        lease,
    })
}

pub(super) fn runner(
    config: &Config,
    (upstreams, asker): (&Upstreams, &Asker),
    recorder: &Recorder,
    (views, log): (&Views, &SharedLog),
    clock: &Clock,
) -> Runner {
    Runner::new(RunnerParts {
        settings: config.execute.clone(),
        code: config.code.clone(),
        sandbox: sandbox(),
        upstreams: upstreams.clone(),
        asker: asker.clone(),
        recorder: recorder.clone(),
        views: views.clone(),
        log: Arc::clone(log),
        clock: clock.clone(),
        directory: config.data_dir.join(data_dir::RUNS_DIRECTORY),
        tasks_max: config.limits.steps_max,
    })
}

/// The first argument of a process that runs a program.
pub(crate) const SANDBOX: &str = "sandbox";

/// The child process of programs is this program itself (`pml sandbox`).
pub(crate) fn sandbox() -> ChildCommand {
    // A path that leads to it also after its file was replaced.
    let own = std::path::Path::new("/proc/self/exe");
    let program = if own.exists() { own.to_owned() } else { std::env::current_exe().unwrap_or_else(|_| "pml".into()) };
    ChildCommand { program, arguments: vec![SANDBOX.into()] }
}

pub(super) fn mcp(
    config: &Config,
    (asker, views): (&Asker, &Views),
    (upstreams, runner, recorder): (&Upstreams, &Runner, &Recorder),
    limits: &Arc<Limits>,
    clock: &Clock,
) -> Mcp {
    Mcp::new(McpParts {
        asker: asker.clone(),
        views: views.clone(),
        upstreams: upstreams.clone(),
        runner: runner.clone(),
        recorder: recorder.clone(),
        limits: Arc::clone(limits),
        clock: clock.clone(),
        settings: config.mcp.clone(),
    })
}

impl Runtime {
    /// Follows what the MCP gateway shows and records, until the threads of the upstream servers stop.
    pub(super) fn start_mcp(&self) {
        let mcp = self.mcp.clone();
        self.upstreams.hub().handle().spawn(async move { mcp.run().await });
    }

    /// Records the runs of gathered spans, until the same threads stop.
    pub(super) fn start_spans(&self) {
        let spans = self.spans.clone();
        self.upstreams.hub().handle().spawn(async move { spans.run().await });
    }
}
