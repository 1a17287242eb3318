//! `GET /v1/predictions`: the predictions after each step of open executions, as server-sent events.

use actix_web::HttpResponse;
use actix_web::web::{Bytes, Data};
use futures_util::stream::{self, Stream};
use serde::Deserialize;
use serde_json::json;

use super::Gateway;
use super::error::ApiError;
use super::input::Query;
use super::stream::{HEARTBEAT, OpenStream, until_closing};
use crate::bus::{Delivery, Subscription};
use crate::core::id::SessionId;
use crate::subject::Pattern;

/// Most predictions that wait for a reader. A slower reader gets an event with the number it missed.
const QUEUE_LEN_MAX: usize = 256;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PredictionsQuery {
    /// A session, or the id of an execution without a session; all predictions if left out.
    session: Option<String>,
}

pub(super) async fn stream(query: Query<PredictionsQuery>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let pattern: Pattern = match &query.session {
        Some(session) => {
            let invalid = |problem| ApiError::BadRequest { field: "session", problem: format!("{problem}") };
            let session: SessionId = session.parse().map_err(invalid)?;
            gateway.subjects.predict(&session).into()
        }
        None => gateway.subjects.all_predictions(),
    };
    let open = OpenStream::register(&gateway)?;
    let subscription = gateway.bus.subscribe(pattern, QUEUE_LEN_MAX).await?;
    let response = HttpResponse::Ok()
        .content_type("text/event-stream")
        .insert_header(("cache-control", "no-cache"))
        .streaming(until_closing(server_sent_events(subscription, open), &gateway));
    Ok(response)
}

/// Streams the predictions. A comment is sent first: a client that has read it misses no later prediction.
fn server_sent_events(subscription: Subscription, open: OpenStream) -> impl Stream<Item = Result<Bytes, ApiError>> {
    let greeted = false;
    stream::unfold((subscription, open, greeted), |(mut subscription, open, greeted)| async move {
        let text = if greeted {
            match tokio::time::timeout(HEARTBEAT, subscription.next()).await {
                Ok(Some(delivery)) => sse_event(&delivery),
                Ok(None) => return None,
                Err(_) => Bytes::from_static(b": waiting\n\n"),
            }
        } else {
            Bytes::from_static(b": listening\n\n")
        };
        Some((Ok(text), (subscription, open, true)))
    })
}

fn sse_event(delivery: &Delivery) -> Bytes {
    match delivery {
        Delivery::Message { payload, .. } => {
            let mut event = b"event: prediction\ndata: ".to_vec();
            // One line: JSON as pml prints it has no line breaks.
            event.extend_from_slice(payload);
            event.extend_from_slice(b"\n\n");
            event.into()
        }
        Delivery::Lagged { missed } => format!("event: lagged\ndata: {}\n\n", json!({"missed": missed})).into(),
    }
}
