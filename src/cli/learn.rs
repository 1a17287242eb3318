//! `pml learn`: learns from the logs, exports and spans that are already there. The readers are in `pml-readers`; this finds the files,
//! reads them in pieces and publishes the runs like any other events.

mod input;
mod places;
mod tally;
mod watch;

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;

use crate::readers::events::events;
use crate::readers::{Options, Run};
use clap::Args;

use super::hook;
use super::output::Output;
use super::target::Target;
use super::{LogLocation, Outcome};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::intake::Limits;
use crate::core::time::Timestamp;
use input::Input;
use places::Found;
use tally::Tally;

/// A run that nothing follows in its log has ended if nothing came for this long. The same as the default of `trace.abandon_ms`.
const LEFT_AFTER_MS: u64 = 3_600_000;
/// How much later than its request the first event of a hook may come.
const HOOK_DELAY_MS: u64 = 10_000;
const DAY_US: i64 = 86_400_000_000;

#[derive(Args)]
pub(super) struct Arguments {
    /// Files and directories; the format is recognised by content [default: where Claude Code and Codex keep their sessions]
    paths: Vec<PathBuf>,
    /// Only show what would be learnt
    #[arg(long, conflicts_with = "watch")]
    dry_run: bool,
    /// Only runs that ended after this: days such as 30d, a date, or a time such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only runs in a project (working directory or service) whose name contains this
    #[arg(long, value_name = "TEXT")]
    project: Option<String>,
    /// Leave out calls of this tool, or of all whose names begin with it if it ends in *; may be repeated
    #[arg(long = "exclude-tool", value_name = "TOOL")]
    exclude_tools: Vec<String>,
    /// Go on and learn what is added to the files, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Do not ask before the files of the usual places are read
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn run(arguments: Arguments, config: Config, output: &Output) -> Outcome {
    let clock = Clock::system();
    let options = Arc::new(options(&arguments, &config, clock.now())?);
    let roots = if arguments.paths.is_empty() { places::usual() } else { arguments.paths.clone() };
    let found = places::files(&roots)?;
    if found.is_empty() {
        let looked: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
        return Err(anyhow::anyhow!("no files in {}; name files or directories", looked.join(", ")).into());
    }
    if arguments.paths.is_empty() && !arguments.yes && !arguments.dry_run {
        survey(&found, &options, output);
        if !confirmed("Read them and learn from them?")? {
            output.say("nothing was read");
            return Ok(0);
        }
    }
    let target = if arguments.dry_run { None } else { Some(Target::open(&arguments.location, &config).await?) };
    let mut learner = Learner { options, clock, tally: Tally::default(), target, reported: hook::reported() };
    let followed = if arguments.watch { watch::newest(&found).len() } else { 0 };
    let read = learner.read_all(&found[..found.len() - followed], output).await;
    if arguments.watch && read.is_ok() {
        watch::follow(&mut learner, &roots, found, output).await?;
    }
    let Learner { tally, target, .. } = learner;
    let published = match target {
        Some(target) => Some(target.finish(output).await?),
        None => None,
    };
    read?;
    tally.print(published.as_ref(), output);
    Ok(if published.is_some_and(|published| published.refused > 0) { 3 } else { 0 })
}

fn options(arguments: &Arguments, config: &Config, now: Timestamp) -> anyhow::Result<Options> {
    let limits = Limits::from(config);
    Ok(Options {
        redactor: limits.redactor,
        since: arguments.since.as_deref().map(|text| since(text, now)).transpose()?,
        project: arguments.project.clone(),
        excluded_tools: arguments.exclude_tools.clone(),
        steps_max: limits.steps_max,
    })
}

/// Reads `30d`, a date, or a time.
fn since(text: &str, now: Timestamp) -> anyhow::Result<Timestamp> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    if let Some(days) = days {
        return Ok(now.plus_micros(DAY_US.saturating_mul(-i64::from(days))));
    }
    let parsed = text.parse().or_else(|_| format!("{text}T00:00:00Z").parse());
    parsed.map_err(|_| anyhow::anyhow!("--since {text}: give days such as 30d, a date, or a time such as 2026-01-31T12:00:00Z"))
}

/// Tells what is there, from the names and the beginnings of the files.
fn survey(found: &[Found], options: &Arc<Options>, output: &Output) {
    let mut tally = Tally::default();
    for file in found {
        if let Ok(Some(mut input)) = Input::open(&file.path, options) {
            let runs = input.head_runs();
            tally.add_file(input.format(), file.len);
            for run in &runs {
                tally.add_run(run);
            }
            tally.add_time(file.modified);
        }
    }
    tally.print_survey(output);
}

fn confirmed(question: &str) -> anyhow::Result<bool> {
    let mut input = std::io::stdin().lock();
    anyhow::ensure!(std::io::stdin().is_terminal(), "nobody can be asked; name the paths, or give --yes");
    write!(std::io::stderr(), "{question} [y/N] ")?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Reads files and publishes their runs, unless it only counts them.
struct Learner {
    options: Arc<Options>,
    clock: Clock,
    tally: Tally,
    target: Option<Target>,
    /// Sessions that hooks have reported since a time: what they did since is known.
    reported: BTreeMap<String, Timestamp>,
}

impl Learner {
    async fn read_all(&mut self, found: &[Found], output: &Output) -> anyhow::Result<()> {
        let bar = output.progress("bytes read:", found.iter().map(|file| file.len).sum());
        for file in found {
            // A file that cannot be read is shown and costs only itself.
            match Input::open(&file.path, &self.options) {
                Ok(Some(mut input)) => {
                    self.tally.add_file(input.format(), file.len);
                    self.read_on(&mut input, |count| bar.inc(count)).await?;
                    let (last, counts) = input.finish();
                    self.take(last).await?;
                    self.tally.add_counts(&counts);
                }
                Ok(None) => {
                    self.tally.add_unrecognised(&file.path);
                    bar.inc(file.len);
                }
                Err(error) => self.tally.add_unreadable(&file.path, &error),
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Reads what the file holds by now.
    async fn read_on(&mut self, input: &mut Input, progress: impl Fn(u64)) -> anyhow::Result<()> {
        loop {
            match input.read_some() {
                Ok((0, _)) => return Ok(()),
                Ok((count, runs)) => {
                    self.take(runs).await?;
                    progress(count as u64);
                }
                Err(error) => {
                    self.tally.add_unreadable(input.path(), &error);
                    return Ok(());
                }
            }
        }
    }

    fn is_reported(&self, run: &Run) -> bool {
        let since = run.session.as_ref().and_then(|session| self.reported.get(session.as_str()));
        since.zip(run.started).is_some_and(|(since, started)| started.plus_millis(HOOK_DELAY_MS) >= *since)
    }

    /// Publishes runs. One that may still go on is left for a later reading, unless it was left long ago.
    async fn take(&mut self, runs: Vec<Run>) -> anyhow::Result<()> {
        let now = self.clock.now();
        for run in runs {
            if self.is_reported(&run) {
                self.tally.add_reported();
                continue;
            }
            let is_open = run.ending.basis == crate::readers::Basis::Open;
            if is_open && run.last_time().is_some_and(|last| now.millis_since(last) < LEFT_AFTER_MS) {
                self.tally.add_open();
                continue;
            }
            self.tally.add_run(&run);
            if let Some(target) = &mut self.target {
                target.send(events(&run, now)).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_given_in_days_as_a_date_or_as_a_time() {
        let now: Timestamp = "2026-03-31T12:00:00Z".parse().unwrap();
        let check = |text: &str, expected: &str| assert_eq!(since(text, now).unwrap(), expected.parse().unwrap(), "{text}");
        check("30d", "2026-03-01T12:00:00Z");
        check("2026-01-31", "2026-01-31T00:00:00Z");
        assert!(since("4294967295d", now).unwrap() < since("4000d", now).unwrap(), "longer ago than time goes back");
        check("2026-01-31T10:00:00+01:00", "2026-01-31T09:00:00Z");
        for text in ["", "d", "-3d", "yesterday", "99999999999d"] {
            assert!(since(text, now).is_err(), "{text}");
        }
    }
}
