//! `GET /v1/events`: the log as a stream. Server-sent events follow it for ever; NDJSON ends at the present tail.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::ACCEPT;
use actix_web::web::{Bytes, Data, Query};
use actix_web::{HttpRequest, HttpResponse};
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::watch;

use super::Gateway;
use super::error::ApiError;
use crate::core::event::{Record, cloud};
use crate::core::id::Seq;
use crate::log::{ReadError, SharedLog};
use crate::metrics::Metrics;

const BATCH_RECORDS: usize = 256;
/// A comment line this often keeps proxies from closing a silent stream.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// First position wanted. Without it (and without `Last-Event-ID`) NDJSON starts at the beginning, SSE at what comes next.
    from: Option<u64>,
}

pub(super) async fn get_events(
    request: HttpRequest,
    query: Query<EventsQuery>,
    gateway: Data<Gateway>,
) -> Result<HttpResponse, ApiError> {
    let accepts = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let asked = query.from.map(|from| Seq(from.saturating_sub(1)));
    let log = Arc::clone(&gateway.log);
    let tail = *log.tail().borrow();
    if !accepts.contains("text/event-stream") {
        let body = ndjson(log, asked.unwrap_or(Seq::ZERO), tail);
        return Ok(HttpResponse::Ok().content_type("application/x-ndjson").streaming(body));
    }
    let max = gateway.settings.streams_max;
    let open = OpenStream::register(&gateway.metrics, max).ok_or(ApiError::TooManyStreams { max })?;
    let after = last_event_id(&request)?.or(asked).unwrap_or(tail);
    let response = HttpResponse::Ok()
        .content_type("text/event-stream")
        .insert_header(("cache-control", "no-cache"))
        .streaming(server_sent_events(log, after, open));
    Ok(response)
}

fn last_event_id(request: &HttpRequest) -> Result<Option<Seq>, ApiError> {
    let Some(value) = request.headers().get("last-event-id") else { return Ok(None) };
    let seq = value.to_str().ok().and_then(|text| text.parse().ok());
    let problem = || ApiError::BadRequest { field: "Last-Event-ID", problem: "is not a position of the log".to_owned() };
    seq.map(|seq| Some(Seq(seq))).ok_or_else(problem)
}

/// Counts an open stream for as long as it lives.
pub(super) struct OpenStream(Arc<Metrics>);

impl OpenStream {
    pub(super) fn register(metrics: &Arc<Metrics>, max: usize) -> Option<Self> {
        let before = metrics.streams.inc();
        let open = Self(Arc::clone(metrics));
        usize::try_from(before).is_ok_and(|before| before < max).then_some(open)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.dec();
    }
}

fn ndjson(log: SharedLog, after: Seq, tail: Seq) -> impl stream::Stream<Item = Result<Bytes, ReadError>> {
    stream::try_unfold(after, move |after| {
        let log = Arc::clone(&log);
        async move {
            let mut records = log.read(after, BATCH_RECORDS).await?;
            records.retain(|record| record.seq <= tail);
            let Some(last) = records.last().map(|record| record.seq) else { return Ok(None) };
            let lines: Vec<String> = records.iter().map(|record| cloud::record_to_structured(record).to_string()).collect();
            Ok(Some((Bytes::from(lines.join("\n") + "\n"), last)))
        }
    })
}

struct Following {
    log: SharedLog,
    tail: watch::Receiver<Seq>,
    after: Seq,
    _open: OpenStream,
}

fn server_sent_events(log: SharedLog, after: Seq, open: OpenStream) -> impl stream::Stream<Item = Result<Bytes, ReadError>> {
    let tail = log.tail();
    let following = Following { log, tail, after, _open: open };
    stream::try_unfold(following, |mut following| async move {
        let after = following.after;
        let mut records = following.log.read(after, BATCH_RECORDS).await?;
        if records.is_empty() {
            let moved = tokio::time::timeout(HEARTBEAT, following.tail.wait_for(|tail| *tail > after)).await;
            match moved.map(|moved| moved.is_ok()) {
                Err(_) => return Ok(Some((Bytes::from_static(b": waiting\n\n"), following))),
                Ok(false) => return Ok(None),
                Ok(true) => {}
            }
            records = following.log.read(after, BATCH_RECORDS).await?;
        }
        following.after = records.last().map_or(after, |record| record.seq);
        let text: String = records.iter().map(sse_event).collect();
        Ok(Some((Bytes::from(text), following)))
    })
}

fn sse_event(record: &Record) -> String {
    format!("id: {}\nevent: {}\ndata: {}\n\n", record.seq, record.event().kind(), cloud::record_to_structured(record))
}
