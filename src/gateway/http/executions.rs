//! `POST /v1/executions`: publishes a whole run as one JSON document. A document that is not valid is refused as a whole, with the name
//! of the field.

use std::sync::Arc;

use actix_web::http::header::CONTENT_LENGTH;
use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};

use super::Gateway;
use super::dto::{PublishAnswer, RunAnswer};
use super::error::ApiError;
use super::publish::{read_body, status_for};
use crate::core::event::document;
use crate::core::intake;
use crate::publisher::{Incoming, clean_paths};

const ORIGIN: &str = "http";

pub(super) async fn post(request: HttpRequest, payload: Payload, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let announced = request.headers().get(CONTENT_LENGTH).and_then(|len| len.to_str().ok()?.parse().ok());
    let body = read_body(payload, announced.unwrap_or(0), &gateway.settings).await?;
    let limits = gateway.publisher.limits();
    let run =
        document::read(&body, gateway.publisher.receipt(gateway.clock.now()), gateway.clock.fresh_id()).and_then(|mut run| {
            intake::check_run(&mut run, limits)?;
            Ok(run)
        });
    let run = run.map_err(|refusal| ApiError::Refused(Box::new(refusal.redacted(&limits.redactor))))?;
    let mut ignored = run.ignored;
    clean_paths(&mut ignored, limits);
    let given = run.records.iter().map(|record| (Some(record.id.to_string()), Vec::new())).collect();
    let item = |record| Incoming { content: Ok(Arc::new(record)), original: None, ignored: Vec::new() };
    let mut items: Vec<Incoming> = run.records.into_iter().map(item).collect();
    if let Some(start) = items.first_mut() {
        start.ignored.clone_from(&ignored); // Counted with the event that starts the run.
    }
    let verdicts = gateway.publisher.submit(items, ORIGIN).await?;
    let mut response = status_for(&verdicts);
    let events = PublishAnswer::new(given, verdicts);
    Ok(response.json(RunAnswer { execution: run.execution.to_string(), ignored, events }))
}
