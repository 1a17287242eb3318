//! `pml publish`: publishes events from a file, standard input or flags to a running server or to the work queue on NATS.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::output::Output;
use super::remote::Remote;
use super::source::connect;
use super::{LogLocation, Outcome};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::{Kind, NewRecord, cloud};
use crate::nats::{Queued, Repeats};

/// Events per request when a file holds more.
const CHUNK_EVENTS: usize = 500;

#[derive(Args)]
pub(super) struct Arguments {
    /// File of CloudEvents: one JSON object, an array, or one per line [default: standard input, also as -]
    #[arg(conflicts_with_all = ["kind", "body"])]
    file: Option<PathBuf>,
    /// Publish one event of this kind, e.g. step.finished
    #[arg(long, requires = "body", value_parser = publishable_kind)]
    kind: Option<Kind>,
    /// Data of that event as JSON
    #[arg(long = "body", value_name = "JSON", requires = "kind")]
    body: Option<String>,
    /// CloudEvents source of that event
    #[arg(long, default_value = "pml-cli")]
    source: String,
    /// Address of a running server [default: http:// and the configured http.listen]
    #[arg(long, env = "PML_URL")]
    url: Option<String>,
    /// API key for that server
    #[arg(long, env = "PML_KEY", hide_env_values = true)]
    key: Option<String>,
    /// NATS servers whose work queue takes the events, separated by commas
    #[arg(long, env = "PML_NATS", hide_env_values = true, value_name = "URL", conflicts_with = "url")]
    nats: Option<String>,
}

fn publishable_kind(text: &str) -> Result<Kind, String> {
    match text.parse::<Kind>() {
        Ok(kind) if kind.is_publishable() => Ok(kind),
        _ => {
            let kinds = Kind::ALL.into_iter().filter(|kind| kind.is_publishable());
            Err(format!("kinds are {}", kinds.map(Kind::name).collect::<Vec<_>>().join(", ")))
        }
    }
}

pub(super) async fn run(arguments: Arguments, config: Config, output: &Output) -> Outcome {
    let (content_type, bodies) = match (&arguments.kind, &arguments.body) {
        (Some(kind), Some(data)) => (cloud::STRUCTURED, vec![one_event(*kind, data, &arguments.source)?]),
        _ => from_file(arguments.file.as_deref())?,
    };
    if let Some(urls) = &arguments.nats {
        let facts = bodies.iter().map(|body| facts(content_type, body, &config)).collect::<anyhow::Result<Vec<_>>>()?.concat();
        return enqueue(urls, &facts, &config, output).await;
    }
    let location = LogLocation { url: arguments.url, key: arguments.key, data: None, nats: None };
    let remote = Remote::new(&location, &config);
    let mut total = PublishReport::default();
    let bar = output.progress("requests of 500 events:", bodies.len() as u64);
    for body in bodies {
        let (status, answer) = remote.post("/v1/events", content_type, &body)?;
        total.add(status, answer)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(total.print(output))
}

fn one_event(kind: Kind, data: &str, source: &str) -> anyhow::Result<Vec<u8>> {
    let data: Value = serde_json::from_str(data).map_err(|error| anyhow::anyhow!("--body: {error}"))?;
    let id = Clock::system().fresh_id().to_string();
    let event = json!({"specversion": "1.0", "id": id, "source": source, "type": format!("pml.{kind}"), "data": data});
    Ok(event.to_string().into_bytes())
}

/// Reads a file or standard input. Returns the content type and request bodies of bounded size.
fn from_file(file: Option<&Path>) -> anyhow::Result<(&'static str, Vec<Vec<u8>>)> {
    let mut text = Vec::new();
    match file {
        Some(path) if path != Path::new("-") => {
            text = std::fs::read(path).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
        }
        _ => {
            std::io::stdin().read_to_end(&mut text)?;
        }
    }
    if let Ok(events) = serde_json::from_slice::<Vec<&RawValue>>(&text) {
        let events: Vec<&[u8]> = events.into_iter().map(|event| event.get().as_bytes()).collect();
        let bodies = events.chunks(CHUNK_EVENTS).map(|chunk| [b"[", chunk.join(&b","[..]).as_slice(), b"]"].concat());
        return Ok((cloud::BATCH, bodies.collect()));
    }
    if serde_json::from_slice::<&RawValue>(&text).is_ok() {
        return Ok((cloud::STRUCTURED, vec![text]));
    }
    // Anything else is sent line by line: the server says which line is wrong and why.
    let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).collect();
    Ok(("application/x-ndjson", lines.chunks(CHUNK_EVENTS).map(|chunk| chunk.join(&b"\n"[..])).collect()))
}

/// Puts events on the work queue. Its subjects name the kind of an event, so each must be parsed first.
async fn enqueue(urls: &str, facts: &[NewRecord], config: &Config, output: &Output) -> Outcome {
    let nats = connect(urls, config).await?;
    nats.provision(&config.dead, &config.log).await.map_err(anyhow::Error::from)?;
    let publishing = output.working("publishing");
    let Queued { queued, duplicate } = nats.enqueue(facts, Repeats::Dropped).await.map_err(anyhow::Error::from)?;
    drop(publishing);
    output.json(&json!({"queued": queued, "duplicate": duplicate}));
    output.say(format!("{queued} events put on the work queue, {duplicate} already there"));
    output.say("the process with the role 'execution' reads them; `pml dead list` shows the events it refuses");
    Ok(0)
}

/// Parses the events of one body of the content type that [`from_file`] returned.
fn facts(content_type: &str, body: &[u8], config: &Config) -> anyhow::Result<Vec<NewRecord>> {
    let texts: Vec<&[u8]> = match content_type {
        cloud::BATCH => serde_json::from_slice::<Vec<&RawValue>>(body)?.into_iter().map(|raw| raw.get().as_bytes()).collect(),
        cloud::STRUCTURED => vec![body],
        _ => body.split(|&byte| byte == b'\n').collect(),
    };
    let clock = Clock::system();
    let default_server = Some(config.default_server.as_str()).filter(|name| !name.is_empty());
    let receipt = || cloud::Receipt { now: clock.now(), default_server };
    texts.into_iter().map(|text| Ok(cloud::from_structured(text, receipt())?)).collect()
}

/// The results of one or more publish requests.
#[derive(Default)]
pub(super) struct PublishReport {
    results: Vec<Value>,
}

impl PublishReport {
    /// Adds the answer to one request.
    pub(super) fn add(&mut self, status: u16, mut answer: Value) -> anyhow::Result<()> {
        match answer["results"].take() {
            Value::Array(results) => self.results.extend(results),
            _ => anyhow::bail!("the server answered {status}: {}", answer["error"].as_str().unwrap_or("no reason given")),
        }
        Ok(())
    }

    /// Counts the events with this status.
    pub(super) fn count(&self, status: &str) -> usize {
        self.results.iter().filter(|result| result["status"] == status).count()
    }

    /// Prints one line per refused event and a summary. Returns the exit code: 3 if any was refused, else 0.
    pub(super) fn print(&self, output: &Output) -> u8 {
        let [accepted, duplicate, refused] = ["accepted", "duplicate", "refused"].map(|status| self.count(status));
        output.json(&json!({"accepted": accepted, "duplicate": duplicate, "refused": refused, "results": self.results}));
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        for result in &self.results {
            if result["status"] == "refused" {
                output.say(format!("refused {}: {}", text(&result["id"]), text(&result["error"]["message"])));
            }
            for member in result["ignored"].as_array().into_iter().flatten() {
                output.say(format!(
                    "ignored {} of {}: this kind of event has no such member",
                    text(member),
                    text(&result["id"])
                ));
            }
        }
        output.say(format!("{accepted} accepted, {duplicate} already known, {refused} refused"));
        if refused > 0 {
            output.say("refused events are kept: `pml dead list` shows them, `pml dead redrive` sends them again");
        }
        if refused > 0 { 3 } else { 0 }
    }
}
