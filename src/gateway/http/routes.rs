//! The table of all routes: method, path, required access and handler. The access is checked after routing, on the matched route, so that
//! no spelling of a path bypasses the check.

use actix_web::http::Method;
use actix_web::middleware::from_fn;
use actix_web::{HttpRequest, Route, web};

use super::auth::{self, Access};
use super::{
    ask, backup, dead, decide, error, execute, executions, mcp, models, openapi, otlp, page, predictions, publish, read,
    related, servers, snapshots, stream,
};
use crate::config::Scope;

const OPEN: Access = Access::Open;
const PUBLISH: Access = Access::Scope(Scope::Publish);
const QUERY: Access = Access::Scope(Scope::Query);
const EXECUTE: Access = Access::Scope(Scope::Execute);
const ADMIN: Access = Access::Scope(Scope::Admin);

/// One row of the table.
pub(super) struct RouteEntry {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) access: Access,
    handler: Route,
}

impl RouteEntry {
    /// The path as OpenAPI writes it, where a parameter has no pattern.
    pub(super) fn described_path(&self) -> String {
        self.path.replace(":.*}", "}")
    }
}

/// Returns the table of routes.
pub(super) fn table() -> Vec<RouteEntry> {
    let entry = |method, path, access, handler| RouteEntry { method, path, access, handler };
    let get = |path, access, handler| entry(Method::GET, path, access, handler);
    let post = |path, access, handler| entry(Method::POST, path, access, handler);
    vec![
        post("/v1/events", PUBLISH, web::to(publish::post_events)),
        post("/v1/executions", PUBLISH, web::to(executions::post)),
        post("/v1/traces", PUBLISH, web::to(otlp::post_traces)),
        get("/v1/executions", QUERY, web::to(read::executions)),
        get("/v1/events", QUERY, web::to(stream::get_events)),
        get("/v1/snapshots", QUERY, web::to(snapshots::list)),
        post("/v1/snapshots", ADMIN, web::to(snapshots::create)),
        get("/v1/tools", QUERY, web::to(read::tools)),
        get("/v1/capabilities", QUERY, web::to(read::capabilities)),
        post("/v1/capabilities/{capability}/rename", ADMIN, web::to(decide::rename)),
        post("/v1/capabilities/{capability}/merge", ADMIN, web::to(decide::merge)),
        post("/v1/capabilities/{capability}/approve", ADMIN, web::to(decide::approve)),
        post("/v1/capabilities/{capability}/retire", ADMIN, web::to(decide::retire)),
        get("/v1/graph", QUERY, web::to(related::graph)),
        get("/v1/related", QUERY, web::to(related::related)),
        post("/v1/discover", QUERY, web::to(ask::discover)),
        post("/v1/predict", QUERY, web::to(ask::predict)),
        post("/v1/score", QUERY, web::to(ask::score)),
        post("/v1/suggest", QUERY, web::to(ask::suggest)),
        post("/v1/speculate", QUERY, web::to(ask::speculate)),
        post("/v1/explain", QUERY, web::to(ask::explain)),
        get("/v1/quality", QUERY, web::to(read::quality)),
        get("/v1/models", QUERY, web::to(models::list)),
        post("/v1/models/train", ADMIN, web::to(models::train)),
        post("/v1/models/rollback", ADMIN, web::to(models::roll_back)),
        post("/v1/models/{version}/promote", ADMIN, web::to(models::promote)),
        post("/v1/search_tools", QUERY, web::to(ask::search_tools)),
        post("/v1/search_capabilities", QUERY, web::to(ask::search_capabilities)),
        get("/v1/servers", QUERY, web::to(servers::list)),
        post("/v1/servers/reload", ADMIN, web::to(servers::reload)),
        post("/v1/servers/approve", ADMIN, web::to(servers::approve)),
        post("/v1/execute", EXECUTE, web::to(execute::start)),
        get("/v1/execute", EXECUTE, web::to(execute::list)),
        post("/v1/execute/continue", EXECUTE, web::to(execute::go_on)),
        post("/v1/execute/abort", EXECUTE, web::to(execute::abort)),
        get("/v1/execute/{run}", EXECUTE, web::to(execute::show)),
        get("/v1/execute/{run}/{task}", EXECUTE, web::to(execute::result)),
        get("/v1/predictions", QUERY, web::to(predictions::stream)),
        get("/v1/traces/{execution}", QUERY, web::to(read::trace)),
        get("/v1/state", QUERY, web::to(read::state)),
        get("/v1/system", ADMIN, web::to(read::system)),
        get("/v1/backup", ADMIN, web::to(backup::get)),
        get("/v1/dead", ADMIN, web::to(dead::list)),
        post("/v1/dead/redrive", ADMIN, web::to(dead::redrive)),
        // The tools check the scopes that they need beyond this one.
        post("/mcp", QUERY, web::to(mcp::streamable)),
        get("/mcp", QUERY, web::to(mcp::streamable)),
        entry(Method::DELETE, "/mcp", QUERY, web::to(mcp::streamable)),
        post("/message", QUERY, web::to(mcp::message)),
        get("/", OPEN, web::to(page::index)),
        get("/assets/{hash}/{path:.*}", OPEN, web::to(page::asset)),
        get("/v1/access", OPEN, web::to(page::access)),
        get("/healthz", OPEN, web::to(read::healthz)),
        get("/readyz", OPEN, web::to(read::readyz)),
        get("/metrics", QUERY, web::to(read::metrics)),
        get("/openapi.json", OPEN, web::to(openapi::serve)),
        get("/docs", OPEN, web::to(openapi::page)),
    ]
}

/// Registers the routes in an app. Other requests get 404 or 405; they need any key if keys are configured.
pub(super) fn register(app: &mut web::ServiceConfig) {
    let mut entries = table();
    entries.sort_by_key(|entry| entry.path);
    let mut entries = entries.into_iter().peekable();
    while let Some(RouteEntry { path, .. }) = entries.peek() {
        let path = *path;
        let (mut resource, mut methods) = (web::resource(path), Vec::new());
        while let Some(entry) = entries.next_if(|entry| entry.path == path) {
            methods.push(entry.method.to_string());
            resource = resource.route(guarded(entry.access, entry.handler.method(entry.method)));
        }
        let methods = methods.join(", ");
        let refuse = move |request: HttpRequest| std::future::ready(error::no_such_method(&request, &methods));
        app.service(resource.default_service(guarded(Access::AnyKey, web::to(refuse))));
    }
    app.default_service(guarded(Access::AnyKey, web::to(error::no_such_route)));
}

fn guarded(access: Access, route: Route) -> Route {
    route.wrap(from_fn(move |request, next| auth::check_access(access, request, next)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_description_lists_the_routes_of_the_table_and_their_scopes() {
        let mut expected: BTreeMap<(String, String), Value> = BTreeMap::new();
        for entry in table() {
            let security = match entry.access {
                Access::Open => json!([{}]),
                Access::AnyKey => panic!("{} names no scope", entry.path),
                Access::Scope(scope) => json!([{}, {"key": [scope.name()]}]),
            };
            let operation = (entry.described_path(), entry.method.as_str().to_ascii_lowercase());
            assert!(expected.insert(operation, security).is_none(), "{} {} is listed twice", entry.method, entry.path);
        }
        let document = openapi::document();
        let described = document["paths"].as_object().unwrap().iter().flat_map(|(path, operations)| {
            let operations = operations.as_object().unwrap().iter();
            operations.map(|(method, operation)| ((path.clone(), method.clone()), operation["security"].clone()))
        });
        assert_eq!(described.collect::<BTreeMap<_, _>>(), expected);
    }
}
