//! `pml score`: scores tools and capabilities for an intent.

use clap::Args;
use serde_json::Value;

use super::Outcome;
use super::output::Output;
use super::question::QuestionArguments;
use super::readable::readable;
use crate::ask::{Asker, ItemType, ScoreRequest};
use crate::config::Config;

#[derive(Args)]
pub(super) struct Arguments {
    /// The intent: what is to be done, in plain words
    intent: String,
    /// Only tools or only capabilities
    #[arg(long = "type", value_enum, default_value = "all")]
    only: ItemType,
    /// Only capabilities of this level; level 0 holds those that contain tools only
    #[arg(long, value_name = "N")]
    level: Option<usize>,
    /// The best capabilities of every level
    #[arg(long, conflicts_with = "level")]
    by_level: bool,
    /// Also predict whether these calls succeed, in order, separated by commas
    #[arg(long, value_name = "TOOL,TOOL", value_delimiter = ',')]
    path: Vec<String>,
    /// Number of scores at most, per level with --by-level
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    #[command(flatten)]
    question: QuestionArguments,
}

pub(super) async fn run(arguments: Arguments, config: Config, output: &Output) -> Outcome {
    let Arguments { intent, only, level, by_level, path, limit, question } = arguments;
    let request = ScoreRequest { intent, only, level, by_level, path, limit: Some(limit.into()) };
    let answer = question.answer(&config, "/v1/score", request, Asker::score).await?;
    output.json(&answer);
    print(&readable(&answer), output);
    Ok(0)
}

fn print(answer: &Value, output: &Output) {
    let lists = answer["levels"].as_array().into_iter().flatten().map(|level| &level["results"]);
    let rows: Vec<Vec<String>> = lists.chain([&answer["results"]]).filter_map(Value::as_array).flatten().map(row).collect();
    if rows.is_empty() {
        output.say("nothing has a score");
    } else {
        output.table(&["item", "level", "score", "semantic", "structure", "temporal"], rows);
    }
    if let Some(path) = answer.get("path") {
        let node = |node: &Value| {
            let unknown = if node["known"] == false { " (unknown)" } else { "" };
            format!("{} {}{unknown}", text(&node["item"]), share(&node["score"]))
        };
        let nodes: Vec<String> = path["scores"].as_array().into_iter().flatten().map(node).collect();
        output.say(format!("the path succeeds with {}: {}", share(&path["success"]), nodes.join(", ")));
    }
    let source = &answer["source"];
    output.say(match source["version"].as_str() {
        Some(version) => format!("scored by {version} (state at record {})", answer["based_on_seq"]),
        None => format!("{} (state at record {})", text(&source["note"]), answer["based_on_seq"]),
    });
}

fn row(item: &Value) -> Vec<String> {
    let name = match item["handle"].as_str() {
        Some(handle) => {
            let tools: Vec<&str> = item["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            format!("capability:{handle}\n{}", tools.join(", "))
        }
        None => text(&item["item"]),
    };
    let level = item["level"].as_u64().map_or_else(|| "-".to_owned(), |level| level.to_string());
    let head = |name: &str| format!("{:+.2}", item["heads"][name].as_f64().unwrap_or(0.0));
    vec![name, level, share(&item["score"]), head("semantic"), head("structure"), head("temporal")]
}

fn share(value: &Value) -> String {
    format!("{:.1}%", value.as_f64().unwrap_or(0.0) * 100.0)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
