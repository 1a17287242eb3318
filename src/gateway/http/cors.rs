//! Cross-origin requests: web pages of the origins in `http.cors_origins` may call this server. By default there are none.

use actix_web::HttpResponse;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS,
    ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue, ORIGIN, VARY,
};
use actix_web::middleware::Next;
use actix_web::web::Data;

use super::Gateway;

const METHODS: &str = "GET, POST, DELETE";
const REQUEST_HEADERS: &str = "authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, ce-specversion, ce-id, ce-source, \
     ce-type, ce-time, ce-dataschema, ce-subject, ce-traceparent, ce-tracestate, ce-causation";
const RESPONSE_HEADERS: &str = "retry-after, mcp-session-id";
/// How long a browser may keep the answer to a preflight request, in seconds.
const MAX_AGE_SECONDS: &str = "600";

/// The origin of a request, if pages of that origin may call this server.
pub(super) fn allowed_origin<'a>(headers: &'a HeaderMap, origins: &[String]) -> Option<&'a HeaderValue> {
    let origin = headers.get(ORIGIN)?;
    let text = origin.to_str().ok()?;
    origins.iter().any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(text)).then_some(origin)
}

/// Middleware that answers preflight requests and marks the answers to allowed origins.
pub(super) async fn allow(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let gateway = request.app_data::<Data<Gateway>>().expect("the gateway is part of the app");
    let Some(origin) = allowed_origin(request.headers(), &gateway.settings.cors_origins).cloned() else {
        return next.call(request).await.map(ServiceResponse::map_into_left_body);
    };
    let is_preflight = request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if is_preflight {
        let mut answer = HttpResponse::NoContent();
        answer.insert_header((ACCESS_CONTROL_ALLOW_METHODS, METHODS));
        answer.insert_header((ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS));
        answer.insert_header((ACCESS_CONTROL_MAX_AGE, MAX_AGE_SECONDS));
        request.into_response(answer.finish()).map_into_right_body()
    } else {
        next.call(request).await?.map_into_left_body()
    };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(RESPONSE_HEADERS));
    headers.append(VARY, HeaderValue::from_static("origin"));
    Ok(response)
}
