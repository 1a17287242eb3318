//! Refused events: looking at them, and sending them again.

use actix_web::HttpResponse;
use actix_web::web::{Data, Json, Query};
use serde::Deserialize;
use serde_json::json;

use super::Gateway;
use super::dto::{DeadLetterDto, PublishAnswer};
use super::error::ApiError;

const PAGE_DEFAULT: usize = 100;
const PAGE_MAX: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeadQuery {
    after: Option<u64>,
    limit: Option<usize>,
}

pub(super) async fn list(query: Query<DeadQuery>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let limit = query.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX);
    let letters = gateway.dead.list(query.after.unwrap_or(0), limit).await?;
    let next = letters.last().filter(|_| letters.len() == limit).map(|letter| letter.number);
    let letters: Vec<DeadLetterDto> = letters.into_iter().map(Into::into).collect();
    Ok(HttpResponse::Ok().json(json!({"dead": letters, "next": next})))
}

/// Which letters to send again; all of them (up to a page, and to a batch) if none is named.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Redrive {
    numbers: Option<Vec<u64>>,
}

pub(super) async fn redrive(request: Json<Redrive>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let wanted = |number: u64| request.numbers.as_ref().is_none_or(|numbers| numbers.contains(&number));
    let mut letters = gateway.dead.list(0, usize::MAX).await?;
    letters.retain(|letter| wanted(letter.number));
    if let Some(missing) =
        request.numbers.iter().flatten().find(|number| letters.iter().all(|letter| letter.number != **number))
    {
        return Err(ApiError::NotFound(format!("no dead letter has the number {missing}; nothing was sent")));
    }
    // More than a batch would never find room where the queue is as short as the configuration allows.
    letters.truncate(PAGE_MAX.min(gateway.settings.batch_events_max));
    let verdicts = gateway.publisher.redrive(gateway.dead.as_ref(), letters, gateway.clock.now()).await?;
    let (numbers, verdicts): (Vec<u64>, Vec<_>) = verdicts.into_iter().unzip();
    let answer = PublishAnswer::new(numbers.into_iter().map(|number| Some(number.to_string())).collect(), verdicts);
    Ok(HttpResponse::Ok().json(answer))
}
