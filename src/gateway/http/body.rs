//! The deadline of request bodies, without which a slow client would hold its connection and memory for ever.

use std::io::ErrorKind;
use std::time::Duration;

use actix_web::HttpMessage;
use actix_web::body::MessageBody;
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::error::PayloadError;
use actix_web::middleware::Next;
use actix_web::web::{Bytes, Data};
use futures_util::{Stream, StreamExt, stream};

use super::Gateway;

/// Middleware that limits the time in which the body of a request must arrive to `http.body_timeout_ms` after its head.
pub(super) async fn limit_time(
    mut request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let body = request.take_payload();
    if !matches!(body, Payload::None) {
        let gateway = request.app_data::<Data<Gateway>>().expect("the gateway is part of the app");
        let max = Duration::from_millis(gateway.settings.body_timeout_ms);
        request.set_payload(Payload::Stream { payload: Box::pin(with_deadline(max, body)) });
    }
    next.call(request).await
}

/// Returns `body`, which fails with an error of the kind `TimedOut` if it has not ended after `max`.
fn with_deadline(max: Duration, body: Payload) -> impl Stream<Item = Result<Bytes, PayloadError>> {
    let start = Some((body, Box::pin(tokio::time::sleep(max))));
    stream::unfold(start, |state| async {
        let (mut body, mut deadline) = state?;
        tokio::select! {
            biased;
            () = &mut deadline => Some((Err(PayloadError::Io(ErrorKind::TimedOut.into())), None)),
            chunk = body.next() => chunk.map(|chunk| (chunk, Some((body, deadline)))),
        }
    })
}
