//! `pml demo`: serves, learns the shipped traces, shows the result, and lets agents work on until Ctrl-C.

mod live;

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::import::{CHUNK_EVENTS, dataset_events};
use super::output::Output;
use super::scratch::Scratch;
use super::serve::{StopSignals, until_stopped};
use super::target::Target;
use super::{CommandError, Outcome};
use crate::bus::{Delivery, Subscription};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::{NewRecord, cloud};
use crate::core::graph::edge::EdgeKind;
use crate::core::id::SessionId;
use crate::core::name::readable;
use crate::core::state::State;
use crate::dataset::Dataset;
use crate::publisher::Verdict;
use crate::runtime::Runtime;

/// Rows per table.
const ROWS: usize = 8;
/// The execution that shows the prediction stream.
const INTENT: &str = "find a flight to Shanghai, book it and remind me the day before";
const STEPS: [&str; 3] = ["flight:flight_search", "travel:book_flight", "alarm:set_reminder"];
const PREDICTIONS_MAX: usize = 16;
const PREDICTION_PATIENCE: Duration = Duration::from_secs(10);

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
    let ended = if arguments.no_serve {
        learn_and_show(&runtime, &clock, output).await
    } else {
        serve(&runtime, config, arguments.listen.is_some(), output).await
    };
    runtime.stop().await;
    ended.map(|()| 0)
}

async fn learn_and_show(runtime: &Runtime, clock: &Clock, output: &Output) -> Result<(), CommandError> {
    let learnt = learn(runtime, clock, output).await?;
    let predictions = stream(runtime).await?;
    show(&learnt, &predictions, output);
    Ok(())
}

async fn learn(runtime: &Runtime, clock: &Clock, output: &Output) -> Result<std::sync::Arc<State>, CommandError> {
    output.say("pml learns from 3,027 traces of agents using 260 tools (UltraTool, MIT licence), shipped with the program.\n");
    let events = dataset_events(Dataset::demo(clock.now()), clock);
    let bar = output.progress("learning", events.len() as u64);
    let mut target = Target::here(runtime.publisher.clone());
    for chunk in events.chunks(CHUNK_EVENTS) {
        target.send(chunk.iter().cloned()).await?;
        bar.inc(chunk.len() as u64);
    }
    let published = target.finish(output).await?;
    bar.finish_and_clear();
    if let Some(first) = published.reasons.first() {
        return Err(anyhow::anyhow!("{} of the shipped events were refused, the first: {first}", published.refused).into());
    }
    let _folding = output.working("folding and indexing");
    Ok(runtime.settled().await)
}

fn show(state: &State, predictions: &[StreamedStep], output: &Output) {
    let learnt = json!({
        "events": state.events(), "tools": state.tools.registered(), "capabilities": state.capabilities.len(),
        "edges": state.graph.edge_count(), "traces": state.executions.traces_len(), "digest": state.digest().to_string(),
        "predictions": predictions.iter().map(|step| json!({"predicted": step.predicted, "p": step.p, "called": step.called})).collect::<Vec<_>>(),
    });
    output.json(&learnt);
    output.say(format!(
        "{} events in the log: {} tools, {} capabilities, {} typed edges\n",
        state.events(),
        state.tools.registered(),
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
            vec![capability.handle.to_string(), capability.usage.to_string(), success, intent.chars().take(70).collect()]
        }),
    );
    let mut edges: Vec<_> = state.graph.edges().filter(|((_, _, kind), _)| *kind == EdgeKind::Provides).collect();
    edges.sort_by_key(|(key, edge)| (std::cmp::Reverse(edge.successes), **key));
    output.say("\nStrongest data-flow edges between tools:");
    output.table(
        &["from", "to", "runs", "succeeded"],
        edges.into_iter().take(ROWS).map(|((from, to, _), edge)| {
            let [from, to] = [from, to].map(|node| readable(state, *node));
            vec![from, to, edge.observations.to_string(), edge.successes.to_string()]
        }),
    );
    show_stream(predictions, output);
}

/// A prediction of the stream, and the call that was made then.
struct StreamedStep {
    predicted: String,
    p: f64,
    arrived_ms: u64,
    called: &'static str,
}

/// Runs an execution and collects the prediction that arrives before each of its steps.
async fn stream(runtime: &Runtime) -> Result<Vec<StreamedStep>, CommandError> {
    let session: SessionId = "demo".parse().map_err(anyhow::Error::from)?;
    let mut predictions = runtime.bus.subscribe(runtime.subjects.predict(&session).into(), PREDICTIONS_MAX).await?;
    let execution = runtime.clock.fresh_id().to_string();
    let started =
        event(&runtime.clock, "execution.started", &json!({"execution": execution, "intent": INTENT, "session": "demo"}))?;
    publish(runtime, started).await?;
    let mut steps = Vec::new();
    for (number, called) in STEPS.into_iter().enumerate() {
        let (prediction, arrived_ms) = next_prediction(&mut predictions, &runtime.clock).await?;
        let first = &prediction["ranked"][0];
        let predicted = first["item"].as_str().unwrap_or_default().to_owned();
        steps.push(StreamedStep { predicted, p: first["p"].as_f64().unwrap_or(0.0), arrived_ms, called });
        let data = json!({"execution": execution, "step": format!("s{number}"), "tool": called, "success": true});
        publish(runtime, event(&runtime.clock, "step.finished", &data)?).await?;
    }
    let finished = event(&runtime.clock, "execution.finished", &json!({"execution": execution, "success": true}))?;
    publish(runtime, finished).await?;
    Ok(steps)
}

fn show_stream(steps: &[StreamedStep], output: &Output) {
    output.say(format!("\nThe prediction stream: an agent is to \"{INTENT}\". Before each call pml predicts it:"));
    let row = |step: &StreamedStep| {
        let was_right = if step.predicted == step.called { "yes" } else { "no" };
        let share = format!("{:.0}%", step.p * 100.0);
        vec![step.predicted.clone(), share, format!("{} ms", step.arrived_ms), step.called.to_owned(), was_right.to_owned()]
    };
    output.table(&["predicted", "p", "arrived after", "then called", "right"], steps.iter().map(row));
}

/// The next prediction of the stream, and how long it took to arrive.
async fn next_prediction(predictions: &mut Subscription, clock: &Clock) -> anyhow::Result<(Value, u64)> {
    let begun = clock.uptime();
    let delivery = tokio::time::timeout(PREDICTION_PATIENCE, predictions.next()).await?;
    let Some(Delivery::Message { payload, .. }) = delivery else { anyhow::bail!("the prediction stream ended") };
    Ok((serde_json::from_slice(&payload)?, clock.uptime().millis_since(begun)))
}

async fn publish(runtime: &Runtime, fact: NewRecord) -> Result<(), CommandError> {
    match runtime.publisher.publish(vec![fact]).await?.as_slice() {
        [Verdict::Refused(refusal)] => Err(anyhow::anyhow!("an event of the demo was refused: {refusal}").into()),
        _ => Ok(()),
    }
}

fn event(clock: &Clock, kind: &str, data: &Value) -> anyhow::Result<NewRecord> {
    let event = json!({"specversion": "1.0", "source": "pml-demo", "type": format!("pml.{kind}"), "data": data});
    Ok(cloud::from_structured(event.to_string().as_bytes(), clock.now())?)
}

/// How this program was called, for commands to be copied.
fn program() -> String {
    if std::env::var_os("CARGO").is_some() {
        return if cfg!(debug_assertions) { "cargo run --" } else { "cargo run --release --" }.to_owned();
    }
    std::env::args().next().unwrap_or_else(|| "pml".to_owned())
}

async fn serve(runtime: &Runtime, mut config: Config, listen_is_fixed: bool, output: &Output) -> Result<(), CommandError> {
    let signals = StopSignals::catch()?;
    let (server, address) = match runtime.serve_http(&config.http) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && !listen_is_fixed => {
            config.http.listen.set_port(0);
            runtime.serve_http(&config.http)?
        }
        bound => bound?,
    };
    let url = format!("http://{address}");
    output.json(&json!({"listen": address.to_string()}));
    output.say(format!("Look at {url} in a browser. Ctrl-C ends the demo and removes its data.\n"));
    let work = async {
        learn_and_show(runtime, &runtime.clock, output).await?;
        advise(&url, output);
        live::run(runtime, &Dataset::demo(runtime.clock.now()).traces).await
    };
    tokio::select! {
        ended = until_stopped(server, runtime, signals) => ended,
        Err(error) = work => Err(error),
    }
}

/// Says what can be asked in another terminal.
fn advise(url: &str, output: &Output) {
    let (program, first) = (program(), STEPS[0]);
    output.say(format!(
        "\nThree agents go on working: {url} shows it. They repeat traces that were learnt, which are easy to predict.\n\
         In another terminal, ask:\n\n\
         Which tool fits, and why?\n  {program} discover \"{INTENT}\" --url {url}\n\n\
         What comes next?\n  {program} predict \"{INTENT}\" --after {first} --url {url}\n\n\
         What does pml predict during an execution of yours? Follow the predictions, then publish the events:\n  \
         curl -N '{url}/v1/predictions?session=mine' &\n  \
         curl '{url}/v1/events' -H 'Content-Type: application/x-ndjson' --data-binary @- <<'END'\n{}END",
        sample_events()
    ));
}

/// Returns the events of a small execution, to be pasted into a terminal.
fn sample_events() -> String {
    let clock = Clock::system();
    let event = |kind: &str, data: serde_json::Value| {
        let id = clock.fresh_id().to_string();
        format!("{}\n", json!({"specversion": "1.0", "id": id, "source": "me", "type": format!("pml.{kind}"), "data": data}))
    };
    [
        event(
            "execution.started",
            json!({"execution": "mine-1", "intent": "Save the weather report to a file", "session": "mine"}),
        ),
        event("step.finished", json!({"execution": "mine-1", "step": "s1", "tool": "weather:report", "success": true})),
        event(
            "step.finished",
            json!({"execution": "mine-1", "step": "s2", "tool": "document:file_write", "depends_on": ["s1"], "success": true}),
        ),
        event("execution.finished", json!({"execution": "mine-1", "success": true})),
    ]
    .concat()
}
