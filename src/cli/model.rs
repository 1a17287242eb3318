//! `pml model`: lists, shows and compares trained versions, makes one serve, or returns to the one before.

use std::collections::BTreeSet;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::output::Output;
use super::remote::Remote;
use super::source::Source;
use super::train::writable;
use super::{LogLocation, Outcome};
use crate::ask::models::models;
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::{Event, ModelPart, ModelVersion};
use crate::core::state::State;
use crate::history::Moment;
use crate::log::append_patiently;
use crate::training::{ChangeError, change_record, promotion, rollback};

#[derive(Subcommand)]
pub(super) enum Command {
    /// List the latest training runs and the versions that serve
    List(ListArguments),
    /// Show a training run: settings, metrics, verdict, curve
    Show(VersionArguments),
    /// Make a version serve
    Promote(VersionArguments),
    /// Return a part to the version that served before, or to none
    Rollback(RollbackArguments),
    /// Compare the metrics and settings of two versions
    Diff(DiffArguments),
}

#[derive(Args)]
pub(super) struct ListArguments {
    #[command(flatten)]
    location: LogLocation,
}

#[derive(Args)]
pub(super) struct VersionArguments {
    /// Version, as `pml model list` shows it
    version: ModelVersion,
    #[command(flatten)]
    location: LogLocation,
}

#[derive(Args)]
pub(super) struct RollbackArguments {
    /// Part: head, encoder, shgat or ranker
    part: ModelPart,
    #[command(flatten)]
    location: LogLocation,
}

#[derive(Args)]
pub(super) struct DiffArguments {
    #[arg(value_name = "A")]
    before: ModelVersion,
    #[arg(value_name = "B")]
    after: ModelVersion,
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn run(command: Command, config: Config, output: &Output) -> Outcome {
    match command {
        Command::List(arguments) => list(&known(&arguments.location, &config).await?, output),
        Command::Show(VersionArguments { version, location }) => {
            let run = run_of(&known(&location, &config).await?, &version)?;
            output.json(&run);
            show(&run, output);
        }
        Command::Diff(DiffArguments { before, after, location }) => {
            let known = known(&location, &config).await?;
            diff(&run_of(&known, &before)?, &run_of(&known, &after)?, output);
        }
        Command::Promote(VersionArguments { version, location }) => {
            let change = Change {
                path: format!("/v1/models/{version}/promote"),
                body: json!({}),
                decide: &|state| promotion(state, &version),
            };
            change.make(&location, &config, version.part(), output).await?;
        }
        Command::Rollback(RollbackArguments { part, location }) => {
            let change = Change {
                path: "/v1/models/rollback".to_owned(),
                body: json!({"part": part.name()}),
                decide: &|state| rollback(state, part),
            };
            change.make(&location, &config, part, output).await?;
        }
    }
    Ok(0)
}

/// What a location knows about its models.
async fn known(location: &LogLocation, config: &Config) -> anyhow::Result<Value> {
    match Source::open(location, config).await? {
        Source::Server(remote) => remote.get("/v1/models"),
        source => Ok(json!(models(&source.state(Moment::Now).await?, None))),
    }
}

/// The latest run of a version.
fn run_of(known: &Value, version: &ModelVersion) -> anyhow::Result<Value> {
    let runs = known["runs"].as_array().cloned().unwrap_or_default();
    let found = runs.into_iter().find(|run| run["version"].as_str() == Some(version.as_str()));
    found.ok_or_else(|| ChangeError::Unknown(version.clone()).into())
}

fn list(known: &Value, output: &Output) {
    output.json(&json!({"serving": known["serving"], "runs": known["runs"], "based_on_seq": known["based_on_seq"]}));
    let runs = known["runs"].as_array().cloned().unwrap_or_default();
    for part in ModelPart::ALL {
        let serving = &known["serving"][part.name()];
        if let Some(version) = serving["version"].as_str() {
            let before = serving["previous"].as_str().map(|version| format!(", before it {version}")).unwrap_or_default();
            output.say(format!("{part}: {version} serves{before}"));
        }
    }
    if runs.is_empty() {
        output.say("no training run yet; `pml train` starts one");
    } else {
        print_runs(&runs, output);
    }
}

/// Prints a table of runs.
pub(super) fn print_runs(runs: &[Value], output: &Output) {
    let row = |run: &Value| {
        let verdict = match (run["accepted"].as_bool(), run["serving"].as_bool()) {
            (_, Some(true)) => "serving",
            (Some(true), _) => "accepted",
            _ => "refused",
        };
        let metrics = run["metrics"].as_array().cloned().unwrap_or_default();
        let metrics: Vec<String> =
            metrics.iter().map(|metric| format!("{} {}", text(&metric["name"]), value(metric))).collect();
        vec![
            run["seq"].as_u64().map_or_else(|| "-".to_owned(), |seq| seq.to_string()),
            text(&run["version"]),
            verdict.to_owned(),
            text(&run["reason"]),
            run["examples"].to_string(),
            metrics.join("\n"),
        ]
    };
    output.table(&["seq", "version", "verdict", "reason", "examples", "metrics"], runs.iter().map(row));
}

fn show(run: &Value, output: &Output) {
    let fields = ["part", "seq", "accepted", "reason", "serving", "kept", "parent", "seed", "through_seq", "embedding_model"];
    let fields = fields.into_iter().chain(["examples", "skipped", "digest", "size"]);
    output.say(text(&run["version"]));
    let rows = fields.filter(|name| !run[name].is_null()).map(|name| vec![name.replace('_', " "), text(&run[name])]);
    output.table(&["field", "value"], rows);
    let settings = run["settings"].as_object().cloned().unwrap_or_default();
    if !settings.is_empty() {
        output.table(&["setting", "value"], settings.iter().map(|(name, value)| vec![name.clone(), text(value)]));
    }
    let metrics = run["metrics"].as_array().cloned().unwrap_or_default();
    if !metrics.is_empty() {
        let row = |metric: &Value| vec![text(&metric["name"]), value(metric), metric["n"].to_string()];
        output.table(&["metric", "value", "n"], metrics.iter().map(row));
    }
    let curve = run["curve"].as_array().cloned().unwrap_or_default();
    if !curve.is_empty() {
        let number = |value: &Value| value.as_f64().map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
        let row = |point: &Value| {
            vec![text(&point["stage"]), point["epoch"].to_string(), number(&point["loss"]), number(&point["validation"])]
        };
        output.table(&["curve", "epoch", "loss", "held out"], curve.iter().map(row));
    }
}

fn diff(before: &Value, after: &Value, output: &Output) {
    let versions = [before, after].map(|run| text(&run["version"]));
    let metric = |run: &Value, name: &str| {
        let found = run["metrics"].as_array()?.iter().find(|metric| metric["name"].as_str() == Some(name))?;
        found["value"].as_f64()
    };
    let metric_names = |run: &Value| {
        let metrics = run["metrics"].as_array().cloned().unwrap_or_default();
        metrics.iter().map(|metric| text(&metric["name"])).collect::<BTreeSet<_>>()
    };
    let setting_names = |run: &Value| {
        run["settings"].as_object().map(|settings| settings.keys().cloned().collect::<BTreeSet<_>>()).unwrap_or_default()
    };
    let metrics: Vec<Value> = metric_names(before)
        .union(&metric_names(after))
        .map(|name| {
            let [a, b] = [metric(before, name), metric(after, name)];
            json!({"name": name, "a": a, "b": b, "change": a.zip(b).map(|(a, b)| b - a)})
        })
        .collect();
    let settings: Vec<Value> = setting_names(before)
        .union(&setting_names(after))
        .map(|name| json!({"name": name, "a": before["settings"][name], "b": after["settings"][name]}))
        .collect();
    output.json(&json!({"a": versions[0], "b": versions[1], "metrics": metrics, "settings": settings}));
    let number = |value: &Value| value.as_f64().map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
    let [a, b] = &versions;
    let metric_row = |row: &Value| vec![text(&row["name"]), number(&row["a"]), number(&row["b"]), number(&row["change"])];
    output.table(&["metric", a, b, "change"], metrics.iter().map(metric_row));
    let side = |value: &Value| if value.is_null() { "-".to_owned() } else { text(value) };
    let setting_row = |row: &Value| {
        let mark = if row["a"] == row["b"] { "" } else { "differs" };
        vec![text(&row["name"]), side(&row["a"]), side(&row["b"]), mark.to_owned()]
    };
    output.table(&["setting", a, b, ""], settings.iter().map(setting_row));
}

/// A change of what serves: by a route of a server, or decided on the fold of a log.
struct Change<'a> {
    path: String,
    body: Value,
    decide: &'a dyn Fn(&State) -> Result<Event, ChangeError>,
}

impl Change<'_> {
    async fn make(self, location: &LogLocation, config: &Config, part: ModelPart, output: &Output) -> anyhow::Result<()> {
        let source = Source::open(location, config).await?;
        let changed = match &source {
            Source::Server(remote) => self.ask(remote)?,
            source => self.append(source, part).await?,
        };
        output.json(&changed);
        let serving = changed["serving"].as_str().unwrap_or("no trained version");
        output.say(format!("{part}: {serving} serves from record {}", changed["seq"]));
        Ok(())
    }

    fn ask(&self, remote: &Remote) -> anyhow::Result<Value> {
        remote.ask(&self.path, &self.body)
    }

    async fn append(&self, source: &Source, part: ModelPart) -> anyhow::Result<Value> {
        let mut state = source.state(Moment::Now).await?;
        let fact = Arc::new(change_record((self.decide)(&state)?, &Clock::system()));
        let log = writable(source).expect("a location is a server or a log");
        let appended = append_patiently(log, vec![fact]).await?;
        let folding = source.visit(state.applied(), |record| {
            state.apply(&record);
            Ok(true)
        });
        folding.await?;
        let serving = state.trained.serving(part).current.as_ref().map(ModelVersion::as_str);
        Ok(json!({"part": part.name(), "serving": serving, "seq": appended.first().map(|appended| appended.seq.0)}))
    }
}

/// The value of a metric.
fn value(metric: &Value) -> String {
    metric["value"].as_f64().map_or_else(String::new, |value| format!("{value:.4}"))
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
