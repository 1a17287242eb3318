//! Where commands publish the events that they make: in this process, to a running server, or to the work queue on NATS.

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesOrdered, StreamExt};
use serde_json::{Value, json};

use super::LogLocation;
use super::output::Output;
use super::remote::Remote;
use super::source::connect;
use crate::clock::Clock;
use crate::config::{Config, Serve};
use crate::core::event::{NewRecord, cloud};
use crate::nats::{Nats, Repeats};
use crate::publisher::{PublishError, Publisher, Verdict};
use crate::runtime::Runtime;

/// Events per request.
const CHUNK_EVENTS: usize = 500;
/// Requests under way at once in this process.
const CHUNKS_IN_FLIGHT: usize = 8;
/// Longest body of a request to a server, in bytes, unless a single event is longer.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Refusals whose reasons are kept.
const REASONS_MAX: usize = 100;

/// What became of the events.
#[derive(Debug, Default)]
pub(super) struct Published {
    pub(super) accepted: u64,
    pub(super) duplicate: u64,
    /// Put on the work queue, if there is one; the process that reads it admits or refuses them.
    pub(super) queued: Option<u64>,
    pub(super) refused: u64,
    /// The reasons of the first refusals.
    pub(super) reasons: Vec<String>,
}

impl Published {
    fn refuse(&mut self, reason: impl FnOnce() -> String) {
        self.refused += 1;
        if self.reasons.len() < REASONS_MAX {
            self.reasons.push(reason());
        }
    }

    /// The counts as members of an answer for programs.
    pub(super) fn json(&self) -> Value {
        match self.queued {
            None => json!({
                "accepted": self.accepted, "duplicate": self.duplicate, "refused": self.refused, "errors": self.reasons,
            }),
            Some(queued) => json!({"queued": queued, "duplicate": self.duplicate}),
        }
    }

    /// The counts in words.
    pub(super) fn text(&self) -> String {
        match self.queued {
            None => format!("{} events accepted, {} already known, {} refused", self.accepted, self.duplicate, self.refused),
            Some(queued) => format!("{queued} events put on the work queue, {} already there", self.duplicate),
        }
    }

    /// Tells people why events were refused, and where they are.
    pub(super) fn explain(&self, output: &Output) {
        for reason in self.reasons.iter().take(10) {
            output.say(format!("refused: {reason}"));
        }
        if self.queued.is_some() {
            output.say("the process with the role 'execution' reads them; `pml dead list` shows the events it refuses");
        }
    }
}

type Answer = LocalBoxFuture<'static, Result<Vec<Verdict>, PublishError>>;

enum Place {
    /// This process; it owns the runtime unless the caller does.
    Here(Publisher, Option<Box<Runtime>>),
    Server(Remote),
    Queue(Nats),
}

/// Publishes events in the order in which they are given, in requests of bounded size.
pub(super) struct Target {
    place: Place,
    waiting: Vec<NewRecord>,
    under_way: FuturesOrdered<Answer>,
    published: Published,
}

impl Target {
    /// Opens what the arguments name; a data directory is created if it is missing.
    pub(super) async fn open(location: &LogLocation, config: &Config) -> anyhow::Result<Self> {
        let place = match (&location.data, &location.nats) {
            (Some(directory), _) => {
                let mut config = config.embedded_in(directory);
                // A training run would be stopped with the command; `pml train` or the server that starts next trains.
                config.trainer.enabled = false;
                // Nobody can subscribe to a process that only takes events.
                config.prediction.serve = Serve::None;
                let runtime = Runtime::start(&config, Clock::system()).await?;
                Place::Here(runtime.publisher.clone(), Some(Box::new(runtime)))
            }
            (None, Some(urls)) => {
                let nats = connect(urls, config).await?;
                nats.provision(&config.dead, &config.log).await?;
                Place::Queue(nats)
            }
            (None, None) => Place::Server(Remote::new(location, config)),
        };
        let mut target = Self::at(place);
        target.published.queued = location.nats.as_ref().map(|_| 0);
        Ok(target)
    }

    /// Publishes with a publisher of this process, whose runtime the caller stops.
    pub(super) fn here(publisher: Publisher) -> Self {
        Self::at(Place::Here(publisher, None))
    }

    fn at(place: Place) -> Self {
        Self { place, waiting: Vec::new(), under_way: FuturesOrdered::new(), published: Published::default() }
    }

    /// Adds events. Returns when they are under way, so that what waits is bounded.
    pub(super) async fn send(&mut self, events: impl IntoIterator<Item = NewRecord>) -> anyhow::Result<()> {
        for event in events {
            self.waiting.push(event);
            if self.waiting.len() >= CHUNK_EVENTS {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Sends what waits, and waits until all of it is answered.
    pub(super) async fn sync(&mut self) -> anyhow::Result<()> {
        self.flush().await?;
        while let Some(verdicts) = self.under_way.next().await {
            self.count(verdicts?);
        }
        Ok(())
    }

    /// Sends what waits, waits until it is learnt, and returns the counts.
    pub(super) async fn finish(mut self, output: &Output) -> anyhow::Result<Published> {
        self.sync().await?;
        if let Place::Here(_, Some(runtime)) = self.place {
            let _learning = output.working("learning");
            runtime.settled().await;
            runtime.stop().await;
        }
        Ok(self.published)
    }

    async fn flush(&mut self) -> anyhow::Result<()> {
        let events = std::mem::take(&mut self.waiting);
        if events.is_empty() {
            return Ok(());
        }
        match &self.place {
            Place::Here(publisher, _) => {
                self.under_way.push_back(Box::pin(publish_with_retry(publisher.clone(), events)));
                while self.under_way.len() >= CHUNKS_IN_FLIGHT {
                    let Some(verdicts) = self.under_way.next().await else { break };
                    self.count(verdicts?);
                }
            }
            Place::Server(remote) => {
                for body in bodies(&events) {
                    let (status, answer) = remote.post("/v1/events", cloud::BATCH, body.as_bytes())?;
                    add_answer(&mut self.published, status, &answer)?;
                }
            }
            Place::Queue(nats) => {
                let queued = nats.enqueue(&events, Repeats::Dropped).await?;
                *self.published.queued.get_or_insert(0) += queued.queued as u64;
                self.published.duplicate += queued.duplicate as u64;
            }
        }
        Ok(())
    }

    fn count(&mut self, verdicts: Vec<Verdict>) {
        for verdict in verdicts {
            match verdict {
                Verdict::Accepted { .. } => self.published.accepted += 1,
                Verdict::Duplicate { .. } => self.published.duplicate += 1,
                Verdict::Refused(refusal) => self.published.refuse(|| refusal.to_string()),
            }
        }
    }
}

async fn publish_with_retry(publisher: Publisher, chunk: Vec<NewRecord>) -> Result<Vec<Verdict>, PublishError> {
    loop {
        match publisher.publish(chunk.clone()).await {
            Err(PublishError::Busy) => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            answer => return answer,
        }
    }
}

/// The events as batches of bounded length.
fn bodies(events: &[NewRecord]) -> Vec<String> {
    let mut bodies = vec![String::new()];
    for event in events {
        let event = cloud::to_structured(event).to_string();
        let last = bodies.last_mut().expect("there is always one");
        if !last.is_empty() && last.len() + event.len() > BODY_BYTES_MAX {
            bodies.push(event);
        } else {
            last.push_str(if last.is_empty() { "" } else { "," });
            last.push_str(&event);
        }
    }
    bodies.into_iter().map(|body| format!("[{body}]")).collect()
}

fn add_answer(published: &mut Published, status: u16, answer: &Value) -> anyhow::Result<()> {
    let Some(results) = answer["results"].as_array() else {
        anyhow::bail!("the server answered {status}: {}", answer["error"].as_str().unwrap_or("no reason given"));
    };
    for result in results {
        match result["status"].as_str() {
            Some("accepted") => published.accepted += 1,
            Some("duplicate") => published.duplicate += 1,
            _ => published.refuse(|| result["error"]["message"].as_str().unwrap_or_default().to_owned()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::{Event, ExecutionStarted};
    use crate::core::id::RecordId;
    use crate::core::time::Timestamp;

    #[test]
    fn bodies_are_bounded_and_hold_every_event() {
        let event = |number: u128| {
            let time = Timestamp::from_micros(0);
            let started = ExecutionStarted {
                execution: format!("e{number}").parse().unwrap(),
                intent: "x".repeat(300 << 10),
                session: None,
                agent: None,
                parent: None,
            };
            let id = RecordId::from_parts(time, number);
            NewRecord { id, time, source: "t".into(), causation: None, envelope: None, event: Event::ExecutionStarted(started) }
        };
        let events: Vec<NewRecord> = (1..=8).map(event).collect();
        let bodies = bodies(&events);
        assert!(bodies.len() >= 3 && bodies.iter().all(|body| body.len() <= BODY_BYTES_MAX + 2), "{}", bodies.len());
        let count = |body: &String| serde_json::from_str::<Vec<Value>>(body).unwrap().len();
        assert_eq!(bodies.iter().map(count).sum::<usize>(), 8);
    }
}
