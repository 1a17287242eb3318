//! `GET /v1/events`: the log as a stream. Server-sent events follow the log without end; NDJSON ends at the present tail.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::ACCEPT;
use actix_web::web::{Bytes, Data, Query};
use actix_web::{HttpRequest, HttpResponse};
use futures_util::stream::{self, Stream, StreamExt};
use serde::Deserialize;

use super::Gateway;
use super::error::ApiError;
use crate::core::event::{Record, cloud};
use crate::core::id::Seq;
use crate::log::{ReadError, SharedLog};
use crate::metrics::Metrics;

/// A piece of a stream is sent once it has this many bytes, so that a stalled client costs no more memory than that and one record.
const PIECE_BYTES: usize = 64 << 10;
/// Records read from the log at once: twice as many as the last piece had, at most `PAGE_RECORDS_MAX`. Records may have hundreds of
/// kilobytes, and those that do not fit are read again for the next piece.
const PAGE_RECORDS_FIRST: usize = 8;
const PAGE_RECORDS_MAX: usize = 64;
/// The interval of comment lines, which keep proxies from closing an idle stream.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// First position wanted. Without it (and without `Last-Event-ID`) NDJSON starts at the beginning, SSE after the present tail.
    from: Option<u64>,
    /// Whether vectors and parameters are included: many bytes that few readers want.
    #[serde(default)]
    vectors: bool,
}

pub(super) async fn get_events(
    request: HttpRequest,
    query: Query<EventsQuery>,
    gateway: Data<Gateway>,
) -> Result<HttpResponse, ApiError> {
    let accepts = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let asked = query.from.map(|from| Seq(from.saturating_sub(1)));
    let open = OpenStream::register(&gateway)?;
    let log = Arc::clone(&gateway.log);
    let tail = *log.tail().borrow();
    if !accepts.contains("text/event-stream") {
        let body = ndjson(Reader::new(log, asked.unwrap_or(Seq::ZERO), query.vectors, open), tail);
        return Ok(HttpResponse::Ok().content_type("application/x-ndjson").streaming(until_closing(body, &gateway)));
    }
    let after = last_event_id(&request)?.or(asked).unwrap_or(tail);
    let response = HttpResponse::Ok()
        .content_type("text/event-stream")
        .insert_header(("cache-control", "no-cache"))
        .streaming(until_closing(server_sent_events(Reader::new(log, after, query.vectors, open)), &gateway));
    Ok(response)
}

fn last_event_id(request: &HttpRequest) -> Result<Option<Seq>, ApiError> {
    let Some(value) = request.headers().get("last-event-id") else { return Ok(None) };
    let seq = value.to_str().ok().and_then(|text| text.parse().ok());
    let problem = || ApiError::BadRequest { field: "Last-Event-ID", problem: "is not a position of the log".to_owned() };
    seq.map(|seq| Some(Seq(seq))).ok_or_else(problem)
}

/// Returns `body`, which ends when the server stops.
pub(super) fn until_closing<S: Stream>(body: S, gateway: &Gateway) -> impl Stream<Item = S::Item> + use<S> {
    let mut closing = gateway.closing.clone();
    body.take_until(Box::pin(async move {
        // An error means that the sender is gone, with the server.
        drop(closing.wait_for(|closing| *closing).await);
    }))
}

/// Counts a streamed response until it is dropped.
pub(super) struct OpenStream(Arc<Metrics>);

impl OpenStream {
    /// Counts a new stream; fails if there are too many.
    pub(super) fn register(gateway: &Gateway) -> Result<Self, ApiError> {
        let max = gateway.settings.streams_max;
        let before = gateway.metrics.streams.inc();
        let open = Self(Arc::clone(&gateway.metrics));
        if usize::try_from(before).is_ok_and(|before| before < max) { Ok(open) } else { Err(ApiError::TooManyStreams { max }) }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.dec();
    }
}

/// Reads the log piece by piece.
struct Reader {
    log: SharedLog,
    /// The last position that was sent.
    after: Seq,
    page_records: usize,
    vectors: bool,
    _open: OpenStream,
}

impl Reader {
    fn new(log: SharedLog, after: Seq, vectors: bool, open: OpenStream) -> Self {
        Self { log, after, page_records: PAGE_RECORDS_FIRST, vectors, _open: open }
    }

    /// Returns the next records up to `last`, each formatted by `format`; `None` if there are none yet.
    async fn next_piece(&mut self, last: Seq, format: impl Fn(&Record, &str) -> String) -> Result<Option<Bytes>, ReadError> {
        let records = self.log.read(self.after, self.page_records).await?;
        let mut piece = String::new();
        let mut sent = 0;
        for record in records.iter().take_while(|record| record.seq <= last) {
            piece.push_str(&format(record, &cloud::record_to_text(record, self.vectors)));
            self.after = record.seq;
            sent += 1;
            if piece.len() >= PIECE_BYTES {
                break;
            }
        }
        self.page_records = (sent * 2).clamp(1, PAGE_RECORDS_MAX);
        Ok((sent > 0).then(|| piece.into()))
    }
}

fn ndjson(reader: Reader, tail: Seq) -> impl Stream<Item = Result<Bytes, ReadError>> {
    stream::try_unfold(reader, move |mut reader| async move {
        let line = |_: &Record, json: &str| format!("{json}\n");
        Ok(reader.next_piece(tail, line).await?.map(|piece| (piece, reader)))
    })
}

fn server_sent_events(reader: Reader) -> impl Stream<Item = Result<Bytes, ReadError>> {
    let tail = reader.log.tail();
    stream::try_unfold((reader, tail), |(mut reader, mut tail)| async move {
        loop {
            let after = reader.after;
            if let Some(piece) = reader.next_piece(Seq(u64::MAX), sse_event).await? {
                return Ok(Some((piece, (reader, tail))));
            }
            let moved = tokio::time::timeout(HEARTBEAT, tail.wait_for(|tail| *tail > after)).await;
            match moved.map(|moved| moved.is_ok()) {
                Err(_) => return Ok(Some((Bytes::from_static(b": waiting\n\n"), (reader, tail)))),
                Ok(false) => return Ok(None),
                Ok(true) => {}
            }
        }
    })
}

fn sse_event(record: &Record, json: &str) -> String {
    format!("id: {}\nevent: {}\ndata: {json}\n\n", record.seq, record.event().kind())
}
