//! Dead letters on the `dead` stream: the payload is the event, the headers are the reason, field, message and origin. A letter's number
//! is its position in the stream, so no number is given twice. Other programs may write to its subjects too: messages without these
//! headers are listed as foreign.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::stream::{DeleteMessageErrorKind, Stream};
use async_nats::jetstream::{self, consumer};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};

use crate::clock::Clock;
use crate::core::redact::Redactor;
use crate::core::time::Timestamp;
use crate::log::dead::redact_and_cut;
use crate::log::error::Source;
use crate::log::{AppendError, DeadLetter, DeadLetters, DeadPage, NewDeadLetter, ReadError};
use crate::nats::{Nats, StreamKind};
use crate::subject::Subjects;

const AT: &str = "Pml-At";
const REASON: &str = "Pml-Reason";
const FIELD: &str = "Pml-Field";
const MESSAGE: &str = "Pml-Message";
const ORIGIN: &str = "Pml-Origin";
const CUT_FROM: &str = "Pml-Cut-From";
/// The reason given to messages that pml did not write, and how many bytes of them are shown.
const FOREIGN: &str = "foreign";
const FOREIGN_BYTES_MAX: usize = 64 << 10;
/// How long a page of letters may take.
const PAGE_PATIENCE: Duration = Duration::from_secs(10);
/// Most messages fetched at once; a letter has some dozens of kilobytes at most.
const FETCH_MAX: usize = 50;

/// The dead letters of a workspace on its `dead` stream.
pub struct StreamDeadLetters {
    nats: Nats,
    clock: Clock,
    /// For messages that others wrote, when they are read.
    redactor: Redactor,
}

impl StreamDeadLetters {
    pub fn new(nats: Nats, clock: Clock, redactor: Redactor) -> Self {
        Self { nats, clock, redactor }
    }
}

impl DeadLetters for StreamDeadLetters {
    fn store(&self, letters: Vec<NewDeadLetter>) -> BoxFuture<'static, Result<(), AppendError>> {
        let letters: Vec<_> = letters.into_iter().map(|letter| (letter, self.clock.now())).collect();
        let (jetstream, subjects) = (self.nats.jetstream().clone(), self.nats.subjects().clone());
        let storing = self.nats.run(async move { store(&jetstream, &subjects, letters).await });
        // `Indeterminate`, so that the caller stores again: a letter stored twice is better than one lost.
        async { storing.await.map_err(AppendError::Indeterminate) }.boxed()
    }

    fn list(&self, after: u64, limit: usize) -> BoxFuture<'static, Result<DeadPage, ReadError>> {
        let (jetstream, stream) = (self.nats.jetstream().clone(), self.nats.stream_name(StreamKind::Dead));
        let redactor = self.redactor.clone();
        let listing = self.nats.run(async move {
            let page = list((&jetstream, &stream), after, limit, &redactor);
            tokio::time::timeout(PAGE_PATIENCE, page).await.unwrap_or_else(|late| Err(late.into()))
        });
        async { listing.await.map_err(ReadError::Storage) }.boxed()
    }

    fn remove(&self, numbers: Vec<u64>) -> BoxFuture<'static, Result<(), AppendError>> {
        let (jetstream, stream) = (self.nats.jetstream().clone(), self.nats.stream_name(StreamKind::Dead));
        let removing = self.nats.run(async move {
            let stream = jetstream.get_stream(stream).await?;
            for number in numbers {
                remove(&stream, number).await?;
            }
            Ok::<(), Source>(())
        });
        async { removing.await.map_err(AppendError::Indeterminate) }.boxed()
    }
}

async fn store(
    jetstream: &jetstream::Context,
    subjects: &Subjects,
    letters: Vec<(NewDeadLetter, Timestamp)>,
) -> Result<(), Source> {
    let mut acknowledgements = Vec::with_capacity(letters.len());
    for (letter, at) in letters {
        let mut headers = HeaderMap::new();
        let texts = [(REASON, &letter.reason), (FIELD, &letter.field), (MESSAGE, &letter.message), (ORIGIN, &letter.origin)];
        headers.insert(AT, at.to_string().as_str());
        for (name, text) in texts {
            headers.insert(name, escape(text).as_str());
        }
        if let Some(len) = letter.cut_from {
            headers.insert(CUT_FROM, len.to_string().as_str());
        }
        let subject = subjects.dead(&letter.reason).as_str().to_owned();
        acknowledgements.push(jetstream.publish_with_headers(subject, headers, Bytes::from(letter.bytes)).await?);
    }
    for acknowledgement in acknowledgements {
        acknowledgement.await?;
    }
    Ok(())
}

async fn list(
    (jetstream, stream): (&jetstream::Context, &str),
    after: u64,
    limit: usize,
    redactor: &Redactor,
) -> Result<DeadPage, Source> {
    let stream = jetstream.get_stream(stream).await?;
    let state = &stream.cached_info().state;
    let mut page = DeadPage::default();
    if state.messages == 0 || after >= state.last_sequence {
        return Ok(page);
    }
    let consumer = stream
        .create_consumer(consumer::pull::Config {
            deliver_policy: consumer::DeliverPolicy::ByStartSequence { start_sequence: after + 1 },
            ack_policy: consumer::AckPolicy::None,
            inactive_threshold: PAGE_PATIENCE,
            memory_storage: true,
            ..consumer::pull::Config::default()
        })
        .await?;
    loop {
        // One more than fits into the page, to know whether there are more.
        let wanted = limit.saturating_sub(page.letters.len()).saturating_add(1).min(FETCH_MAX);
        // Returns at once with the messages that are there.
        let mut messages = consumer.fetch().max_messages(wanted).messages().await?;
        let before = page.letters.len();
        while let Some(message) = messages.next().await {
            let message = message?;
            if !page.has_room(limit) {
                page.set_next();
                break;
            }
            page.push(decode(&message, redactor)?);
        }
        if page.letters.len() == before || page.next.is_some() {
            break;
        }
    }
    let name = &consumer.cached_info().name;
    if let Err(error) = stream.delete_consumer(name).await {
        tracing::debug!(%error, "the consumer of a page of dead letters could not be removed; the server removes it after an idle time");
    }
    Ok(page)
}

fn decode(message: &jetstream::Message, redactor: &Redactor) -> Result<DeadLetter, Source> {
    let info = message.info()?;
    let header = |name: &str| {
        let value = message.headers.as_ref().and_then(|headers| headers.get(name)).map(async_nats::HeaderValue::as_str);
        unescape(value.unwrap_or_default())
    };
    let Ok(at) = header(AT).parse() else { return Ok(foreign_letter(message, &info, redactor)) };
    Ok(DeadLetter {
        number: info.stream_sequence,
        at,
        letter: NewDeadLetter {
            reason: header(REASON),
            field: header(FIELD),
            message: header(MESSAGE),
            origin: header(ORIGIN),
            bytes: message.payload.to_vec(),
            cut_from: header(CUT_FROM).parse().ok(),
        },
    })
}

/// Returns a letter for a foreign message. The message was not redacted when it was stored, so it is redacted here.
fn foreign_letter(message: &jetstream::Message, info: &jetstream::message::Info<'_>, redactor: &Redactor) -> DeadLetter {
    let (bytes, cut_from) = redact_and_cut(&message.payload, redactor, FOREIGN_BYTES_MAX);
    let micros = info.published.unix_timestamp_nanos() / 1_000;
    DeadLetter {
        number: info.stream_sequence,
        at: Timestamp::from_micros(i64::try_from(micros).unwrap_or_default()),
        letter: NewDeadLetter {
            reason: FOREIGN.to_owned(),
            field: String::new(),
            message: format!("not written by pml: a message on {}", message.subject),
            origin: FOREIGN.to_owned(),
            bytes,
            cut_from,
        },
    }
}

async fn remove(stream: &Stream, number: u64) -> Result<(), Source> {
    match stream.delete_message(number).await {
        Ok(_) => Ok(()),
        // It was removed already.
        Err(error) if matches!(error.kind(), DeleteMessageErrorKind::JetStream(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Escapes text as a header value: printable ASCII except `%` stays, every other byte becomes `%XX`.
fn escape(text: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::with_capacity(text.len()), |mut value, byte| {
        if (b' '..=b'~').contains(&byte) && byte != b'%' {
            value.push(byte.into());
        } else {
            write!(value, "%{byte:02X}").expect("writing to memory cannot fail");
        }
        value
    })
}

/// Reverses [`escape`].
fn unescape(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = (byte == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_survives_a_header() {
        for text in ["", "plain text: 'x'", "100%", "%41", "two\r\nlines", "caf\u{e9} \u{1f600}", " edges "] {
            let value = escape(text);
            assert!(value.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{value}");
            assert_eq!(unescape(&value), text, "{value}");
        }
    }
}
