//! The deadline of request bodies, without which a slow client would hold its connection and memory for ever.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::HttpMessage;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::error::PayloadError;
use actix_web::middleware::Next;
use actix_web::web::{Bytes, Data};
use futures_util::{Stream, StreamExt, stream};

use super::Gateway;

type SharedBody = Rc<RefCell<Payload>>;

/// Middleware that limits the time in which the body of a request must arrive to `http.body_timeout_ms` after its head.
pub(super) async fn limit_time(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let body: SharedBody = Rc::new(RefCell::new(request.take_payload()));
    if !matches!(*body.borrow(), Payload::None) {
        let gateway = request.app_data::<Data<Gateway>>().expect("the gateway is part of the app");
        let max = Duration::from_millis(gateway.settings.body_timeout_ms);
        request.set_payload(Payload::Stream { payload: Box::pin(with_deadline(max, Rc::clone(&body))) });
    }
    let response = next.call(request).await?.map_into_boxed_body();
    Ok(response.map_body(|_, answer| Answer { answer, _request_body: body }))
}

/// Returns `body`, which fails with an error of the kind `TimedOut` if it has not ended after `max`.
fn with_deadline(max: Duration, body: SharedBody) -> impl Stream<Item = Result<Bytes, PayloadError>> {
    let start = Some((body, Box::pin(tokio::time::sleep(max))));
    stream::unfold(start, |state| async {
        let (body, mut deadline) = state?;
        tokio::select! {
            biased;
            () = &mut deadline => Some((Err(PayloadError::Io(ErrorKind::TimedOut.into())), None)),
            chunk = poll_fn(|context| body.borrow_mut().poll_next_unpin(context)) => {
                chunk.map(|chunk| (chunk, Some((body, deadline))))
            }
        }
    })
}

/// An answer that holds the body of its request. A connection whose request body was let go before its end would be kept, without a
/// deadline, to read the rest of a chunked one; while somebody holds the body, the connection is closed after the answer.
struct Answer {
    answer: BoxBody,
    _request_body: SharedBody,
}

impl MessageBody for Answer {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.answer.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.answer).poll_next(context)
    }
}
