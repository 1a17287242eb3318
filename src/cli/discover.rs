//! `pml discover`: which tool or capability fits an intent, and why.

use clap::Args;
use serde_json::Value;

use super::Outcome;
use super::output::Output;
use super::question::QuestionArguments;
use crate::ask::{Asker, DiscoverRequest, Filter, ItemType};
use crate::config::Config;

#[derive(Args)]
pub(super) struct Arguments {
    /// What is to be done, in plain words
    intent: String,
    /// Only tools or only capabilities
    #[arg(long = "type", value_enum, default_value = "all")]
    only: ItemType,
    /// Leave out what scores less
    #[arg(long, default_value_t = 0.0, value_name = "SCORE")]
    min_score: f64,
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=50))]
    limit: u16,
    /// Also the tools often used before and after
    #[arg(long)]
    related: bool,
    #[command(flatten)]
    question: QuestionArguments,
}

pub(super) async fn run(arguments: Arguments, config: Config, output: &Output) -> Outcome {
    let request = DiscoverRequest {
        intent: arguments.intent,
        filter: Filter { only: arguments.only, min_score: arguments.min_score },
        limit: Some(arguments.limit.into()),
        include_related: arguments.related,
    };
    let answer = arguments.question.answer(&config, "/v1/discover", request, Asker::discover).await?;
    output.json(&answer);
    print(&answer, output);
    Ok(0)
}

fn print(answer: &Value, output: &Output) {
    let meta = &answer["meta"];
    let results = answer["results"].as_array().cloned().unwrap_or_default();
    if results.is_empty() {
        output.say("nothing fits; pml knows only tools and capabilities it was told of (`pml publish`, `pml import`)");
        return;
    }
    output.table(&["score", "", "what", "used", "works", "why"], results.iter().map(row));
    output.say(format!("{} of {} that fit at all", meta["returned_count"], meta["total_found"]));
}

fn row(item: &Value) -> Vec<String> {
    let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
    let is_tool = item["type"] == "tool";
    let name = if is_tool { text("id") } else { text("name") };
    let what = match text("description") {
        description if description.is_empty() => name,
        description => format!("{name}\n{}", shortened(&description, 90)),
    };
    let used = item["usage_count"].as_u64().unwrap_or(0);
    let works =
        if used == 0 { "-".to_owned() } else { format!("{:.0}%", item["success_rate"].as_f64().unwrap_or(0.0) * 100.0) };
    let score = format!("{:.2}", item["score"].as_f64().unwrap_or(0.0));
    vec![score, if is_tool { "tool" } else { "capability" }.to_owned(), what, used.to_string(), works, why(item)]
}

/// The strongest signals in words, the nearest past intent, and what is often used around it.
fn why(item: &Value) -> String {
    let mut signals: Vec<(&str, f64)> = item["signals"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((in_words(name)?, value.as_f64()?)))
        .filter(|(_, value)| *value >= 0.005)
        .collect();
    signals.sort_by(|a, b| b.1.total_cmp(&a.1));
    let strongest: Vec<String> = signals.iter().take(3).map(|(name, value)| format!("{name} {value:.2}")).collect();
    let mut lines = vec![strongest.join(", ")];
    if let Some(intent) = item["similar_intent"].as_str() {
        lines.push(format!("like \"{}\"", shortened(intent, 60)));
    }
    for related in item["related_tools"].as_array().into_iter().flatten() {
        let relation = related["relation"].as_str().unwrap_or_default().replace('_', " ");
        lines.push(format!("{relation}: {}", related["tool_id"].as_str().unwrap_or_default()));
    }
    lines.join("\n")
}

fn in_words(signal: &str) -> Option<&'static str> {
    match signal {
        "dense" => Some("meaning"),
        "clause" => Some("meaning of a part"),
        "bm25" => Some("words"),
        "popularity" => Some("much used"),
        "memory" => Some("like past intents"),
        "memory_wide" => Some("usual around here"),
        "memory_clause" => Some("like parts of past intents"),
        _ => None,
    }
}

fn shortened(text: &str, chars_max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= chars_max {
        return line;
    }
    let cut: String = line.chars().take(chars_max - 3).collect();
    format!("{}...", cut.trim_end())
}
