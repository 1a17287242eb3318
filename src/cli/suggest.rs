//! `pml suggest`: suggests a plan for an intent and draws it.

use std::fmt::Write as _;

use clap::Args;
use serde_json::Value;

use super::Outcome;
use super::output::Output;
use super::question::QuestionArguments;
use super::readable::readable;
use crate::ask::{Asker, SuggestRequest};
use crate::config::Config;

#[derive(Args)]
pub(super) struct Arguments {
    /// The intent: what is to be done, in plain words
    intent: String,
    /// Calls made already, in order, separated by commas; the option may be repeated
    #[arg(long, value_name = "TOOL,TOOL", value_delimiter = ',')]
    after: Vec<String>,
    /// Number of alternatives at most
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=3))]
    limit: u16,
    /// Print the plan for Graphviz
    #[arg(long, conflicts_with = "mermaid")]
    dot: bool,
    /// Print the plan as a Mermaid flowchart
    #[arg(long)]
    mermaid: bool,
    #[command(flatten)]
    question: QuestionArguments,
}

pub(super) async fn run(arguments: Arguments, config: Config, output: &Output) -> Outcome {
    let request = SuggestRequest { intent: arguments.intent, context: arguments.after, k: Some(arguments.limit.into()) };
    let answer = arguments.question.answer(&config, "/v1/suggest", request, Asker::suggest).await?;
    output.json(&answer);
    if arguments.dot {
        output.say(dot(&answer["plan"]).trim_end());
    } else if arguments.mermaid {
        output.say(mermaid(&answer["plan"]).trim_end());
    } else {
        output.say(drawn(&readable(&answer)).trim_end());
    }
    Ok(0)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn items<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value[key].as_array().into_iter().flatten()
}

fn percent(value: &Value) -> String {
    format!("{:.0}%", value.as_f64().unwrap_or(0.0) * 100.0)
}

/// The positions of the tasks that a task depends on.
fn depends_on(task: &Value) -> impl Iterator<Item = u64> + use<'_> {
    items(task, "depends_on").filter_map(Value::as_u64)
}

/// The whole answer for people.
fn drawn(answer: &Value) -> String {
    let plan = &answer["plan"];
    if plan.is_null() {
        return "no plan: nothing known fits; pml learns plans from published or imported traces (`pml publish`, `pml import`)"
            .to_owned();
    }
    let mut lines = String::new();
    let sure = if answer["sure"] == true { "plan" } else { "not sure; best guess" };
    line(&mut lines, &format!("{sure}, confidence {}", percent(&plan["confidence"])));
    for reason in items(plan, "rationale").filter_map(Value::as_str) {
        line(&mut lines, &format!("  {reason}"));
    }
    lines.push_str(&layers(plan));
    for missing in items(answer, "missing") {
        let how = if missing["callable"] == true { "can be called" } else { "is not available" };
        line(&mut lines, &format!("missing: {} for {} ({how})", text(missing, "item"), text(missing, "needed_by")));
    }
    for capability in items(answer, "suggested_capabilities").filter_map(Value::as_str) {
        line(&mut lines, &format!("instead of a part: {capability}"));
    }
    for other in items(answer, "alternatives") {
        let tools: Vec<&str> = items(other, "tasks").map(|task| text(task, "tool")).collect();
        line(&mut lines, &format!("or ({}): {}", percent(&other["confidence"]), tools.join(", ")));
    }
    lines
}

fn line(lines: &mut String, text: &str) {
    writeln!(lines, "{text}").expect("writing to a string does not fail");
}

/// The tasks by layer; an arrow names the tasks whose output one uses.
fn layers(plan: &Value) -> String {
    let tasks: Vec<&Value> = items(plan, "tasks").collect();
    let count = tasks.iter().filter_map(|task| task["layer"].as_u64()).max().map_or(0, |last| last + 1);
    let mut lines = String::new();
    for layer in 0..count {
        let together: Vec<(u64, &&Value)> = (0..).zip(&tasks).filter(|(_, task)| task["layer"] == layer).collect();
        let note = if together.len() > 1 { ", side by side" } else { "" };
        line(&mut lines, &format!("layer {}{note}", layer + 1));
        for (position, task) in together {
            let from: Vec<String> = depends_on(task).map(|from| format!("[{}]", from + 1)).collect();
            let arrow = if from.is_empty() { String::new() } else { format!("{} -> ", from.join(" ")) };
            line(&mut lines, &format!("  {arrow}[{}] {} ({})", position + 1, text(task, "tool"), percent(&task["p"])));
            let open = items(task, "arguments").filter(|argument| argument["required"] == true && argument["fed_by"].is_null());
            let open: Vec<&str> = open.map(|argument| text(argument, "name")).collect();
            if !open.is_empty() {
                line(&mut lines, &format!("      to supply: {}", open.join(", ")));
            }
        }
    }
    lines
}

/// The plan for Graphviz.
fn dot(plan: &Value) -> String {
    let mut lines = String::from("digraph plan {\n  rankdir=LR;\n");
    for (position, task) in items(plan, "tasks").enumerate() {
        line(&mut lines, &format!("  t{position} [label=\"{}\"];", text(task, "tool").replace('"', "'")));
        for from in depends_on(task) {
            line(&mut lines, &format!("  t{from} -> t{position};"));
        }
    }
    lines + "}\n"
}

/// The plan as a Mermaid flowchart.
fn mermaid(plan: &Value) -> String {
    let mut lines = String::from("flowchart LR\n");
    for (position, task) in items(plan, "tasks").enumerate() {
        line(&mut lines, &format!("  t{position}[\"{}\"]", text(task, "tool").replace('"', "'")));
        for from in depends_on(task) {
            line(&mut lines, &format!("  t{from} --> t{position}"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_is_drawn_by_layers_with_what_feeds_each_task() {
        let task = |tool: &str, depends_on: &[u64], layer: u64| {
            json!({"tool": tool, "p": 0.9, "depends_on": depends_on, "layer": layer,
                "arguments": [{"name": "path", "required": true}]})
        };
        let plan = json!({"tasks": [task("fs:read", &[], 0), task("db:dump", &[], 0), task("zip:pack", &[0, 1], 1)],
            "confidence": 0.4, "rationale": ["why"]});
        let answer = json!({"plan": plan, "sure": false, "missing": [], "alternatives": [], "suggested_capabilities": []});
        let expected = "not sure; best guess, confidence 40%\n  why\nlayer 1, side by side\n  [1] fs:read (90%)\n      to supply: path\n  \
            [2] db:dump (90%)\n      to supply: path\nlayer 2\n  [1] [2] -> [3] zip:pack (90%)\n      to supply: path\n";
        assert_eq!(drawn(&answer), expected);
        assert!(dot(&plan).contains("t0 -> t2;"), "{}", dot(&plan));
        assert!(mermaid(&plan).contains("t1 --> t2"), "{}", mermaid(&plan));
    }
}
