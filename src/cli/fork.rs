//! `pml fork`: creates a data directory from the history of another log, with other settings.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::output::Output;
use super::replay::copy;
use super::source::Source;
use super::{LogLocation, Outcome};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::{Event, LogForked, NewRecord};
use crate::core::intake::Limits;
use crate::core::redact::Redactor;
use crate::data_dir::CONFIG_FILE;
use crate::history::{Moment, Rebuild};
use crate::private;

#[derive(Args)]
pub(super) struct Arguments {
    /// Data directory to create
    directory: PathBuf,
    /// The last moment to copy: a position, a time such as 2026-01-31T12:00:00Z, or `now`
    #[arg(long, value_name = "SEQ|TIME", default_value = "now")]
    at: Moment,
    /// A setting of the new data directory, such as `trace.settle_ms=50`; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting)]
    set: Vec<(String, String)>,
    #[command(flatten)]
    location: LogLocation,
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.trim().is_empty());
    let (key, value) = pair.ok_or_else(|| format!("'{text}' sets nothing; write key=value"))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

pub(super) async fn run(arguments: Arguments, file: Option<&Path>, config: Config, output: &Output) -> Outcome {
    let target = std::path::absolute(&arguments.directory)?;
    // The fork has its own directory and no NATS servers, wherever the other log is.
    let location = [("data_dir".to_owned(), json!(target).to_string()), ("nats.servers".to_owned(), "[]".to_owned())];
    let settings: Vec<_> = arguments.set.iter().cloned().chain(location).collect();
    let settings = Config::overrides(file, &settings)?;
    let source = Source::open(&arguments.location, &config).await?;
    let mut fork = Rebuild::begin(&target, &config, Clock::system())?;
    copy(&source, arguments.at, &mut fork, output).await?;
    let parent = fork.state().await?;
    let (seq, digest) = (parent.applied(), parent.digest().to_string());
    let path = fork.path().join(CONFIG_FILE);
    write_synced(&path, &settings).with_context(|| format!("cannot write {}", path.display()))?;
    let event = LogForked {
        parent_seq: seq,
        parent_digest: digest.clone(),
        settings: redacted(&arguments.set, &Limits::from(&config).redactor),
    };
    fork.append(fork_record(event, &Clock::system())).await?;
    let state = fork.finish().await?;
    let config_file = target.join(CONFIG_FILE);
    output.json(&json!({
        "parent_seq": seq.0, "parent_digest": digest, "last_seq": state.applied().0, "digest": state.digest().to_string(),
        "config": config_file,
    }));
    output.say(format!("{} holds the records up to {seq}, digest {digest}", target.display()));
    output.say(format!("serve it with: pml serve --config {}", config_file.display()));
    Ok(0)
}

/// Returns the settings as the log may hold them, without secrets.
fn redacted(settings: &[(String, String)], redactor: &Redactor) -> Vec<(String, String)> {
    let clean = |(key, value): &(String, String)| {
        let pair = redactor.text(&format!("{key}={value}"));
        let value = pair.as_ref().and_then(|pair| pair.strip_prefix(key)?.strip_prefix('=')).unwrap_or(value);
        (key.clone(), value.to_owned())
    };
    settings.iter().map(clean).collect()
}

fn fork_record(event: LogForked, clock: &Clock) -> NewRecord {
    let event = Event::LogForked(event);
    NewRecord { id: clock.fresh_id(), time: clock.now(), source: "pml/fork".into(), causation: None, envelope: None, event }
}

fn write_synced(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = private::create_file(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_among_the_settings_are_not_recorded() {
        let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let given = [set("nats.password", "hunter2"), set("trace.settle_ms", "7")];
        assert_eq!(redacted(&given, &Redactor::builtin()), [set("nats.password", "[redacted]"), set("trace.settle_ms", "7")]);
    }
}
