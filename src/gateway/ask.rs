//! `POST /v1/discover`, `/v1/search_tools`, `/v1/search_capabilities`: questions about an intent.

use actix_web::HttpResponse;
use actix_web::web::{Data, Json};

use super::Gateway;
use super::error::ApiError;
use crate::ask::{DiscoverRequest, SearchCapabilitiesRequest, SearchToolsRequest};

pub(super) async fn discover(request: Json<DiscoverRequest>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    Ok(HttpResponse::Ok().json(gateway.asker.discover(request.into_inner()).await?))
}

pub(super) async fn search_tools(request: Json<SearchToolsRequest>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    Ok(HttpResponse::Ok().json(gateway.asker.search_tools(request.into_inner()).await?))
}

pub(super) async fn search_capabilities(
    request: Json<SearchCapabilitiesRequest>,
    gateway: Data<Gateway>,
) -> Result<HttpResponse, ApiError> {
    Ok(HttpResponse::Ok().json(gateway.asker.search_capabilities(request.into_inner()).await?))
}
