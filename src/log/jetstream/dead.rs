//! Refused events on the `dead` stream: what was sent as the payload, why and whence as headers. A letter's number is its position in
//! the stream, so none is ever given twice. Others may write to its subjects too: what has no such headers is shown as foreign.

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
use crate::log::dead::shortened;
use crate::log::{AppendError, ReadError};
use crate::log::{DeadLetter, DeadLetters, DeadPage, NewDeadLetter};
use crate::nats::{Nats, StreamKind};
use crate::subject::Subjects;

const AT: &str = "Pml-At";
const REASON: &str = "Pml-Reason";
const FIELD: &str = "Pml-Field";
const MESSAGE: &str = "Pml-Message";
const ORIGIN: &str = "Pml-Origin";
const CUT_FROM: &str = "Pml-Cut-From";
/// The reason of what pml did not write, and how much of it is shown.
const FOREIGN: &str = "foreign";
const FOREIGN_BYTES_MAX: usize = 64 << 10;
/// How long a page of letters may take.
const PAGE_PATIENCE: Duration = Duration::from_secs(10);
/// Messages fetched at once; a letter has some dozens of kilobytes at most.
const FETCH_MAX: usize = 50;

type Source = Box<dyn std::error::Error + Send + Sync>;

pub struct StreamDeadLetters {
    nats: Nats,
    clock: Clock,
}

impl StreamDeadLetters {
    pub fn new(nats: Nats, clock: Clock) -> Self {
        Self { nats, clock }
    }
}

impl DeadLetters for StreamDeadLetters {
    fn bury(&self, letters: Vec<NewDeadLetter>) -> BoxFuture<'static, Result<(), AppendError>> {
        let letters: Vec<_> = letters.into_iter().map(|letter| (letter, self.clock.now())).collect();
        let (jetstream, subjects) = (self.nats.jetstream().clone(), self.nats.subjects().clone());
        let burying = self.nats.run(async move { bury(&jetstream, &subjects, letters).await });
        // A letter buried twice is a nuisance, one lost is worse: whoever is told this sends again.
        async { burying.await.map_err(AppendError::Indeterminate) }.boxed()
    }

    fn list(&self, after: u64, limit: usize) -> BoxFuture<'static, Result<DeadPage, ReadError>> {
        let (jetstream, stream) = (self.nats.jetstream().clone(), self.nats.stream_name(StreamKind::Dead));
        let listing = self.nats.run(async move {
            let page = list(&jetstream, &stream, after, limit);
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

async fn bury(
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
            headers.insert(name, escaped(text).as_str());
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

async fn list(jetstream: &jetstream::Context, stream: &str, after: u64, limit: usize) -> Result<DeadPage, Source> {
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
        // One more than there is room for tells that there are more.
        let wanted = limit.saturating_sub(page.letters.len()).saturating_add(1).min(FETCH_MAX);
        // Answers at once with what is there.
        let mut messages = consumer.fetch().max_messages(wanted).messages().await?;
        let before = page.letters.len();
        while let Some(message) = messages.next().await {
            let message = message?;
            if !page.has_room(limit) {
                page.goes_on();
                break;
            }
            page.push(read(&message)?);
        }
        if page.letters.len() == before || page.next.is_some() {
            break;
        }
    }
    let name = &consumer.cached_info().name;
    if let Err(error) = stream.delete_consumer(name).await {
        tracing::debug!(%error, "a consumer stays until it is idle long enough");
    }
    Ok(page)
}

fn read(message: &jetstream::Message) -> Result<DeadLetter, Source> {
    let info = message.info()?;
    let header = |name: &str| {
        let value = message.headers.as_ref().and_then(|headers| headers.get(name)).map(async_nats::HeaderValue::as_str);
        unescaped(value.unwrap_or_default())
    };
    let Ok(at) = header(AT).parse() else { return Ok(foreign(message, &info)) };
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

/// What somebody else put among the letters. It was not redacted on its way here, so it is on its way out.
fn foreign(message: &jetstream::Message, info: &jetstream::message::Info<'_>) -> DeadLetter {
    let redactor = Redactor::builtin();
    let (bytes, cut_from) = shortened(redactor.bytes(&message.payload), FOREIGN_BYTES_MAX);
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
        // Somebody else removed it.
        Err(error) if matches!(error.kind(), DeleteMessageErrorKind::JetStream(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Text as a header value: a header is one line of printable ASCII, so everything else is `%XX`.
fn escaped(text: &str) -> String {
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

fn unescaped(value: &str) -> String {
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
            let value = escaped(text);
            assert!(value.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{value}");
            assert_eq!(unescaped(&value), text, "{value}");
        }
    }
}
