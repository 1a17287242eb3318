//! Questions about what is known, answered from the newest view.

use actix_web::HttpResponse;
use actix_web::web::{Data, Path, Query};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Gateway;
use super::dto::{CapabilityDto, EdgeDto, ToolDto, TraceDto};
use super::error::ApiError;
use crate::core::event::Kind;
use crate::core::id::ExecutionId;

const PAGE_DEFAULT: usize = 100;
pub(super) const PAGE_MAX: usize = 1_000;
const EDGES_MAX: usize = 100_000;

/// Which part of a list: `limit` entries after the one named `after`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    pub(super) after: Option<String>,
    pub(super) limit: Option<usize>,
}

impl Page {
    pub(super) fn limit(&self, max: usize) -> Result<usize, ApiError> {
        match self.limit.unwrap_or(PAGE_DEFAULT) {
            limit if (1..=max).contains(&limit) => Ok(limit),
            limit => Err(ApiError::BadRequest { field: "limit", problem: format!("is {limit}, it must be from 1 to {max}") }),
        }
    }

    /// The entries of this page of a list sorted by id, and the id to ask on from.
    fn cut<T>(&self, items: impl Iterator<Item = T>, id: impl Fn(&T) -> String) -> Result<(Vec<T>, Option<String>), ApiError> {
        let limit = self.limit(PAGE_MAX)?;
        let mut rest = items.skip_while(|item| self.after.as_ref().is_some_and(|after| id(item) <= *after));
        let page: Vec<T> = rest.by_ref().take(limit).collect();
        let next = if rest.next().is_some() { page.last().map(&id) } else { None };
        Ok((page, next))
    }
}

fn listed(name: &str, items: Value, next: Option<String>, based_on_seq: u64) -> HttpResponse {
    HttpResponse::Ok().json(json!({name: items, "next": next, "based_on_seq": based_on_seq}))
}

pub(super) async fn tools(page: Query<Page>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let view = gateway.views.current();
    let (tools, next) = page.cut(view.tools.iter(), |tool| tool.id.to_string())?;
    let tools: Vec<ToolDto<'_>> = tools.into_iter().map(Into::into).collect();
    Ok(listed("tools", json!(tools), next, view.applied().0))
}

pub(super) async fn capabilities(page: Query<Page>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let view = gateway.views.current();
    let (capabilities, next) = page.cut(view.capabilities.iter(), |capability| capability.id.to_string())?;
    let capabilities: Vec<CapabilityDto<'_>> = capabilities.into_iter().map(|found| CapabilityDto::new(found, &view)).collect();
    Ok(listed("capabilities", json!(capabilities), next, view.applied().0))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GraphQuery {
    limit: Option<usize>,
    /// Only edges of this kind.
    kind: Option<String>,
}

/// The strongest edges first: by weight, then by observations, then by ends.
pub(super) async fn graph(query: Query<GraphQuery>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let limit = Page { after: None, limit: query.limit.or(Some(PAGE_MAX)) }.limit(EDGES_MAX)?;
    let view = gateway.views.current();
    let wanted = |name: &str| query.kind.as_deref().is_none_or(|kind| kind == name);
    let counted =
        view.graph.edges().filter(|((_, _, kind), _)| wanted(kind.name())).map(|(key, edge)| EdgeDto::new(&view, *key, edge));
    let membership = view.capabilities.iter().filter(|_| wanted("contains")).flat_map(|capability| {
        let view = &view;
        capability.members.iter().map(move |member| EdgeDto::contains(view, capability, *member))
    });
    let mut edges: Vec<EdgeDto> = counted.chain(membership).collect();
    let total = edges.len();
    edges.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(b.observations.cmp(&a.observations)));
    edges.truncate(limit);
    Ok(HttpResponse::Ok().json(json!({
        "nodes": view.tools.len() + view.capabilities.len(),
        "total_edges": total,
        "edges": edges,
        "based_on_seq": view.applied().0,
    })))
}

pub(super) async fn trace(path: Path<String>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let execution: ExecutionId =
        path.parse().map_err(|problem| ApiError::BadRequest { field: "execution", problem: format!("{problem}") })?;
    let view = gateway.views.current();
    if let Some(trace) = view.executions.trace(&execution) {
        return Ok(HttpResponse::Ok().json(TraceDto::completed(&execution, trace)));
    }
    match view.executions.get(&execution) {
        Some(open) => Ok(HttpResponse::Ok().json(TraceDto::open(&execution, open))),
        None => Err(ApiError::NotFound(format!("no execution '{execution}' is open or among the latest traces"))),
    }
}

/// Position, digest and sizes of the view. The digest reads the whole state: ask for it, do not poll it.
pub(super) async fn state(gateway: Data<Gateway>) -> HttpResponse {
    let view = gateway.views.current();
    let (embedded, texts) = view.vectors.coverage();
    let kinds: Value = Kind::ALL.iter().map(|kind| (kind.name().to_owned(), json!(view.count(*kind)))).collect();
    HttpResponse::Ok().json(json!({
        "applied_seq": view.applied().0,
        "digest": view.digest().to_string(),
        "events": kinds,
        "duplicates": view.duplicates(),
        "late": view.late(),
        "tools": view.tools.len(),
        "capabilities": view.capabilities.len(),
        "edges": view.graph.edge_count(),
        "open_executions": view.executions.len(),
        "traces": view.executions.traces_len(),
        "templates": view.templates.len(),
        "intents": view.memory.len(),
        "texts": texts,
        "texts_embedded": embedded,
        "embedding_model": view.vectors.model().map(|model| &**model),
    }))
}

/// The process runs.
pub(super) async fn healthz() -> HttpResponse {
    HttpResponse::Ok().json(json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}))
}

/// The fold has caught up with the log and events are taken.
pub(super) async fn readyz(gateway: Data<Gateway>) -> HttpResponse {
    let (applied, tail) = (gateway.views.current().applied(), *gateway.log.tail().borrow());
    let accepting = gateway.publisher.is_open();
    // A busy fold is always a little behind; one that stands still is the trouble, and shows as a growing distance.
    let body =
        json!({"ready": accepting, "applied_seq": applied.0, "tail_seq": tail.0, "behind": tail.0 - applied.0.min(tail.0)});
    if accepting { HttpResponse::Ok().json(body) } else { HttpResponse::ServiceUnavailable().json(body) }
}

pub(super) async fn metrics(gateway: Data<Gateway>) -> HttpResponse {
    let text = gateway.metrics.render(&gateway.views.current());
    HttpResponse::Ok().content_type("application/openmetrics-text; version=1.0.0; charset=utf-8").body(text)
}
