//! Measures a start from a snapshot with no later records, and as its floor a start that folds the whole log. Each is a new process,
//! timed until it reports that it serves: a start in this process would reuse memory, which is cheaper.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use super::{Case, Stopwatch, median};
use crate::clock::Clock;
use crate::config::Config;
use crate::data_dir::open_log;
use crate::snapshot::Store;

const RUNS: usize = 3;

pub(super) fn measure(config: &Config, store: &Store) -> anyhow::Result<Vec<Case>> {
    let (mut replays, mut starts) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (seconds, replayed) = start_once(config, &config.data_dir.join("none").display().to_string())?;
        replays.push(seconds);
        let (seconds, restored) = start_once(config, &store.to_string())?;
        starts.push(seconds);
        anyhow::ensure!(replayed == restored, "a start from the snapshot ends at {restored}, a replay at {replayed}");
    }
    let (replay, start) = (median(replays), median(starts));
    Ok(vec![
        Case { case: "startup_speedup", value: replay / start, unit: "times", floor: Some(1.0), ratio: Some(replay / start) },
        Case { case: "startup_ms", value: start * 1e3, unit: "ms", floor: Some(replay * 1e3), ratio: Some(replay / start) },
    ])
}

/// Starts a process once. Returns the seconds until it serves and the number of its records.
fn start_once(config: &Config, snapshots: &str) -> anyhow::Result<(f64, u64)> {
    let mut command = Command::new(std::env::current_exe().context("this program cannot be found")?);
    command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--data"]).arg(&config.data_dir);
    command.env("PML__SNAPSHOTS__URL", snapshots).env("PML__SNAPSHOTS__EVERY_RECORDS", "0").env("PML__SNAPSHOTS__EVERY_S", "0");
    command.env("PML__TEMPLATES__PATH", "").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let watch = Stopwatch::start();
    let mut child = command.spawn()?;
    let line = first_line(&mut child);
    let seconds = watch.elapsed().as_secs_f64();
    child.kill()?;
    child.wait()?;
    // Opening the log repairs what the killed process left, so that the next start need not.
    drop(open_log(config, &config.data_dir, Clock::system())?);
    let started: serde_json::Value = serde_json::from_str(&line?)?;
    Ok((seconds, started["records"].as_u64().context("the started pml does not say how many records it has")?))
}

fn first_line(child: &mut Child) -> anyhow::Result<String> {
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("a piped output")?).read_line(&mut line)?;
    Ok(line)
}
