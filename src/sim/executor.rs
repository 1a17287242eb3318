//! Runs of workflows in the simulator: the product's runner on simulated tools, and a user who starts, approves and resumes runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use pml_model::random::Random;
use rmcp::model::CallToolResult;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;

use super::life::Life;
use super::ports::SimLog;
use super::scenario::Bug;
use super::world::World;
use crate::ask::Asker;
use crate::core::event::{Event, NewRecord, ToolAnnotations, ToolRegistered};
use crate::core::graph::measures::Measures;
use crate::core::id::{ExecutionId, RecordId, ToolId};
use crate::core::intake::Limits;
use crate::core::rank::Index;
use crate::core::time::Timestamp;
use crate::core::workflow::Workflow;
use crate::embed::{self, SharedEmbedder};
use crate::execute::{RunOptions, RunState, Runner, RunnerParts};
use crate::lease::LeaseState;
use crate::log::SharedLog;
use crate::metrics::Metrics;
use crate::publisher::Publisher;
use crate::recorder::{self, Recorder};
use crate::upstream::{CallError, HubParts, Upstreams};
use crate::views::{Latest, Views};

/// The tool that reads, and the one that changes something and needs approval.
const LOOK: &str = "sim:look";
const CHANGE: &str = "sim:change";
/// The file of servers in the directory of a process.
const SERVERS: &str = "servers.json";
/// How often the user looks, and how often at most.
const LOOK_EVERY: Duration = Duration::from_millis(60);
const LOOKS_MAX: usize = 150;

/// The runner of a process, on its directory, which outlives it.
pub(super) fn runner(
    life: &Arc<Life>,
    views: &Views,
    publisher: &Publisher,
    limits: &Arc<Limits>,
    (metrics, lease): (&Arc<Metrics>, &watch::Receiver<LeaseState>),
) -> Runner {
    let config = life.world.config;
    let directory = life.world.directory.join(life.number.to_string());
    prepare(&directory, life.world.bug);
    let recorder = Recorder::new(publisher.clone(), true, None);
    tokio::task::spawn_local(recorder.clone().run());
    let log: SharedLog = Arc::new(SimLog { life: Arc::clone(life), site: "runner" });
    let mut settings = config.upstream.clone();
    settings.file = directory.join(SERVERS);
    let parts = HubParts {
        settings,
        views: views.clone(),
        log: Arc::clone(&log),
        limits: Arc::clone(limits),
        clock: life.clock.clone(),
        metrics: Arc::clone(metrics),
        lease: Some(lease.clone()),
    };
    let (_, indexed) = Latest::channel(Index::default());
    let (_, measures) = Latest::channel(Measures::default());
    let embedder: SharedEmbedder = embed::builtin();
    Runner::new(RunnerParts {
        settings: config.execute.clone(),
        code: config.code.clone(),
        sandbox: crate::runtime::sandbox(),
        upstreams: Upstreams::simulated(parts, tools(Arc::clone(life))),
        asker: Asker::new(views.clone(), indexed, measures, embedder, config.limits.intent_bytes_max),
        recorder,
        views: views.clone(),
        log,
        clock: life.clock.clone(),
        directory,
        tasks_max: config.limits.steps_max,
    })
}

/// Makes the directory of a process. A planted bug: what was noted last in a journal is lost.
fn prepare(directory: &Path, bug: Option<Bug>) {
    std::fs::create_dir_all(directory).expect("the directory of the simulation can be written");
    let servers = json!({"mcpServers": {"sim": {"command": "simulated"}}}).to_string();
    std::fs::write(directory.join(SERVERS), servers).expect("the directory of the simulation can be written");
    if bug != Some(Bug::RepeatApproved) {
        return;
    }
    let entries = std::fs::read_dir(directory).expect("the directory of the simulation can be read");
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| !path.ends_with(SERVERS)) {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains("\"task\":\"b\"")).collect();
        drop(std::fs::write(&path, lines.join("\n") + "\n"));
    }
}

/// Tools that take a while, fail, hang and lose answers, as their arguments say.
fn tools(life: Arc<Life>) -> crate::upstream::SimulatedTools {
    Box::new(move |tool: ToolId, arguments| {
        let life = Arc::clone(&life);
        async move {
            if !life.pass("tool", "call") {
                return futures_util::future::pending().await;
            }
            let is_last = life.is_last_call();
            let key = arguments.get("key").and_then(|key| key.as_str()).unwrap_or_default().to_owned();
            let trouble = arguments.get("trouble").and_then(serde_json::Value::as_u64).unwrap_or_default();
            sleep(Duration::from_millis(10 + trouble * 7 % 90)).await;
            if life.is_dead() {
                return futures_util::future::pending().await;
            }
            let attempts = {
                let mut calls = life.world.calls.lock();
                let attempts = calls.entry(key).or_insert([0, 0]);
                attempts[0] += 1;
                attempts[0]
            };
            if is_last {
                life.die();
                return futures_util::future::pending().await;
            }
            match trouble % 6 {
                0 if attempts == 1 => Err(CallError::Refused("simulated".to_owned())),
                1 if attempts == 1 => {
                    sleep(Duration::from_secs(2)).await;
                    if life.is_dead() {
                        return futures_util::future::pending().await;
                    }
                    Err(CallError::TimedOut { tool, limit: Duration::from_secs(2) })
                }
                _ => {
                    if let Some(count) = life.world.calls.lock().get_mut(arguments["key"].as_str().unwrap_or_default()) {
                        count[1] += 1;
                    }
                    // The shapes of results differ, so that what is known of them grows.
                    Ok(CallToolResult::structured(json!({"done": true, (format!("more{}", trouble % 5)): trouble})))
                }
            }
        }
        .boxed()
    })
}

/// The events that make the tools known, as pml writes them about what a server lists.
pub(super) fn registrations(start: Timestamp) -> Vec<NewRecord> {
    let tool = |(number, name): (u64, &str)| {
        let annotations =
            ToolAnnotations { read_only: Some(name == LOOK), destructive: Some(name == CHANGE), ..ToolAnnotations::default() };
        let event = Event::ToolRegistered(ToolRegistered {
            tool: name.parse().expect("a plain tool"),
            name: name.to_owned(),
            description: "simulated".to_owned(),
            input_schema: None,
            output_schema: None,
            annotations: Some(annotations),
        });
        let id = RecordId::derived(start, &["registered", name]);
        recorder::fact(id, start.plus_millis(number), event)
    };
    (0..).zip([LOOK, CHANGE]).map(tool).collect()
}

/// A user with one run: starts it where the lease is, approves what waits, and resumes what was interrupted or failed.
pub(super) async fn user(world: Arc<World>, number: usize, mut random: Random) {
    let task = |id: &str, tool: &str, after: &[&str], trouble: u64| json!({"id": id, "tool": tool, "depends_on": after, "arguments": {"key": format!("r{number}-{id}"), "trouble": trouble}});
    let tasks = json!({"tasks": [
        task("a", LOOK, &[], random.next_u64() % 97),
        task("b", CHANGE, &["a"], random.next_u64() % 97),
        task("c", CHANGE, &["b"], random.next_u64() % 97),
    ]});
    let workflow = Workflow::from_json(&tasks, 10).expect("the tasks are a workflow");
    let mut begun: Option<(usize, ExecutionId)> = None;
    for _ in 0..LOOKS_MAX {
        sleep(LOOK_EVERY).await;
        let Some((process, run)) = begun.clone() else {
            let process = random.below(world.shared.processes);
            let Some(runner) = world.runner(process) else { continue };
            let options = RunOptions { intent: Some("change something".to_owned()), ..RunOptions::default() };
            begun = runner.start(workflow.clone(), options).ok().map(|run| (process, run));
            continue;
        };
        let Some(runner) = world.runner(process) else { continue };
        let Ok(status) = runner.status(&run) else { return };
        match &status.state {
            RunState::ApprovalRequired { token, .. } => drop(runner.approve(token)),
            RunState::Interrupted | RunState::Failed => {
                if let Ok(run) = runner.resume(&run) {
                    begun = Some((process, run));
                }
            }
            RunState::Running => {}
            RunState::Succeeded | RunState::Aborted => return,
        }
    }
}

/// I27: a call that was answered is not made again. Calls that failed may be.
pub(super) fn answered_calls_are_not_repeated(calls: &BTreeMap<String, [u64; 2]>) -> Result<(), String> {
    // Reading may be repeated.
    match calls.iter().find(|(key, [_, answered])| !key.ends_with("-a") && *answered > 1) {
        Some((key, [_, answered])) => Err(format!("the call {key} was made and answered {answered} times")),
        None => Ok(()),
    }
}
