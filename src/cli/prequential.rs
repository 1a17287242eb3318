//! `pml eval --prequential`: asks about every trace of a history before learning it; writes the curves as Parquet and SVG.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

use super::output::Output;
use super::source::Source;
use super::{LogLocation, Outcome};
use crate::archive::Archive;
use crate::config::Config;
use crate::core::event::Record;
use crate::core::id::Seq;
use crate::core::state::State;
use crate::dataset::{Dataset, TEST, TOOLS, TRAIN};
use crate::embed;
use crate::eval::curves::{Curve, curves, write_parquet};
use crate::eval::learn::START;
use crate::eval::plot::svg;
use crate::eval::prequential::{METRICS, Prequential, dataset_records, state_records};
use crate::log::RedbLog;
use crate::snapshot::{self, MANIFEST, Store};

const PARQUET: &str = "curves.parquet";
const PICTURE: &str = "curves.svg";

#[derive(Args)]
pub(super) struct CurveArguments {
    /// Ask about every trace before it is learnt. DIRECTORY may also be a data directory, a snapshot, or events from `pml log export`
    #[arg(long, conflicts_with_all = ["train", "test", "folds"])]
    pub(super) prequential: bool,
    /// Directory to write curves.parquet and curves.svg to
    #[arg(long, value_name = "DIR", default_value = ".", requires = "prequential")]
    out: PathBuf,
    /// Address of a running server whose history is asked about, instead of DIRECTORY
    #[arg(long, requires = "prequential", conflicts_with = "directory")]
    pub(super) url: Option<String>,
    /// API key for that server
    #[arg(long, env = "PML_KEY", hide_env_values = true, requires = "url")]
    key: Option<String>,
    /// Number of traces in the moving average of a curve
    #[arg(long, default_value_t = 200, requires = "prequential", value_parser = clap::value_parser!(u32).range(1..))]
    window: u32,
}

pub(super) async fn run(arguments: CurveArguments, directory: &Path, config: &Config, output: &Output) -> Outcome {
    let embedder = embed::open(&config.embedding)?;
    let mut prequential = Prequential::new(&*embedder, config.embedding.batch_texts_max);
    let bar = output.progress("records asked about and learnt:", 0);
    let mut ask = |record: Record| {
        prequential.apply(&record)?;
        bar.inc(1);
        Ok(true)
    };
    let name = if let Some(url) = &arguments.url {
        let location = LogLocation { url: Some(url.clone()), key: arguments.key.clone(), data: None, nats: None };
        Source::open(&location, config).await?.visit(Seq::ZERO, ask).await?;
        url.clone()
    } else {
        ask_all(&mut ask, directory, config).await?;
        directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    bar.finish_and_clear();
    let asked = prequential.asked();
    if asked == 0 {
        return Err(anyhow::anyhow!("{name} holds no completed trace with an intent and known tools").into());
    }
    let curves = curves(&prequential.finish(), arguments.window as usize);
    let about = format!("mean of the last {} traces; embedding model {}", arguments.window, embedder.model());
    let paths = write(&curves, &arguments.out, &format!("{name}: predict, then learn"), &about)?;
    output.json(&json!({
        "history": name, "model": embedder.model().to_string(), "traces": asked, "window": arguments.window,
        "curves": curves.iter().map(curve_json).collect::<Vec<Value>>(), "parquet": paths[0], "svg": paths[1],
    }));
    print(&curves, asked, &paths, output);
    Ok(0)
}

/// Applies the whole history: of a dataset, a snapshot, a data directory or exported events.
async fn ask_all(mut ask: impl FnMut(Record) -> anyhow::Result<bool>, directory: &Path, config: &Config) -> anyhow::Result<()> {
    if directory.join(TOOLS).exists() {
        let mut dataset = Dataset::load(directory, TRAIN, START)?.complete()?;
        if directory.join(TEST).exists() {
            dataset.traces.extend(Dataset::load(directory, TEST, START)?.complete()?.traces);
        }
        dataset_records(dataset, START).try_for_each(|record| ask(record).map(|_: bool| ()))?;
    } else if directory.join(MANIFEST).exists() {
        let state = restore_snapshot(directory, config).await?;
        state_records(&state).try_for_each(|record| ask(record).map(|_: bool| ()))?;
    } else {
        open(directory, config)?.visit(Seq::ZERO, ask).await?;
    }
    Ok(())
}

/// Restores the state of the snapshot in `directory`.
async fn restore_snapshot(directory: &Path, config: &Config) -> anyhow::Result<State> {
    let directory = std::path::absolute(directory)?;
    let name = directory.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
    let store = directory.parent().and_then(Path::to_str);
    let (Some(seq), Some(store)) = (name, store) else { anyhow::bail!("{} is not named by a position", directory.display()) };
    let fetched = snapshot::fetch(&Store::at(store, config)?, Seq(seq)).await?;
    Ok(snapshot::restore(&fetched)?)
}

/// Opens a data directory, or exported events.
fn open(directory: &Path, config: &Config) -> anyhow::Result<Source> {
    if RedbLog::exists(directory) {
        return Source::from_directory(directory, config);
    }
    let archive = Archive::open(directory)?;
    let shown = directory.display();
    anyhow::ensure!(
        archive.last().is_some(),
        "{shown} holds no dataset, no log, no snapshot, and no events from `pml log export`"
    );
    Ok(Source::Archive(archive))
}

fn write(curves: &[Curve], out: &Path, title: &str, about: &str) -> anyhow::Result<[PathBuf; 2]> {
    std::fs::create_dir_all(out).with_context(|| format!("cannot write {}", out.display()))?;
    let paths = [out.join(PARQUET), out.join(PICTURE)];
    write_parquet(curves, &paths[0]).with_context(|| format!("cannot write {}", paths[0].display()))?;
    std::fs::write(&paths[1], svg(curves, title, about)).with_context(|| format!("cannot write {}", paths[1].display()))?;
    Ok(paths)
}

fn curve_json(curve: &Curve) -> Value {
    let named = |values: [f64; 3]| json!({"hit1": values[0], "mrr": values[1], "recall5": values[2]});
    json!({
        "question": curve.question, "ranker": curve.ranker, "n": curve.points.len(),
        "overall": named(curve.overall()), "last_window": named(curve.last()),
    })
}

fn print(curves: &[Curve], asked: u32, paths: &[PathBuf; 2], output: &Output) {
    output.say(format!(
        "{asked} traces, each asked about before it was learnt; means over all traces / over the last window, in %"
    ));
    let row = |curve: &Curve| {
        let cells = curve.overall().into_iter().zip(curve.last());
        let cells = cells.map(|(all, last)| format!("{:.1} / {:.1}", all * 100.0, last * 100.0));
        [curve.question.to_owned(), curve.ranker.to_owned()].into_iter().chain(cells).collect()
    };
    output.table(&[&["", "ranker"], &METRICS[..]].concat(), curves.iter().map(row).collect::<Vec<_>>());
    output.say(format!("curves in {} and {}", paths[0].display(), paths[1].display()));
}
