//! `/v1/dead`: lists refused events and publishes them again.

use std::collections::BTreeSet;

use actix_web::HttpResponse;
use actix_web::web::Data;
use serde::Deserialize;
use serde_json::json;

use super::Gateway;
use super::dto::{DeadLetterDto, PublishAnswer};
use super::error::ApiError;
use super::input::{Json, Query};
use crate::core::event::whole;
use crate::log::{DeadLetter, DeadLetters, DeadPage};

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
    let DeadPage { letters, next, .. } = gateway.dead.list(query.after.unwrap_or(0), limit).await?;
    let letters: Vec<DeadLetterDto> = letters.into_iter().map(Into::into).collect();
    Ok(HttpResponse::Ok().json(json!({"dead": letters, "next": next})))
}

/// The letters to publish again; if none is named, all that are not cut, up to a page and a batch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RedriveRequest {
    #[serde(default, deserialize_with = "whole::optional_list")]
    numbers: Option<Vec<u64>>,
}

pub(super) async fn redrive(request: Json<RedriveRequest>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    // More than a batch would never fit into the shortest queue that the configuration allows.
    let max = PAGE_MAX.min(gateway.settings.batch_events_max);
    let letters = match &request.numbers {
        Some(numbers) => letters_by_number(gateway.dead.as_ref(), numbers.iter().copied().collect(), max).await?,
        None => oldest_letters(gateway.dead.as_ref(), max, gateway.settings.body_bytes_max).await?,
    };
    let verdicts = gateway.publisher.redrive(gateway.dead.as_ref(), letters, gateway.clock.now()).await?;
    let (numbers, verdicts): (Vec<u64>, Vec<_>) = verdicts.into_iter().unzip();
    let answer =
        PublishAnswer::new(numbers.into_iter().map(|number| (Some(number.to_string()), Vec::new())).collect(), verdicts);
    Ok(HttpResponse::Ok().json(answer))
}

/// Returns the letters with these numbers, up to `max`. Fails if one is missing or was cut.
async fn letters_by_number(
    dead: &dyn DeadLetters,
    mut numbers: BTreeSet<u64>,
    max: usize,
) -> Result<Vec<DeadLetter>, ApiError> {
    let mut found = Vec::new();
    let mut after = numbers.first().map(|first| first.saturating_sub(1));
    while let Some(number) = after {
        let page = dead.list(number, PAGE_MAX).await?;
        for letter in page.letters.into_iter().filter(|letter| numbers.remove(&letter.number)) {
            if let Some(len) = letter.letter.cut_from {
                let problem = format!("{} was cut from {len} bytes and cannot be sent again; nothing was sent", letter.number);
                return Err(ApiError::BadRequest { field: "numbers", problem });
            }
            if found.len() < max {
                found.push(letter);
            }
        }
        after = page.next.filter(|_| !numbers.is_empty());
    }
    match numbers.first() {
        Some(missing) => Err(ApiError::NotFound(format!("no dead letter has the number {missing}; nothing was sent"))),
        None => Ok(found),
    }
}

/// Returns the oldest letters that were not cut, up to `max` letters and `bytes_max` bytes.
async fn oldest_letters(dead: &dyn DeadLetters, max: usize, bytes_max: usize) -> Result<Vec<DeadLetter>, ApiError> {
    let (mut found, mut bytes, mut after) = (Vec::new(), 0, Some(0));
    while let Some(number) = after {
        let page = dead.list(number, PAGE_MAX).await?;
        for letter in page.letters.into_iter().filter(|letter| letter.letter.cut_from.is_none()) {
            bytes += letter.letter.bytes.len();
            if found.len() == max || bytes > bytes_max && !found.is_empty() {
                return Ok(found);
            }
            found.push(letter);
        }
        after = page.next;
    }
    Ok(found)
}
