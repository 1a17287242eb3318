//! The HTTP gateway: the `routes`, response types (`dto`), access control (`auth`) and error responses (`error`). Read requests are
//! answered from the newest view and never wait for an actor.

mod ask;
mod auth;
mod backup;
mod body;
mod cors;
mod dead;
mod decide;
mod dto;
mod error;
mod execute;
mod executions;
mod input;
mod mcp;
mod models;
mod observe;
mod openapi;
mod otlp;
mod page;
mod predictions;
mod publish;
mod read;
mod related;
mod routes;
mod servers;
mod snapshots;
mod stream;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::middleware::from_fn;
use actix_web::{App, HttpServer, web};
use tokio::sync::watch;

use crate::ask::Asker;
use crate::ask::past::Past;
use crate::bus::SharedBus;
use crate::clock::Clock;
use crate::config;
use crate::execute::Runner;
use crate::gateway::mcp::Mcp;
use crate::gateway::otlp::SpanCollector;
use crate::gateway::page::Page;
use crate::lease::LeaseState;
use crate::log::DeadLetters;
use crate::log::SharedLog;
use crate::metrics::Metrics;
use crate::publisher::Publisher;
use crate::role::Role;
use crate::snapshot::Keeper;
use crate::subject::Subjects;
use crate::training::Trainer;
use crate::upstream::Upstreams;
use crate::views::Views;

use stream::Frames;

pub use auth::{hash_key, new_key};
pub(crate) use dto::DeadLetterDto;
pub(crate) use observe::wait_for_requests;
pub(crate) use snapshots::{listed_snapshot_dto, snapshot_dto};

/// How long a client may take to send the head of a request; the default of five seconds is too short on a busy machine.
const REQUEST_HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The shared state of the routes.
pub(crate) struct Gateway {
    pub(crate) publisher: Publisher,
    pub(crate) views: Views,
    pub(crate) asker: Asker,
    pub(crate) mcp: Mcp,
    pub(crate) spans: SpanCollector,
    pub(crate) log: SharedLog,
    pub(crate) dead: Arc<dyn DeadLetters>,
    pub(crate) snapshots: Arc<Keeper>,
    pub(crate) trainer: Option<Trainer>,
    pub(crate) upstreams: Upstreams,
    pub(crate) runner: Runner,
    pub(crate) bus: SharedBus,
    pub(crate) subjects: Subjects,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
    /// Whether this process has the execution role.
    pub(crate) takes_events: bool,
    pub(crate) settings: config::Http,
    pub(crate) system: System,
    pub(crate) past: Past,
    /// Set when streamed answers have to end.
    pub(crate) closing: watch::Receiver<bool>,
}

/// What `GET /v1/system` shows.
pub(crate) struct System {
    /// The settings in force, without secrets.
    pub(crate) settings: serde_json::Value,
    /// Every role with its lease; `None` if this process does not have the role.
    pub(crate) roles: Vec<(Role, Option<watch::Receiver<LeaseState>>)>,
}

/// Binds the configured address and serves until the returned server is stopped. The address is the one bound, also for port 0.
pub(crate) fn serve(gateway: Gateway) -> std::io::Result<(actix_web::dev::Server, SocketAddr)> {
    let settings = gateway.settings.clone();
    let streamable = web::Data::new(mcp::StreamableHttp::new(&gateway.mcp, settings.body_bytes_max));
    let page = web::Data::new(Page::new());
    let frames = web::Data::new(Frames::default());
    let gateway = web::Data::new(gateway);
    let server = HttpServer::new(move || {
        App::new()
            .app_data(gateway.clone())
            .app_data(streamable.clone())
            .app_data(page.clone())
            .app_data(frames.clone())
            .app_data(error::query_config())
            .app_data(error::json_config(gateway.settings.body_bytes_max, gateway.settings.body_timeout_ms))
            .wrap(from_fn(error::redact_errors))
            .wrap(from_fn(auth::check_host))
            .wrap(from_fn(body::limit_time))
            .wrap(from_fn(cors::allow))
            .wrap(from_fn(observe::observe))
            .configure(routes::register)
    })
    .workers(settings.workers)
    .disable_signals()
    .client_request_timeout(REQUEST_HEAD_TIMEOUT)
    // A client that closes its side counts as disconnected, as with proxies: its stream ends at once, not at the second failed write.
    .h1_allow_half_closed(false)
    .shutdown_timeout(5)
    .bind(settings.listen)?;
    let address = server.addrs()[0];
    Ok((server.run(), address))
}
