//! What nats-server leaves for pml: the same path as that of the agents' events, without pml. A client takes every message from a work
//! queue, publishes the same bytes to a second stream, and acknowledges it once that stream has it, with as many messages under way as the
//! raw publisher has. Beside it another client publishes to the queue. Nothing is read, checked, folded or indexed, so it
//! shows what the server and the client library leave for `from_agents`.

use std::path::Path;

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::{self, consumer, stream};
use futures_util::StreamExt;
use tokio::sync::mpsc;

use super::server::Server;
use super::{WINDOW, config_for, connect, headers, payloads, publish_all, raw_stream};
use crate::bench::Stopwatch;
use crate::config::{AppendMode, Config};
use crate::core::event::NewRecord;

const QUEUE: &str = "queue";
/// Messages that one request to the queue asks for, as many as the intake asks for.
const REQUESTED_MESSAGES: usize = 2_048;

type QueueConsumer = consumer::Consumer<consumer::pull::Config>;

/// Events per second from the first publish to the queue until the last is in the second stream.
pub(super) async fn queue_to_stream(
    config: &Config,
    program: &Path,
    place: &Path,
    runs: &[Vec<NewRecord>],
) -> anyhow::Result<f64> {
    let server = Server::start(program, place)?;
    let config = config_for(&server, config, AppendMode::Pipelined);
    let (relay, agent) = (connect(&config).await?, connect(&config).await?);
    raw_stream(&relay).await?;
    let consumer = queue_consumer(relay.jetstream()).await?;
    let messages = payloads(runs);
    let count = messages.len();
    let (jetstream, queue) = (relay.jetstream().clone(), agent.jetstream().clone());
    let watch = Stopwatch::start();
    let relayed = relay.run(async move { relay_all(jetstream, consumer, count).await });
    agent.run(async move { publish_all(queue, QUEUE, messages).await }).await?;
    relayed.await?;
    Ok(watch.rate(count))
}

async fn queue_consumer(jetstream: &jetstream::Context) -> anyhow::Result<QueueConsumer> {
    let queue = stream::Config {
        name: QUEUE.to_owned(),
        subjects: vec![QUEUE.to_owned()],
        retention: stream::RetentionPolicy::WorkQueue,
        ..stream::Config::default()
    };
    let config = consumer::pull::Config {
        durable_name: Some("relay".to_owned()),
        max_ack_pending: 2 * i64::try_from(WINDOW)?,
        ..consumer::pull::Config::default()
    };
    Ok(jetstream.create_stream(queue).await?.create_consumer(config).await?)
}

/// Publishes `count` messages of the queue to the stream, and acknowledges each to the queue after the stream has acknowledged it.
async fn relay_all(jetstream: jetstream::Context, consumer: QueueConsumer, count: usize) -> anyhow::Result<()> {
    let (sent, mut waiting) = mpsc::channel::<(jetstream::context::PublishAckFuture, jetstream::Message)>(WINDOW);
    let acknowledged = tokio::spawn(async move {
        while let Some((ack, message)) = waiting.recv().await {
            ack.await?;
            message.ack().await.map_err(anyhow::Error::from_boxed)?;
        }
        Ok::<(), anyhow::Error>(())
    });
    let mut messages = consumer.stream().max_messages_per_batch(REQUESTED_MESSAGES).messages().await?.take(count);
    while let Some(message) = messages.next().await {
        let message = message?;
        let id = message.headers.as_ref().and_then(|headers| headers.get(NATS_MESSAGE_ID));
        let id = id.map(ToString::to_string).unwrap_or_default();
        let ack = jetstream.publish_with_headers("raw", headers(&id), message.payload.clone()).await?;
        sent.send((ack, message)).await?;
    }
    drop(sent);
    acknowledged.await?
}
