//! The request log, at level debug, and the latency histograms.

use std::sync::Arc;
use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::web::Data;

use super::Gateway;
use crate::metrics::{ByRoute, Metrics};

/// The route of requests that match none.
const NO_ROUTE: &str = "none";

/// The methods that have series of their own.
const METHODS: [&str; 4] = ["GET", "POST", "DELETE", "OPTIONS"];
/// How long requests under way may take when the server stops, how often they are counted, and how long their answers take to be sent.
const REQUESTS_PATIENCE: Duration = Duration::from_secs(5);
const REQUESTS_CHECK: Duration = Duration::from_millis(5);
const ANSWERS_PAUSE: Duration = Duration::from_millis(50);

/// Counts a request until its answer begins.
struct UnderWay(Arc<Metrics>);

impl UnderWay {
    fn new(metrics: &Arc<Metrics>) -> Self {
        metrics.requests_under_way.inc();
        Self(Arc::clone(metrics))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.requests_under_way.dec();
    }
}

/// Waits until no request is under way, for a bounded time.
pub(crate) async fn wait_for_requests(metrics: &Metrics) {
    let answered = async {
        while metrics.requests_under_way.get() > 0 {
            tokio::time::sleep(REQUESTS_CHECK).await;
        }
    };
    if tokio::time::timeout(REQUESTS_PATIENCE, answered).await.is_err() {
        tracing::warn!("some requests are not answered: they took too long to end");
    }
    tokio::time::sleep(ANSWERS_PAUSE).await;
}

/// Middleware that measures how long it takes until an answer begins. The query is not logged: it may hold what was asked.
pub(super) async fn observe(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let gateway = Data::clone(request.app_data::<Data<Gateway>>().expect("the gateway is part of the app"));
    let (method, path, begun) = (request.method().clone(), request.path().to_owned(), gateway.clock.uptime());
    let under_way = UnderWay::new(&gateway.metrics);
    let response = next.call(request).await?;
    drop(under_way);
    let seconds = gateway.clock.uptime().since(begun).as_secs_f64();
    let status = response.status().as_u16();
    let route = response.request().match_pattern().unwrap_or_else(|| NO_ROUTE.to_owned());
    let known = METHODS.into_iter().find(|known| *known == method.as_str());
    let by = ByRoute { method: known.unwrap_or("other").to_owned(), route, status: format!("{}xx", status / 100) };
    gateway.metrics.requests.get_or_create(&by).observe(seconds);
    tracing::debug!(%method, path, status, ms = seconds * 1_000.0, "request");
    Ok(response)
}
