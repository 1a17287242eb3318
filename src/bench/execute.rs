//! Measures `execute` on an MCP server that is this program itself (`pml bench execute --serve`): what a run adds to a call, a DAG of
//! independent tasks, and many runs at the same time.

mod echo_server;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures_util::future::join_all;
use serde_json::{Map, Value, json};

use super::{Case, Stopwatch, median};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::workflow::Workflow;
use crate::execute::{RunOptions, RunState, Runner};
use crate::runtime::Runtime;
use crate::upstream::{Direct, servers_file::ServersFile};
pub use echo_server::serve;

/// Calls that are measured, after as many that are not.
const CALLS: usize = 200;
const DAGS: usize = 5;
const DAG_TASKS: usize = 10;
const DAG_TASK_MS: u64 = 50;
const RUNS: usize = 200;
const RUN_STEPS: usize = 5;
/// What a run may add to a call, in milliseconds.
const OVERHEAD_MS_MAX: f64 = 1.0;

/// Measures the three cases.
pub async fn run(config: &Config, directory: &Path) -> anyhow::Result<Vec<Case>> {
    let mut config = config.embedded_in(&directory.join("data"));
    config.upstream.file = directory.join("servers.json");
    let mut servers = ServersFile::read(&config.upstream.file)?;
    let program = std::env::current_exe().context("this program cannot be found")?;
    servers.add("echo", json!({"command": program, "args": ["bench", "execute", "--serve"], "concurrency": 1_000}))?;
    servers.write()?;
    let runtime = Runtime::start(&config, Clock::system()).await?;
    let mut changes = runtime.upstreams.changes();
    while runtime.upstreams.tools().is_empty() {
        changes.changed().await?;
    }
    let cases = measure(&runtime, &config).await;
    runtime.stop().await;
    cases
}

async fn measure(runtime: &Runtime, config: &Config) -> anyhow::Result<Vec<Case>> {
    let entry = ServersFile::read(&config.upstream.file)?.entries().remove("echo").context("it was added")?;
    let entry = entry.map_err(anyhow::Error::msg)?;
    let direct = Direct::connect(&entry, &config.upstream).await.map_err(anyhow::Error::msg)?;
    let (mut floors, mut ours) = (Vec::new(), Vec::new());
    for call in 0..2 * CALLS {
        let watch = Stopwatch::start();
        let arguments = Map::from_iter([("ms".to_owned(), json!(0))]);
        direct.call("echo", arguments).await.map_err(anyhow::Error::msg)?;
        let floor = watch.elapsed().as_secs_f64() * 1e3;
        let watch = Stopwatch::start();
        execute(&runtime.runner, &tasks(1, 0)).await?;
        let own = watch.elapsed().as_secs_f64() * 1e3;
        if call >= CALLS {
            floors.push(floor);
            ours.push(own);
        }
    }
    let overhead = (median(ours) - median(floors)).max(f64::EPSILON);
    let mut dags = Vec::new();
    for _ in 0..DAGS {
        let watch = Stopwatch::start();
        execute(&runtime.runner, &tasks(DAG_TASKS, DAG_TASK_MS)).await?;
        dags.push(watch.elapsed().as_secs_f64() * 1e3);
    }
    let dag = median(dags);
    let chain = chain();
    let ended = join_all((0..RUNS).map(|_| execute(&runtime.runner, &chain))).await;
    let succeeded = u32::try_from(ended.iter().filter(|run| run.is_ok()).count())?;
    let (succeeded, all) = (f64::from(succeeded), f64::from(u32::try_from(RUNS)?));
    #[expect(clippy::cast_precision_loss, reason = "a few milliseconds")]
    let floor = DAG_TASK_MS as f64;
    Ok(vec![
        Case {
            case: "overhead_p50",
            value: overhead,
            unit: "ms",
            floor: Some(OVERHEAD_MS_MAX),
            ratio: Some(OVERHEAD_MS_MAX / overhead),
        },
        Case { case: "parallel_dag", value: dag, unit: "ms", floor: Some(floor), ratio: Some(floor / dag) },
        Case { case: "concurrent", value: succeeded, unit: "runs", floor: Some(all), ratio: Some(succeeded / all) },
    ])
}

async fn execute(runner: &Runner, workflow: &Value) -> anyhow::Result<()> {
    let workflow = Workflow::from_json(workflow, usize::MAX)?;
    let run = runner.start(workflow, RunOptions { intent: Some("measure".to_owned()), ..RunOptions::default() })?;
    let ended = tokio::time::timeout(Duration::from_mins(1), runner.wait(&run)).await??;
    ensure!(ended.state == RunState::Succeeded, "a run ended as {:?}", ended.state);
    Ok(())
}

/// Independent tasks, each of which takes `ms`.
fn tasks(count: usize, ms: u64) -> Value {
    let task = |number: usize| json!({"id": format!("t{number}"), "tool": "echo:echo", "arguments": {"ms": ms}});
    json!({"tasks": (0..count).map(task).collect::<Vec<_>>()})
}

/// Tasks one after the other, each with the result of the one before.
fn chain() -> Value {
    let task = |number: usize| match number {
        0 => json!({"id": "t0", "tool": "echo:echo", "arguments": {"ms": 0}}),
        later => {
            json!({"id": format!("t{later}"), "tool": "echo:echo", "arguments": {"ms": 0, "text": format!("$OUTPUT[t{}]", later - 1)}})
        }
    };
    json!({"tasks": (0..RUN_STEPS).map(task).collect::<Vec<_>>()})
}
