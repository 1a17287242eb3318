//! `NatsBus` is the bus between processes, on core NATS.
//!
//! One task publishes and subscribes in the order of the calls. Each subscription has a task that fills the subscriber's queue, so
//! that a slow subscriber gets an exact count of what it missed, where the client library would drop messages. A subscription
//! receives everything this bus publishes after it, and messages of other connections once the server has seen it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use async_nats::Subscriber;
use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use futures_util::{FutureExt, StreamExt, stream};
use tokio::sync::{mpsc, oneshot, watch};

use super::queue::{SubscriberQueue, lock};
use super::{Bus, BusError, Subscription};
use crate::nats::Nats;
use crate::subject::{Pattern, Subject};

/// Most messages that wait for the connection; more are refused. Messages may be lost, so a longer queue has no use.
const OUTGOING_MAX: usize = 8_192;

/// A call to the connection. Calls go through one channel so that a subscription does not overtake an earlier publish.
enum BusCommand {
    Publish(Subject, Bytes),
    Subscribe(Pattern, oneshot::Sender<Result<Subscriber, BoxError>>),
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The patterns of the subscriptions of this process. A NATS server does not report those of others.
#[derive(Default)]
struct Listeners {
    patterns: BTreeMap<u64, Pattern>,
    /// Numbers are never reused.
    last_number: u64,
}

/// The bus between processes.
pub struct NatsBus {
    nats: Nats,
    commands: mpsc::Sender<BusCommand>,
    listeners: Arc<Mutex<Listeners>>,
    /// Dropped with the bus; that ends its subscriptions.
    alive: watch::Sender<()>,
}

impl NatsBus {
    pub fn new(nats: Nats) -> Self {
        let (commands, mut queued) = mpsc::channel(OUTGOING_MAX);
        let client = nats.client().clone();
        nats.spawn(async move {
            while let Some(command) = queued.recv().await {
                match command {
                    BusCommand::Publish(subject, payload) => {
                        if let Err(error) = client.publish(subject.as_str().to_owned(), payload).await {
                            tracing::debug!(%error, %subject, "message not sent");
                        }
                    }
                    // A caller that stopped waiting does not need the subscription.
                    BusCommand::Subscribe(pattern, reply) => drop(reply.send(subscribe(&client, &pattern).await)),
                }
            }
        });
        Self { nats, commands, listeners: Arc::default(), alive: watch::Sender::new(()) }
    }

    fn send(&self, command: BusCommand) -> Result<(), BusError> {
        self.commands.try_send(command).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => BusError::Unavailable("too many messages wait for the connection".into()),
            mpsc::error::TrySendError::Closed(_) => BusError::Closed,
        })
    }
}

async fn subscribe(client: &async_nats::Client, pattern: &Pattern) -> Result<Subscriber, BoxError> {
    let subscriber = client.subscribe(pattern.as_str().to_owned()).await?;
    client.flush().await?;
    Ok(subscriber)
}

/// A subscriber's queue and the task that fills it. The task ends when this is dropped.
struct QueueTask {
    queue: Arc<Mutex<SubscriberQueue>>,
    task: tokio::task::JoinHandle<()>,
    number: u64,
    listeners: Arc<Mutex<Listeners>>,
}

impl Drop for QueueTask {
    fn drop(&mut self) {
        // The task owns the client's subscriber; dropping that unsubscribes.
        self.task.abort();
        lock(&self.listeners).patterns.remove(&self.number);
    }
}

impl Bus for NatsBus {
    fn publish(&self, subject: Subject, payload: Arc<[u8]>) -> BoxFuture<'static, Result<(), BusError>> {
        ready(self.send(BusCommand::Publish(subject, Bytes::copy_from_slice(&payload)))).boxed()
    }

    fn subscribe(&self, pattern: Pattern, queue_len_max: usize) -> BoxFuture<'static, Result<Subscription, BusError>> {
        let (nats, alive) = (self.nats.clone(), self.alive.subscribe());
        let (reply, answer) = oneshot::channel();
        let listeners = Arc::clone(&self.listeners);
        let sent = self.send(BusCommand::Subscribe(pattern.clone(), reply));
        async move {
            sent?;
            let subscriber = answer.await.map_err(|_| BusError::Closed)?.map_err(BusError::Unavailable)?;
            let queue = Arc::new(Mutex::new(SubscriberQueue::new(queue_len_max)));
            let task = nats.spawn(fill(subscriber, CloseOnDrop(Arc::clone(&queue)), alive));
            let number = {
                let mut listeners = lock(&listeners);
                listeners.last_number += 1;
                let number = listeners.last_number;
                listeners.patterns.insert(number, pattern);
                number
            };
            let filled = QueueTask { queue, task, number, listeners };
            let deliveries = stream::poll_fn(move |context| lock(&filled.queue).poll(context));
            Ok(Subscription::new(deliveries.boxed()))
        }
        .boxed()
    }

    fn listeners(&self) -> Vec<Pattern> {
        lock(&self.listeners).patterns.values().cloned().collect()
    }
}

/// Closes the queue when dropped, however the task that fills it ends; the client's threads may end before it.
struct CloseOnDrop(Arc<Mutex<SubscriberQueue>>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        let waker = lock(&self.0).close();
        waker.into_iter().for_each(Waker::wake);
    }
}

async fn fill(mut subscriber: Subscriber, queue: CloseOnDrop, mut alive: watch::Receiver<()>) {
    loop {
        let message = tokio::select! {
            message = subscriber.next() => message,
            // Nothing is ever sent here: this resolves when the bus is dropped.
            _ = alive.changed() => None,
        };
        let Some(message) = message else { break };
        let Ok(subject) = message.subject.as_str().parse() else { continue };
        let payload: Arc<[u8]> = message.payload.as_ref().into();
        let waker = lock(&queue.0).push(&subject, &payload);
        waker.into_iter().for_each(Waker::wake);
    }
}
