//! `GET /` and `/assets`: the page for people. `GET /v1/access`: what the API key of a request allows, so that the page offers no more.

use actix_web::http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use serde_json::json;

use super::error::ApiError;
use super::{Gateway, auth};
use crate::config::Scope;
use crate::gateway::page::{File, Page};

/// Scripts, styles and requests of this origin, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The address of a file changes with its content.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

pub(super) async fn index(request: HttpRequest, page: Data<Page>) -> HttpResponse {
    let tag = format!("\"{}\"", page.hash);
    if request.headers().get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return HttpResponse::NotModified().insert_header((ETAG, tag)).finish();
    }
    let mut response = send(&request, &page.index, "no-cache");
    response.headers_mut().insert(ETAG, tag.parse().expect("a hash is a header value"));
    response
}

pub(super) async fn asset(
    request: HttpRequest,
    path: Path<(String, String)>,
    page: Data<Page>,
) -> Result<HttpResponse, ApiError> {
    let (hash, name) = path.into_inner();
    let missing = || ApiError::NotFound("no such file of the page; load the page again".to_owned());
    Ok(send(&request, page.file(&hash, &name).ok_or_else(missing)?, FOR_EVER))
}

fn send(request: &HttpRequest, file: &File, cached: &'static str) -> HttpResponse {
    let accepts = request.headers().get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut response = HttpResponse::Ok();
    response
        .insert_header((CONTENT_TYPE, file.content_type))
        .insert_header((CACHE_CONTROL, cached))
        .insert_header((VARY, "accept-encoding"))
        .insert_header(("content-security-policy", POLICY))
        .insert_header(("x-content-type-options", "nosniff"))
        .insert_header(("referrer-policy", "no-referrer"));
    if accepts.split(',').any(|coding| coding.trim() == "gzip") {
        return response.insert_header((CONTENT_ENCODING, "gzip")).body(file.gzip().to_vec());
    }
    response.body(file.plain.clone())
}

pub(super) async fn access(request: HttpRequest, gateway: Data<Gateway>) -> HttpResponse {
    let keys = &gateway.settings.keys;
    let names = |scopes: &[Scope]| scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>();
    let body = match auth::key(&request, keys) {
        _ if keys.is_empty() => {
            json!({"key_needed": false, "scopes": names(&Scope::ALL)})
        }
        Some(key) => json!({"key_needed": true, "name": key.name, "scopes": names(&key.scopes)}),
        None => json!({"key_needed": true, "scopes": []}),
    };
    HttpResponse::Ok().insert_header((CACHE_CONTROL, "no-store")).json(body)
}
