//! `POST /v1/discover`, `/v1/predict`, `/v1/score`, `/v1/suggest`, `/v1/speculate`, `/v1/explain`, `/v1/search_tools`,
//! `/v1/search_capabilities`: questions about an intent.

use actix_web::HttpResponse;
use actix_web::web::{Data, block};
use serde::{Deserialize, Serialize};

use super::Gateway;
use super::error::ApiError;
use super::input::{Json, Query};
use crate::ask::past::PastState;
use crate::ask::{
    AskError, Asker, DiscoverRequest, ExplainRequest, PredictRequest, ScoreRequest, SearchCapabilitiesRequest,
    SearchToolsRequest, SpeculateRequest, SuggestRequest,
};
use crate::history::Moment;
use crate::history::moment::InvalidMoment;

pub(super) async fn discover(
    request: Json<DiscoverRequest>,
    moment: Query<MomentQuery>,
    gateway: Data<Gateway>,
) -> Result<HttpResponse, ApiError> {
    answer_at(&gateway, moment.at.as_deref(), |asker| asker.discover(request.into_inner().0)).await
}

pub(super) async fn predict(
    request: Json<PredictRequest>,
    moment: Query<MomentQuery>,
    gateway: Data<Gateway>,
) -> Result<HttpResponse, ApiError> {
    answer_at(&gateway, moment.at.as_deref(), |asker| asker.predict(request.into_inner().0)).await
}

pub(super) async fn score(request: Json<ScoreRequest>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    answer(&gateway, |asker| asker.score(request.into_inner().0)).await
}

pub(super) async fn suggest(
    request: Json<SuggestRequest>,
    moment: Query<MomentQuery>,
    gateway: Data<Gateway>,
) -> Result<HttpResponse, ApiError> {
    answer_at(&gateway, moment.at.as_deref(), |asker| asker.suggest(request.into_inner().0)).await
}

pub(super) async fn speculate(request: Json<SpeculateRequest>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    answer(&gateway, |asker| asker.speculate(request.into_inner().0)).await
}

pub(super) async fn explain(
    request: Json<ExplainRequest>,
    moment: Query<MomentQuery>,
    gateway: Data<Gateway>,
) -> Result<HttpResponse, ApiError> {
    answer_at(&gateway, moment.at.as_deref(), |asker| asker.explain(request.into_inner().0)).await
}

pub(super) async fn search_tools(request: Json<SearchToolsRequest>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    answer(&gateway, |asker| asker.search_tools(request.into_inner().0)).await
}

pub(super) async fn search_capabilities(
    request: Json<SearchCapabilitiesRequest>,
    gateway: Data<Gateway>,
) -> Result<HttpResponse, ApiError> {
    answer(&gateway, |asker| asker.search_capabilities(request.into_inner().0)).await
}

/// The moment that a question is about.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MomentQuery {
    /// A position of the log, a time, or now.
    at: Option<String>,
}

/// Answers a question about a moment of the past, or if there is none, about the present.
async fn answer_at<T: Serialize + Send + 'static>(
    gateway: &Gateway,
    at: Option<&str>,
    ask: impl FnOnce(&Asker) -> Result<T, AskError> + Send + 'static,
) -> Result<HttpResponse, ApiError> {
    match moment(at)? {
        Moment::Now => answer(gateway, ask).await,
        past => {
            let ask = |past: &PastState| Ok::<_, ApiError>(ask(past.asker().map_err(AskError::from)?)?);
            Ok(HttpResponse::Ok().json(gateway.past.ask(past, ask).await?))
        }
    }
}

/// The moment that a request names.
pub(super) fn moment(at: Option<&str>) -> Result<Moment, ApiError> {
    let parsed = at.map_or(Ok(Moment::Now), str::parse);
    parsed.map_err(|problem: InvalidMoment| ApiError::BadRequest { field: "at", problem: problem.to_string() })
}

/// Answers a question on a blocking thread, so that a slow model does not delay other requests.
async fn answer<T: Serialize + Send + 'static>(
    gateway: &Gateway,
    ask: impl FnOnce(&Asker) -> Result<T, AskError> + Send + 'static,
) -> Result<HttpResponse, ApiError> {
    let asker = gateway.asker.clone();
    let answer = block(move || ask(&asker)).await.map_err(|_| ApiError::Stopping)??;
    Ok(HttpResponse::Ok().json(answer))
}
