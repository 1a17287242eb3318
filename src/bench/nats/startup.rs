//! Measures a start on NATS with what an earlier process left, a snapshot and the index of record ids, and as its floor a start with
//! neither. Each is a new process, timed until it has accepted an event: it then serves and takes writes.

use std::path::Path;
use std::time::Duration;

use super::super::replay::write_history;
use super::super::startup::{Started, cases};
use super::super::{Case, Stopwatch};
use super::server::Server;
use super::{config_for, connect};
use crate::clock::Clock;
use crate::config::{AppendMode, Config};
use crate::data_dir::stream_options;
use crate::log::JetStreamLog;

const RUNS: usize = 3;
/// The status of an answer while the lease of the role is waited for, for how long it is, and the pause between two attempts.
const UNAVAILABLE: u16 = 503;
const LEASE_PATIENCE: Duration = Duration::from_mins(1);
const LEASE_PAUSE: Duration = Duration::from_millis(5);

/// Writes a stream of about `events` records, takes a snapshot of it, and measures starts.
pub async fn run(config: &Config, program: &Path, scratch: &Path, events: usize) -> anyhow::Result<Vec<Case>> {
    let server = Server::start(program, &scratch.join("startup"))?;
    let mut config = config_for(&server, config, AppendMode::Pipelined);
    config.snapshots.url = scratch.join("startup-snapshots").display().to_string();
    let nats = connect(&config).await?;
    nats.provision(&config.dead, &config.log).await?;
    let log = JetStreamLog::open(nats.clone(), stream_options(&config, true), Clock::system()).await?;
    write_history(&log, events).await?;
    drop(log);
    // By a process that ends: one that is stopped here may keep its leases for a while.
    start_once(&server, &config.data_dir, &config.snapshots.url, |started| started.take_snapshot().map(drop))?;
    let (mut folds, mut starts) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        let empty = scratch.join(format!("startup-empty-{run}"));
        folds.push(start_once(&server, &empty, &empty.join("none").display().to_string(), publish)?);
        starts.push(start_once(&server, &config.data_dir, &config.snapshots.url, publish)?);
    }
    Ok(cases(folds, starts))
}

/// Starts a process, lets it do something and ends it. Returns the seconds until that was done.
fn start_once(
    server: &Server,
    data: &Path,
    snapshots: &str,
    work: impl FnOnce(&Started) -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let watch = Stopwatch::start();
    let started = Started::launch(data, snapshots, &["--nats", &server.url()])?;
    let done = work(&started);
    let seconds = watch.elapsed().as_secs_f64();
    // Not killed: the next process would wait for its leases, which is no part of a start.
    started.end_in_order()?;
    done.map(|()| seconds)
}

/// Publishes an event, as soon as the process takes events.
fn publish(started: &Started) -> anyhow::Result<()> {
    let mut process = started.connect()?;
    let event = r#"{"specversion": "1.0", "source": "bench", "type": "pml.tool.removed", "data": {"tool": "bench:none"}}"#;
    let watch = Stopwatch::start();
    loop {
        let (status, answer) = process.post("/v1/events", "application/cloudevents+json", event)?;
        if status < 300 {
            return Ok(());
        }
        // It waits for the lease of the role `execution`.
        anyhow::ensure!(
            status == UNAVAILABLE && watch.elapsed() < LEASE_PATIENCE,
            "the started pml did not accept an event: {answer}"
        );
        std::thread::sleep(LEASE_PAUSE);
    }
}
