//! `pml speculate`: shows which calls may be run before an agent asks for them.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde_json::Value;

use super::Outcome;
use super::output::Output;
use super::question::{QuestionArguments, SituationArguments};
use super::readable::readable;
use crate::ask::{Asker, PlannedTask, SpeculateRequest};
use crate::config::Config;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    situation: SituationArguments,
    /// A plan to follow instead of predicting: the output of `pml suggest --json`
    #[arg(long, value_name = "FILE", conflicts_with = "after")]
    plan: Option<PathBuf>,
    /// The tasks of the plan that are done, as `pml suggest` numbers them, separated by commas
    #[arg(long, value_name = "N,N", value_delimiter = ',', requires = "plan", value_parser = clap::value_parser!(u32).range(1..))]
    done: Vec<u32>,
    #[command(flatten)]
    question: QuestionArguments,
}

pub(super) async fn run(arguments: Arguments, config: Config, output: &Output) -> Outcome {
    let plan = match &arguments.plan {
        Some(file) => {
            let text = std::fs::read_to_string(file).with_context(|| format!("the plan {} cannot be read", file.display()))?;
            tasks(&text).with_context(|| format!("{} is not the output of `pml suggest --json`", file.display()))?
        }
        None => Vec::new(),
    };
    let done = arguments.done.into_iter().map(|number| number as usize - 1).collect();
    let request = SpeculateRequest { intent: arguments.situation.intent, context: arguments.situation.after, plan, done };
    let answer = arguments.question.answer(&config, "/v1/speculate", request, Asker::speculate).await?;
    output.json(&answer);
    output.say(shown(&readable(&answer)));
    Ok(0)
}

/// The tasks of a suggestion, or of a plan alone.
fn tasks(text: &str) -> anyhow::Result<Vec<PlannedTask>> {
    let mut answer: Value = serde_json::from_str(text)?;
    let plan = if answer["plan"].is_object() { answer["plan"].take() } else { answer };
    Ok(serde_json::from_value(plan["tasks"].clone())?)
}

fn shown(answer: &Value) -> String {
    let calls = |list: &str| answer[list].as_array().cloned().unwrap_or_default();
    let name = |call: &Value| {
        let tool = call["tool"].as_str().unwrap_or_default();
        call["task"].as_u64().map_or_else(|| tool.to_owned(), |task| format!("[{}] {tool}", task + 1))
    };
    let run = calls("run").into_iter().map(|call| format!("run   {}", name(&call)));
    let why = |call: &Value| match call["why"].as_str() {
        Some("unlikely") => format!(
            "{:.0}% is below its threshold of {:.0}%",
            answer["p"].as_f64().unwrap_or(0.0) * 100.0,
            answer["threshold"].as_f64().unwrap_or(0.0) * 100.0
        ),
        Some("may_change_something") => "not marked read-only or idempotent".to_owned(),
        why => why.unwrap_or_default().to_owned(),
    };
    let wait = calls("wait").into_iter().map(|call| format!("wait  {} ({})", name(&call), why(&call)));
    let lines: Vec<String> = run.chain(wait).collect();
    if lines.is_empty() { "nothing comes next".to_owned() } else { lines.join("\n") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_are_shown_with_what_they_wait_for_and_plans_are_read_from_suggestions() {
        let answer = json!({"run": [{"tool": "fs:read", "task": 0}], "wait": [{"tool": "db:drop", "why": "unlikely"}],
            "p": 0.4, "threshold": 0.75});
        assert_eq!(shown(&answer), "run   [1] fs:read\nwait  db:drop (40% is below its threshold of 75%)");
        assert_eq!(shown(&json!({"run": [], "wait": []})), "nothing comes next");
        let suggested =
            r#"{"plan": {"tasks": [{"tool": "fs:read", "p": 0.5}, {"tool": "zip:pack", "depends_on": [0]}]}, "sure": true}"#;
        let read: Vec<(String, Vec<usize>)> =
            tasks(suggested).unwrap().into_iter().map(|task| (task.tool, task.depends_on)).collect();
        assert_eq!(read, [("fs:read".to_owned(), vec![]), ("zip:pack".to_owned(), vec![0])]);
        assert!(tasks("{}").is_err());
    }
}
