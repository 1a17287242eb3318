//! `/mcp`: streamable HTTP, by rmcp; `POST /message`: plain JSON-RPC.
//!
//! actix-web and rmcp use different versions of the crate `http`, so requests and responses are converted.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::web::{Bytes, Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use futures_util::StreamExt;
use http_body_util::{BodyDataStream, Full};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;

use super::error::ApiError;
use super::publish::read_body;
use super::stream::{OpenStream, until_closing};
use super::{Gateway, auth};
use crate::gateway::mcp::{Caller, Mcp, McpServer, answer_message, session_id};

const SESSION_HEADER: &str = "mcp-session-id";
/// Hosts under which this machine is reached from itself.
const LOOPBACK_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The streamable HTTP transport with its sessions.
pub(super) struct StreamableHttp {
    service: StreamableHttpService<McpServer, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    sessions_max: usize,
}

impl StreamableHttp {
    pub(super) fn new(mcp: &Mcp, body_bytes_max: usize) -> Self {
        let settings = mcp.settings();
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(Duration::from_secs(settings.session_idle_s));
        let sessions = Arc::new(sessions);
        let hosts = LOOPBACK_HOSTS.into_iter().map(str::to_owned).chain(settings.allowed_hosts.iter().cloned());
        let any_host = settings.allowed_hosts.iter().any(|host| host == "*");
        let config = StreamableHttpServerConfig::default().with_max_request_body_bytes(body_bytes_max);
        let config = if any_host { config.disable_allowed_hosts() } else { config.with_allowed_hosts(hosts) };
        let (mcp, sessions_max) = (mcp.clone(), settings.sessions_max);
        let server = move || Ok(McpServer::new(mcp.clone(), Caller::local("http")));
        let service = StreamableHttpService::new(server, Arc::clone(&sessions), config);
        Self { service, sessions, sessions_max }
    }

    /// Fails if the request would begin a session and there are too many.
    async fn check_sessions(&self, has_session: bool, body: &[u8]) -> Result<(), ApiError> {
        let begins = || serde_json::from_slice(body).is_ok_and(|message: Value| message["method"] == "initialize");
        let open = self.sessions.sessions.read().await.len();
        if !has_session && open >= self.sessions_max && begins() {
            return Err(ApiError::TooManySessions { max: self.sessions_max });
        }
        Ok(())
    }
}

/// Serves `/mcp`, whatever the method.
pub(super) async fn streamable(
    request: HttpRequest,
    payload: Payload,
    gateway: Data<Gateway>,
    transport: Data<StreamableHttp>,
) -> Result<HttpResponse, ApiError> {
    let body = read_body(payload, announced_len(&request), &gateway.settings).await?;
    transport.check_sessions(request.headers().contains_key(SESSION_HEADER), &body).await?;
    let response = transport.service.handle(converted(&request, &gateway, body)?).await;
    let (parts, body) = response.into_parts();
    let status = match StatusCode::from_u16(parts.status.as_u16()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR) {
        // Clients take anything but 200 for a session that did not end.
        StatusCode::ACCEPTED if request.method() == Method::DELETE => StatusCode::OK,
        status => status,
    };
    let mut builder = HttpResponse::build(status);
    for (name, value) in &parts.headers {
        let name = HeaderName::from_bytes(name.as_str().as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
            builder.append_header((name, value));
        }
    }
    let is_stream = parts.headers.get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let open = if is_stream { Some(OpenStream::register(&gateway)?) } else { None };
    // The stream counts as open until it is dropped.
    let chunks = BodyDataStream::new(body).map(move |chunk| {
        let _open = &open;
        chunk
    });
    Ok(builder.streaming(until_closing(chunks, &gateway)))
}

/// Serves `POST /message`.
pub(super) async fn message(request: HttpRequest, payload: Payload, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let body = read_body(payload, announced_len(&request), &gateway.settings).await?;
    let answer = answer_message(&gateway.mcp, &caller(&request, &gateway), &body).await;
    Ok(answer.map_or_else(|| HttpResponse::Accepted().finish(), |answer| HttpResponse::Ok().json(answer)))
}

fn announced_len(request: &HttpRequest) -> usize {
    request.headers().get(CONTENT_LENGTH).and_then(|len| len.to_str().ok()?.parse().ok()).unwrap_or(0)
}

/// Who sent a request. Those without a session are told apart by their key, and by what they say about themselves.
fn caller(request: &HttpRequest, gateway: &Gateway) -> Caller {
    let key = auth::key(request, &gateway.settings.keys);
    let name = key.map_or("no key", |key| key.name.as_str());
    let session = request.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok());
    let id = session.map_or_else(|| session_id(&format!("key {name}")), session_id);
    Caller { scopes: key.map(|key| key.scopes.clone()), session: id, has_session: session.is_some(), agent: None }
}

/// The request as rmcp reads it, with its caller and without its key.
fn converted(request: &HttpRequest, gateway: &Gateway, body: Bytes) -> Result<http::Request<Full<Bytes>>, ApiError> {
    let malformed = |_| ApiError::BadRequest { field: "request", problem: "cannot be read".to_owned() };
    let mut builder = http::Request::builder().method(request.method().as_str()).uri(request.uri().to_string());
    for (name, value) in request.headers().iter().filter(|(name, _)| *name != actix_web::http::header::AUTHORIZATION) {
        builder = builder.header(name.as_str(), value.as_bytes());
    }
    builder.extension(caller(request, gateway)).body(Full::new(body)).map_err(malformed)
}
