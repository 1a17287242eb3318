//! `pml predict`: predicts the next call, with probabilities and reasons.

use clap::Args;
use serde_json::Value;

use super::Outcome;
use super::output::Output;
use super::question::{QuestionArguments, SituationArguments};
use super::readable::readable;
use crate::ask::{Asker, ItemType, PredictMode, PredictRequest};
use crate::config::Config;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    situation: SituationArguments,
    /// Only tools or only capabilities
    #[arg(long = "type", value_enum, default_value = "all")]
    only: ItemType,
    /// Which threshold decides between emit and hold
    #[arg(long, value_enum, default_value = "asked")]
    mode: PredictMode,
    /// Number of candidates at most
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=50))]
    limit: u16,
    #[command(flatten)]
    question: QuestionArguments,
}

pub(super) async fn run(arguments: Arguments, config: Config, output: &Output) -> Outcome {
    let request = PredictRequest {
        intent: arguments.situation.intent,
        context: arguments.situation.after,
        limit: Some(arguments.limit.into()),
        only: arguments.only,
        mode: arguments.mode,
    };
    let answer = arguments.question.answer(&config, "/v1/predict", request, Asker::predict).await?;
    output.json(&answer);
    print(&readable(&answer), output);
    Ok(0)
}

fn print(answer: &Value, output: &Output) {
    let ranked = answer["ranked"].as_array().cloned().unwrap_or_default();
    if ranked.is_empty() {
        let note = answer["note"].as_str().unwrap_or("none of what could come next is of this type");
        output.say(format!("{note} (`pml publish`, `pml import`; state at record {})", answer["based_on_seq"]));
        return;
    }
    output.table(&["", "next", "p", "why"], (1..).zip(&ranked).map(|(rank, item)| row(rank, item)));
    let threshold = answer["threshold"].as_f64().unwrap_or(0.0) * 100.0;
    let decision = match answer["decision"].as_str() {
        Some("emit") => format!("emit: the first candidate reaches its threshold of {threshold:.0}%"),
        _ => format!("hold: the first candidate stays below its threshold of {threshold:.0}%"),
    };
    output.say(format!("{decision} (model {}, state at record {})", text(answer, "model"), answer["based_on_seq"]));
    for unknown in answer["unknown"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        output.say(format!("unknown to pml and left out: {unknown}"));
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn row(rank: usize, item: &Value) -> Vec<String> {
    let what = match text(item, "type") {
        "done" => "(done)".to_owned(),
        "capability" => {
            let tools: Vec<&str> = item["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            format!("capability:{}\n{}", text(item, "handle"), tools.join(", "))
        }
        _ => text(item, "item").to_owned(),
    };
    let share = format!("{:.1}%", item["p"].as_f64().unwrap_or(0.0) * 100.0);
    vec![rank.to_string(), what, share, why(item)]
}

/// Returns the shares of the two main signals, then the strongest other signals with their contributions.
fn why(item: &Value) -> String {
    let reasons: Vec<&Value> = item["reasons"].as_array().into_iter().flatten().collect();
    let number = |reason: &Value, key: &str| reason[key].as_f64().unwrap_or(0.0);
    // The values of these signals are logarithms of shares; people read the shares more easily.
    let share = |signal: &str, words: &str| {
        let reason = reasons.iter().find(|reason| reason["signal"] == signal)?;
        Some(format!("{words} {:.0}%", number(reason, "value").exp() * 100.0))
    };
    let shares = [share("transition", "follows"), share("memory", "used for similar intents")];
    let others = reasons.iter().filter_map(|reason| match text(reason, "signal") {
        "transition" | "memory" | "done" => None,
        _ if number(reason, "adds").abs() < 0.05 => None,
        name => {
            let is_high = number(reason, "value") > number(reason, "typical");
            Some(format!("{} {:+.1}", signal_words(name, is_high), number(reason, "adds")))
        }
    });
    shares.into_iter().flatten().chain(others.take(3)).collect::<Vec<_>>().join(", ")
}

/// Returns what it means for people that a signal is higher or lower than usual. Whether that speaks for the outcome is for the sign of what
/// it adds: where often used tools are seldom right, being much used counts against a tool.
fn signal_words(signal: &str, is_high: bool) -> &str {
    match (signal, is_high) {
        ("popularity", true) => "much used",
        ("popularity", false) => "little used",
        ("reliability", true) => "seldom fails",
        ("reliability", false) => "fails often",
        ("intent", true) => "meaning fits",
        ("intent", false) => "meaning does not fit",
        ("used", false) => "not called yet",
        ("memory_next" | "memory_nearest", false) => "not the next call of similar intents",
        ("memory_remaining", true) => "first of what similar intents called",
        ("memory_remaining", false) => "similar intents called others first",
        ("intent_head", true) => "the intent head expects it",
        ("intent_head", false) => "the intent head does not expect it",
        ("recurrent", true) => "the encoder expects it",
        ("recurrent", false) => "the encoder does not expect it",
        ("words", true) => "words fit",
        ("words", false) => "other words",
        _ => signal_label(signal),
    }
}

/// Returns the label of a signal for people; the name itself if it has no other.
pub(super) fn signal_label(signal: &str) -> &str {
    match signal {
        "transition" => "follows the last call",
        "transition_two" => "follows the last two calls",
        "popularity" => "popularity",
        "memory_next" => "next call of similar intents",
        "memory_nearest" => "next call of the most similar intent",
        "memory" => "used for similar intents",
        "memory_remaining" => "left to call in similar intents",
        "words" => "words of the intent",
        "clause_words" => "words of a clause",
        "repeat" => "usually called again",
        "done" => "the end of the execution",
        "intent_head" => "trained: intent to tool",
        "recurrent" => "trained: sequence of calls",
        "target_mass" => "trained: tools of the target",
        "hyperpath" => "on the way to the target",
        "shgat" => "trained: graph attention (SHGAT)",
        "intent" => "meaning",
        "clause" => "meaning of a clause",
        "uncovered" => "a clause not covered yet",
        "clause_next" => "the next clause",
        "clause_back" => "an earlier clause",
        "used" => "already called",
        "position" => "number of calls so far",
        "left" => "calls left in similar intents",
        "reliability" => "success rate",
        "strategic" => "part of a capability under way",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::predict::signals::Signal;

    #[test]
    fn every_signal_that_may_serve_has_a_label_for_people() {
        let reserved = ["community", "adamic_adar", "pagerank"];
        for signal in Signal::ALL.into_iter().map(Signal::name).filter(|name| !reserved.contains(name)) {
            assert!(!signal_label(signal).contains('_'), "{signal} is shown by its name");
        }
    }
}
