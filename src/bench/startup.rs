//! Measures a start from a snapshot with no later records, and as its floor a start that folds the whole log. Each is a new process,
//! timed until it reports that it serves: a start in this process would reuse memory, which is cheaper.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::Context;

use super::client::Connection;
use super::{Case, Stopwatch, median, peak_memory_mb};
use crate::clock::Clock;
use crate::config::Config;
use crate::data_dir::open_log;
use crate::snapshot::Store;

const RUNS: usize = 3;

pub(super) fn measure(config: &Config, store: &Store) -> anyhow::Result<Vec<Case>> {
    let (mut replays, mut starts) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let replay = Started::without_snapshot(config)?.stop(config)?;
        let start = Started::with_snapshots(config, &store.to_string())?.stop(config)?;
        let (replayed, restored) = (replay.records, start.records);
        anyhow::ensure!(replayed == restored, "a start from the snapshot ends at {restored}, a replay at {replayed}");
        replays.push(replay.seconds);
        starts.push(start.seconds);
    }
    Ok(cases(replays, starts))
}

/// The cases of starts that took `starts` seconds, beside folds of the whole log that took `folds`.
pub(super) fn cases(folds: Vec<f64>, starts: Vec<f64>) -> Vec<Case> {
    let (fold, start) = (median(folds), median(starts));
    vec![
        Case { case: "startup_speedup", value: fold / start, unit: "times", floor: Some(1.0), ratio: Some(fold / start) },
        Case { case: "startup_ms", value: start * 1e3, unit: "ms", floor: Some(fold * 1e3), ratio: Some(fold / start) },
    ]
}

/// What was measured of a start.
pub(super) struct Start {
    /// Until the process served.
    pub(super) seconds: f64,
    /// The records that it has.
    pub(super) records: u64,
    /// The most memory, in megabytes, that it needed; `None` where the system does not report it.
    pub(super) peak_memory_mb: Option<f64>,
}

/// A process that serves a log.
pub(super) struct Started {
    child: Child,
    /// Held open, so that the process can go on printing.
    _stdout: BufReader<ChildStdout>,
    seconds: f64,
    /// What it said when it began to serve.
    said: serde_json::Value,
}

impl Started {
    pub(super) fn without_snapshot(config: &Config) -> anyhow::Result<Self> {
        Self::with_snapshots(config, &config.data_dir.join("none").display().to_string())
    }

    pub(super) fn with_snapshots(config: &Config, snapshots: &str) -> anyhow::Result<Self> {
        Self::launch(&config.data_dir, snapshots, &[])
    }

    /// Starts a process with its snapshots at `snapshots` and further arguments, and waits until it serves.
    pub(super) fn launch(data: &Path, snapshots: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe().context("this program cannot be found")?);
        command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--data"]).arg(data).args(arguments);
        command.env("PML__SNAPSHOTS__URL", snapshots);
        command.env("PML__SNAPSHOTS__EVERY_RECORDS", "0").env("PML__SNAPSHOTS__EVERY_S", "0");
        command.env("PML__TEMPLATES__PATH", "").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let watch = Stopwatch::start();
        let mut child = command.spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().context("a piped output")?);
        let mut line = String::new();
        let read = stdout.read_line(&mut line);
        let seconds = watch.elapsed().as_secs_f64();
        let started = Self { child, _stdout: stdout, seconds, said: serde_json::from_str(&line).unwrap_or_default() };
        read?;
        anyhow::ensure!(started.said.is_object(), "the started pml does not say that it serves");
        Ok(started)
    }

    pub(super) fn connect(&self) -> anyhow::Result<Connection> {
        let address = self.said["listen"].as_str().context("the started pml does not say where it listens")?;
        Connection::open(address.parse::<SocketAddr>()?)
    }

    /// Lets it take a snapshot. Returns what it says of it.
    pub(super) fn take_snapshot(&self) -> anyhow::Result<serde_json::Value> {
        let mut client = self.connect()?;
        let (status, answer) = client.post("/v1/snapshots", "application/json", "{}")?;
        anyhow::ensure!(status < 300, "the started pml took no snapshot: {answer}");
        Ok(serde_json::from_str(answer)?)
    }

    /// Asks the process to end, and waits for it.
    pub(super) fn end_in_order(mut self) -> anyhow::Result<()> {
        Command::new("kill").arg(self.child.id().to_string()).status()?;
        self.child.wait()?;
        Ok(())
    }

    /// Stops the process and returns what was measured.
    pub(super) fn stop(mut self, config: &Config) -> anyhow::Result<Start> {
        let peak_memory_mb = peak_memory_mb(&self.child.id().to_string());
        let records = self.said["records"].as_u64().context("the started pml does not say how many records it has")?;
        self.end()?;
        // Opening the log repairs what the killed process left, so that the next start need not.
        drop(open_log(config, &config.data_dir, Clock::system())?);
        Ok(Start { seconds: self.seconds, records, peak_memory_mb })
    }

    fn end(&mut self) -> std::io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "cannot stop a process of the measurement");
        }
    }
}
