//! `POST /v1/discover`, `/v1/predict`, `/v1/score`, `/v1/suggest`, `/v1/speculate`, `/v1/explain`, `/v1/search_tools`,
//! `/v1/search_capabilities`: questions about an intent.

use actix_web::HttpResponse;
use actix_web::web::{Data, Json, block};
use serde::Serialize;

use super::Gateway;
use super::error::ApiError;
use crate::ask::{
    AskError, Asker, DiscoverRequest, ExplainRequest, PredictRequest, ScoreRequest, SearchCapabilitiesRequest,
    SearchToolsRequest, SpeculateRequest, SuggestRequest,
};

pub(super) async fn discover(request: Json<DiscoverRequest>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    answer(&gateway, |asker| asker.discover(request.into_inner())).await
}

pub(super) async fn predict(request: Json<PredictRequest>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    answer(&gateway, |asker| asker.predict(request.into_inner())).await
}

pub(super) async fn score(request: Json<ScoreRequest>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    answer(&gateway, |asker| asker.score(request.into_inner())).await
}

pub(super) async fn suggest(request: Json<SuggestRequest>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    answer(&gateway, |asker| asker.suggest(request.into_inner())).await
}

pub(super) async fn speculate(request: Json<SpeculateRequest>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    answer(&gateway, |asker| asker.speculate(request.into_inner())).await
}

pub(super) async fn explain(request: Json<ExplainRequest>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    answer(&gateway, |asker| asker.explain(request.into_inner())).await
}

pub(super) async fn search_tools(request: Json<SearchToolsRequest>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    answer(&gateway, |asker| asker.search_tools(request.into_inner())).await
}

pub(super) async fn search_capabilities(
    request: Json<SearchCapabilitiesRequest>,
    gateway: Data<Gateway>,
) -> Result<HttpResponse, ApiError> {
    answer(&gateway, |asker| asker.search_capabilities(request.into_inner())).await
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
