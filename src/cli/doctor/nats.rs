//! The NATS checks of `pml doctor`: connection, log stream, when acknowledged records are on disk, and which roles are run.
//!
//! A client cannot see when a server syncs to disk, so the answer follows from pml's own settings, and from the server's monitoring
//! page if its address is given.

use serde_json::Value;

use super::Finding;
use crate::cli::source::connect;
use crate::clock::Clock;
use crate::config::{AppendMode, Config};
use crate::data_dir::stream_options;
use crate::log::{EventLog, ForeignMessages, JetStreamLog};
use crate::nats::{Nats, StreamKind};
use crate::role::Role;

/// Connects to NATS and describes what it finds.
pub(super) async fn check(urls: Option<&str>, monitor: Option<&str>, config: &Config) -> Finding {
    let Some(urls) = addresses(urls, config) else {
        return Finding::Note("not used: the log is a file in the data directory".to_owned());
    };
    let nats = match connect(&urls, config).await {
        Ok(nats) => nats,
        Err(error) => return Finding::Bad(error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ")),
    };
    let (version, cluster) = nats.server();
    let servers = cluster.map_or_else(|| "a single server".to_owned(), |cluster| format!("the cluster '{cluster}'"));
    let jetstream = nats.jetstream().clone();
    let name = nats.stream_name(StreamKind::Log);
    let stream = nats.run(async move { jetstream.get_stream(name).await }).await;
    let (records, replicas) = match &stream {
        Ok(stream) => {
            let info = stream.cached_info();
            (format!("{} records", info.state.messages), info.config.num_replicas)
        }
        Err(_) => ("no log yet".to_owned(), config.nats.replicas),
    };
    let synced = match monitor.map(read_sync) {
        Some(Ok(synced)) => Some(synced),
        Some(Err(error)) => return Finding::Bad(format!("cannot read {}: {error}", monitor.unwrap_or_default())),
        None => None,
    };
    let durability = durability(config.nats.append, replicas, synced.as_ref());
    let good = format!("nats-server {version}, {servers}; {records}, {replicas} replicas; {durability}");
    if stream.is_err() {
        return Finding::Good(good);
    }
    match foreign(&nats, config).await {
        Ok(foreign) if foreign.count == 0 => Finding::Good(good),
        Ok(foreign) => {
            let (count, shown) = (foreign.count, foreign.shown.join("; "));
            Finding::Note(format!("{good}; the log stream holds {count} messages of others, which are skipped: {shown}"))
        }
        Err(error) => Finding::Bad(format!("{good}; the log cannot be read: {error:#}")),
    }
}

/// Lists the roles that no connected process runs, and what that means.
pub(super) async fn check_roles(urls: Option<&str>, config: &Config) -> Finding {
    let Some(urls) = addresses(urls, config) else {
        return Finding::Note("all in one process: the log is a file in the data directory".to_owned());
    };
    let asking = async { anyhow::Ok(connect(&urls, config).await?.processes().await?) };
    let processes = match asking.await {
        Ok(processes) => processes,
        Err(error) => return Finding::Bad(error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ")),
    };
    if processes.is_empty() {
        return Finding::Note("no process of pml is connected; `pml serve --nats URL` starts one".to_owned());
    }
    let is_run = |role: &Role| processes.iter().any(|process| process.roles.iter().any(|name| name == role.name()));
    let missing: Vec<String> = Role::ALL
        .into_iter()
        .filter(|role| !is_run(role))
        .map(|role| format!("{} ({})", role.name(), role.missing_means()))
        .collect();
    let count = processes.len();
    if missing.is_empty() {
        Finding::Good(format!("{count} processes run every role"))
    } else {
        Finding::Note(format!("{count} processes; nobody runs {}", missing.join("; ")))
    }
}

/// The servers asked for, or those of the configuration; none if the log is not on NATS.
fn addresses(urls: Option<&str>, config: &Config) -> Option<String> {
    let configured: Vec<&str> = config.nats.servers.iter().map(crate::config::Secret::reveal).collect();
    Some(urls.map_or_else(|| configured.join(","), str::to_owned)).filter(|urls| !urls.is_empty())
}

/// Reads the whole log stream; returns the messages in it that are no records.
async fn foreign(nats: &Nats, config: &Config) -> anyhow::Result<ForeignMessages> {
    let log = JetStreamLog::open(nats.clone(), stream_options(config, false), Clock::system()).await?;
    // Any lookup will do: it makes the log read every id.
    log.find(Clock::system().fresh_id()).await?;
    Ok(log.foreign())
}

/// The sync setting of a server.
enum Sync {
    Always,
    Every(String),
}

fn durability(append: AppendMode, replicas: usize, sync: Option<&Sync>) -> String {
    let server = match sync {
        Some(Sync::Always) => {
            "the server syncs every message to disk before it acknowledges (sync_interval: always)".to_owned()
        }
        Some(Sync::Every(interval)) => format!("the server acknowledges first and syncs to disk every {interval}"),
        None => "nats-server acknowledges before it syncs to disk unless its sync_interval is always (a client cannot see it; \
                 --nats-monitor reads it)"
            .to_owned(),
    };
    match (append, replicas, sync) {
        (_, _, Some(Sync::Always)) => server,
        (AppendMode::Atomic, 1, _) => {
            format!("records are appended in atomic batches, each synced before it is acknowledged; else {server}")
        }
        (_, 1, _) => format!("{server}: a power failure may take the last acknowledged records; set nats.append = \"atomic\""),
        _ => format!("{server}: acknowledged means held by a majority of {replicas} servers, so losing one loses nothing"),
    }
}

fn read_sync(monitor: &str) -> anyhow::Result<Sync> {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().timeout_global(Some(std::time::Duration::from_secs(5))).build().into();
    let varz: Value = agent.get(format!("{}/varz", monitor.trim_end_matches('/'))).call()?.body_mut().read_json()?;
    let config = &varz["jetstream"]["config"];
    if config["sync_always"] == true {
        return Ok(Sync::Always);
    }
    let nanoseconds =
        config["sync_interval"].as_u64().ok_or_else(|| anyhow::anyhow!("the server says nothing about JetStream"))?;
    Ok(Sync::Every(format!("{} s", nanoseconds / 1_000_000_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_durability_text_follows_from_the_settings() {
        let check = |append, replicas, sync: Option<Sync>, expected: &str| {
            let said = durability(append, replicas, sync.as_ref());
            assert!(said.contains(expected), "{said}");
        };
        check(AppendMode::Atomic, 1, None, "each synced before it is acknowledged");
        check(AppendMode::Pipelined, 1, None, "may take the last acknowledged records");
        check(AppendMode::Pipelined, 1, Some(Sync::Always), "syncs every message");
        check(AppendMode::Pipelined, 3, Some(Sync::Every("120 s".to_owned())), "a majority of 3 servers");
    }
}
