//! `pml explain`: explains a prediction by its signals and the records it was learnt from.

use clap::Args;
use serde_json::Value;

use super::Outcome;
use super::output::Output;
use super::predict::signal_label;
use super::question::{QuestionArguments, SituationArguments};
use super::readable::readable;
use crate::ask::{Asker, ExplainRequest, PredictMode};
use crate::config::Config;

/// Rows without -v: the answer fits a screen of 24 lines.
const REASONS_SHOWN: usize = 6;
const RECORDS_SHOWN: usize = 3;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    situation: SituationArguments,
    /// Id of a served prediction, instead of an intent and calls
    #[arg(long, value_name = "ID", conflicts_with_all = ["intent", "after"])]
    prediction: Option<String>,
    /// The outcome to explain: a tool, capability:ID or done [default: the first outcome]
    #[arg(long)]
    item: Option<String>,
    /// Show every signal and every record
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    question: QuestionArguments,
}

pub(super) async fn run(arguments: Arguments, config: Config, output: &Output) -> Outcome {
    let request = ExplainRequest {
        prediction: arguments.prediction,
        intent: arguments.situation.intent,
        context: arguments.situation.after,
        mode: PredictMode::default(),
        item: arguments.item,
    };
    let answer = arguments.question.answer(&config, "/v1/explain", request, Asker::explain).await?;
    output.json(&answer);
    print(&readable(&answer), arguments.verbose, output);
    Ok(0)
}

fn print(answer: &Value, verbose: bool, output: &Output) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let context: Vec<String> = answer["context"].as_array().into_iter().flatten().map(text).collect();
    let after = if context.is_empty() { "at the start".to_owned() } else { format!("after {}", context.join(", ")) };
    output.say(format!("{} {after}: {:.1}%, rank {}", text(&answer["item"]), number(&answer["p"]) * 100.0, answer["rank"]));
    if let Some(served) = answer["served"].as_object() {
        let p = served["p"].as_f64().map_or_else(|| "not listed".to_owned(), |p| format!("{:.1}%", p * 100.0));
        output.say(format!("when it was served, after record {}: {p}", served["based_on_seq"]));
    }
    if let Some(clause) = answer["clause"].as_str() {
        output.say(format!("matches the clause \"{clause}\""));
    }
    let reasons = answer["reasons"].as_array().cloned().unwrap_or_default();
    let shown = if verbose { reasons.len() } else { reasons.len().min(REASONS_SHOWN) };
    output.table(
        &["signal", "value", "usually", "weight", "contribution"],
        reasons.iter().take(shown).map(|reason| {
            let keys = ["value", "typical", "weight", "adds"];
            let [value, typical, weight, adds] = keys.map(|key| format!("{:+.3}", number(&reason[key])));
            vec![signal_label(&text(&reason["signal"])).to_owned(), value, typical, weight, adds]
        }),
    );
    let hidden: f64 = reasons.iter().skip(shown).map(|reason| number(&reason["adds"])).sum();
    if shown < reasons.len() {
        output.say(format!("and {} smaller ones, together {hidden:+.3} (-v shows them)", reasons.len() - shown));
    }
    for target in answer["targets"].as_array().into_iter().flatten() {
        let (share, handle) = (number(&target["share"]) * 100.0, text(&target["handle"]));
        let next: Vec<String> = target["next"].as_array().into_iter().flatten().map(text).collect();
        let next = if next.is_empty() { "nothing is left to call".to_owned() } else { format!("next: {}", next.join(", ")) };
        let by = if target["by"] == "shgat" { "SHGAT" } else { "the memory" };
        output.say(format!("{by} aims with {share:.1}% at capability:{handle}, which contains it; {next}"));
    }
    let mut taught = answer["taught"].as_array().cloned().unwrap_or_default();
    let all = taught.len();
    if !verbose {
        // A record that taught several signals is shown once.
        taught.sort_by_key(|record| std::cmp::Reverse(record["seq"].as_u64()));
        taught.dedup_by_key(|record| record["seq"].as_u64());
        taught.truncate(RECORDS_SHOWN);
    }
    if !taught.is_empty() {
        output.say("learnt from:");
        output.table(
            &["signal", "record", "execution", "intent", "similarity"],
            taught.iter().map(|record| {
                let similar = record["similarity"].as_f64().map_or_else(String::new, |share| format!("{share:.2}"));
                let signal = signal_label(&text(&record["signal"])).to_owned();
                vec![signal, record["seq"].to_string(), text(&record["execution"]), text(&record["intent"]), similar]
            }),
        );
        if taught.len() < all {
            output.say(format!("{} of {all} (-v shows them)", taught.len()));
        }
    }
}
