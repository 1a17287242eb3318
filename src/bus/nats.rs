//! The bus between processes: core NATS.
//!
//! One task publishes and subscribes, in the order of the calls. Subscribing also starts a task that fills the subscriber's queue, so that
//! a slow subscriber is told exactly what it missed instead of being cut off by the client library. A subscription holds for
//! what this bus publishes after it; messages of other connections follow as soon as the server has seen the subscription.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use async_nats::Subscriber;
use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use futures_util::{FutureExt, StreamExt, stream};
use tokio::sync::{mpsc, oneshot, watch};

use super::queue::{Queue, lock};
use super::{Bus, BusError, Subscription};
use crate::nats::Nats;
use crate::subject::{Pattern, Subject};

/// Messages that wait for the connection; more are refused. While the connection is down, nothing is worth keeping longer.
const OUTGOING_MAX: usize = 8_192;

/// What the bus does with the connection, one after the other: a subscription must not overtake what was published before it.
enum Command {
    Publish(Subject, Bytes),
    Subscribe(Pattern, oneshot::Sender<Result<Subscriber, Source>>),
}

type Source = Box<dyn std::error::Error + Send + Sync>;

/// The subscriptions of this process; the server does not tell of others.
#[derive(Default)]
struct Listeners {
    patterns: BTreeMap<u64, Pattern>,
    /// Never used twice.
    last_number: u64,
}

pub struct NatsBus {
    nats: Nats,
    commands: mpsc::Sender<Command>,
    listeners: Arc<Mutex<Listeners>>,
    /// Dropped with the bus, which ends its subscriptions.
    alive: watch::Sender<()>,
}

impl NatsBus {
    pub fn new(nats: Nats) -> Self {
        let (commands, mut waiting) = mpsc::channel(OUTGOING_MAX);
        let client = nats.client().clone();
        nats.spawn(async move {
            while let Some(command) = waiting.recv().await {
                match command {
                    Command::Publish(subject, payload) => {
                        if let Err(error) = client.publish(subject.as_str().to_owned(), payload).await {
                            tracing::debug!(%error, %subject, "message not sent");
                        }
                    }
                    // Whoever stopped waiting does not want the subscription.
                    Command::Subscribe(pattern, reply) => drop(reply.send(subscribe(&client, &pattern).await)),
                }
            }
        });
        Self { nats, commands, listeners: Arc::default(), alive: watch::Sender::new(()) }
    }

    fn command(&self, command: Command) -> Result<(), BusError> {
        self.commands.try_send(command).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => BusError::Unavailable("too many messages wait for the connection".into()),
            mpsc::error::TrySendError::Closed(_) => BusError::Closed,
        })
    }
}

async fn subscribe(client: &async_nats::Client, pattern: &Pattern) -> Result<Subscriber, Source> {
    let subscriber = client.subscribe(pattern.as_str().to_owned()).await?;
    client.flush().await?;
    Ok(subscriber)
}

/// Ends the task that fills the queue.
struct Registration {
    queue: Arc<Mutex<Queue>>,
    filling: tokio::task::JoinHandle<()>,
    number: u64,
    listeners: Arc<Mutex<Listeners>>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        // The task holds the client's subscriber, whose end unsubscribes.
        self.filling.abort();
        lock(&self.listeners).patterns.remove(&self.number);
    }
}

impl Bus for NatsBus {
    fn publish(&self, subject: Subject, payload: Arc<[u8]>) -> BoxFuture<'static, Result<(), BusError>> {
        ready(self.command(Command::Publish(subject, Bytes::copy_from_slice(&payload)))).boxed()
    }

    fn subscribe(&self, pattern: Pattern, queue_len_max: usize) -> BoxFuture<'static, Result<Subscription, BusError>> {
        let (nats, alive) = (self.nats.clone(), self.alive.subscribe());
        let (reply, answer) = oneshot::channel();
        let listeners = Arc::clone(&self.listeners);
        let asked = self.command(Command::Subscribe(pattern.clone(), reply));
        async move {
            asked?;
            let subscriber = answer.await.map_err(|_| BusError::Closed)?.map_err(BusError::Unavailable)?;
            let queue = Arc::new(Mutex::new(Queue::new(queue_len_max)));
            let filling = nats.spawn(fill(subscriber, Closing(Arc::clone(&queue)), alive));
            let number = {
                let mut listeners = lock(&listeners);
                listeners.last_number += 1;
                let number = listeners.last_number;
                listeners.patterns.insert(number, pattern);
                number
            };
            let registration = Registration { queue, filling, number, listeners };
            let deliveries = stream::poll_fn(move |context| lock(&registration.queue).poll(context));
            Ok(Subscription::new(deliveries.boxed()))
        }
        .boxed()
    }

    fn listeners(&self) -> Vec<Pattern> {
        lock(&self.listeners).patterns.values().cloned().collect()
    }
}

/// Closes the queue whichever way the task that fills it ends; the client's threads may go first.
struct Closing(Arc<Mutex<Queue>>);

impl Drop for Closing {
    fn drop(&mut self) {
        let waker = lock(&self.0).close();
        waker.into_iter().for_each(Waker::wake);
    }
}

async fn fill(mut subscriber: Subscriber, queue: Closing, mut alive: watch::Receiver<()>) {
    loop {
        let message = tokio::select! {
            message = subscriber.next() => message,
            // Nothing is ever sent here: this resolves when the bus is gone.
            _ = alive.changed() => None,
        };
        let Some(message) = message else { break };
        let Ok(subject) = message.subject.as_str().parse() else { continue };
        let payload: Arc<[u8]> = message.payload.as_ref().into();
        let waker = lock(&queue.0).push(&subject, &payload);
        waker.into_iter().for_each(Waker::wake);
    }
}
