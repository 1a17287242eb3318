//! Refused events, kept with the reason and the original bytes until somebody looks: `pml dead list`, `pml dead redrive`.

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::core::refusal::Refusal;
use crate::core::time::Timestamp;
use crate::log::{AppendError, ReadError};

/// An event that was refused, on its way into the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDeadLetter {
    pub reason: String,
    pub field: String,
    pub message: String,
    /// The door it came through: http, cli, nats.
    pub origin: String,
    /// As it was received.
    pub bytes: Vec<u8>,
}

impl NewDeadLetter {
    pub fn new(refusal: &Refusal, origin: &str, bytes: Vec<u8>) -> Self {
        Self {
            reason: refusal.reason().to_owned(),
            field: refusal.field().to_owned(),
            message: refusal.to_string(),
            origin: origin.to_owned(),
            bytes,
        }
    }

    pub(crate) fn encode(&self, at: Timestamp) -> Vec<u8> {
        let Self { reason, field, message, origin, bytes } = self;
        let stored = Stored { at_us: at.micros(), reason, field, message, origin, bytes };
        postcard::to_stdvec(&stored).expect("writing to memory cannot fail")
    }
}

/// A refused event in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    pub number: u64,
    pub at: Timestamp,
    pub letter: NewDeadLetter,
}

impl DeadLetter {
    pub(crate) fn decode(number: u64, bytes: &[u8]) -> Result<Self, postcard::Error> {
        let stored: Stored<'_> = postcard::from_bytes(bytes)?;
        Ok(Self {
            number,
            at: Timestamp::from_micros(stored.at_us),
            letter: NewDeadLetter {
                reason: stored.reason.to_owned(),
                field: stored.field.to_owned(),
                message: stored.message.to_owned(),
                origin: stored.origin.to_owned(),
                bytes: stored.bytes.to_vec(),
            },
        })
    }
}

#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    at_us: i64,
    reason: &'a str,
    field: &'a str,
    message: &'a str,
    origin: &'a str,
    #[serde(borrow)]
    bytes: &'a [u8],
}

/// Where refused events rest. Bounded: the oldest give way.
pub trait DeadLetters: Send + Sync + 'static {
    fn bury(&self, letters: Vec<NewDeadLetter>) -> BoxFuture<'static, Result<(), AppendError>>;

    /// In order of arrival, after `after`.
    fn list(&self, after: u64, limit: usize) -> BoxFuture<'static, Result<Vec<DeadLetter>, ReadError>>;

    fn remove(&self, numbers: Vec<u64>) -> BoxFuture<'static, Result<(), AppendError>>;
}
