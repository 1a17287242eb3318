//! `pml replay --publish`: publishes the records of a log on NATS, at the pace of their recording or faster.

use std::time::Duration;

use anyhow::Context;
use serde_json::json;

use super::Outcome;
use super::output::Output;
use super::source::{Source, connect};
use crate::clock::Clock;
use crate::config::{Config, Secret};
use crate::core::event::{Record, cloud};
use crate::core::id::Seq;
use crate::history::Moment;
use crate::history::pace::{Pace, Speed};
use crate::subject::Subject;

/// The records to publish, the target and the speed.
pub(super) struct Emission<'a> {
    pub(super) prefix: &'a Subject,
    pub(super) servers: Option<&'a str>,
    pub(super) speed: Speed,
    pub(super) from: Moment,
    pub(super) to: Moment,
}

/// Publishes the records in order until the last one or Ctrl-C.
pub(super) async fn run(source: &Source, emission: Emission<'_>, config: &Config, output: &Output) -> Outcome {
    if emission.prefix.is_stored() {
        let prefix = emission.prefix;
        return Err(
            anyhow::anyhow!("--publish {prefix}: pml keeps what is published there; choose a prefix of your own").into()
        );
    }
    let configured: Vec<&str> = config.nats.servers.iter().map(Secret::reveal).collect();
    let servers = emission.servers.map_or_else(|| configured.join(","), str::to_owned);
    if servers.is_empty() {
        return Err(anyhow::anyhow!("name the NATS servers to publish to with --bus").into());
    }
    source.check(emission.to).await?;
    if let Moment::At(_) = emission.from {
        source.check(emission.from).await?;
    }
    let nats = connect(&servers, config).await?;
    let client = nats.client().clone();
    let after = if let Moment::At(seq) = emission.from { Seq(seq.0.saturating_sub(1)) } else { Seq::ZERO };
    let bar = output.progress("publishing", source.tail()?.0.saturating_sub(after.0));
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    let (mut pace, clock) = (Pace::new(emission.speed), Clock::system());
    let (mut began, mut last, mut published, mut stopped) = (None, Seq::ZERO, 0_u64, false);
    let publishing = source.walk(after, async |record: Record| {
        if !emission.to.includes(&record) {
            return Ok(false);
        }
        if emission.from.starts_after(&record) {
            return Ok(true);
        }
        let due = pace.due(record.recorded_at);
        let now = clock.now();
        let elapsed = Duration::from_millis(now.millis_since(*began.get_or_insert(now)));
        tokio::select! {
            biased;
            signal = &mut interrupted => {
                signal?;
                stopped = true;
                return Ok(false);
            }
            () = tokio::time::sleep(due.saturating_sub(elapsed)), if due > elapsed => {}
            () = std::future::ready(()), if due <= elapsed => {}
        }
        let subject = emission.prefix.with_kind(record.event().kind());
        let payload = cloud::record_to_structured(&record).to_string();
        client.publish(subject.as_str().to_owned(), payload.into()).await.context("cannot publish")?;
        (last, published) = (record.seq, published + 1);
        bar.inc(1);
        Ok(true)
    });
    publishing.await?;
    client.flush().await.context("cannot publish")?;
    bar.finish_and_clear();
    output.json(&json!({"published": published, "last_seq": last.0, "stopped": stopped}));
    output.say(format!("{published} records published below {}", emission.prefix));
    if stopped {
        output.say(format!("stopped after record {last}; continue with --from {}", last.next()));
    }
    Ok(0)
}
