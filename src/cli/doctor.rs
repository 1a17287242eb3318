//! `pml doctor`: checks the installation and says how to fix what is wrong.

mod context;
mod embedder;
mod nats;

use std::path::Path;

use clap::Args;
use serde_json::json;

use super::hook;
use super::output::Output;
use super::remote::Remote;
use super::{LogLocation, Outcome};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::state::State;
use crate::data_dir::open_log;
use crate::embed;
use crate::log::{EventLog, OpenError, RedbLog};
use crate::templates;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    location: LogLocation,
    /// Monitoring address of nats-server, such as `http://127.0.0.1:8222`, to read its sync setting
    #[arg(long, value_name = "URL")]
    nats_monitor: Option<String>,
}

/// The result of one check.
enum Finding {
    Good(String),
    /// Not a problem, but worth knowing.
    Note(String),
    Bad(String),
}

pub(super) async fn run(arguments: Arguments, config: Config, output: &Output) -> Outcome {
    let directory = arguments.location.data.as_deref().unwrap_or(&config.data_dir);
    let checking = output.working("checking");
    let findings = [
        ("configuration", Finding::Good("every key is known and valid".to_owned())),
        ("templates", check_templates(&config)),
        ("embedder", check_embedder(&config)),
        ("data directory", check_directory(directory)),
        ("log", check_log(directory, &config).await),
        ("access", check_access(&config)),
        ("server", check_server(&arguments.location, &config)),
        ("context", context::check(&Remote::new(&arguments.location, &config))),
        ("hooks", check_hooks()),
        ("roles", nats::check_roles(arguments.location.nats.as_deref(), &config).await),
        ("nats", nats::check(arguments.location.nats.as_deref(), arguments.nats_monitor.as_deref(), &config).await),
    ];
    drop(checking);
    let word = |finding: &Finding| match finding {
        Finding::Good(_) => "ok",
        Finding::Note(_) => "note",
        Finding::Bad(_) => "BAD",
    };
    let text = |finding: &Finding| match finding {
        Finding::Good(text) | Finding::Note(text) | Finding::Bad(text) => text.clone(),
    };
    let bad = findings.iter().any(|(_, finding)| matches!(finding, Finding::Bad(_)));
    let report = |(what, finding): &(&str, Finding)| json!({"check": what, "result": word(finding).to_lowercase(), "text": text(finding)});
    output.json(&json!({"ok": !bad, "checks": findings.iter().map(report).collect::<Vec<_>>()}));
    output.table(
        &["", "check", "finding"],
        findings.iter().map(|(what, finding)| vec![word(finding).into(), (*what).into(), text(finding)]),
    );
    Ok(u8::from(bad))
}

fn check_templates(config: &Config) -> Finding {
    match templates::load(&config.templates.path) {
        Ok(templates) => Finding::Good(format!("{} workflow templates", templates.len())),
        Err(error) => Finding::Bad(format!("{error}; see templates.path")),
    }
}

fn check_embedder(config: &Config) -> Finding {
    match embed::open(&config.embedding).and_then(|embedder| embedder::try_out(&embedder)) {
        Ok(finding) => finding,
        Err(error) => {
            let chain: Vec<String> = anyhow::Error::from(error).chain().map(ToString::to_string).collect();
            Finding::Bad(format!("{}; or set embedding.embedder to \"static\"", chain.join(": ")))
        }
    }
}

fn check_directory(directory: &Path) -> Finding {
    if !directory.exists() {
        return Finding::Note(format!("{} does not exist yet; `pml serve` makes it", directory.display()));
    }
    let probe = directory.join(".pml-doctor");
    let written = std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe));
    match written {
        Ok(()) => Finding::Good(format!("{} can be written", directory.display())),
        Err(error) => Finding::Bad(format!("{} cannot be written: {error}", directory.display())),
    }
}

async fn check_log(directory: &Path, config: &Config) -> Finding {
    if !RedbLog::exists(directory) {
        return Finding::Note("no log yet".to_owned());
    }
    let log = match open_log(config, directory, Clock::system()) {
        Ok(log) => log,
        Err(OpenError::InUse { .. }) => return Finding::Good("in use by a running server".to_owned()),
        Err(error) => return Finding::Bad(format!("{:#}", anyhow::Error::from(error))),
    };
    let mut state = State::default();
    loop {
        match log.read(state.applied(), 4_096).await {
            Ok(records) if records.is_empty() => break,
            Ok(records) => records.iter().for_each(|record| drop(state.apply(record))),
            Err(error) => return Finding::Bad(format!("{:#}; `pml log verify` says more", anyhow::Error::from(error))),
        }
    }
    Finding::Good(format!("{} records, every append was synced to disk before it was acknowledged", state.events()))
}

fn check_access(config: &Config) -> Finding {
    match config.http.keys.len() {
        0 => Finding::Note(format!("no API keys: everybody on this machine may use {}", config.http.listen)),
        keys => Finding::Good(format!("{keys} API keys")),
    }
}

fn check_server(location: &LogLocation, config: &Config) -> Finding {
    let remote = Remote::new(location, config);
    match (remote.get("/healthz"), remote.get("/readyz")) {
        (Ok(health), Ok(ready)) => {
            let version = health["version"].as_str().unwrap_or("?");
            Finding::Good(format!("{} runs pml {version}, {} records behind", remote.url(), ready["behind"]))
        }
        (Ok(_), Err(error)) => Finding::Bad(format!("{} runs but takes no events: {error}", remote.url())),
        (Err(_), _) => Finding::Note(format!("nothing answers at {}; `pml serve` starts a server", remote.url())),
    }
}

fn check_hooks() -> Finding {
    let Some((waiting, refused)) = hook::spooled() else { return Finding::Note("none has reported yet".to_owned()) };
    match refused.summary() {
        Some((count, last)) => Finding::Bad(format!(
            "a server refused {count} events, the last with {last}; they are in {}: mend the cause, then remove that file",
            refused.path().display()
        )),
        None if waiting > 0 => Finding::Note(format!("{waiting} bytes of events wait; `pml hook --deliver` sends them")),
        None => Finding::Good("everything was delivered".to_owned()),
    }
}
