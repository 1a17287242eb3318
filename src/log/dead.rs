//! Dead letters: refused events, stored with the reason for `pml dead list` and `pml dead redrive`. A letter holds the bytes as they were
//! received, with secrets redacted, and cut if they are too long.

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::core::redact::{self, Redactor};
use crate::core::refusal::Refusal;
use crate::core::time::Timestamp;
use crate::log::{AppendError, ReadError};

/// Bytes of a page: it ends with the letter that reaches this size.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Bytes of the longest message; a message may quote the event.
const MESSAGE_BYTES_MAX: usize = 4_096;

/// Bytes beyond the end of a cut letter that are searched too, so that a secret that begins before the end is found whole.
const SECRET_BYTES_MAX: usize = 4_096;

/// A refused event that is not yet stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDeadLetter {
    pub reason: String,
    pub field: String,
    pub message: String,
    /// The gateway that received it: http, cli, nats.
    pub origin: String,
    /// The event as received, with secrets redacted.
    pub bytes: Vec<u8>,
    /// Bytes of the whole event, if it was cut.
    pub cut_from: Option<u64>,
}

impl NewDeadLetter {
    /// Creates a letter from `received`, with secrets redacted and cut to `bytes_max`.
    pub fn new(refusal: &Refusal, origin: &str, received: &[u8], redactor: &Redactor, bytes_max: usize) -> Self {
        let clean = |text: &str| {
            let mut text = redactor.text(text).unwrap_or_else(|| text.to_owned());
            redact::cut(&mut text, MESSAGE_BYTES_MAX);
            text
        };
        let (bytes, cut_from) = redact_and_cut(received, redactor, bytes_max);
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
        let stored = StoredLetter { at_us: at.micros(), reason, field, message, origin, bytes };
        // Older letters end after `stored`: they were written before letters were cut.
        postcard::to_stdvec(&(stored, cut_from)).expect("writing to memory cannot fail")
    }
}

/// A stored dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    pub number: u64,
    pub at: Timestamp,
    pub letter: NewDeadLetter,
}

impl DeadLetter {
    pub(crate) fn decode(number: u64, bytes: &[u8]) -> Result<Self, postcard::Error> {
        let (stored, rest): (StoredLetter<'_>, _) = postcard::take_from_bytes(bytes)?;
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

/// The stored form of a letter, without `cut_from`.
#[derive(Serialize, Deserialize)]
struct StoredLetter<'a> {
    at_us: i64,
    reason: &'a str,
    field: &'a str,
    message: &'a str,
    origin: &'a str,
    #[serde(borrow)]
    bytes: &'a [u8],
}

/// Returns the beginning of `received`, at most `bytes_max` bytes before a marker, with secrets redacted; and the number of bytes received
/// if some are missing.
pub(crate) fn redact_and_cut(received: &[u8], redactor: &Redactor, bytes_max: usize) -> (Vec<u8>, Option<u64>) {
    // Only the part that may be kept is searched: parsing megabytes of JSON takes many times their memory.
    let searched = received.len().min(bytes_max.saturating_add(SECRET_BYTES_MAX));
    let clean = redactor.bytes(&received[..searched]);
    if searched == received.len() && clean.len() <= bytes_max {
        return (clean, None);
    }
    let mut text = String::from_utf8_lossy(&clean).into_owned();
    let len = text.len() + received.len() - searched;
    redact::cut_beginning(&mut text, bytes_max, len);
    (text.into_bytes(), Some(received.len() as u64))
}

/// A page of letters in order of arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadPage {
    pub letters: Vec<DeadLetter>,
    /// The number to continue after; `None` if there are no more letters.
    pub next: Option<u64>,
    bytes: usize,
}

impl DeadPage {
    /// Returns whether the page, of at most `limit` letters, has room for one more.
    pub(crate) fn has_room(&self, limit: usize) -> bool {
        self.letters.len() < limit && self.bytes < PAGE_BYTES_MAX
    }

    pub(crate) fn push(&mut self, letter: DeadLetter) {
        self.bytes += letter.letter.bytes.len();
        self.letters.push(letter);
    }

    /// Sets `next`, because there are more letters after these.
    pub(crate) fn set_next(&mut self) {
        self.next = self.letters.last().map(|letter| letter.number);
    }
}

/// A durable store of dead letters.
///
/// - The store is bounded by number and by bytes: the oldest letters MUST be dropped first.
/// - When `store` returns `Ok`, every letter of the call MUST survive a crash of the process. Errors mean what [`AppendError`] says;
///   after `Indeterminate` the caller stores the letters again, because a letter stored twice is better than one lost.
/// - Each letter gets a number; numbers MUST increase in order of arrival and MUST NOT be given twice.
/// - `remove` MUST ignore numbers of letters that are gone.
pub trait DeadLetters: Send + Sync + 'static {
    fn store(&self, letters: Vec<NewDeadLetter>) -> BoxFuture<'static, Result<(), AppendError>>;

    /// Returns the letters after number `after` in order of arrival: at most `limit`, fewer if they are long, but at least one if there
    /// is any.
    fn list(&self, after: u64, limit: usize) -> BoxFuture<'static, Result<DeadPage, ReadError>>;

    fn remove(&self, numbers: Vec<u64>) -> BoxFuture<'static, Result<(), AppendError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_letter_holds_no_secret_that_crosses_its_end() {
        let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
        for before in 60..110 {
            let received = format!("{} {secret} {}", "x".repeat(before), "y".repeat(10_000));
            let (bytes, cut_from) = redact_and_cut(received.as_bytes(), &Redactor::builtin(), 100);
            let text = String::from_utf8(bytes).unwrap();
            assert_eq!(cut_from, Some(received.len() as u64));
            assert!(!text.contains("ghp_") && text.ends_with(" bytes]"), "{text}");
        }
        assert_eq!(redact_and_cut(b"{}", &Redactor::builtin(), 100), (b"{}".to_vec(), None));
    }
}
