//! `pml snapshot`: the state as Parquet files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::output::Output;
use super::remote::Remote;
use super::source::Source;
use super::{LogLocation, Outcome};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::id::Seq;
use crate::gateway::http::{listed_snapshot_dto, snapshot_dto};
use crate::snapshot::{self, About, EncodedSnapshot, FetchedSnapshot, Origin, SnapshotError, Store, Unusable, config_hash};

#[derive(Subcommand)]
pub(super) enum Command {
    /// Take a snapshot, on a running server or of a data directory
    Create(CreateArguments),
    /// Which snapshots there are
    List(ListArguments),
    /// Read every file of a snapshot, restore the state and compare its digest; all of them if none is named
    Verify(VerifyArguments),
    /// Restore the state of a snapshot and check it; with --to, copy it there, so that a server starts from it
    Restore(RestoreArguments),
    /// Remove all but the newest
    Prune(PruneArguments),
}

/// Where snapshots are kept.
#[derive(Args)]
struct Kept {
    /// Data directory of the server [default: `data_dir`]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Another place: a directory or a URL [default: snapshots.url, else `snapshots` in the data directory]
    #[arg(long, value_name = "PLACE")]
    store: Option<String>,
}

#[derive(Args)]
pub(super) struct CreateArguments {
    #[command(flatten)]
    location: LogLocation,
}

#[derive(Args)]
pub(super) struct ListArguments {
    #[command(flatten)]
    location: LogLocation,
    /// Another place: a directory or a URL
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["url", "nats"])]
    store: Option<String>,
}

#[derive(Args)]
pub(super) struct VerifyArguments {
    /// Position of the snapshot
    seq: Option<u64>,
    #[command(flatten)]
    kept: Kept,
}

#[derive(Args)]
pub(super) struct RestoreArguments {
    /// Position of the snapshot [default: the newest]
    seq: Option<u64>,
    /// Copy it to this directory or URL
    #[arg(long, value_name = "PLACE")]
    to: Option<String>,
    #[command(flatten)]
    kept: Kept,
}

#[derive(Args)]
pub(super) struct PruneArguments {
    /// How many stay [default: snapshots.keep]
    #[arg(long)]
    keep: Option<usize>,
    #[command(flatten)]
    kept: Kept,
}

pub(super) async fn run(command: Command, config: Config, output: &Output) -> Outcome {
    match command {
        Command::Create(arguments) => create(&arguments.location, config, output).await,
        Command::List(arguments) => list(arguments, config, output).await,
        Command::Verify(arguments) => verify(&arguments, config, output).await,
        Command::Restore(arguments) => restore(&arguments, config, output).await,
        Command::Prune(arguments) => prune(&arguments, config, output).await,
    }
}

fn store(data: Option<&Path>, place: Option<&str>, mut config: Config) -> Result<Store, SnapshotError> {
    if let Some(data) = data {
        data.clone_into(&mut config.data_dir);
    }
    match place {
        Some(place) => Store::at(place, &config),
        None => Store::configured(&config),
    }
}

fn say_taken(taken: &Value, output: &Output) {
    output.json(taken);
    let [rows, bytes] = ["rows", "bytes"].map(|name| taken[name].as_u64().unwrap_or(0));
    let digest = taken["digest"].as_str().unwrap_or_default();
    output.say(format!("snapshot {}: {rows} rows in {bytes} bytes, digest {digest}", taken["seq"]));
}

async fn create(location: &LogLocation, config: Config, output: &Output) -> Outcome {
    let source = Source::open(location, &config).await?;
    let log = match &source {
        Source::Server(remote) => {
            say_taken(&remote.ask("/v1/snapshots", &json!({}))?, output);
            return Ok(0);
        }
        Source::Log(log, _) => log.as_ref(),
        Source::Archive(_) => unreachable!("a place is a server or a log"),
    };
    let store = store(location.data.as_deref(), None, config.clone())?;
    let mut state = snapshot::newest_at_or_before(&store, log, Seq(u64::MAX)).await?.unwrap_or_default();
    let begin = state.applied();
    let reading = output.progress("folding", source.tail()?.0 - begin.0);
    let fold = |record| {
        state.apply(&record);
        reading.inc(1);
        Ok(true)
    };
    source.visit(begin, fold).await?;
    reading.finish_and_clear();
    let log_id = Origin::of(log, state.applied()).await?.ok_or(SnapshotError::Empty)?;
    let about = About { log: log_id, config_hash: config_hash(&config), taken_at: Clock::system().now() };
    let writing = output.progress("writing", snapshot::STEPS);
    let done = {
        let writing = writing.clone();
        move || writing.inc(1)
    };
    let manifest = snapshot::create(&store, Arc::new(state), about, done).await?;
    writing.finish_and_clear();
    say_taken(&snapshot_dto(&manifest), output);
    Ok(0)
}

async fn list(arguments: ListArguments, config: Config, output: &Output) -> Outcome {
    let LogLocation { data, nats, .. } = &arguments.location;
    let answer = if data.is_some() || nats.is_some() || arguments.store.is_some() {
        let store = store(data.as_deref(), arguments.store.as_deref(), config)?;
        let snapshots: Vec<Value> = snapshot::list(&store).await?.iter().map(listed_snapshot_dto).collect();
        json!({"place": store.to_string(), "snapshots": snapshots})
    } else {
        Remote::new(&arguments.location, &config).get("/v1/snapshots")?
    };
    output.json(&answer);
    let snapshots = answer["snapshots"].as_array().cloned().unwrap_or_default();
    // A server does not say where it keeps them.
    let place = answer["place"].as_str().map(|place| format!(" in {place}")).unwrap_or_default();
    output.say(format!("{} snapshots{place}", snapshots.len()));
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |snapshot: &Value| match snapshot.get("problem") {
        Some(problem) => vec![text(&snapshot["seq"]), String::new(), String::new(), String::new(), text(problem)],
        None => ["seq", "taken_at", "rows", "bytes", "digest"].map(|name| text(&snapshot[name])).to_vec(),
    };
    if !snapshots.is_empty() {
        output.table(&["seq", "taken", "rows", "bytes", "digest"], snapshots.iter().map(row));
    }
    Ok(0)
}

/// Restores on a thread that may block.
async fn checked(store: &Store, seq: Seq) -> Result<FetchedSnapshot, SnapshotError> {
    let fetched = snapshot::fetch(store, seq).await?;
    let check = move || snapshot::verify(&fetched).map(|_| fetched);
    let checked = tokio::task::spawn_blocking(check).await.map_err(|_| SnapshotError::Interrupted)?;
    checked.map_err(|source| SnapshotError::Unusable { seq, source })
}

async fn verify(arguments: &VerifyArguments, config: Config, output: &Output) -> Outcome {
    let store = store(arguments.kept.data.as_deref(), arguments.kept.store.as_deref(), config)?;
    let there = store.positions().await?;
    let wanted: Vec<Seq> = there.iter().copied().filter(|seq| arguments.seq.is_none_or(|wanted| wanted == seq.0)).collect();
    if let (Some(seq), true) = (arguments.seq, wanted.is_empty()) {
        return Err(SnapshotError::Unknown(Seq(seq)).into());
    }
    let bar = output.progress("verifying", wanted.len() as u64);
    let mut reports = Vec::new();
    for seq in wanted {
        reports.push(verified(&store, seq).await?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let damaged = reports.iter().filter(|report| report.get("problem").is_some()).count();
    for report in &reports {
        let text = |name: &str| report[name].as_str().unwrap_or_default().to_owned();
        output.say(match ["problem", "other_version"].into_iter().find(|name| report.get(*name).is_some()) {
            Some(name) => format!("snapshot {}: {}", report["seq"], text(name)),
            None => format!("snapshot {}: whole, {} rows, digest {}", report["seq"], report["rows"], text("digest")),
        });
    }
    output.json(&json!({"place": store.to_string(), "snapshots": reports, "damaged": damaged}));
    Ok(if damaged == 0 { 0 } else { 5 })
}

/// What verifying one snapshot showed. That it is of another fold version is no damage: its files are as they were written.
async fn verified(store: &Store, seq: Seq) -> Result<Value, SnapshotError> {
    match checked(store, seq).await {
        Ok(fetched) => Ok(json!({"seq": seq.0, "digest": fetched.manifest.digest, "rows": fetched.manifest.rows()})),
        Err(SnapshotError::Unusable { source: other @ Unusable::OtherFold { found, .. }, .. }) => {
            Ok(json!({"seq": seq.0, "fold": found, "other_version": other.to_string()}))
        }
        Err(SnapshotError::Unusable { source, .. }) => {
            let chain: Vec<String> = anyhow::Error::from(source).chain().map(ToString::to_string).collect();
            Ok(json!({"seq": seq.0, "problem": chain.join(": ")}))
        }
        Err(other) => Err(other),
    }
}

async fn restore(arguments: &RestoreArguments, config: Config, output: &Output) -> Outcome {
    let to = arguments.to.as_ref().map(|place| Store::at(place, &config)).transpose()?;
    let store = store(arguments.kept.data.as_deref(), arguments.kept.store.as_deref(), config)?;
    let newest = store.positions().await?.last().copied();
    let Some(seq) = arguments.seq.map(Seq).or(newest) else {
        return Err(anyhow::anyhow!("{store} holds no snapshot; `pml snapshot create` takes one").into());
    };
    if !store.positions().await?.contains(&seq) {
        return Err(SnapshotError::Unknown(seq).into());
    }
    let fetched = match checked(&store, seq).await {
        Ok(fetched) => fetched,
        Err(SnapshotError::Unusable { seq, source: other @ Unusable::OtherFold { .. } }) => {
            return Err(SnapshotError::Unusable { seq, source: other }.into());
        }
        Err(error @ SnapshotError::Unusable { .. }) => {
            output.failure(&error.into());
            return Ok(5);
        }
        Err(other) => return Err(other.into()),
    };
    let manifest = fetched.manifest.clone();
    let place = to.as_ref().map(ToString::to_string);
    if let Some(to) = to {
        let taken = EncodedSnapshot::try_from(fetched).map_err(|source| SnapshotError::Unusable { seq, source })?;
        snapshot::put(&to, taken).await?;
    }
    let mut report = snapshot_dto(&manifest);
    report["copied_to"] = json!(place);
    output.json(&report);
    let copied = place.map_or_else(String::new, |place| format!(", copied to {place}"));
    output.say(format!("snapshot {seq} restores to the digest {}{copied}", manifest.digest));
    Ok(0)
}

async fn prune(arguments: &PruneArguments, config: Config, output: &Output) -> Outcome {
    let keep = arguments.keep.unwrap_or(config.snapshots.keep);
    if keep == 0 {
        return Err(anyhow::anyhow!("--keep: must be at least 1").into());
    }
    let store = store(arguments.kept.data.as_deref(), arguments.kept.store.as_deref(), config)?;
    let removed: Vec<u64> = snapshot::prune(&store, keep).await?.into_iter().map(|seq| seq.0).collect();
    output.json(&json!({"place": store.to_string(), "removed": removed}));
    output.say(format!("{} snapshots removed from {store}", removed.len()));
    Ok(0)
}
