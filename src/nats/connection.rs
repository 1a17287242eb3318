//! Noticing that a connection was replaced. What the server had sent on the old one and did not arrive is lost for good: answers to requests,
//! and messages that a consumer had delivered, which it does not deliver again. Neither is noticed by waiting for more of it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::Client;

/// How often the connection is looked at. The client counts its connections and wakes nobody.
const CHECKED_EVERY: Duration = Duration::from_millis(100);
/// How long an answer may still take once the connection was replaced: the request may have been sent on the new one.
const LATE_ANSWER_PATIENCE: Duration = Duration::from_millis(500);

/// The answer was due on a connection that is gone.
#[derive(Debug, thiserror::Error)]
#[error("the connection was lost before the server's answer came")]
pub(crate) struct ConnectionLost;

/// The number of the present connection: how often the client has connected.
pub(crate) fn number(client: &Client) -> u64 {
    client.statistics().connects.load(Ordering::Relaxed)
}

/// Waits until the connection is another one than `connection`.
pub(crate) async fn replaced(client: &Client, connection: u64) {
    while number(client) == connection {
        tokio::time::sleep(CHECKED_EVERY).await;
    }
}

/// Waits for the answer to a request that was made on `connection`; if the connection is replaced meanwhile, only a moment longer.
pub(crate) async fn answer<T>(client: &Client, connection: u64, answer: impl Future<Output = T>) -> Result<T, ConnectionLost> {
    let lost = async {
        replaced(client, connection).await;
        tokio::time::sleep(LATE_ANSWER_PATIENCE).await;
    };
    tokio::select! {
        biased;
        answer = answer => Ok(answer),
        () = lost => Err(ConnectionLost),
    }
}
