//! `GET /v1/related`: the neighbours of a tool or capability in the graph, answered from the newest measures.

use actix_web::HttpResponse;
use actix_web::web::{Data, Query};

use super::Gateway;
use super::error::ApiError;
use crate::ask::related::RelatedQuery;

pub(super) async fn related(query: Query<RelatedQuery>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    Ok(HttpResponse::Ok().json(gateway.asker.related(&query)?))
}
