//! The errors of the HTTP gateway, with their status codes and responses.

use std::io::ErrorKind;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::{JsonPayloadError, PayloadError, QueryPayloadError};
use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use actix_web::middleware::Next;
use actix_web::web::{Data, JsonConfig, QueryConfig};
use actix_web::{HttpRequest, HttpResponse, ResponseError};
use serde_json::{Value, json};

use super::Gateway;
use crate::ask::AskError;
use crate::ask::catalogue::Refused;
use crate::ask::past::PastError;
use crate::bus::BusError;
use crate::config::Scope;
use crate::core::redact::Redactor;
use crate::core::refusal::Refusal;
use crate::decisions::DecisionError;
use crate::execute::RunError;
use crate::log::{AppendError, ReadError};
use crate::publisher::PublishError;
use crate::publisher::RedriveError;
use crate::snapshot::SnapshotError;
use crate::training::ChangeError;
use crate::upstream::{ApproveError, ReloadError};

/// The `Retry-After` of temporary errors, in seconds.
const RETRY_AFTER_SECONDS: u64 = 1;

/// An error response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("{field}: {problem}")]
    BadRequest { field: &'static str, problem: String },
    #[error(transparent)]
    Refused(Box<Refusal>),
    #[error("an API key is needed: send Authorization: Bearer KEY")]
    NoKey,
    #[error("the API key is not known")]
    UnknownKey,
    #[error("the API key lacks the scope '{}'", .0.name())]
    Scope(Scope),
    #[error("{0}: requests from web pages and for other hosts are refused while no API keys are configured")]
    ForeignHost(&'static str),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Conflict(String),
    #[error(transparent)]
    ModelChange(#[from] ChangeError),
    #[error(transparent)]
    Decision(#[from] DecisionError),
    #[error("no such operation: {0}; GET /openapi.json lists them")]
    NoSuchMethod(String),
    #[error("body: is larger than {max} bytes (http.body_bytes_max)")]
    BodyTooLarge { max: usize },
    #[error("body: did not arrive within {max_ms} ms (http.body_timeout_ms); nothing was taken")]
    BodyTimeout { max_ms: u64 },
    #[error("events: has more than {max} entries, the limit (http.batch_events_max); nothing was taken")]
    BatchTooLarge { max: usize },
    #[error("{max} streamed answers are under way, the limit (http.streams_max); try again when one has ended")]
    TooManyStreams { max: usize },
    #[error("{max} MCP sessions are open, the limit (mcp.sessions_max); end one, or wait until one is idle")]
    TooManySessions { max: usize },
    #[error("{0}")]
    SpansBusy(String),
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Past(#[from] PastError),
    #[error("cannot subscribe to predictions")]
    Bus(#[from] BusError),
    #[error("the server is stopping")]
    Stopping,
    #[error("cannot read the log")]
    Read(#[from] ReadError),
    #[error("the change was not recorded")]
    Append(#[from] AppendError),
    #[error(transparent)]
    Redrive(#[from] RedriveError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Reload(#[from] ReloadError),
    #[error(transparent)]
    Approve(#[from] ApproveError),
    #[error("{}", snapshot_problem(.0))]
    Snapshot(#[from] SnapshotError),
}

impl From<Refused> for ApiError {
    fn from(Refused { field, problem, is_unknown }: Refused) -> Self {
        if is_unknown { Self::NotFound(format!("{field}: {problem}")) } else { Self::BadRequest { field, problem } }
    }
}

/// Returns the text of a snapshot error without the location of the store, which clients must not see.
fn snapshot_problem(error: &SnapshotError) -> String {
    match error {
        SnapshotError::Place { .. } | SnapshotError::Store { .. } => {
            "the snapshot store cannot be used; the server's log says why".to_owned()
        }
        SnapshotError::Taken { seq, .. } => format!(
            "the snapshot store holds a snapshot at {seq} of another log; give each log a store of its own (snapshots.url)"
        ),
        other => other.to_string(),
    }
}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::Decision(error) if error.is_unknown() => StatusCode::NOT_FOUND,
            Self::Decision(error) if error.is_invalid() => StatusCode::BAD_REQUEST,
            Self::BadRequest { .. } | Self::Refused(_) | Self::Ask(AskError::Invalid { .. }) => StatusCode::BAD_REQUEST,
            Self::NoKey | Self::UnknownKey => StatusCode::UNAUTHORIZED,
            Self::Scope(_) | Self::ForeignHost(_) => StatusCode::FORBIDDEN,
            Self::Run(error) => StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            Self::NotFound(_) | Self::Past(PastError::Beyond { .. } | PastError::Before(_)) => StatusCode::NOT_FOUND,
            Self::ModelChange(error) if error.is_unknown() => StatusCode::NOT_FOUND,
            Self::NoSuchMethod(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTimeout { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Conflict(_)
            | Self::ModelChange(_)
            | Self::Reload(_)
            | Self::Decision(_)
            | Self::Approve(ApproveError::NotQuarantined(_) | ApproveError::OtherDefinition(_))
            | Self::Snapshot(SnapshotError::Empty | SnapshotError::Taken { .. }) => StatusCode::CONFLICT,
            Self::BodyTooLarge { .. } | Self::BatchTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooManyStreams { .. }
            | Self::TooManySessions { .. }
            | Self::SpansBusy(_)
            | Self::Past(PastError::Busy)
            | Self::Publish(PublishError::Busy)
            | Self::Redrive(RedriveError::Publish(PublishError::Busy)) => StatusCode::TOO_MANY_REQUESTS,
            Self::Append(AppendError::Full { .. })
            | Self::Approve(ApproveError::Append(AppendError::Full { .. }))
            | Self::Publish(PublishError::Full(_))
            | Self::Redrive(RedriveError::Publish(PublishError::Full(_))) => StatusCode::INSUFFICIENT_STORAGE,
            Self::Publish(_)
            | Self::Redrive(_)
            | Self::Bus(_)
            | Self::Append(_)
            | Self::Approve(ApproveError::Append(_))
            | Self::Past(PastError::Stopping)
            | Self::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            Self::Read(_) | Self::Ask(_) | Self::Past(PastError::Read(_) | PastError::Panicked) | Self::Snapshot(_) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }

    fn error_response(&self) -> HttpResponse {
        let status = self.status_code();
        // What is refused for a while (503, 507) has a cause that its own part logs, once; a line per request would flood the log.
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(error = self as &dyn std::error::Error, "request failed");
        }
        let mut response = HttpResponse::build(status);
        if status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE {
            response.insert_header((RETRY_AFTER, RETRY_AFTER_SECONDS.to_string()));
        }
        if status == StatusCode::REQUEST_TIMEOUT {
            // The rest of the body may still arrive and would not be read.
            response.force_close();
        }
        if status == StatusCode::UNAUTHORIZED {
            response.insert_header((WWW_AUTHENTICATE, "Bearer"));
        }
        // `redact_errors` does the same with the configured patterns, which are not known here.
        response.json(body(self, &Redactor::builtin()))
    }
}

/// The body of an error. The text may quote the request, so it is redacted.
fn body(error: &ApiError, redactor: &Redactor) -> Value {
    let mut text = error.to_string();
    redactor.clean(&mut text);
    json!({"error": text})
}

/// Middleware that redacts the errors of handlers with the configured patterns.
pub(super) async fn redact_errors(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let gateway = Data::clone(request.app_data::<Data<Gateway>>().expect("the gateway is part of the app"));
    let response = next.call(request).await?;
    let clean = response.response().error().and_then(|error| error.as_error::<ApiError>());
    let clean = clean.map(|error| body(error, &gateway.publisher.limits().redactor).to_string());
    Ok(match clean {
        Some(clean) => response.map_body(|_, _| BoxBody::new(clean)),
        None => response.map_into_boxed_body(),
    })
}

/// Returns the header `Retry-After`, for responses that are built elsewhere.
pub(crate) fn retry_after() -> (&'static str, String) {
    ("retry-after", RETRY_AFTER_SECONDS.to_string())
}

/// Returns the query settings, with the error for parameters that cannot be read.
pub(crate) fn query_config() -> QueryConfig {
    let refuse = |error: QueryPayloadError| match error {
        QueryPayloadError::Deserialize(problem) => ApiError::BadRequest { field: "query", problem: problem.to_string() },
        other => ApiError::BadRequest { field: "query", problem: other.to_string() },
    };
    QueryConfig::default().error_handler(move |error, _| refuse(error).into())
}

/// Returns the JSON settings, with the error for bodies that cannot be read.
pub(crate) fn json_config(body_bytes_max: usize, body_timeout_ms: u64) -> JsonConfig {
    let refuse = move |error: JsonPayloadError| match error {
        JsonPayloadError::ContentType => {
            ApiError::BadRequest { field: "content-type", problem: "is not application/json".to_owned() }
        }
        JsonPayloadError::Deserialize(problem) => ApiError::BadRequest { field: "body", problem: problem.to_string() },
        JsonPayloadError::Overflow { .. } | JsonPayloadError::OverflowKnownLength { .. } => {
            ApiError::BodyTooLarge { max: body_bytes_max }
        }
        JsonPayloadError::Payload(problem) => body_error(&problem, body_timeout_ms),
        other => ApiError::BadRequest { field: "body", problem: other.to_string() },
    };
    JsonConfig::default().limit(body_bytes_max).error_handler(move |error, _| refuse(error).into())
}

/// Converts an error met while reading a body.
pub(crate) fn body_error(error: &PayloadError, body_timeout_ms: u64) -> ApiError {
    match error {
        PayloadError::Io(error) if error.kind() == ErrorKind::TimedOut => ApiError::BodyTimeout { max_ms: body_timeout_ms },
        other => ApiError::BadRequest { field: "body", problem: other.to_string() },
    }
}

pub(crate) async fn no_such_route(request: HttpRequest) -> Result<HttpResponse, ApiError> {
    Err(ApiError::NotFound(format!("no such resource: {} {}; GET /openapi.json lists them", request.method(), request.path())))
}

/// Answers a request with a method that its path does not have; `allowed` are those that it has.
pub(crate) fn no_such_method(request: &HttpRequest, allowed: &str) -> HttpResponse {
    let mut response = ApiError::NoSuchMethod(format!("{} {}", request.method(), request.path())).error_response();
    if let Ok(allowed) = allowed.parse() {
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}
