//! Access control. If API keys are configured, a request needs a bearer key with the right scope; otherwise every local process has
//! access, but web pages in a local browser do not.

use actix_web::HttpRequest;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Uri;
use actix_web::http::header::{AUTHORIZATION, HOST, ORIGIN};
use actix_web::middleware::Next;
use actix_web::web::Data;

use super::error::ApiError;
use super::{Gateway, cors};
use crate::clock::entropy;
use crate::config::{ApiKey, Scope};

const KEY_PREFIX: &str = "pml_";

/// Returns a new API key with 256 random bits from the operating system.
pub fn new_key() -> String {
    format!("{KEY_PREFIX}{:032x}{:032x}", entropy(), entropy())
}

/// Returns the hash that the configuration holds instead of the key. Keys are random, so one fast hash is enough.
pub fn hash_key(key: &str) -> String {
    blake3::hash(key.as_bytes()).to_hex().to_string()
}

/// The access that a route requires if API keys are configured.
#[derive(Clone, Copy)]
pub(super) enum Access {
    /// Every request, with a key or without.
    Open,
    /// A request with any key.
    AnyKey,
    /// A request with a key that has this scope or the scope admin.
    Scope(Scope),
}

/// Middleware of one route that checks the API key.
pub(super) async fn check_access(
    access: Access,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let keys = &gateway(&request).settings.keys;
    let checked = if keys.is_empty() { Ok(()) } else { check_key(keys, bearer(request.request()), access) };
    answer(checked, request, next).await
}

/// Middleware that runs before routing and, if no API keys are configured, refuses requests from web pages.
pub(super) async fn check_host(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let checked = if gateway(&request).settings.keys.is_empty() { check_local(&request) } else { Ok(()) };
    answer(checked, request, next).await
}

/// A refusal is an answer like others, so that what holds for all answers holds for it.
async fn answer(
    checked: Result<(), ApiError>,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    match checked {
        Ok(()) => next.call(request).await.map(ServiceResponse::map_into_left_body),
        Err(refused) => Ok(request.error_response(refused).map_into_right_body()),
    }
}

fn gateway(request: &ServiceRequest) -> &Gateway {
    request.app_data::<Data<Gateway>>().expect("the gateway is part of the app")
}

fn bearer(request: &HttpRequest) -> Option<&str> {
    let (scheme, key) = request.headers().get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

/// Returns the entry of the key that a request carries; `None` if it carries no known key.
pub(super) fn key<'a>(request: &HttpRequest, keys: &'a [ApiKey]) -> Option<&'a ApiKey> {
    find_key(keys, bearer(request)?)
}

/// Whether a request may do what needs `scope`: its key has it, or no keys are configured.
pub(super) fn has_scope(request: &HttpRequest, keys: &[ApiKey], scope: Scope) -> bool {
    let allows = |key: &ApiKey| key.scopes.contains(&scope) || key.scopes.contains(&Scope::Admin);
    keys.is_empty() || key(request, keys).is_some_and(allows)
}

fn find_key<'a>(keys: &'a [ApiKey], given: &str) -> Option<&'a ApiKey> {
    let given = blake3::hash(given.as_bytes());
    // Comparing two `blake3::Hash`es takes the same time wherever they differ.
    let matches = |key: &&ApiKey| blake3::Hash::from_hex(&key.hash).is_ok_and(|hash| hash == given);
    keys.iter().find(matches)
}

fn check_key(keys: &[ApiKey], given: Option<&str>, access: Access) -> Result<(), ApiError> {
    if matches!(access, Access::Open) {
        return Ok(());
    }
    let key = find_key(keys, given.ok_or(ApiError::NoKey)?).ok_or(ApiError::UnknownKey)?;
    match access {
        Access::Scope(scope) if !key.scopes.contains(&scope) && !key.scopes.contains(&Scope::Admin) => {
            Err(ApiError::Scope(scope))
        }
        Access::Open | Access::AnyKey | Access::Scope(_) => Ok(()),
    }
}

/// Refuses requests of web pages, which a browser may send to the loopback address; their `Origin` or `Host` is not local.
fn check_local(request: &ServiceRequest) -> Result<(), ApiError> {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    if header(HOST).is_some_and(|host| !is_local(host)) {
        return Err(ApiError::ForeignHost("host"));
    }
    let origin_host = |origin: &str| origin.parse::<Uri>().ok().and_then(|uri| uri.authority().map(ToString::to_string));
    let is_allowed = cors::allowed_origin(request.headers(), &gateway(request).settings.cors_origins).is_some();
    if !is_allowed && header(ORIGIN).is_some_and(|origin| !origin_host(origin).is_some_and(|host| is_local(&host))) {
        return Err(ApiError::ForeignHost("origin"));
    }
    Ok(())
}

fn is_local(host: &str) -> bool {
    let name =
        if host.starts_with('[') { host.split(']').next().unwrap_or(host) } else { host.split(':').next().unwrap_or(host) };
    let address = name.trim_start_matches('[').parse::<std::net::IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_local() {
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]:8080", "127.9.9.9"] {
            assert!(is_local(host), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:8080", "10.0.0.1", "[2001:db8::1]:80", ""] {
            assert!(!is_local(host), "{host}");
        }
    }

    #[test]
    fn a_key_opens_its_scopes_and_admin_opens_all() {
        let key = |scopes: &[Scope]| [ApiKey { name: "k".into(), hash: hash_key("pml_x"), scopes: scopes.to_vec() }];
        let (reader, admin, idle) = (key(&[Scope::Query]), key(&[Scope::Admin]), key(&[]));
        let (query, publish) = (Access::Scope(Scope::Query), Access::Scope(Scope::Publish));
        assert!(check_key(&reader, Some("pml_x"), query).is_ok());
        assert!(check_key(&admin, Some("pml_x"), publish).is_ok());
        assert!(matches!(check_key(&reader, Some("pml_x"), publish), Err(ApiError::Scope(Scope::Publish))));
        assert!(matches!(check_key(&idle, Some("pml_x"), query), Err(ApiError::Scope(Scope::Query))));
        assert!(matches!(check_key(&reader, Some("pml_y"), query), Err(ApiError::UnknownKey)));
        assert!(matches!(check_key(&reader, None, query), Err(ApiError::NoKey)));
        assert!(check_key(&idle, Some("pml_x"), Access::AnyKey).is_ok());
        assert!(matches!(check_key(&idle, Some("pml_y"), Access::AnyKey), Err(ApiError::UnknownKey)));
        assert!(matches!(check_key(&idle, None, Access::AnyKey), Err(ApiError::NoKey)));
        assert!(check_key(&reader, None, Access::Open).is_ok());
    }
}
