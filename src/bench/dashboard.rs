//! Measures what open pages cost a server: the time of a publish, and processor time, with and without them.
//!
//! | case | what |
//! |---|---|
//! | `pages_50_publish_p99` | 99th percentile of a publish at 1,000 events/s while 50 pages follow the log; floor: without pages |
//! | `pages_50` | processor time of the server for the 50 pages, as a share of one core; without the thread that writes the log |
//! | `past_predict_p99` | 99th percentile of predict while the time slider is dragged; floor: while it rests |
//!
//! The pages run in a process of their own (`pml bench dashboard --pages ADDRESS`), so that only the server is measured.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use tokio::time::MissedTickBehavior;

use super::client::Connection;
use super::discover::percentile;
use super::{Case, Stopwatch, median};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::NewRecord;
use crate::dataset::{Dataset, TraceLine};
use crate::runtime::Runtime;

const PAGES: usize = 50;
const RATE: u64 = 1_000;
/// Events learnt first, and how many are published at once.
const LEARNT_EVENTS: usize = 4_000;
const BATCH_EVENTS: usize = 500;
/// The unit of processor time in /proc.
const TICKS_PER_SECOND: f64 = 100.0;
/// Times with and without what is measured, in turn; the medians are reported.
const ROUNDS: usize = 5;
/// Predictions measured while the slider rests, and as many while it is dragged, in each round.
const PREDICTIONS: usize = 300;
/// The thread that writes the log.
const LOG_THREAD: &str = "pml-log";
/// How often a page asks for the models and the tools.
const REFRESH: Duration = Duration::from_secs(10);

/// Measures for `seconds` without and as long with pages, some times in turn.
pub async fn run(config: &Config, scratch: &Path, seconds: u64) -> anyhow::Result<Vec<Case>> {
    let mut config = config.embedded_in(scratch);
    config.http.listen.set_port(0);
    config.http.streams_max = config.http.streams_max.max(2 * PAGES);
    let runtime = Runtime::start(&config, Clock::system()).await?;
    let (server, address) = runtime.serve_http(&config.http)?;
    let (handle, serving) = (server.handle(), actix_rt::spawn(server));
    let dataset = Dataset::demo(runtime.clock.now());
    let clock = runtime.clock.clone();
    let mut events = events(&dataset.traces, &clock);
    runtime.publisher.publish(dataset.tools.clone()).await?;
    for _ in 0..LEARNT_EVENTS / BATCH_EVENTS {
        runtime.publisher.publish(events.by_ref().take(BATCH_EVENTS).collect()).await?;
    }
    runtime.settled().await;
    let (mut p99s_without, mut p99s_with, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let without = publish(&runtime, &mut events, seconds).await?;
        let mut pages = Pages::open(address)?;
        let with = publish(&runtime, &mut events, seconds).await?;
        pages.child.kill().context("the process of the pages cannot be ended")?;
        pages.child.wait()?;
        runtime.settled().await;
        p99s_without.push(without.p99_us);
        p99s_with.push(with.p99_us);
        costs.push((with.cores - without.cores) * 100.0);
    }
    let (resting, dragged) = tokio::task::spawn_blocking(move || slider(address)).await??;
    handle.stop(false).await;
    serving.await??;
    runtime.stop().await;
    let ratio = |case, value: f64, floor: f64, unit| Case { case, value, unit, floor: Some(floor), ratio: Some(value / floor) };
    Ok(vec![
        ratio("pages_50_publish_p99", median(p99s_with), median(p99s_without), "us"),
        Case { case: "pages_50", value: median(costs), unit: "% of a core", floor: None, ratio: None },
        ratio("past_predict_p99", dragged, resting, "us"),
    ])
}

/// The events of the shipped traces, again and again, each time as new executions.
fn events<'a>(traces: &'a [TraceLine], clock: &'a Clock) -> impl Iterator<Item = NewRecord> + 'a {
    let renamed = |trace: &TraceLine| trace.renamed(clock.fresh_id().to_string());
    traces.iter().cycle().flat_map(move |trace| renamed(trace).events(clock.now()).unwrap_or_default())
}

/// What publishing took.
struct Published {
    p99_us: f64,
    /// Processor time of this process per second, without the thread that writes the log: it varies with the disk, by more than what
    /// pages cost, and has nothing to do for them.
    cores: f64,
}

/// Publishes at the fixed rate, waiting for each event to be stored.
async fn publish(runtime: &Runtime, events: &mut impl Iterator<Item = NewRecord>, seconds: u64) -> anyhow::Result<Published> {
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / u32::try_from(RATE)?);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut latencies, watch, before) = (Vec::new(), Stopwatch::start(), processor_seconds()?);
    for _ in 0..RATE * seconds {
        ticks.tick().await;
        let Some(fact) = events.next() else { break };
        let sent = Stopwatch::start();
        runtime.publisher.publish(vec![fact]).await?;
        latencies.push(sent.elapsed().as_secs_f64() * 1e6);
    }
    let cores = (processor_seconds()? - before) / watch.elapsed().as_secs_f64();
    Ok(Published { p99_us: percentile(&mut latencies, 0.99), cores })
}

/// Processor time so far of this process without the thread that writes the log.
fn processor_seconds() -> anyhow::Result<f64> {
    let process = processor_time("/proc/self/stat").context("processor time is read from /proc, which only Linux has")?;
    let mut writer = 0.0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let path = thread?.path();
        // A thread may have ended meanwhile.
        let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        if name.trim() == LOG_THREAD {
            writer += processor_time(path.join("stat"))?;
        }
    }
    Ok(process - writer)
}

/// The processor time in a `stat` file of /proc, in seconds.
fn processor_time(file: impl AsRef<Path>) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(file)?;
    // The name of the program stands in brackets and may hold blanks.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| fields.get(field).and_then(|text| text.parse::<f64>().ok()).context("it lacks a field");
    Ok((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

/// The process of the pages.
struct Pages {
    child: Child,
}

impl Pages {
    /// Starts it and waits until every page follows the log.
    fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "dashboard", "--pages", &address.to_string()]).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let said = child.stdout.take().context("it has an output")?;
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        anyhow::ensure!(line.trim() == "open", "the pages said '{}'", line.trim());
        Ok(Self { child })
    }
}

/// Does what open pages do, until it is killed: each follows the log and asks for models and tools now and then.
pub fn pages(address: SocketAddr) -> anyhow::Result<()> {
    let mut streams = Vec::new();
    for _ in 0..PAGES {
        let mut stream = TcpStream::connect(address)?;
        write!(
            stream,
            "GET /v1/events?kinds=execution.started,step.started,step.finished,execution.finished,trace.completed,prediction.served&every_ms=500 \
             HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n\r\n"
        )?;
        stream.read_exact(&mut [0; 12])?;
        streams.push(stream);
    }
    writeln!(std::io::stdout(), "open")?;
    for mut stream in streams {
        std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
    }
    loop {
        std::thread::sleep(REFRESH / u32::try_from(PAGES)?);
        for path in ["/v1/models", "/v1/tools?limit=1000"] {
            let mut stream = TcpStream::connect(address)?;
            write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
            std::io::copy(&mut stream, &mut std::io::sink())?;
        }
    }
}

/// The 99th percentile of predict in microseconds, while the slider rests and while another connection drags it over the log.
fn slider(address: SocketAddr) -> anyhow::Result<(f64, f64)> {
    let (mut resting, mut dragged) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        resting.push(predict_p99(address)?);
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let dragging = std::thread::spawn(move || drag(address, &stopped));
        dragged.push(predict_p99(address)?);
        stop.send(())?;
        dragging.join().map_err(|_| anyhow::anyhow!("the slider failed"))??;
    }
    Ok((median(resting), median(dragged)))
}

fn predict_p99(address: SocketAddr) -> anyhow::Result<f64> {
    let mut connection = Connection::open(address)?;
    let mut latencies = Vec::with_capacity(PREDICTIONS);
    for number in 0..PREDICTIONS {
        let sent = Stopwatch::start();
        let body = json!({"intent": format!("book a flight and rent car {number}")}).to_string();
        let (status, _) = connection.post("/v1/predict", "application/json", &body)?;
        anyhow::ensure!(status == 200, "predict answered {status}");
        latencies.push(sent.elapsed().as_secs_f64() * 1e6);
    }
    Ok(percentile(&mut latencies, 0.99))
}

/// Asks about one moment of the past after the other until it is stopped.
fn drag(address: SocketAddr, stopped: &std::sync::mpsc::Receiver<()>) -> anyhow::Result<()> {
    let mut connection = Connection::open(address)?;
    for at in (1..=4_000_u64).rev().step_by(97).cycle() {
        if stopped.try_recv().is_ok() {
            break;
        }
        let body = json!({"intent": "book a flight"}).to_string();
        connection.post(&format!("/v1/predict?at={at}"), "application/json", &body)?;
    }
    Ok(())
}
