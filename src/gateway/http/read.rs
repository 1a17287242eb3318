//! Read requests about tools, capabilities, the graph, traces, state and health, answered from the newest view.

use actix_web::HttpResponse;
use actix_web::web::{Data, Path, Query};
use serde_json::json;

use super::Gateway;
use super::error::ApiError;
use crate::ask::catalogue::{self, GraphQuery, Page, TraceQuery};
use crate::lease::LeaseState;
use crate::log::Condition;

pub(super) async fn tools(page: Query<Page>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    Ok(HttpResponse::Ok().json(catalogue::tools(&gateway.views.current(), &page)?))
}

pub(super) async fn capabilities(page: Query<Page>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    Ok(HttpResponse::Ok().json(catalogue::capabilities(&gateway.views.current(), &page)?))
}

pub(super) async fn graph(query: Query<GraphQuery>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    Ok(HttpResponse::Ok().json(catalogue::graph(&gateway.views.current(), &query)?))
}

pub(super) async fn trace(path: Path<String>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let query = TraceQuery { execution: path.into_inner() };
    Ok(HttpResponse::Ok().json(catalogue::trace(&gateway.views.current(), &query)?))
}

pub(super) async fn state(gateway: Data<Gateway>) -> HttpResponse {
    HttpResponse::Ok().json(catalogue::state(&gateway.views.current()))
}

/// `GET /healthz`: responds while the process runs.
pub(super) async fn healthz() -> HttpResponse {
    HttpResponse::Ok().json(json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}))
}

/// `GET /readyz`: whether this process accepts events, if it has the execution role, and how far its fold is behind the log.
pub(super) async fn readyz(gateway: Data<Gateway>) -> HttpResponse {
    let (applied, tail) = (gateway.views.current().applied(), *gateway.log.tail().borrow());
    let condition = gateway.log.condition();
    let accepting = (gateway.publisher.is_open() && condition == Condition::Good) || !gateway.takes_events;
    // A busy fold is always a little behind, so `behind` does not decide; a stalled fold shows as a growing number.
    let mut body =
        json!({"ready": accepting, "applied_seq": applied.0, "tail_seq": tail.0, "behind": tail.0 - applied.0.min(tail.0)});
    if condition != Condition::Good {
        body["reason"] = json!(format!("log: {condition}"));
    }
    if let LeaseState::Waiting(holder) = gateway.publisher.lease() {
        body["waiting"] = json!({"for": "execution", "held_by": holder});
    }
    if accepting { HttpResponse::Ok().json(body) } else { HttpResponse::ServiceUnavailable().json(body) }
}

pub(super) async fn metrics(gateway: Data<Gateway>) -> HttpResponse {
    let text = gateway.metrics.render(&gateway.views.current(), &gateway.log.foreign());
    HttpResponse::Ok().content_type("application/openmetrics-text; version=1.0.0; charset=utf-8").body(text)
}
