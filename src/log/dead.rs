//! Refused events, kept with the reason until somebody looks: `pml dead list`, `pml dead redrive`. What is kept is what was received,
//! without its secrets, and cut if it is long.

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::core::redact::{self, Redactor};
use crate::core::refusal::Refusal;
use crate::core::time::Timestamp;
use crate::log::{AppendError, ReadError};

/// A page ends with the letter that brings it past this size.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Longest reason; a reason may quote what was sent.
const MESSAGE_BYTES_MAX: usize = 4_096;

/// An event that was refused, on its way into the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDeadLetter {
    pub reason: String,
    pub field: String,
    pub message: String,
    /// The door it came through: http, cli, nats.
    pub origin: String,
    /// As it was received, without its secrets.
    pub bytes: Vec<u8>,
    /// How long it was, if it was cut.
    pub cut_from: Option<u64>,
}

impl NewDeadLetter {
    /// Takes the secrets out of `received` and cuts it to `bytes_max`.
    pub fn new(refusal: &Refusal, origin: &str, received: &[u8], redactor: &Redactor, bytes_max: usize) -> Self {
        let clean = |text: &str| {
            let mut text = redactor.text(text).unwrap_or_else(|| text.to_owned());
            redact::cut(&mut text, MESSAGE_BYTES_MAX);
            text
        };
        let (bytes, cut_from) = shortened(redactor.bytes(received), bytes_max);
        Self {
            reason: refusal.reason().to_owned(),
            field: clean(refusal.field()),
            message: clean(&refusal.to_string()),
            origin: origin.to_owned(),
            bytes,
            cut_from,
        }
    }

    pub(crate) fn encode(&self, at: Timestamp) -> Vec<u8> {
        let Self { reason, field, message, origin, bytes, cut_from } = self;
        let stored = Stored { at_us: at.micros(), reason, field, message, origin, bytes };
        // Letters written before letters were cut end here.
        postcard::to_stdvec(&(stored, cut_from)).expect("writing to memory cannot fail")
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
        let (stored, rest): (Stored<'_>, _) = postcard::take_from_bytes(bytes)?;
        let cut_from = if rest.is_empty() { None } else { postcard::from_bytes(rest)? };
        Ok(Self {
            number,
            at: Timestamp::from_micros(stored.at_us),
            letter: NewDeadLetter {
                reason: stored.reason.to_owned(),
                field: stored.field.to_owned(),
                message: stored.message.to_owned(),
                origin: stored.origin.to_owned(),
                bytes: stored.bytes.to_vec(),
                cut_from,
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

/// `bytes`, at most `max` of them before a marker that says how many are gone; and how many there were, if some are.
pub(crate) fn shortened(bytes: Vec<u8>, max: usize) -> (Vec<u8>, Option<u64>) {
    if bytes.len() <= max {
        return (bytes, None);
    }
    let len = bytes.len() as u64;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    redact::cut(&mut text, max);
    (text.into_bytes(), Some(len))
}

/// Some letters in order of arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadPage {
    pub letters: Vec<DeadLetter>,
    /// The number to continue after, unless these were the last.
    pub next: Option<u64>,
    bytes: usize,
}

impl DeadPage {
    /// Whether a page of at most `limit` letters has room for one more.
    pub(crate) fn has_room(&self, limit: usize) -> bool {
        self.letters.len() < limit && self.bytes < PAGE_BYTES_MAX
    }

    pub(crate) fn push(&mut self, letter: DeadLetter) {
        self.bytes += letter.letter.bytes.len();
        self.letters.push(letter);
    }

    /// There are more letters after these.
    pub(crate) fn goes_on(&mut self) {
        self.next = self.letters.last().map(|letter| letter.number);
    }
}

/// Where refused events rest. Bounded by number and by bytes: the oldest give way.
pub trait DeadLetters: Send + Sync + 'static {
    fn bury(&self, letters: Vec<NewDeadLetter>) -> BoxFuture<'static, Result<(), AppendError>>;

    /// In order of arrival, after `after`: `limit` letters, or fewer if those are long, but one if there is any.
    fn list(&self, after: u64, limit: usize) -> BoxFuture<'static, Result<DeadPage, ReadError>>;

    fn remove(&self, numbers: Vec<u64>) -> BoxFuture<'static, Result<(), AppendError>>;
}
