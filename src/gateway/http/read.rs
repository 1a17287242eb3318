//! Read requests about tools, capabilities, the graph, traces, state and health, answered from the newest view.

use actix_web::HttpResponse;
use actix_web::web::{Data, Path, block};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Gateway;
use super::error::ApiError;
use super::input::Query;
use crate::ask::catalogue::{self, ExecutionsQuery, Page, TraceQuery};
use crate::ask::quality::{self, QualityQuery};
use crate::lease::LeaseState;
use crate::log::Condition;
use crate::role::Role;

pub(super) async fn tools(page: Query<Page>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    Ok(HttpResponse::Ok().json(catalogue::tools(&gateway.views.current(), &page)?))
}

pub(super) async fn capabilities(page: Query<Page>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    Ok(HttpResponse::Ok().json(catalogue::capabilities(&gateway.views.current(), &page)?))
}

/// The list of executions, on a blocking thread: it may read thousands of traces.
pub(super) async fn executions(query: Query<ExecutionsQuery>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let view = gateway.views.current();
    let found = block(move || catalogue::executions(&view, &query)).await.map_err(|_| ApiError::Stopping)??;
    Ok(HttpResponse::Ok().json(found))
}

pub(super) async fn quality(query: Query<QualityQuery>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    Ok(HttpResponse::Ok().json(quality::quality(&gateway.views.current(), &query)?))
}

/// `GET /v1/system`: the settings in force, and the roles of this process with their leases.
pub(super) async fn system(gateway: Data<Gateway>) -> HttpResponse {
    let role = |(role, lease): &(Role, Option<watch::Receiver<LeaseState>>)| {
        let (is_here, holder) = match lease.as_ref().map(|lease| lease.borrow().clone()) {
            None => ("absent", None),
            Some(LeaseState::Held) => ("active", None),
            Some(LeaseState::Waiting(holder)) => ("waiting", holder),
        };
        json!({"role": role.name(), "state": is_here, "held_by": holder, "missing_means": role.missing_means()})
    };
    let roles: Vec<Value> = gateway.system.roles.iter().map(role).collect();
    HttpResponse::Ok().json(json!({"settings": gateway.system.settings, "roles": roles}))
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
