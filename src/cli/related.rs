//! `pml related`: shows the neighbours of a tool in the graph.

use clap::Args;
use serde_json::{Value, json};

use super::Outcome;
use super::output::Output;
use super::question::QuestionArguments;
use super::readable::readable;
use super::remote::Remote;
use super::source::Source;
use crate::ask::catalogue::Refused;
use crate::ask::related::{RelatedQuery, related};
use crate::config::Config;
use crate::core::graph::cold_start::ColdStart;
use crate::core::graph::measures::{Measures, tool_vectors};
use crate::history::Moment;

#[derive(Args)]
pub(super) struct Arguments {
    /// A tool, or a capability by its id or handle
    tool: String,
    /// Also show the cheapest path to this tool
    #[arg(long, value_name = "TOOL")]
    to: Option<String>,
    /// Number of neighbours per direction and of community mates at most
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    #[command(flatten)]
    question: QuestionArguments,
}

pub(super) async fn run(arguments: Arguments, config: Config, output: &Output) -> Outcome {
    let answer = match (Source::open(&arguments.question.location, &config).await?, arguments.question.at) {
        (Source::Server(remote), None) => ask(&remote, &arguments)?,
        (source, _) => compute(&source, &arguments, &config).await?,
    };
    output.json(&answer);
    print(&readable(&answer), output);
    Ok(0)
}

fn ask(remote: &Remote, arguments: &Arguments) -> anyhow::Result<Value> {
    let to = arguments.to.as_ref().map_or_else(String::new, |to| format!("&to={}", encoded(to)));
    remote.get(&format!("/v1/related?tool={}{to}&limit={}", encoded(&arguments.tool), arguments.limit))
}

/// Computes the answer from a fold of the log, as a server would.
async fn compute(source: &Source, arguments: &Arguments, config: &Config) -> anyhow::Result<Value> {
    let state = source.state(arguments.question.at.unwrap_or(Moment::Now)).await?;
    let measures = Measures::compute(&state, None, ColdStart::from(&config.graph), &tool_vectors(&state));
    let (tool, to) = (arguments.tool.clone(), arguments.to.clone());
    let query = RelatedQuery { tool, to, limit: Some(arguments.limit.into()), at: None };
    let answer = related(&state, &measures, &query);
    Ok(json!(answer.map_err(|Refused { field, problem, .. }| anyhow::anyhow!("{field}: {problem}"))?))
}

/// Percent-encodes a name for a query string.
fn encoded(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    let encode = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(encode).collect()
}

/// How often, of how many.
fn share(times: &Value, of: &Value) -> String {
    if times == 0 { "-".to_owned() } else { format!("{times} of {of}") }
}

fn print(answer: &Value, output: &Output) {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let number = |value: &Value| value.as_f64().map_or_else(String::new, |number| format!("{number:.2}"));
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let joined = |value: &Value, separator: &str| list(value).iter().map(text).collect::<Vec<_>>().join(separator);
    let rank = answer["pagerank"].as_f64().unwrap_or(0.0);
    output.say(format!("{}  PageRank {rank:.5}, community of {} members", text(&answer["tool"]), answer["community_size"]));
    let mut rows = Vec::new();
    for related in list(&answer["related_tools"]) {
        let relation = text(&related["relation"]).replace('_', " ");
        rows.push(vec![relation, text(&related["tool"]), String::new(), share(&related["times"], &related["of"])]);
    }
    for (name, side) in [("in", "edge from"), ("out", "edge to")] {
        for link in list(&answer["neighbours"][name]) {
            let kind = format!("{} ({})", text(&link["kind"]), text(&link["source"]));
            let seen = share(&link["observations"], &link["of"]);
            rows.push(vec![side.into(), text(&link["tool"]), kind, seen]);
        }
    }
    if rows.is_empty() {
        output.say("no neighbours");
    } else {
        output.table(&["", "tool", "edge", "runs, of its calls"], rows);
    }
    if answer["community_size"].as_u64() > Some(1) {
        output.say(format!("same community: {}", joined(&answer["community_mates"], ", ")));
    }
    if let Some(path) = answer.get("path") {
        output.say(if path["cost"].is_null() {
            format!("no path to {}", text(&path["to"]))
        } else {
            format!("path: {} (cost {})", joined(&path["steps"], " -> "), number(&path["cost"]))
        });
    }
}
