//! The request log, at level debug, and the latency histograms.

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::web::Data;

use super::Gateway;
use crate::metrics::ByRoute;

/// The route of requests that match none.
const NO_ROUTE: &str = "none";

/// Middleware that measures how long it takes until an answer begins. The query is not logged: it may hold what was asked.
pub(super) async fn observe(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let gateway = Data::clone(request.app_data::<Data<Gateway>>().expect("the gateway is part of the app"));
    let (method, path, begun) = (request.method().clone(), request.path().to_owned(), gateway.clock.uptime());
    let response = next.call(request).await?;
    let seconds = gateway.clock.uptime().since(begun).as_secs_f64();
    let status = response.status().as_u16();
    let route = response.request().match_pattern().unwrap_or_else(|| NO_ROUTE.to_owned());
    let by = ByRoute { method: method.as_str().to_owned(), route, status: format!("{}xx", status / 100) };
    gateway.metrics.requests.get_or_create(&by).observe(seconds);
    tracing::debug!(%method, path, status, ms = seconds * 1_000.0, "request");
    Ok(response)
}
