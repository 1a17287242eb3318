//! `POST /v1/capabilities/{capability}/...`: what a person decides about a capability, and takes back again.

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::web::{Data, Path};
use serde::Deserialize;
use serde_json::json;

use super::Gateway;
use super::error::ApiError;
use super::input::Json;
use crate::ask::catalogue;
use crate::decisions::{Decision, decision, decision_record};
use crate::log::append_patiently;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RenameBody {
    /// The new name; null takes the renaming back.
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MergeBody {
    /// The capability that stands for both; null takes the merging back.
    into: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApproveBody {
    /// False takes the approval back.
    approved: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetireBody {
    /// False takes the retirement back.
    retired: bool,
}

pub(super) async fn rename(
    path: Path<String>,
    body: Json<RenameBody>,
    gateway: Data<Gateway>,
) -> Result<HttpResponse, ApiError> {
    decide(&gateway, &path, Decision::Rename(body.into_inner().0.name)).await
}

pub(super) async fn merge(path: Path<String>, body: Json<MergeBody>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    decide(&gateway, &path, Decision::Merge(body.into_inner().0.into)).await
}

pub(super) async fn approve(
    path: Path<String>,
    body: Json<ApproveBody>,
    gateway: Data<Gateway>,
) -> Result<HttpResponse, ApiError> {
    decide(&gateway, &path, Decision::Approve(body.approved)).await
}

pub(super) async fn retire(
    path: Path<String>,
    body: Json<RetireBody>,
    gateway: Data<Gateway>,
) -> Result<HttpResponse, ApiError> {
    decide(&gateway, &path, Decision::Retire(body.retired)).await
}

/// Records a decision and answers with the capability as it is then.
async fn decide(gateway: &Gateway, capability: &str, wanted: Decision) -> Result<HttpResponse, ApiError> {
    let redactor = &gateway.publisher.limits().redactor;
    let (id, event) = decision(&gateway.views.current(), capability, wanted, redactor)?;
    let fact = Arc::new(decision_record(event, &gateway.clock));
    let appended = append_patiently(&gateway.log, vec![fact]).await?;
    let seq = appended.first().expect("one answer per fact").seq;
    let view = gateway.views.at_least(seq).await.ok_or(ApiError::Stopping)?;
    Ok(HttpResponse::Ok().json(json!({"capability": catalogue::capability(&view, id), "seq": seq.0})))
}
