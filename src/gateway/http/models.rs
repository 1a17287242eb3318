//! `/v1/models`: what predicts, the training runs, and the changes that a person may ask for: train, promote, roll back.

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::web::{Data, Path};
use serde::Deserialize;
use serde_json::json;

use super::Gateway;
use super::error::ApiError;
use super::input::Json;
use crate::ask::models::models;
use crate::core::event::{Event, ModelPart, ModelVersion, whole};
use crate::core::id::Seq;
use crate::core::state::State;
use crate::lease::LeaseState;
use crate::log::append_patiently;
use crate::training::{TrainRequest, change_record, promotion, rollback};

pub(super) async fn list(gateway: Data<Gateway>) -> HttpResponse {
    let status = gateway.trainer.as_ref().map(crate::training::Trainer::status);
    HttpResponse::Ok().json(models(&gateway.views.current(), status))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrainBody {
    /// The parts to train; all if left out.
    #[serde(default)]
    parts: Vec<String>,
    #[serde(default, deserialize_with = "whole::optional")]
    seed: Option<u64>,
}

/// Asks for a training run. `GET /v1/models` shows it: the request is answered when `trainer.answered` has reached its number.
pub(super) async fn train(body: Json<TrainBody>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let TrainBody { parts, seed } = body.into_inner().0;
    let parts = parts.iter().map(|part| parsed("parts", part)).collect::<Result<Vec<ModelPart>, _>>()?;
    let Some(trainer) = &gateway.trainer else {
        let problem =
            "this process does not train: it lacks the role 'trainer', or trainer.enabled is false; ask one that does";
        return Err(ApiError::Conflict(problem.to_owned()));
    };
    if let LeaseState::Waiting(holder) = trainer.lease() {
        let holder = holder.unwrap_or_else(|| "another process".to_owned());
        return Err(ApiError::Conflict(format!("the role 'trainer' belongs to {holder}; send the request to that process")));
    }
    let request = trainer.request(TrainRequest { parts, seed });
    Ok(HttpResponse::Accepted().json(json!({"request": request})))
}

pub(super) async fn promote(path: Path<String>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let version: ModelVersion = path.parse().map_err(|problem| ApiError::NotFound(format!("version: {problem}")))?;
    let event = promotion(&gateway.views.current(), &version)?;
    let (seq, view) = record(&gateway, event).await?;
    if view.trained.serving(version.part()).current.as_ref() != Some(&version) {
        return Err(ApiError::Conflict(format!(
            "another change came first, and {version} does not serve; look at GET /v1/models"
        )));
    }
    Ok(changed(version.part(), &view, seq))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RollbackBody {
    part: String,
}

pub(super) async fn roll_back(body: Json<RollbackBody>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let part: ModelPart = parsed("part", &body.part)?;
    let event = rollback(&gateway.views.current(), part)?;
    let (seq, view) = record(&gateway, event).await?;
    Ok(changed(part, &view, seq))
}

fn parsed<T: std::str::FromStr<Err = String>>(field: &'static str, text: &str) -> Result<T, ApiError> {
    text.parse().map_err(|problem| ApiError::BadRequest { field, problem })
}

/// Appends a change and waits until the fold has met it.
async fn record(gateway: &Gateway, event: Event) -> Result<(Seq, Arc<State>), ApiError> {
    let fact = Arc::new(change_record(event, &gateway.clock));
    let appended = append_patiently(&gateway.log, vec![fact]).await?;
    let seq = appended.first().expect("one answer per fact").seq;
    let view = gateway.views.at_least(seq).await.ok_or(ApiError::Stopping)?;
    Ok((seq, view))
}

fn changed(part: ModelPart, view: &State, seq: Seq) -> HttpResponse {
    let serving = view.trained.serving(part).current.as_ref().map(ModelVersion::as_str);
    HttpResponse::Ok().json(json!({"part": part.name(), "serving": serving, "seq": seq.0}))
}
