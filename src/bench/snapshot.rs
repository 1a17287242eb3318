//! Measures snapshots: rows per second written and read, with a plain Parquet write and read of the same batches as the floor; a
//! start from one (`startup`); and the latency of publishing while one is taken.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::replay::write_history;
use super::{Case, Stopwatch, median, startup, workload};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::state::State;
use crate::data_dir::open_log;
use crate::log::EventLog;
use crate::runtime::Runtime;
use crate::snapshot::{self, About, Origin, Store};

const RUNS: usize = 3;
/// Pause between the executions that are published, and about how many events are published without a snapshot and with one.
const PUBLISH_EVERY: Duration = Duration::from_millis(2);
const PUBLISHED_EVENTS: usize = 5_000;
/// Rows per batch of the plain read.
const PLAIN_BATCH_ROWS: usize = 8_192;

/// Writes a log of `events` records below `scratch`, then measures snapshots of its state.
pub async fn run(config: &Config, scratch: &Path, events: usize) -> anyhow::Result<Vec<Case>> {
    let mut config = Config { data_dir: scratch.join("snapshot"), ..config.clone() };
    // Templates and automatic snapshots would disturb the measurement.
    config.templates.path = String::new();
    (config.snapshots.every_records, config.snapshots.every_s) = (0, 0);
    write_history(&open_log(&config, &config.data_dir, Clock::system())?, events).await?;
    let (state, about) = folded(&config).await?;
    let store = Store::Directory(scratch.join("snapshots"));
    let mut cases = write_and_read(&state, &about, &store, scratch).await?;
    drop(state);
    cases.extend(startup::measure(&config, &store)?);
    cases.extend(publish_meanwhile(&config, &store).await?);
    Ok(cases)
}

async fn folded(config: &Config) -> anyhow::Result<(Arc<State>, About)> {
    let log = open_log(config, &config.data_dir, Clock::system())?;
    let mut state = State::default();
    loop {
        let records = log.read(state.applied(), 8_192).await?;
        if records.is_empty() {
            break;
        }
        for record in &records {
            state.apply(record);
        }
    }
    let origin = Origin::of(&log, state.applied()).await?.ok_or_else(|| anyhow::anyhow!("the log is empty"))?;
    let about = About { log: origin, config_hash: snapshot::config_hash(config), taken_at: Clock::system().now() };
    Ok((Arc::new(state), about))
}

async fn write_and_read(state: &Arc<State>, about: &About, store: &Store, scratch: &Path) -> anyhow::Result<Vec<Case>> {
    let (mut written, mut read, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
    let (mut plain_written, mut plain_read) = (Vec::new(), Vec::new());
    let mut bytes_per_event = 0.0;
    for run in 0..RUNS {
        // Another store each time, because an existing snapshot is not written again.
        let place = if run + 1 == RUNS { store.clone() } else { Store::Directory(scratch.join(format!("snapshots-{run}"))) };
        let watch = Stopwatch::start();
        let manifest = snapshot::create(&place, Arc::clone(state), about.clone(), || ()).await?;
        seconds.push(watch.elapsed().as_secs_f64());
        let rows = usize::try_from(manifest.rows())?;
        written.push(watch.rate(rows));
        bytes_per_event = real(manifest.bytes()) / real(state.events());
        let plain = scratch.join(format!("plain-{run}"));
        let tables: Vec<(&str, Vec<RecordBatch>)> = snapshot::tables(state).map(|table| (table.table, table.batches)).collect();
        let watch = Stopwatch::start();
        write_plainly(&plain, &tables)?;
        plain_written.push(watch.rate(rows));
        drop(tables);
        let watch = Stopwatch::start();
        let restored = snapshot::restore(&snapshot::fetch(&place, manifest.seq()).await?)?;
        read.push(watch.rate(rows));
        anyhow::ensure!(restored.digest() == state.digest(), "the restored state differs");
        let Store::Directory(root) = &place else { anyhow::bail!("the bench writes to a directory") };
        let watch = Stopwatch::start();
        let found = read_plainly(&root.join(format!("{:020}", manifest.seq)))?;
        plain_read.push(watch.rate(rows));
        anyhow::ensure!(found == rows, "{found} of {rows} rows were read");
    }
    let rows_per_second = |case, value: Vec<f64>, floor: Vec<f64>| {
        let (value, floor) = (median(value), median(floor));
        Case { case, value, unit: "rows/s", floor: Some(floor), ratio: Some(value / floor) }
    };
    Ok(vec![
        rows_per_second("write", written, plain_written),
        rows_per_second("read", read, plain_read),
        Case { case: "snapshot_ms", value: median(seconds) * 1e3, unit: "ms", floor: None, ratio: None },
        Case { case: "bytes_per_event", value: bytes_per_event, unit: "B", floor: None, ratio: None },
    ])
}

/// The floor of writing: the same batches with the same compression, written to files.
fn write_plainly(directory: &Path, tables: &[(&str, Vec<RecordBatch>)]) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?)).build();
    for (table, batches) in tables {
        let file = File::create(directory.join(format!("{table}.parquet")))?;
        let mut writer = ArrowWriter::try_new(file, batches[0].schema(), Some(properties.clone()))?;
        for batch in batches {
            writer.write(batch)?;
        }
        writer.close()?;
    }
    Ok(())
}

/// The floor of reading: all columns of every file of the snapshot, read as batches.
fn read_plainly(directory: &Path) -> anyhow::Result<usize> {
    let mut rows = 0;
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "parquet") {
            let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
            for batch in reader.with_batch_size(PLAIN_BATCH_ROWS).build()? {
                rows += std::hint::black_box(batch?).num_rows();
            }
        }
    }
    Ok(rows)
}

/// Measures the latency of one publisher, first alone, then while snapshots are taken one after the other.
async fn publish_meanwhile(config: &Config, store: &Store) -> anyhow::Result<Vec<Case>> {
    let mut config = config.clone();
    config.snapshots.url = store.to_string();
    let runtime = Runtime::start(&config, Clock::system()).await?;
    let alone = latencies(&runtime, || false).await?;
    let keeper = Arc::clone(&runtime.snapshots);
    let taking = actix_rt::spawn(async move { while keeper.take_snapshot().await.is_ok() {} });
    let meanwhile = latencies(&runtime, || taking.is_finished()).await?;
    taking.abort();
    runtime.stop().await;
    let (alone, meanwhile) = (percentile(alone), percentile(meanwhile));
    let stall = (meanwhile - alone).max(0.0);
    Ok(vec![
        Case { case: "ingest_p99_stall", value: stall, unit: "ms", floor: None, ratio: None },
        Case { case: "ingest_p99_meanwhile", value: meanwhile, unit: "ms", floor: Some(alone), ratio: Some(alone / meanwhile) },
    ])
}

async fn latencies(runtime: &Runtime, failed: impl Fn() -> bool) -> anyhow::Result<Vec<f64>> {
    let mut milliseconds = Vec::new();
    for run in workload::runs(&Clock::system(), PUBLISHED_EVENTS) {
        let watch = Stopwatch::start();
        runtime.publisher.publish(run).await?;
        milliseconds.push(watch.elapsed().as_secs_f64() * 1_000.0);
        anyhow::ensure!(!failed(), "a snapshot could not be taken");
        tokio::time::sleep(PUBLISH_EVERY).await;
    }
    Ok(milliseconds)
}

fn percentile(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() * 99 / 100]
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn real(count: u64) -> f64 {
    count as f64
}
