//! `POST /v1/events`: publishes one CloudEvent, a batch, or one event per line; each gets its own result.

use actix_web::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use actix_web::web::{Bytes, BytesMut, Data, Payload};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use futures_util::StreamExt;

use super::Gateway;
use super::dto::PublishAnswer;
use super::error::{ApiError, body_error, retry_after};
use crate::config;
use crate::core::event::cloud;
use crate::core::redact::Redactor;
use crate::publisher::{Incoming, Verdict};

const ORIGIN: &str = "http";
/// How many bytes of an oversized body are read and discarded, so that the client reads the response.
const DRAIN_BYTES_MAX: usize = 64 << 20;

pub(super) async fn post_events(
    request: HttpRequest,
    payload: Payload,
    gateway: Data<Gateway>,
) -> Result<HttpResponse, ApiError> {
    let announced = request.headers().get(CONTENT_LENGTH).and_then(|len| len.to_str().ok()?.parse().ok());
    let body = read_body(payload, announced.unwrap_or(0), &gateway.settings).await?;
    let items = read_events(&request, &body, &gateway)?;
    let redactor = &gateway.publisher.limits().redactor;
    let given = items.iter().map(|item| (given_id(item, redactor), item.ignored.clone())).collect();
    let verdicts = gateway.publisher.submit(items, ORIGIN).await?;
    let mut response = status_for(&verdicts);
    Ok(response.json(PublishAnswer::new(given, verdicts)))
}

/// Returns the response for published events: accepted if one of them is in the log.
pub(super) fn status_for(verdicts: &[Verdict]) -> HttpResponseBuilder {
    let all_refused = verdicts.iter().all(|verdict| matches!(verdict, Verdict::Refused(_)));
    let is_temporary = |verdict: &Verdict| matches!(verdict, Verdict::Refused(refusal) if refusal.is_temporary());
    let is_conflict = |verdict: &Verdict| matches!(verdict, Verdict::Refused(refusal) if refusal.is_conflict());
    match (all_refused, verdicts.iter().any(is_temporary)) {
        (false, _) => HttpResponse::Accepted(),
        (true, false) if verdicts.iter().all(is_conflict) => HttpResponse::Conflict(),
        (true, false) => HttpResponse::BadRequest(),
        (true, true) => {
            let mut response = HttpResponse::TooManyRequests();
            response.insert_header(retry_after());
            response
        }
    }
}

/// Reads the body. `announced` is its length by the request's headers, zero if unknown.
pub(super) async fn read_body(mut payload: Payload, announced: usize, settings: &config::Http) -> Result<Bytes, ApiError> {
    let max = settings.body_bytes_max;
    let mut body = BytesMut::with_capacity(announced.min(max));
    let mut read = 0;
    while let Some(chunk) = payload.next().await {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            // The body is too large already, so errors in the rest do not matter.
            Err(_) if read > max => break,
            Err(error) => return Err(body_error(&error, settings.body_timeout_ms)),
        };
        read += chunk.len();
        if read <= max {
            body.extend_from_slice(&chunk);
        } else if read > DRAIN_BYTES_MAX {
            break;
        }
    }
    if read > max { Err(ApiError::BodyTooLarge { max }) } else { Ok(body.freeze()) }
}

/// Reads the events of a request, each accepted or refused by itself. Of a request with too many, one more than the limit is read.
fn read_events(request: &HttpRequest, body: &Bytes, gateway: &Gateway) -> Result<Vec<Incoming>, ApiError> {
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let structured = |bytes: Bytes| {
        let read = cloud::receive_structured(&bytes, gateway.publisher.receipt(gateway.clock.now()));
        Incoming::received(read, bytes, gateway.publisher.limits())
    };
    let max = gateway.settings.batch_events_max;
    let items = match media_type.as_str() {
        _ if request.headers().contains_key("ce-type") => vec![read_binary(request, body, gateway)],
        "application/x-ndjson" | "application/jsonl" => {
            let lines = body.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
            lines.take(max.saturating_add(1)).map(|line| structured(body.slice_ref(line))).collect()
        }
        _ if media_type == cloud::BATCH || body.trim_ascii_start().starts_with(b"[") => {
            let text = std::str::from_utf8(body).unwrap_or_default();
            let receipt = || gateway.publisher.receipt(gateway.clock.now());
            let received =
                |event: &str, read| Incoming::received(read, body.slice_ref(event.as_bytes()), gateway.publisher.limits());
            if let Some(events) = cloud::from_batch(text, max.saturating_add(1), receipt, received) {
                events
            } else {
                match cloud::split_batch(body, max.saturating_add(1)) {
                    Ok(events) => events.into_iter().map(|event| structured(body.slice_ref(event.as_bytes()))).collect(),
                    Err(refusal) => vec![Incoming::received(Err(refusal), body.clone(), gateway.publisher.limits())],
                }
            }
        }
        cloud::STRUCTURED | "application/json" | "" | "application/x-www-form-urlencoded" => {
            vec![structured(body.clone())]
        }
        other => {
            let problem = format!("'{other}' is not one of {}, {}, application/x-ndjson", cloud::STRUCTURED, cloud::BATCH);
            return Err(ApiError::BadRequest { field: "content-type", problem });
        }
    };
    match items.len() {
        0 => Err(ApiError::BadRequest { field: "body", problem: "holds no events".to_owned() }),
        count if count > max => Err(ApiError::BatchTooLarge { max }),
        _ => Ok(items),
    }
}

/// Reads an event in binary mode. Its attributes are headers, so the original of a refused event is assembled from both.
fn read_binary(request: &HttpRequest, body: &Bytes, gateway: &Gateway) -> Incoming {
    let headers = || request.headers().iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let read = cloud::receive_binary(headers(), body, gateway.publisher.receipt(gateway.clock.now()));
    let item = Incoming::received(read, body.clone(), gateway.publisher.limits());
    let original = item.content.is_err().then(|| Bytes::from(cloud::join_binary(headers(), body)));
    Incoming { original, ..item }
}

/// Returns the id as the sender wrote it, also of a refused event, or the one that the event got.
fn given_id(item: &Incoming, redactor: &Redactor) -> Option<String> {
    if let Ok(fact) = &item.content {
        return Some(fact.given_id().into_owned());
    }
    let id = cloud::given_id(item.original.as_ref()?)?;
    Some(redactor.text(&id).unwrap_or(id))
}
