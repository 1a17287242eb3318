//! Measures the time from publishing a step to receiving its prediction, at a fixed rate.
//!
//! | case | path |
//! |---|---|
//! | `embedded_*` | in-process client, execution actor, redb (synced to disk), prediction actor, bus |
//! | `nats_*` | NATS client, work queue, execution actor, JetStream (pipelined), prediction actor, NATS |
//! | `nats_durable_*` | the same with atomic batches, each synced to disk before it is acknowledged |
//!
//! The floors (`floor`) store the same bytes and deliver them once, at the same rate: in redb and on the bus of a process, or on
//! JetStream and by NATS.

mod floor;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream;
use futures_util::StreamExt;
use serde_json::value::RawValue;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::discover::percentile;
use super::nats::server::Server;
use super::nats::{config_for, connect, headers};
use super::{Case, Stopwatch};
use crate::bus::{Delivery, Subscription};
use crate::clock::Clock;
use crate::config::{AppendMode, Config};
use crate::core::event::{Event, NewRecord, cloud};
use crate::core::live::calls_for_a_prediction;
use crate::dataset::Dataset;
use crate::nats::Nats;
use crate::publisher::Publisher;
use crate::role::Roles;
use crate::runtime::Runtime;

/// Shipped traces learnt before the measurement; agents run the others.
const LEARNT_TRACES: usize = 1_000;
/// Concurrent agents: each publishes an event at its interval and waits until it is stored.
const AGENTS: usize = 200;
/// Events per second, and the names of the cases at that rate: median, 99th percentile, and share of steps with a prediction.
const RATES: [(u64, [[&str; 3]; 3]); 2] = [
    (
        1_000,
        [
            ["embedded_1k_p50", "embedded_1k_p99", "embedded_1k_served"],
            ["nats_1k_p50", "nats_1k_p99", "nats_1k_served"],
            ["nats_durable_1k_p50", "nats_durable_1k_p99", "nats_durable_1k_served"],
        ],
    ),
    (
        5_000,
        [
            ["embedded_5k_p50", "embedded_5k_p99", "embedded_5k_served"],
            ["nats_5k_p50", "nats_5k_p99", "nats_5k_served"],
            ["nats_durable_5k_p50", "nats_durable_5k_p99", "nats_durable_5k_served"],
        ],
    ),
];
/// Queue of the subscriber that measures, in predictions.
const QUEUE_LEN: usize = 65_536;
/// The member of a prediction that names the record which caused it.
const CAUSE: &str = "cause";
/// The last predictions may take this long.
const GRACE: Duration = Duration::from_secs(3);

/// Measures each rate for `seconds`, with servers that store below `scratch`.
pub async fn run(config: &Config, program: &Path, scratch: &Path, seconds: u64) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (rate, [in_process, pipelined, durable]) in RATES {
        let load = Load { rate, seconds };
        let place = |name: &str| scratch.join(format!("{name}-{rate}"));
        let floor = floor::embedded(config, &place("floor"), load).await?;
        cases.extend(embedded(config, &place("embedded"), load).await?.cases(in_process, &floor));
        let floor = floor::over_nats(config, program, &place("floor-nats"), load).await?;
        for (names, append) in [(pipelined, AppendMode::Pipelined), (durable, AppendMode::Atomic)] {
            cases.extend(over_nats(config, program, &place(names[0]), load, append).await?.cases(names, &floor));
        }
    }
    Ok(cases)
}

#[derive(Clone, Copy)]
struct Load {
    /// Events per second of all agents together.
    rate: u64,
    seconds: u64,
}

impl Load {
    fn events(self) -> usize {
        usize::try_from(self.rate * self.seconds).unwrap_or(usize::MAX)
    }

    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    /// Time between two events of one agent.
    fn interval(self) -> Duration {
        Duration::from_secs_f64(AGENTS as f64 / self.rate as f64)
    }
}

/// The publish time of each record without a prediction so far, and the latencies of the predictions, in microseconds.
struct Timing {
    watch: Stopwatch,
    sent: Mutex<BTreeMap<String, Duration>>,
    latencies: Mutex<Vec<f64>>,
}

impl Timing {
    fn start() -> Arc<Self> {
        Arc::new(Self { watch: Stopwatch::start(), sent: Mutex::default(), latencies: Mutex::default() })
    }

    fn record_sent(&self, cause: &str) {
        lock(&self.sent).insert(cause.to_owned(), self.watch.elapsed());
    }

    /// `payload` is a message as subscribers receive it, whose `member` names the event that was sent.
    fn record_received(&self, payload: &[u8], member: &str) -> anyhow::Result<()> {
        // The other members are not built: the subscriber shares the processors with what is measured.
        let message: BTreeMap<&str, &RawValue> = serde_json::from_slice(payload)?;
        let cause: &str = message.get(member).map_or(Ok(""), |cause| serde_json::from_str(cause.get()))?;
        let now = self.watch.elapsed();
        if let Some(sent) = lock(&self.sent).remove(cause) {
            lock(&self.latencies).push(now.saturating_sub(sent).as_secs_f64() * 1e6);
        }
        Ok(())
    }

    /// Waits for the last predictions and returns the latencies.
    async fn finish(&self) -> anyhow::Result<StreamLatencies> {
        let mut left = usize::MAX;
        // Until no more arrive: dropped ones never do.
        loop {
            tokio::time::sleep(GRACE / 10).await;
            let now = lock(&self.sent).len();
            if now == 0 || now == left {
                break;
            }
            left = now;
        }
        let latencies = lock(&self.latencies).clone();
        anyhow::ensure!(!latencies.is_empty(), "no prediction was received");
        Ok(StreamLatencies { missed: lock(&self.sent).len(), latencies })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct StreamLatencies {
    latencies: Vec<f64>,
    /// Steps without a prediction.
    missed: usize,
}

impl StreamLatencies {
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 steps")]
    fn cases(mut self, [p50, p99, served]: [&'static str; 3], floor: &Self) -> [Case; 3] {
        let mut time = |case: &'static str, share: f64| {
            let (value, floor) = (percentile(&mut self.latencies, share), percentile(&mut floor.latencies.clone(), share));
            Case { case, value, unit: "us", floor: Some(floor), ratio: Some(floor / value) }
        };
        let times = (time(p50, 0.5), time(p99, 0.99));
        let share = self.latencies.len() as f64 / (self.latencies.len() + self.missed) as f64 * 100.0;
        [times.0, times.1, Case { case: served, value: share, unit: "%", floor: None, ratio: None }]
    }
}

/// The events of each agent: executions one after the other, all in the agent's session.
fn agent_events(clock: &Clock, load: Load) -> Vec<Vec<NewRecord>> {
    let traces = Dataset::demo(clock.now()).traces;
    let mut agents: Vec<Vec<NewRecord>> = vec![Vec::new(); AGENTS];
    let mut events = 0;
    for number in 0_usize.. {
        if events >= load.events() {
            break;
        }
        let trace = &traces[LEARNT_TRACES + number % (traces.len() - LEARNT_TRACES)];
        let mut run = trace.renamed(format!("run-{number}")).events(clock.now()).expect("shipped ids are valid");
        for fact in &mut run {
            fact.id = clock.fresh_id();
            if let Event::ExecutionStarted(started) = &mut fact.event {
                started.session = Some(format!("agent-{}", number % AGENTS).parse().expect("a plain session"));
            }
        }
        events += run.len();
        agents[number % AGENTS].extend(run);
    }
    agents
}

async fn learn(runtime: &Runtime, clock: &Clock) -> anyhow::Result<()> {
    let demo = Dataset::demo(clock.now());
    let traces = demo.traces.iter().take(LEARNT_TRACES);
    let traces = traces.flat_map(|trace| trace.events(clock.now()).expect("shipped ids are valid"));
    let events: Vec<NewRecord> = demo.tools.iter().cloned().chain(traces).collect();
    for chunk in events.chunks(1_000) {
        runtime.publisher.publish(chunk.to_vec()).await?;
    }
    runtime.settled().await;
    Ok(())
}

/// A task of a measurement.
type Task = JoinHandle<anyhow::Result<()>>;

/// Starts all agents, waits for them and for the last messages that `listening` receives, and returns the latencies.
async fn measured(agents: impl Iterator<Item = Task>, timing: &Timing, listening: &Task) -> anyhow::Result<StreamLatencies> {
    for agent in agents.collect::<Vec<_>>() {
        agent.await??;
    }
    let measured = timing.finish().await?;
    listening.abort();
    Ok(measured)
}

async fn embedded(config: &Config, place: &Path, load: Load) -> anyhow::Result<StreamLatencies> {
    let config = Config { data_dir: place.to_owned(), ..config.clone() };
    let clock = Clock::system();
    let runtime = Runtime::start(&config, clock.clone()).await?;
    learn(&runtime, &clock).await?;
    let predictions = runtime.bus.subscribe(runtime.subjects.all_predictions(), QUEUE_LEN).await?;
    let timing = Timing::start();
    let listening = tokio::spawn(listen(predictions, Arc::clone(&timing), CAUSE));
    let agents = agent_events(&clock, load).into_iter().enumerate();
    let agents = agents.map(|(number, facts)| {
        let (publisher, timing) = (runtime.publisher.clone(), Arc::clone(&timing));
        tokio::spawn(agent(publisher, facts, agent_interval(number, load), timing))
    });
    let measured = measured(agents, &timing, &listening).await?;
    runtime.stop().await;
    Ok(measured)
}

async fn listen(mut messages: Subscription, timing: Arc<Timing>, member: &'static str) -> anyhow::Result<()> {
    while let Some(delivery) = messages.next().await {
        if let Delivery::Message { payload, .. } = delivery {
            timing.record_received(&payload, member)?;
        }
    }
    Ok(())
}

/// The interval of one agent, offset so that the agents publish evenly spread.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn agent_interval(number: usize, load: Load) -> tokio::time::Interval {
    let start = tokio::time::Instant::now() + load.interval().mul_f64(number as f64 / AGENTS as f64);
    let mut interval = tokio::time::interval_at(start, load.interval());
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

async fn agent(
    publisher: Publisher,
    facts: Vec<NewRecord>,
    mut interval: tokio::time::Interval,
    timing: Arc<Timing>,
) -> anyhow::Result<()> {
    for fact in facts {
        interval.tick().await;
        if calls_for_a_prediction(&fact.event) {
            timing.record_sent(&fact.id.to_string());
        }
        publisher.publish(vec![fact]).await?;
    }
    Ok(())
}

async fn listen_on_nats(nats: &Nats, pattern: String, timing: Arc<Timing>, member: &'static str) -> anyhow::Result<Task> {
    let mut messages = nats.client().subscribe(pattern).await?;
    nats.client().flush().await?;
    Ok(nats.spawn(async move {
        while let Some(message) = messages.next().await {
            timing.record_received(&message.payload, member)?;
        }
        Ok(())
    }))
}

async fn over_nats(
    config: &Config,
    program: &Path,
    place: &Path,
    load: Load,
    append: AppendMode,
) -> anyhow::Result<StreamLatencies> {
    let server = Server::start(program, place)?;
    let config = config_for(&server, config, append);
    let clock = Clock::system();
    let runtime = Runtime::start_on_nats(&config, clock.clone(), Roles::all()).await?;
    learn(&runtime, &clock).await?;
    let (agents, listener) = (connect(&config).await?, connect(&config).await?);
    let timing = Timing::start();
    let listening =
        listen_on_nats(&listener, runtime.subjects.all_predictions().to_string(), Arc::clone(&timing), CAUSE).await?;
    let working = agent_events(&clock, load).into_iter().enumerate().map(|(number, facts)| {
        let facts = facts.into_iter().map(|fact| {
            let subject = runtime.subjects.input(fact.event.kind()).to_string();
            (subject, fact.id.to_string(), calls_for_a_prediction(&fact.event), cloud::to_structured(&fact).to_string())
        });
        let (stream, timing, facts) = (agents.jetstream().clone(), Arc::clone(&timing), facts.collect());
        agents.spawn(async move { nats_agent(stream, facts, agent_interval(number, load), timing).await })
    });
    let measured = measured(working, &timing, &listening).await?;
    runtime.stop().await;
    Ok(measured)
}

/// Subject, id, whether a prediction is expected, and the event as JSON.
type OutgoingEvent = (String, String, bool, String);

async fn nats_agent(
    stream: jetstream::Context,
    facts: Vec<OutgoingEvent>,
    mut interval: tokio::time::Interval,
    timing: Arc<Timing>,
) -> anyhow::Result<()> {
    for (subject, id, is_timed, event) in facts {
        interval.tick().await;
        if is_timed {
            timing.record_sent(&id);
        }
        stream.publish_with_headers(subject, headers(&id), event.into()).await?.await?;
    }
    Ok(())
}
