//! `pml train`: trains the parts of the model, in a data directory or by a running server, with the curve while it runs.

mod curve;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::model::print_runs;
use super::output::Output;
use super::remote::Remote;
use super::source::{Source, connect};
use super::{LogLocation, Outcome};
use crate::ask::trained::{self, EpochDto};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::ModelPart;
use crate::core::id::Seq;
use crate::core::state::State;
use crate::core::train::{TrainSettings, TrainStep, TrainedPart, train};
use crate::history::Moment;
use crate::lease::LeaseState;
use crate::log::{SharedLog, append_patiently};
use crate::nats::{Lease, Nats};
use crate::role::Role;
use crate::training::{TrainRequest, training_records};
pub(super) use curve::Curve;

/// Pause between two looks at the progress of a server.
const POLL_PAUSE: Duration = Duration::from_millis(250);

#[derive(Args)]
pub(super) struct Arguments {
    /// Train only this part: head, encoder or shgat; may be given several times. The ranker is fitted in any case
    #[arg(long, value_name = "PART")]
    part: Vec<ModelPart>,
    /// Seed of the run [default: derived from the last record]
    #[arg(long)]
    seed: Option<u64>,
    /// Record nothing; only with --data or --nats
    #[arg(long, conflicts_with = "url")]
    dry_run: bool,
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn run(arguments: Arguments, config: Config, output: &Output) -> Outcome {
    let Arguments { part, seed, dry_run, location } = arguments;
    let request = TrainRequest { parts: part, seed };
    let source = Source::open(&location, &config).await?;
    let report = match &source {
        Source::Server(_) if dry_run => {
            return Err(anyhow::anyhow!("a server records what it trains; give --data with --dry-run").into());
        }
        Source::Server(remote) => on_server(remote, &request, output)?,
        Source::Log(log, _) => {
            let lease = match &location.nats {
                Some(urls) if !dry_run => Some(leased(urls, &config).await?),
                _ => None,
            };
            let held = lease.as_ref().map(|(_, lease)| lease.state());
            let report = on_log(&source, log, &request, (dry_run, held), output).await;
            if let Some((_nats, lease)) = lease {
                lease.release().await;
            }
            report?
        }
        Source::Archive(_) => unreachable!("a location is a server or a log"),
    };
    output.json(&report);
    print(&report, output);
    Ok(0)
}

fn print(report: &Value, output: &Output) {
    let runs = report["runs"].as_array().cloned().unwrap_or_default();
    output.say(format!("trained on the records up to {} with seed {}", report["through_seq"], report["seed"]));
    if runs.is_empty() {
        output.say("no part was trained: there is too little to learn from");
        return;
    }
    print_runs(&runs, output);
    if report["recorded"] == json!(false) {
        output.say("nothing was recorded (--dry-run)");
    }
}

/// Trains on the fold of a log and appends the result.
async fn on_log(
    source: &Source,
    log: &SharedLog,
    request: &TrainRequest,
    (dry_run, lease): (bool, Option<watch::Receiver<LeaseState>>),
    output: &Output,
) -> anyhow::Result<Value> {
    let mut state = source.state(Moment::Now).await?;
    let through = state.applied();
    anyhow::ensure!(through > Seq::ZERO, "the log is empty; import or publish traces first");
    let (embedded, wanted) = state.vectors.coverage();
    if embedded < wanted {
        output.note(&format!("{} of {wanted} texts have no vector yet; a server computes them", wanted - embedded));
    }
    let seed = request.seed(&state);
    let trained = train_shown(&state, &request.settings(), seed, output)?;
    if dry_run {
        let runs: Vec<_> = trained.iter().map(|part| trained::trained_dto(&part.event, None, false, false)).collect();
        return Ok(json!({"through_seq": through.0, "seed": seed, "recorded": false, "runs": runs}));
    }
    let is_held = lease.is_none_or(|lease| lease.borrow().is_held());
    anyhow::ensure!(is_held, "the lease of the role 'trainer' was lost during the run; nothing was recorded, train again");
    record(log, &trained, through).await?;
    let folding = source.visit(through, |record| {
        state.apply(&record);
        Ok(true)
    });
    folding.await?;
    let runs: Vec<Value> = runs_of(&json!(trained::runs(&state)), through.0);
    Ok(json!({"through_seq": through.0, "seed": seed, "recorded": true, "runs": runs}))
}

/// Takes the lease of the role `trainer`, which one process of a workspace has at a time. Fails if a live process keeps it.
/// The connection keeps the lease alive.
async fn leased(urls: &str, config: &Config) -> anyhow::Result<(Nats, Lease)> {
    let nats = connect(urls, config).await?;
    let length = Duration::from_millis(config.nats.lease_ms);
    let holder = format!("{}-{}", std::process::id(), Clock::system().fresh_id());
    let lease = Lease::request(&nats, Role::Trainer.name(), holder, length).await?;
    // That of a process that was killed ends within its length.
    let mut state = lease.state();
    let held = tokio::time::timeout(2 * length, state.wait_for(LeaseState::is_held)).await.is_ok();
    if held {
        return Ok((nats, lease));
    }
    let other = match &*lease.state().borrow() {
        LeaseState::Waiting(Some(holder)) => format!("process {holder}"),
        LeaseState::Waiting(None) | LeaseState::Held => "another process".to_owned(),
    };
    lease.release().await;
    anyhow::bail!("{other} has the role 'trainer' of this workspace; ask it to train with `pml train --url`, or stop it")
}

/// The runs that were trained on the records up to `through`.
fn runs_of(runs: &Value, through: u64) -> Vec<Value> {
    let runs = runs.as_array().cloned().unwrap_or_default();
    runs.into_iter().filter(|run| run["through_seq"].as_u64() == Some(through)).collect()
}

/// Trains with the curve on display.
pub(super) fn train_shown(
    state: &State,
    settings: &TrainSettings,
    seed: u64,
    output: &Output,
) -> anyhow::Result<Vec<TrainedPart>> {
    let mut curve = Curve::new(output);
    let mut observer = |step: TrainStep| {
        if let TrainStep::Epoch(progress) = step {
            curve.show(&json!(EpochDto::new(&progress)));
        }
        ControlFlow::Continue(())
    };
    let trained = train(state, settings, seed, &mut observer)?;
    curve.finish();
    Ok(trained)
}

async fn record(log: &SharedLog, trained: &[TrainedPart], through: Seq) -> anyhow::Result<()> {
    let found = log.read(Seq(through.0 - 1), 1).await?;
    let last = found.first().ok_or_else(|| anyhow::anyhow!("the log holds no record at {through}"))?;
    let records = training_records(trained, last, Clock::system().now());
    if !records.is_empty() {
        append_patiently(log, records).await?;
    }
    Ok(())
}

/// Asks a server for a run and shows its progress until it has ended.
fn on_server(remote: &Remote, request: &TrainRequest, output: &Output) -> anyhow::Result<Value> {
    let parts: Vec<&str> = request.parts.iter().map(|part| part.name()).collect();
    let mut body = json!({"parts": parts});
    if let Some(seed) = request.seed {
        body["seed"] = json!(seed);
    }
    let (status, answer) = remote.post("/v1/models/train", "application/json", body.to_string().as_bytes())?;
    let problem = answer["error"].as_str().unwrap_or("no reason given");
    anyhow::ensure!(status == 202, "the server answered {status}: {problem}");
    let number = answer["request"].as_u64().unwrap_or(0);
    let mut curve = Curve::new(output);
    loop {
        let models = remote.get("/v1/models")?;
        let trainer = &models["trainer"];
        curve.catch_up(&trainer["running"]);
        if trainer["answered"].as_u64() >= Some(number) {
            curve.finish();
            return ended(&models);
        }
        std::thread::sleep(POLL_PAUSE);
    }
}

/// The report of the run that a server ended last.
fn ended(models: &Value) -> anyhow::Result<Value> {
    let last = &models["trainer"]["last"];
    if let Some(problem) = last["problem"].as_str() {
        anyhow::bail!("the run was not finished: {problem}");
    }
    let through = last["through_seq"].as_u64().unwrap_or(0);
    let runs = runs_of(&models["runs"], through);
    let seed = runs.first().map_or(Value::Null, |run| run["seed"].clone());
    Ok(json!({"through_seq": through, "seed": seed, "recorded": true, "seconds": last["seconds"], "runs": runs}))
}

/// The log of a location that holds one, for commands that write.
pub(super) fn writable(source: &Source) -> Option<&Arc<dyn crate::log::EventLog>> {
    match source {
        Source::Log(log, _) => Some(log),
        Source::Server(_) | Source::Archive(_) => None,
    }
}
