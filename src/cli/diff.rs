//! `pml diff`: compares the states at two moments of a log.

use clap::Args;
use serde_json::{Value, json};

use super::output::Output;
use super::source::Source;
use super::{LogLocation, Outcome};
use crate::ask::{Asker, DiscoverRequest};
use crate::config::Config;
use crate::core::state::State;
use crate::history::Moment;
use crate::history::diff::{CapabilitySummary, Change, Diff, EdgeSummary, RankedItem, ToolSummary, ranks};

/// Ranks of an answer that are compared.
const RANKS: usize = 20;

#[derive(Args)]
pub(super) struct Arguments {
    /// The earlier moment: a position, a time such as 2026-01-31T12:00:00Z, or `now`
    #[arg(value_name = "A")]
    before: Moment,
    /// The later moment
    #[arg(value_name = "B")]
    after: Moment,
    /// Also compare the answers of discover for this intent
    #[arg(long, value_name = "TEXT")]
    intent: Option<String>,
    /// Rows per table; --json has all
    #[arg(long, default_value_t = 20)]
    limit: usize,
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn run(arguments: Arguments, config: Config, output: &Output) -> Outcome {
    let source = Source::open(&arguments.location, &config).await?;
    let [before, after] = states(&source, [arguments.before, arguments.after]).await?;
    let diff = Diff::between(&before, &after);
    let mut report = json!(diff);
    report["before"] = side(&before);
    report["after"] = side(&after);
    output.say(format!("from {} to {}", before.applied(), after.applied()));
    print(&diff, arguments.limit, output);
    if let Some(intent) = &arguments.intent {
        let ranks = ranks(&answer(before, intent, &config)?, &answer(after, intent, &config)?);
        report["ranks"] = json!(ranks);
        show(output, "rank", &ranks, arguments.limit, |facts: &RankedItem| format!("{} ({:.2})", facts.rank, facts.score));
    }
    output.json(&report);
    Ok(0)
}

/// Returns the states at two moments, in either order, from one pass over the log.
async fn states(source: &Source, moments: [Moment; 2]) -> anyhow::Result<[State; 2]> {
    for moment in moments {
        source.check(moment).await?;
    }
    let mut state = source.starting_state(moments[0].seq_lower_bound().min(moments[1].seq_lower_bound())).await;
    let mut found: [Option<State>; 2] = [None, None];
    let folding = source.visit_shown("folding", state.applied(), |record| {
        for (found, moment) in found.iter_mut().zip(moments) {
            if found.is_none() && !moment.includes(&record) {
                *found = Some(state.clone());
            }
        }
        let wanted = found.iter().any(Option::is_none);
        if wanted {
            state.apply(&record);
        }
        Ok(wanted)
    });
    folding.await?;
    Ok(found.map(|found| found.unwrap_or_else(|| state.clone())))
}

fn side(state: &State) -> Value {
    json!({"seq": state.applied().0, "digest": state.digest().to_string(), "records": state.events()})
}

/// Returns the answer of discover as names with scores.
fn answer(state: State, intent: &str, config: &Config) -> anyhow::Result<Vec<(String, f64)>> {
    let request = DiscoverRequest { intent: intent.to_owned(), limit: Some(RANKS), ..DiscoverRequest::default() };
    let answer = json!(Asker::from_state(state, config)?.discover(request)?);
    let results = answer["results"].as_array().cloned().unwrap_or_default();
    let name = |item: &Value| match item["handle"].as_str() {
        Some(handle) => Some(format!("capability:{handle}")),
        None => item["id"].as_str().map(str::to_owned),
    };
    let item = |item: &Value| Some((name(item)?, item["score"].as_f64()?));
    Ok(results.iter().filter_map(item).collect())
}

fn print(diff: &Diff, limit: usize, output: &Output) {
    show(output, "tool", &diff.tools, limit, |facts: &ToolSummary| {
        let offered = if facts.offered { "" } else { ", not offered" };
        format!("{} calls, {} ok{offered}", facts.calls, facts.successes)
    });
    show(output, "capability", &diff.capabilities, limit, |facts: &CapabilitySummary| {
        format!("{} ({}), {} runs, {} ok", facts.handle, facts.status, facts.usage, facts.successes)
    });
    show(output, "edge", &diff.edges, limit, |facts: &EdgeSummary| {
        format!("{} {:.2}, seen {}", facts.source, facts.weight, facts.observations)
    });
    show(output, "model", &diff.models, limit, Clone::clone);
}

fn show<F>(output: &Output, what: &str, changed: &[Change<F>], limit: usize, describe: impl Fn(&F) -> String) {
    if changed.is_empty() {
        output.say(format!("{what}: no change"));
        return;
    }
    let side = |facts: &Option<F>| facts.as_ref().map_or_else(|| "-".to_owned(), &describe);
    let row = |change: &Change<F>| vec![change.id.clone(), side(&change.before), side(&change.after)];
    output.table(&[what, "before", "after"], changed.iter().take(limit).map(row));
    if changed.len() > limit {
        output.say(format!("and {} more; --limit shows them", changed.len() - limit));
    }
}
