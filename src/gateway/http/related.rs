//! `GET /v1/related`: the neighbours of a tool or capability in the graph, answered from the newest measures.

use actix_web::HttpResponse;
use actix_web::web::{Data, Query};
use serde::Deserialize;

use super::Gateway;
use super::error::ApiError;
use crate::ask::catalogue::{PAGE_MAX, Page};
use crate::ask::related::{RelatedDto, node};
use crate::core::graph::Node;
use crate::core::id::Callee;
use crate::core::state::State;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RelatedQuery {
    /// A tool, or a capability as `capability:ID`.
    tool: String,
    to: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn related(query: Query<RelatedQuery>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let limit = Page { after: None, limit: query.limit }.limit(PAGE_MAX)?;
    // The measures are read first, because the view must contain every node that they do.
    let measures = gateway.measures.current();
    let view = gateway.views.current();
    let tool = find(&view, "tool", &query.tool)?;
    let to = query.to.as_deref().map(|to| find(&view, "to", to)).transpose()?;
    Ok(HttpResponse::Ok().json(RelatedDto::new(&view, &measures, tool, to, limit)))
}

fn find(view: &State, field: &'static str, id: &str) -> Result<Node, ApiError> {
    let callee: Callee = id.parse().map_err(|problem| ApiError::BadRequest { field, problem: format!("{problem}") })?;
    node(view, &callee).ok_or_else(|| ApiError::NotFound(format!("{field}: nothing is known about '{callee}'")))
}
