//! Reads of records that are no longer in memory: one consumer per reader, kept for its next page.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_nats::jetstream::{self, consumer};
use futures_util::StreamExt;

use super::follower::{STALL_PATIENCE, consume};
use super::message::{Content, StreamMessage};
use crate::core::event::Record;
use crate::core::id::Seq;
use crate::log::{Damage, ReadError};
use crate::nats::connection;

/// Most idle consumers kept; the one that is idle longest is dropped.
const SCANS_MAX: usize = 8;
/// Most records of one page, so that a read of everything is not in memory twice.
const PAGE_RECORDS_MAX: usize = 8_192;

/// The consumers of readers of older records.
pub(super) struct Scans {
    jetstream: jetstream::Context,
    stream: String,
    trimmed_to: Arc<AtomicU64>,
    /// Consumers with the position delivered last, in the order of their last use.
    idle: Mutex<Vec<(Seq, Scan)>>,
}

/// A consumer and the number of its connection, with which it is lost.
struct Scan {
    messages: consumer::pull::Ordered,
    connection: u64,
}

impl Scans {
    pub(super) fn new(jetstream: jetstream::Context, stream: String, trimmed_to: Arc<AtomicU64>) -> Self {
        Self { jetstream, stream, trimmed_to, idle: Mutex::default() }
    }

    /// Returns records after `after`, at most `limit`, none after `end`, which must be a position that holds a message; and the position
    /// up to which it has read.
    pub(super) async fn read(&self, after: Seq, limit: usize, end: Seq) -> Result<(Vec<Record>, Seq), ReadError> {
        let client = self.jetstream.client();
        let mut scan = match self.resume(after, connection::number(&client)) {
            Some(scan) => scan,
            None => self.begin(after).await?,
        };
        let mut records = Vec::new();
        let mut position = after;
        while position < end && records.len() < limit.min(PAGE_RECORDS_MAX) {
            let next = tokio::select! {
                biased;
                next = tokio::time::timeout(STALL_PATIENCE, scan.messages.next()) => next,
                () = connection::replaced(&client, scan.connection) => {
                    scan = self.begin(position).await?;
                    continue;
                }
            };
            let Some(message) = next.map_err(|late| ReadError::Storage(late.into()))? else {
                return Err(ReadError::Storage("the consumer ended before the end of the log".into()));
            };
            let message = message.map_err(|error| ReadError::Storage(error.into()))?;
            let message = StreamMessage::from_delivery(message)?;
            if message.seq > position.next() {
                self.check_trimmed(position, message.seq).await?;
            }
            position = message.seq;
            if let Content::Record(record) = message.decode(None)? {
                records.push(record);
            }
        }
        self.keep(position, scan);
        Ok((records, position))
    }

    async fn begin(&self, after: Seq) -> Result<Scan, ReadError> {
        let connection = connection::number(&self.jetstream.client());
        let (_, messages) = consume(&self.jetstream, &self.stream, after).await?;
        Ok(Scan { messages, connection })
    }

    /// Fails if the positions between `after` and `before` hold no messages because another process has moved them to the archive.
    async fn check_trimmed(&self, after: Seq, before: Seq) -> Result<(), ReadError> {
        let trimmed_to = trimmed_to(&self.jetstream, &self.stream).await?;
        self.trimmed_to.fetch_max(trimmed_to.0, Ordering::AcqRel);
        if trimmed_to > after { Err(Damage::Gap { after, before }.into()) } else { Ok(()) }
    }

    /// Removes and returns the idle consumer that continues after `after`, of those of this connection; the others are gone.
    fn resume(&self, after: Seq, connection: u64) -> Option<Scan> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(_, scan)| scan.connection == connection);
        let index = idle.iter().position(|(position, _)| *position == after)?;
        Some(idle.remove(index).1)
    }

    fn keep(&self, position: Seq, scan: Scan) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() == SCANS_MAX {
            idle.remove(0);
        }
        idle.push((position, scan));
    }
}

/// Returns the position up to which messages were removed from the stream.
pub(super) async fn trimmed_to(jetstream: &jetstream::Context, stream: &str) -> Result<Seq, ReadError> {
    let found = jetstream.get_stream(stream).await.map_err(|error| ReadError::Storage(error.into()))?;
    Ok(Seq(found.cached_info().state.first_sequence.saturating_sub(1)))
}
