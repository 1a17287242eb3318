//! `pml retrain`: repeats a recorded training run on the same records and compares the digests.

use std::str::FromStr;

use clap::Args;
use serde_json::{Value, json};

use super::output::Output;
use super::source::Source;
use super::train::train_shown;
use super::{LogLocation, Outcome};
use crate::config::Config;
use crate::core::event::{Event, ModelTrained, ModelVersion};
use crate::core::id::Seq;
use crate::core::train::{TrainSettings, TrainedPart};
use crate::history::Moment;

#[derive(Args)]
pub(super) struct Arguments {
    /// The run: the position of its `model.trained` record, or its version
    #[arg(long, value_name = "SEQ|VERSION")]
    at: RunName,
    #[command(flatten)]
    location: LogLocation,
}

/// How a run is named.
#[derive(Clone)]
enum RunName {
    Position(Seq),
    Version(ModelVersion),
}

impl FromStr for RunName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(seq) => Ok(Self::Position(Seq(seq))),
            Err(_) => text.parse().map(Self::Version).map_err(|problem: String| {
                format!("'{text}' is neither the position of a run nor a version ({problem}); `pml model list` shows both")
            }),
        }
    }
}

pub(super) async fn run(arguments: Arguments, config: Config, output: &Output) -> Outcome {
    let source = Source::open(&arguments.location, &config).await?;
    let recorded = recorded_parts(&source, &arguments.at).await?;
    let (through, seed) = (recorded[0].through_seq, recorded[0].seed);
    let state = source.state(Moment::At(through)).await?;
    if state.applied() != through {
        return Err(anyhow::anyhow!("the log does not hold the record {through} that the run was trained on").into());
    }
    let settings = TrainSettings::recorded(&recorded);
    output.note(&format!("training on the records up to {through} with seed {seed}"));
    let trained = train_shown(&state, &settings, seed, output)?;
    let parts: Vec<Value> = recorded.iter().map(|event| compare(event, &trained)).collect();
    let equal = parts.iter().all(|part| part["equal"] == json!(true));
    output.json(&json!({"through_seq": through.0, "seed": seed, "equal": equal, "parts": parts}));
    let text = |value: &Value| value.as_str().map_or_else(|| "-".to_owned(), str::to_owned);
    let row = |part: &Value| {
        let verdict = if part["equal"] == json!(true) { "equal" } else { "different" };
        let notes = part["differing_settings"].as_array().map(|names| names.iter().map(text).collect::<Vec<_>>().join(", "));
        vec![
            text(&part["version"]),
            text(&part["recorded"]),
            text(&part["retrained"]),
            verdict.into(),
            notes.unwrap_or_default(),
        ]
    };
    output.table(&["version", "recorded digest", "digest now", "", "other settings"], parts.iter().map(row));
    output.say(if equal {
        "equal: the run is reproduced"
    } else {
        "different: this program or machine trains otherwise than the one that recorded the run"
    });
    Ok(u8::from(!equal))
}

/// All parts of the run that is named: those with the same seed, trained on the same records.
async fn recorded_parts(source: &Source, name: &RunName) -> anyhow::Result<Vec<ModelTrained>> {
    let mut runs: Vec<(Seq, ModelTrained)> = Vec::new();
    let reading = source.visit_shown("reading", Seq::ZERO, |record| {
        if let Event::ModelTrained(event) = record.event() {
            runs.push((record.seq, event.clone()));
        }
        Ok(true)
    });
    reading.await?;
    let named = |(seq, event): &&(Seq, ModelTrained)| match name {
        RunName::Position(position) => seq == position,
        RunName::Version(version) => event.version == *version,
    };
    let Some((_, run)) = runs.iter().rfind(named).cloned() else {
        anyhow::bail!("the log holds no such training run; `pml model list` shows the latest");
    };
    let of_run = |event: &ModelTrained| event.through_seq == run.through_seq && event.seed == run.seed;
    let mut parts: Vec<ModelTrained> = Vec::new();
    for (_, event) in runs {
        if of_run(&event) && parts.iter().all(|part| part.version.part() != event.version.part()) {
            parts.push(event);
        }
    }
    Ok(parts)
}

fn compare(recorded: &ModelTrained, trained: &[TrainedPart]) -> Value {
    let part = recorded.version.part();
    let again = trained.iter().map(|trained| &trained.event).find(|event| event.version.part() == part);
    let setting = |event: &ModelTrained, name: &str| {
        event.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    let differing: Vec<&String> = again.map_or_else(Vec::new, |again| {
        let names = recorded.settings.iter().chain(&again.settings).map(|(name, _)| name);
        let mut names: Vec<&String> = names.filter(|name| setting(recorded, name) != setting(again, name)).collect();
        names.dedup();
        names
    });
    json!({
        "version": recorded.version.as_str(), "recorded": recorded.digest, "retrained": again.map(|again| &again.digest),
        "equal": again.is_some_and(|again| again.digest == recorded.digest), "differing_settings": differing,
    })
}
