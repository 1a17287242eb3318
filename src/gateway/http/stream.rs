//! `GET /v1/events`: the log as a stream. Server-sent events follow the log without end; NDJSON ends at the present tail.

mod frames;

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::ACCEPT;
use actix_web::web::{Bytes, Data};
use actix_web::{HttpRequest, HttpResponse};
use futures_util::stream::{self, Stream, StreamExt};
use serde::Deserialize;
use tokio::sync::watch;

use super::Gateway;
use super::error::ApiError;
use super::input::Query;
use crate::core::event::{Event, Kind, Record, cloud};
use crate::core::id::{ExecutionId, InvalidId, Seq};
use crate::history::position_at;
use crate::log::{ReadError, SharedLog};
use crate::metrics::Metrics;
pub(super) use frames::Frames;

/// A piece of a stream is sent once it has this many bytes, so that a stalled client costs no more memory than that and one record.
const PIECE_BYTES: usize = 64 << 10;
/// Records read from the log at once: twice as many as the last piece had, at most `PAGE_RECORDS_MAX`. Records may have hundreds of
/// kilobytes, and those that do not fit are read again for the next piece.
const PAGE_RECORDS_FIRST: usize = 8;
const PAGE_RECORDS_MAX: usize = 64;
/// Longest time for which server-sent events are collected.
const EVERY_MS_MAX: u64 = 10_000;
/// The last position wanted by a stream that goes on.
const NO_END: Seq = Seq(u64::MAX);
/// Records after the trace of an execution among which its late ones are looked for.
const LATE_RECORDS: usize = 5_000;
/// How far the clock of an agent may be ahead of the log's.
const CLOCKS_DIFFER_MICROS: i64 = 600_000_000;
/// The interval of comment lines, which keep proxies from closing an idle stream.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// First position wanted. Without it (and without `Last-Event-ID`) NDJSON starts at the beginning, SSE after the present tail.
    from: Option<u64>,
    /// Last position wanted, for NDJSON; server-sent events go on.
    to: Option<u64>,
    /// Only records of these kinds, separated by commas.
    kinds: Option<String>,
    /// Only records of this execution.
    execution: Option<String>,
    /// Whether vectors and parameters are included: many bytes that few readers want.
    #[serde(default)]
    vectors: bool,
    /// Server-sent events are sent at most this often; what comes meanwhile is sent together.
    #[serde(default)]
    every_ms: u64,
}

pub(super) async fn get_events(
    request: HttpRequest,
    query: Query<EventsQuery>,
    gateway: Data<Gateway>,
    frames: Data<Frames>,
) -> Result<HttpResponse, ApiError> {
    let accepts = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let asked = query.from.map(|from| Seq(from.saturating_sub(1)));
    let kinds = query.kinds.as_deref().map(parse_kinds).transpose()?;
    let execution = query.execution.as_deref().map(parse_execution).transpose()?;
    let open = OpenStream::register(&gateway)?;
    let log = Arc::clone(&gateway.log);
    let tail = *log.tail().borrow();
    let begin = match (asked, &execution) {
        (None, Some(execution)) => before_execution(&gateway, execution).await?,
        (asked, _) => asked.unwrap_or(Seq::ZERO),
    };
    let selection = Selection { kinds, vectors: query.vectors, execution };
    if !accepts.contains("text/event-stream") {
        let last = query.to.map_or(tail, |to| tail.min(Seq(to)));
        let body = ndjson(Reader::new(log, begin, selection, open), last);
        return Ok(HttpResponse::Ok().content_type("application/x-ndjson").streaming(until_closing(body, &gateway)));
    }
    if query.to.is_some() {
        return Err(ApiError::BadRequest { field: "to", problem: "is for NDJSON; server-sent events have no end".to_owned() });
    }
    if query.every_ms > EVERY_MS_MAX {
        return Err(ApiError::BadRequest { field: "every_ms", problem: format!("must be at most {EVERY_MS_MAX}") });
    }
    let after = last_event_id(&request)?.or(asked).unwrap_or(tail);
    let follower = Follower {
        tail: log.tail(),
        reader: Reader::new(log, after, selection, open),
        frames: frames.into_inner(),
        every: Duration::from_millis(query.every_ms),
    };
    let response = HttpResponse::Ok()
        .content_type("text/event-stream")
        .insert_header(("cache-control", "no-cache"))
        .streaming(until_closing(server_sent_events(follower), &gateway));
    Ok(response)
}

fn parse_kinds(text: &str) -> Result<Vec<Kind>, ApiError> {
    let unknown = |name: &str| ApiError::BadRequest { field: "kinds", problem: format!("'{name}' is not a kind of events") };
    text.split(',').map(|name| name.parse().map_err(|_| unknown(name))).collect()
}

fn parse_execution(text: &str) -> Result<ExecutionId, ApiError> {
    text.parse().map_err(|problem: InvalidId| ApiError::BadRequest { field: "execution", problem: problem.to_string() })
}

/// A position before all records of an execution, which spares a reader what is older. The clock of an agent may be ahead of the log's.
async fn before_execution(gateway: &Gateway, execution: &ExecutionId) -> Result<Seq, ApiError> {
    let view = gateway.views.current();
    let closed = view.executions.trace(execution).map(|trace| trace.started);
    let started = closed.or_else(|| Some(view.executions.get(execution)?.complete(execution, true).started));
    match started {
        Some(started) => Ok(position_at(gateway.log.as_ref(), started.plus_micros(-CLOCKS_DIFFER_MICROS)).await?),
        None => Ok(Seq::ZERO),
    }
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

/// Which records a reader gets, and how much of them.
struct Selection {
    /// The kinds that are sent; `None` for all.
    kinds: Option<Vec<Kind>>,
    /// Whether vectors and parameters are included.
    vectors: bool,
    /// The execution whose records are sent; `None` for all records.
    execution: Option<ExecutionId>,
}

impl Selection {
    fn includes(&self, record: &Record) -> bool {
        let fits = self.execution.as_ref().is_none_or(|execution| record.event().execution() == Some(execution));
        fits && self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&record.event().kind()))
    }
}

/// Reads the log piece by piece.
struct Reader {
    log: SharedLog,
    /// The last position that was sent or passed over.
    after: Seq,
    page_records: usize,
    selection: Selection,
    /// Records that are still looked at for NDJSON, once the trace of the one execution wanted was met: what came late follows soon.
    left: Option<usize>,
    _open: OpenStream,
}

impl Reader {
    fn new(log: SharedLog, after: Seq, selection: Selection, open: OpenStream) -> Self {
        Self { log, after, page_records: PAGE_RECORDS_FIRST, selection, left: None, _open: open }
    }

    /// Returns the next records up to `last`, each formatted by `format`; `None` if there are none yet.
    async fn next_piece(&mut self, last: Seq, format: impl Fn(&Record, &str) -> String) -> Result<Option<Bytes>, ReadError> {
        loop {
            if self.left == Some(0) && last != NO_END {
                return Ok(None);
            }
            let records = self.log.read(self.after, self.page_records).await?;
            let mut piece = String::new();
            let mut read = 0;
            for record in records.iter().take_while(|record| record.seq <= last) {
                if self.selection.includes(record) {
                    piece.push_str(&format(record, &cloud::record_to_text(record, self.selection.vectors)));
                }
                self.after = record.seq;
                read += 1;
                self.left = match (self.left, &self.selection.execution, record.event()) {
                    (None, Some(execution), Event::TraceCompleted(trace)) if trace.execution == *execution => {
                        Some(LATE_RECORDS)
                    }
                    (left, ..) => left.map(|left| left.saturating_sub(1)),
                };
                if piece.len() >= PIECE_BYTES {
                    break;
                }
            }
            self.page_records = (read * 2).clamp(1, PAGE_RECORDS_MAX);
            // An empty piece would end the response.
            if read == 0 || !piece.is_empty() {
                return Ok((read > 0).then(|| piece.into()));
            }
        }
    }
}

fn ndjson(reader: Reader, last: Seq) -> impl Stream<Item = Result<Bytes, ReadError>> {
    stream::try_unfold(reader, move |mut reader| async move {
        let line = |_: &Record, json: &str| format!("{json}\n");
        Ok(reader.next_piece(last, line).await?.map(|piece| (piece, reader)))
    })
}

/// A stream that follows the log.
struct Follower {
    reader: Reader,
    tail: watch::Receiver<Seq>,
    frames: Arc<Frames>,
    every: Duration,
}

impl Follower {
    /// Returns the next records, or `None` if there are none yet.
    async fn next_piece(&mut self) -> Result<Option<Bytes>, ReadError> {
        let Selection { kinds, vectors, execution } = &self.reader.selection;
        while !vectors && execution.is_none() {
            let next = self.frames.after(self.reader.after, kinds.as_deref(), &self.reader.log).await?;
            let Some(next) = next else { break };
            let is_end = next.passed == self.reader.after;
            self.reader.after = next.passed;
            // An empty piece would end the response.
            if is_end || !next.piece.is_empty() {
                return Ok((!is_end).then(|| next.piece.into()));
            }
        }
        self.reader.next_piece(NO_END, sse_event).await
    }
}

fn server_sent_events(follower: Follower) -> impl Stream<Item = Result<Bytes, ReadError>> {
    stream::try_unfold(follower, |mut follower| async move {
        // Records that are passed over do not put off the comment line.
        let silence = tokio::time::sleep(HEARTBEAT);
        tokio::pin!(silence);
        loop {
            if let Some(piece) = follower.next_piece().await? {
                return Ok(Some((piece, follower)));
            }
            let (after, tail) = (follower.reader.after, &mut follower.tail);
            let is_open = tokio::select! {
                is_open = async { tail.wait_for(|tail| *tail > after).await.is_ok() } => is_open,
                () = &mut silence => return Ok(Some((Bytes::from_static(b": waiting\n\n"), follower))),
            };
            if !is_open {
                return Ok(None);
            }
            tokio::time::sleep(follower.every).await;
        }
    })
}

fn sse_event(record: &Record, json: &str) -> String {
    format!("id: {}\nevent: {}\ndata: {json}\n\n", record.seq, record.event().kind())
}
