//! `pml snapshot`: creates, lists, verifies, restores and removes snapshots.

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
    /// Create a snapshot, on a running server or of a data directory
    Create(CreateArguments),
    /// List the snapshots
    List(ListArguments),
    /// Read every file of a snapshot, restore the state and compare its digest
    Verify(VerifyArguments),
    /// Restore and check the state of a snapshot; with --to, also copy the snapshot, so that a server can start from it
    Restore(RestoreArguments),
    /// Remove all but the newest
    Prune(PruneArguments),
}

/// The store that holds the snapshots.
#[derive(Args)]
struct StoreArguments {
    /// Data directory of the server [default: `data_dir`]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Directory or URL of the snapshots [default: snapshots.url, else `snapshots` in the data directory]
    #[arg(long, value_name = "DIR|URL")]
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
    /// Directory or URL of the snapshots
    #[arg(long, value_name = "DIR|URL", conflicts_with_all = ["url", "nats"])]
    store: Option<String>,
}

#[derive(Args)]
pub(super) struct VerifyArguments {
    /// Position of the snapshot [default: all]
    seq: Option<u64>,
    #[command(flatten)]
    store: StoreArguments,
}

#[derive(Args)]
pub(super) struct RestoreArguments {
    /// Position of the snapshot [default: the newest]
    seq: Option<u64>,
    /// Directory or URL to copy the snapshot to
    #[arg(long, value_name = "DIR|URL")]
    to: Option<String>,
    #[command(flatten)]
    store: StoreArguments,
}

#[derive(Args)]
pub(super) struct PruneArguments {
    /// Number of snapshots to keep [default: snapshots.keep]
    #[arg(long)]
    keep: Option<usize>,
    #[command(flatten)]
    store: StoreArguments,
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

fn open_store(data: Option<&Path>, location: Option<&str>, mut config: Config) -> Result<Store, SnapshotError> {
    if let Some(data) = data {
        data.clone_into(&mut config.data_dir);
    }
    match location {
        Some(location) => Store::at(location, &config),
        None => Store::configured(&config),
    }
}

fn print_created(taken: &Value, output: &Output) {
    output.json(taken);
    let [rows, bytes] = ["rows", "bytes"].map(|name| taken[name].as_u64().unwrap_or(0));
    let digest = taken["digest"].as_str().unwrap_or_default();
    output.say(format!("snapshot {}: {rows} rows in {bytes} bytes, digest {digest}", taken["seq"]));
}

async fn create(location: &LogLocation, config: Config, output: &Output) -> Outcome {
    let source = Source::open(location, &config).await?;
    let log = match &source {
        Source::Server(remote) => {
            let writing = output.working("writing, on the server");
            let taken = remote.ask("/v1/snapshots", &json!({}))?;
            drop(writing);
            print_created(&taken, output);
            return Ok(0);
        }
        Source::Log(log, _) => log.as_ref(),
        Source::Archive(_) => unreachable!("a location is a server or a log"),
    };
    let store = open_store(location.data.as_deref(), None, config.clone())?;
    let mut state = snapshot::newest_at_or_before(&store, log, Seq(u64::MAX)).await?.unwrap_or_default();
    let begin = state.applied();
    let fold = |record| {
        state.apply(&record);
        Ok(true)
    };
    source.visit_shown("folding", begin, fold).await?;
    let log_id = Origin::of(log, state.applied()).await?.ok_or(SnapshotError::Empty)?;
    let about = About { log: log_id, config_hash: config_hash(&config), taken_at: Clock::system().now() };
    let writing = output.progress("writing", snapshot::STEPS);
    let done = {
        let writing = writing.clone();
        move || writing.inc(1)
    };
    let manifest = snapshot::create(&store, Arc::new(state), about, done).await?;
    writing.finish_and_clear();
    print_created(&snapshot_dto(&manifest), output);
    Ok(0)
}

async fn list(arguments: ListArguments, config: Config, output: &Output) -> Outcome {
    let LogLocation { data, nats, .. } = &arguments.location;
    let answer = if data.is_some() || nats.is_some() || arguments.store.is_some() {
        let store = open_store(data.as_deref(), arguments.store.as_deref(), config)?;
        let snapshots: Vec<Value> = snapshot::list(&store).await?.iter().map(listed_snapshot_dto).collect();
        json!({"place": store.to_string(), "snapshots": snapshots})
    } else {
        Remote::new(&arguments.location, &config).get("/v1/snapshots")?
    };
    output.json(&answer);
    let snapshots = answer["snapshots"].as_array().cloned().unwrap_or_default();
    // A server does not say where its snapshots are.
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

/// Fetches a snapshot and restores it, on a thread that may block, to check it.
async fn checked(store: &Store, seq: Seq) -> Result<FetchedSnapshot, SnapshotError> {
    let fetched = snapshot::fetch(store, seq).await?;
    let check = move || snapshot::verify(&fetched).map(|_| fetched);
    let checked = tokio::task::spawn_blocking(check).await.map_err(|_| SnapshotError::Interrupted)?;
    checked.map_err(|source| SnapshotError::Unusable { seq, source })
}

async fn verify(arguments: &VerifyArguments, config: Config, output: &Output) -> Outcome {
    let store = open_store(arguments.store.data.as_deref(), arguments.store.store.as_deref(), config)?;
    let positions = store.positions().await?;
    let wanted: Vec<Seq> = positions.iter().copied().filter(|seq| arguments.seq.is_none_or(|wanted| wanted == seq.0)).collect();
    if let (Some(seq), true) = (arguments.seq, wanted.is_empty()) {
        return Err(SnapshotError::Unknown(Seq(seq)).into());
    }
    if wanted.is_empty() {
        return Err(no_snapshot(&store).into());
    }
    let bar = output.progress("verifying", wanted.len() as u64);
    let mut reports = Vec::new();
    for seq in wanted {
        reports.push(verify_one(&store, seq).await?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let damaged = reports.iter().filter(|report| report.get("problem").is_some()).count();
    for report in &reports {
        let text = |name: &str| report[name].as_str().unwrap_or_default().to_owned();
        output.say(match ["problem", "other_version"].into_iter().find(|name| report.get(*name).is_some()) {
            Some(name) => format!("snapshot {}: {}", report["seq"], text(name)),
            None => format!("snapshot {}: intact, {} rows, digest {}", report["seq"], report["rows"], text("digest")),
        });
    }
    output.json(&json!({"place": store.to_string(), "snapshots": reports, "damaged": damaged}));
    Ok(if damaged == 0 { 0 } else { 5 })
}

/// Verifies one snapshot and reports the result. A snapshot of another fold version is not damaged.
async fn verify_one(store: &Store, seq: Seq) -> Result<Value, SnapshotError> {
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

fn no_snapshot(store: &Store) -> anyhow::Error {
    anyhow::anyhow!("{store} holds no snapshot; `pml snapshot create` takes one")
}

async fn restore(arguments: &RestoreArguments, config: Config, output: &Output) -> Outcome {
    let to = arguments.to.as_ref().map(|place| Store::at(place, &config)).transpose()?;
    let store = open_store(arguments.store.data.as_deref(), arguments.store.store.as_deref(), config)?;
    let newest = store.positions().await?.last().copied();
    let Some(seq) = arguments.seq.map(Seq).or(newest) else {
        return Err(no_snapshot(&store).into());
    };
    if !store.positions().await?.contains(&seq) {
        return Err(SnapshotError::Unknown(seq).into());
    }
    let restoring = output.working("restoring");
    let fetched = match checked(&store, seq).await {
        Ok(fetched) => fetched,
        Err(SnapshotError::Unusable { seq, source: other @ Unusable::OtherFold { .. } }) => {
            return Err(SnapshotError::Unusable { seq, source: other }.into());
        }
        Err(error @ SnapshotError::Unusable { .. }) => {
            drop(restoring);
            output.failure(&error.into());
            return Ok(5);
        }
        Err(other) => return Err(other.into()),
    };
    let manifest = fetched.manifest.clone();
    let copied_to = to.as_ref().map(ToString::to_string);
    if let Some(to) = to {
        let taken = EncodedSnapshot::try_from(fetched).map_err(|source| SnapshotError::Unusable { seq, source })?;
        snapshot::put(&to, taken).await?;
    }
    drop(restoring);
    let mut report = snapshot_dto(&manifest);
    report["copied_to"] = json!(copied_to);
    output.json(&report);
    let copied = copied_to.map_or_else(String::new, |target| format!(", copied to {target}"));
    output.say(format!("snapshot {seq} restored, digest {}{copied}", manifest.digest));
    Ok(0)
}

async fn prune(arguments: &PruneArguments, config: Config, output: &Output) -> Outcome {
    let keep = arguments.keep.unwrap_or(config.snapshots.keep);
    if keep == 0 {
        return Err(anyhow::anyhow!("--keep: must be at least 1").into());
    }
    let store = open_store(arguments.store.data.as_deref(), arguments.store.store.as_deref(), config)?;
    let removed: Vec<u64> = snapshot::prune(&store, keep).await?.into_iter().map(|seq| seq.0).collect();
    output.json(&json!({"place": store.to_string(), "removed": removed}));
    output.say(format!("{} snapshots removed from {store}", removed.len()));
    Ok(0)
}
