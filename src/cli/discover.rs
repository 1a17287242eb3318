//! `pml discover`: finds the tools and capabilities that fit an intent.

use clap::Args;
use indicatif::HumanCount;
use serde_json::Value;

use super::Outcome;
use super::output::Output;
use super::question::QuestionArguments;
use super::readable::readable;
use crate::ask::{Asker, DiscoverRequest, Filter, ItemType};
use crate::config::Config;

#[derive(Args)]
pub(super) struct Arguments {
    /// The intent: what is to be done, in plain words
    #[arg(required_unless_present = "name", default_value = "", hide_default_value = true)]
    intent: String,
    /// Instead of an intent: a name, a pattern of names with * and ?, or an id
    #[arg(long, conflicts_with = "intent")]
    name: Option<String>,
    /// Only tools or only capabilities
    #[arg(long = "type", value_enum, default_value = "all")]
    only: ItemType,
    /// Leave out results with a lower score
    #[arg(long, default_value_t = 0.0, value_name = "SCORE")]
    min_score: f64,
    /// Number of results at most
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=50))]
    limit: u16,
    /// Leave out this many results at the beginning
    #[arg(long, default_value_t = 0, value_name = "N")]
    offset: usize,
    /// Also show the tools often called before and after each result
    #[arg(long)]
    related: bool,
    #[command(flatten)]
    question: QuestionArguments,
}

pub(super) async fn run(arguments: Arguments, config: Config, output: &Output) -> Outcome {
    let request = DiscoverRequest {
        intent: arguments.intent,
        name: arguments.name,
        offset: arguments.offset,
        filter: Filter { only: arguments.only, min_score: arguments.min_score },
        limit: Some(arguments.limit.into()),
        include_related: arguments.related,
    };
    let answer = arguments.question.answer(&config, "/v1/discover", request, Asker::discover).await?;
    output.json(&answer);
    print(&readable(&answer), output);
    Ok(0)
}

/// Prints the answer for people.
fn print(answer: &Value, output: &Output) {
    let meta = &answer["meta"];
    let results = answer["results"].as_array().cloned().unwrap_or_default();
    if results.is_empty() {
        output.say(
            "no tool or capability matches; pml finds only those that were published or imported (`pml publish`, `pml import`)",
        );
        return;
    }
    output.table(&["score", "", "name, description, reasons", "calls", "success"], results.iter().map(row));
    let [returned, found] = ["returned_count", "total_found"].map(|key| HumanCount(meta[key].as_u64().unwrap_or(0)));
    output.say(format!("showing {returned} of {found} matches"));
}

/// One result. Name, description and reasons share a column: three narrow ones would make a row a dozen lines high.
fn row(item: &Value) -> Vec<String> {
    let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
    let is_tool = item["type"] == "tool";
    let name = match (is_tool, item["registered"].as_bool()) {
        (true, Some(false)) => format!("{} (not registered)", text("id")),
        (true, _) => text("id"),
        (false, _) => format!("capability:{}", text("handle")),
    };
    let about = if is_tool || !text("description").is_empty() { text("description") } else { text("name") };
    let lines = [name, shortened(&about, 90)].into_iter().chain(reasons(item)).filter(|line| !line.is_empty());
    let what = lines.collect::<Vec<_>>().join("\n");
    let calls = item["usage_count"].as_u64().unwrap_or(0);
    let success =
        if calls == 0 { "-".to_owned() } else { format!("{:.0}%", item["success_rate"].as_f64().unwrap_or(0.0) * 100.0) };
    let score = format!("{:.2}", item["score"].as_f64().unwrap_or(0.0));
    vec![score, if is_tool { "tool" } else { "capability" }.to_owned(), what, calls.to_string(), success]
}

/// Returns the strongest signals, the most similar past intent, and the related tools, each a line.
fn reasons(item: &Value) -> Vec<String> {
    let mut signals: Vec<(&str, f64)> = item["signals"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((signal_label(name)?, value.as_f64()?)))
        .filter(|(_, value)| *value >= 0.005)
        .collect();
    signals.sort_by(|a, b| b.1.total_cmp(&a.1));
    let strongest: Vec<String> = signals.iter().take(3).map(|(name, value)| format!("{name} {value:.2}")).collect();
    let mut lines = vec![strongest.join(", ")];
    if let Some(intent) = item["similar_intent"].as_str() {
        lines.push(format!("similar to \"{}\"", shortened(intent, 60)));
    }
    for related in item["related_tools"].as_array().into_iter().flatten() {
        let relation = related["relation"].as_str().unwrap_or_default().replace('_', " ");
        let tool = related["tool_id"].as_str().unwrap_or_default();
        lines.push(format!("{relation}: {tool} ({} of {})", related["times"], related["of"]));
    }
    lines
}

fn signal_label(signal: &str) -> Option<&'static str> {
    match signal {
        "dense" => Some("meaning"),
        "clause" => Some("meaning of a clause"),
        "bm25" => Some("words"),
        "popularity" => Some("popularity"),
        "memory" => Some("similar past intents"),
        "memory_wide" => Some("common for similar intents"),
        "memory_clause" => Some("similar clauses of past intents"),
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
