//! The HTTP door: wire types (`dto`), who may come in (`auth`), what is answered when it goes wrong (`error`), and the `routes`.
//! Readers are answered from the newest view and never wait for an actor.

pub(crate) mod answers;
mod ask;
mod auth;
mod backup;
mod body;
mod dead;
mod dto;
mod error;
mod openapi;
mod predictions;
mod publish;
mod read;
mod related;
mod routes;
mod snapshots;
mod stream;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::middleware::from_fn;
use actix_web::{App, HttpServer, web};

use crate::actors::graph_sync::Views;
use crate::actors::measures::Measured;
use crate::ask::Asker;
use crate::bus::{SharedBus, Subjects};
use crate::clock::Clock;
use crate::config;
use crate::dead::DeadLetters;
use crate::log::SharedLog;
use crate::metrics::Metrics;
use crate::publisher::Publisher;
use crate::role::Role;
use crate::runtime::Runtime;
use crate::snapshot::Keeper;

pub use auth::{hash_key, new_key};
pub(crate) use dto::DeadLetterDto;
pub(crate) use dto::related::{RelatedDto, node};
pub(crate) use snapshots::{described as snapshot_dto, listed as snapshot_listed};

/// How long a client may take to send the head of a request; the default of five seconds cuts off honest clients on a busy machine.
const REQUEST_HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// What the routes work with.
pub(crate) struct Gateway {
    publisher: Publisher,
    views: Views,
    measures: Measured,
    asker: Asker,
    log: SharedLog,
    dead: Arc<dyn DeadLetters>,
    snapshots: Arc<Keeper>,
    bus: SharedBus,
    subjects: Subjects,
    metrics: Arc<Metrics>,
    clock: Clock,
    /// The execution actor belongs to this process.
    takes_events: bool,
    settings: config::Http,
}

/// Binds the configured address and serves until the returned server is stopped. The address is the one bound, also for port 0.
pub fn serve(runtime: &Runtime, settings: &config::Http) -> std::io::Result<(actix_web::dev::Server, SocketAddr)> {
    let gateway = web::Data::new(Gateway {
        publisher: runtime.publisher.clone(),
        views: runtime.views.clone(),
        measures: runtime.measures.clone(),
        asker: runtime.asker.clone(),
        log: Arc::clone(&runtime.log),
        dead: Arc::clone(&runtime.dead),
        snapshots: Arc::clone(&runtime.snapshots),
        bus: Arc::clone(&runtime.bus),
        subjects: runtime.subjects.clone(),
        metrics: Arc::clone(&runtime.metrics),
        clock: runtime.clock.clone(),
        takes_events: runtime.roles.contains(Role::Execution),
        settings: settings.clone(),
    });
    let server = HttpServer::new(move || {
        App::new()
            .app_data(gateway.clone())
            .app_data(error::wrong_query())
            .app_data(error::wrong_json(gateway.settings.body_timeout_ms))
            .wrap(from_fn(body::limit_time))
            .wrap(from_fn(auth::check_host))
            .configure(routes::register)
    })
    .workers(settings.workers)
    .disable_signals()
    .client_request_timeout(REQUEST_HEAD_TIMEOUT)
    // A client that closes its side is gone, as proxies take it too: its stream ends at once, not at the second write after it left.
    .h1_allow_half_closed(false)
    .shutdown_timeout(5)
    .bind(settings.listen)?;
    let address = server.addrs()[0];
    Ok((server.run(), address))
}
