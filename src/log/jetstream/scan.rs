//! Reading what is no longer in memory: a consumer per reader that goes through the past, kept for its next page.

use std::sync::{Mutex, PoisonError};

use async_nats::jetstream::{self, consumer};
use futures_util::StreamExt;

use super::follower::{STALL_PATIENCE, consume};
use super::message::{Arrival, Content};
use crate::core::event::Record;
use crate::core::id::Seq;
use crate::log::ReadError;

/// Readers of the past that are served without starting over; the longest idle ones give way.
const SCANS_MAX: usize = 8;
/// Records of one page, so that nobody who asks for everything holds it all twice.
const PAGE_RECORDS_MAX: usize = 8_192;

pub(super) struct Scans {
    jetstream: jetstream::Context,
    stream: String,
    /// Each with the position it has delivered; the one used last comes last.
    idle: Mutex<Vec<(Seq, consumer::pull::Ordered)>>,
}

impl Scans {
    pub(super) fn new(jetstream: jetstream::Context, stream: String) -> Self {
        Self { jetstream, stream, idle: Mutex::default() }
    }

    /// Records after `after`, at most `limit`, none after `end`, which is a position that holds a message; and the position up to which
    /// there are no others.
    pub(super) async fn read(&self, after: Seq, limit: usize, end: Seq) -> Result<(Vec<Record>, Seq), ReadError> {
        let mut messages = match self.resume(after) {
            Some(messages) => messages,
            None => consume(&self.jetstream, &self.stream, after).await?.1,
        };
        let mut records = Vec::new();
        let mut position = after;
        while position < end && records.len() < limit.min(PAGE_RECORDS_MAX) {
            let next = tokio::time::timeout(STALL_PATIENCE, messages.next()).await;
            let Some(message) = next.map_err(|late| ReadError::Storage(late.into()))? else {
                return Err(ReadError::Storage("the consumer ended before the end of the log".into()));
            };
            let message = message.map_err(|error| ReadError::Storage(error.into()))?;
            let arrival = Arrival::delivered(message)?;
            position = arrival.seq;
            if let Content::Record(record) = arrival.read(None)? {
                records.push(record);
            }
        }
        self.keep(position, messages);
        Ok((records, position))
    }

    fn resume(&self, after: Seq) -> Option<consumer::pull::Ordered> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let at = idle.iter().position(|(position, _)| *position == after)?;
        Some(idle.remove(at).1)
    }

    fn keep(&self, position: Seq, messages: consumer::pull::Ordered) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() == SCANS_MAX {
            idle.remove(0);
        }
        idle.push((position, messages));
    }
}
