//! `pml demo`: learns the shipped traces, shows the result and serves it until Ctrl-C.

use std::net::SocketAddr;

use clap::Args;
use serde_json::json;

use super::import::{dataset_events, publish_all};
use super::output::Output;
use super::scratch::Scratch;
use super::serve::until_stopped;
use super::{CommandError, Outcome};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::graph::edge::EdgeKind;
use crate::core::state::State;
use crate::dataset::Dataset;
use crate::runtime::Runtime;

/// Rows per table.
const ROWS: usize = 8;

#[derive(Args)]
pub(super) struct Arguments {
    /// Address to listen on [default: http.listen, or any free port if that is taken]
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Exit after learning instead of serving
    #[arg(long)]
    no_serve: bool,
}

pub(super) async fn run(arguments: Arguments, config: Config, output: &Output) -> Outcome {
    let clock = Clock::system();
    let scratch = Scratch::new("demo")?;
    let mut config = config.embedded_in(scratch.path());
    if let Some(listen) = arguments.listen {
        config.set_listen(listen)?;
    }
    let runtime = Runtime::start(&config, clock.clone()).await?;
    let learnt = learn(&runtime, &clock, output).await?;
    show(&learnt, output);
    if !arguments.no_serve {
        serve(&runtime, config, arguments.listen.is_some(), output).await?;
    }
    runtime.stop().await;
    Ok(0)
}

async fn learn(runtime: &Runtime, clock: &Clock, output: &Output) -> Result<std::sync::Arc<State>, CommandError> {
    output.say("pml learns from 3,027 traces of agents using 260 tools (UltraTool, MIT licence), shipped with the program.\n");
    let events = dataset_events(Dataset::demo(clock.now()), clock);
    let bar = output.progress("learning", events.len() as u64);
    let counts = publish_all(&runtime.publisher, events, |count| bar.inc(count)).await?;
    bar.finish_and_clear();
    if let Some(first) = counts.refused.first() {
        return Err(anyhow::anyhow!("{} of the shipped events were refused, the first: {first}", counts.refused.len()).into());
    }
    Ok(runtime.settled().await)
}

fn show(state: &State, output: &Output) {
    let learnt = json!({
        "events": state.events(), "tools": state.tools.len(), "capabilities": state.capabilities.len(),
        "edges": state.graph.edge_count(), "traces": state.executions.traces_len(), "digest": state.digest().to_string(),
    });
    output.json(&learnt);
    output.say(format!(
        "{} events in the log: {} tools, {} capabilities, {} typed edges\n",
        state.events(),
        state.tools.len(),
        state.capabilities.len(),
        state.graph.edge_count()
    ));
    let mut capabilities: Vec<_> = state.capabilities.iter().collect();
    capabilities.sort_by_key(|capability| (std::cmp::Reverse(capability.usage), capability.id));
    output.say("Most used capabilities:");
    output.table(
        &["capability", "calls", "success", "example intent"],
        capabilities.into_iter().take(ROWS).map(|capability| {
            let intent = capability.intents.front().map_or("", |intent| intent);
            let success = format!("{:.0}%", capability.success_rate() * 100.0);
            vec![capability.name.clone(), capability.usage.to_string(), success, intent.chars().take(70).collect()]
        }),
    );
    let mut edges: Vec<_> = state.graph.edges().filter(|((_, _, kind), _)| *kind == EdgeKind::Provides).collect();
    edges.sort_by_key(|(key, edge)| (std::cmp::Reverse(edge.successes), **key));
    output.say("\nStrongest data-flow edges between tools:");
    output.table(
        &["from", "to", "observations", "source", "weight"],
        edges.into_iter().take(ROWS).map(|((from, to, kind), edge)| {
            let ends = [from, to].map(|node| state.callee(*node).to_string());
            let [from, to] = ends;
            vec![from, to, edge.observations.to_string(), edge.source().name().to_owned(), format!("{:.2}", edge.weight(*kind))]
        }),
    );
}

async fn serve(runtime: &Runtime, mut config: Config, listen_is_fixed: bool, output: &Output) -> Result<(), CommandError> {
    let (server, address) = match runtime.serve_http(&config.http) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && !listen_is_fixed => {
            config.http.listen.set_port(0);
            runtime.serve_http(&config.http)?
        }
        bound => bound?,
    };
    let url = format!("http://{address}");
    output.json(&json!({"listen": address.to_string()}));
    output.say(format!(
        "\npml listens on {url}. In another terminal, ask:\n\n\
         Which tool fits, and why?\n  cargo run --release -- discover \"book a flight and rent a car\" --url {url}\n\n\
         What comes next?\n  cargo run --release -- predict \"book a flight and rent a car\" --after flight:flight_search --url {url}\n\n\
         What does pml learn from an execution of yours? Follow the log, then publish the events:\n  curl -N -H 'Accept: text/event-stream' '{url}/v1/events' &\n  \
         curl '{url}/v1/events' -H 'Content-Type: application/x-ndjson' --data-binary @- <<'END'\n{}END\n\n\
         Ctrl-C ends the demo and removes its data.",
        sample_events()
    ));
    until_stopped(server, runtime).await
}

/// Returns the events of a small execution, to be pasted into a terminal.
fn sample_events() -> String {
    let clock = Clock::system();
    let event = |kind: &str, data: serde_json::Value| {
        let id = clock.fresh_id().to_string();
        format!("{}\n", json!({"specversion": "1.0", "id": id, "source": "me", "type": format!("pml.{kind}"), "data": data}))
    };
    [
        event("execution.started", json!({"execution": "mine-1", "intent": "Save the weather report to a file"})),
        event("step.finished", json!({"execution": "mine-1", "step": "s1", "tool": "weather:report", "success": true})),
        event(
            "step.finished",
            json!({"execution": "mine-1", "step": "s2", "tool": "document:file_write", "depends_on": ["s1"], "success": true}),
        ),
        event("execution.finished", json!({"execution": "mine-1", "success": true})),
    ]
    .concat()
}
