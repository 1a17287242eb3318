//! Who may do what: every route, however its path is spelt, with a key of every scope and with none; and what no answer tells.

use pml::gateway::http::{hash_key, new_key};

use crate::server::{Answer, Server, agent};

const SCOPES: [&str; 4] = ["publish", "query", "execute", "admin"];
/// What is not listed here needs the scope query.
const OPEN: [&str; 7] =
    ["GET /", "GET /assets/{hash}/{path}", "GET /v1/access", "GET /healthz", "GET /readyz", "GET /openapi.json", "GET /docs"];
const PUBLISH: [&str; 3] = ["POST /v1/events", "POST /v1/executions", "POST /v1/traces"];
const EXECUTE: [&str; 6] = [
    "POST /v1/execute",
    "GET /v1/execute",
    "POST /v1/execute/continue",
    "POST /v1/execute/abort",
    "GET /v1/execute/{run}",
    "GET /v1/execute/{run}/{task}",
];
const ADMIN: [&str; 14] = [
    "GET /v1/system",
    "POST /v1/capabilities/{capability}/rename",
    "POST /v1/capabilities/{capability}/merge",
    "POST /v1/capabilities/{capability}/approve",
    "POST /v1/capabilities/{capability}/retire",
    "POST /v1/servers/reload",
    "POST /v1/servers/approve",
    "POST /v1/snapshots",
    "GET /v1/backup",
    "GET /v1/dead",
    "POST /v1/dead/redrive",
    "POST /v1/models/train",
    "POST /v1/models/rollback",
    "POST /v1/models/{version}/promote",
];

/// A server with one key of each scope.
fn guarded() -> (Server, [String; 4]) {
    let keys = SCOPES.map(|_| new_key());
    let entries = SCOPES
        .iter()
        .zip(&keys)
        .map(|(scope, key)| format!("{{name = '{scope}', hash = '{}', scopes = ['{scope}']}}", hash_key(key)));
    let setting = format!("[{}]", entries.collect::<Vec<_>>().join(", "));
    (Server::with(&[("HTTP__KEYS", &setting)]), keys)
}

/// The status and, unless the answer has no end or is no text, the text.
fn ask(server: &Server, agent: &ureq::Agent, key: Option<&str>, method: &str, path: &str) -> Answer {
    let url = format!("{}{path}", server.url());
    let bearer = key.map(|key| format!("Bearer {key}")).unwrap_or_default();
    let response = match method {
        "get" => agent.get(url).header("authorization", bearer).call(),
        "post" => agent.post(url).header("authorization", bearer).header("content-type", "application/json").send("{}"),
        "delete" => agent.delete(url).header("authorization", bearer).call(),
        other => panic!("no route has the method {other}"),
    };
    let response = response.unwrap();
    if ["text/event-stream", "application/octet-stream"].iter().any(|kind| response.headers()["content-type"] == kind) {
        return Answer { status: response.status().as_u16(), retry_after: None, text: String::new() };
    }
    Answer::read(Ok(response)).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

/// The path with some of its letters percent-encoded: every fifth by itself, and all of them.
fn encoded(path: &str) -> Vec<String> {
    let escape = |wanted: &dyn Fn(usize) -> bool| -> String {
        let encode = |(at, letter): (usize, char)| {
            if wanted(at) && letter.is_ascii_alphanumeric() { format!("%{:02x}", letter as u8) } else { letter.to_string() }
        };
        path.char_indices().map(encode).collect()
    };
    let mut spellings: Vec<String> = (1..path.len()).step_by(5).map(|at| escape(&|place| place == at)).collect();
    spellings.push(escape(&|_| true));
    spellings.push(escape(&|_| true).to_uppercase());
    spellings.retain(|spelling| spelling != path);
    spellings.dedup();
    spellings
}

/// What a key of `scope`, or none, gets for a route: allowed means that the route answers, whatever it says.
fn allowed(route: &str, scope: Option<&str>) -> bool {
    let needed = match route {
        route if OPEN.contains(&route) => return true,
        route if PUBLISH.contains(&route) => "publish",
        route if EXECUTE.contains(&route) => "execute",
        route if ADMIN.contains(&route) => "admin",
        _ => "query",
    };
    scope == Some(needed) || scope == Some("admin")
}

#[test]
fn every_route_is_open_to_its_scope_alone_however_its_path_is_spelt() {
    let (server, keys) = guarded();
    let agent = agent();
    let holders: Vec<(Option<&str>, Option<&str>)> =
        SCOPES.iter().zip(&keys).map(|(scope, key)| (Some(*scope), Some(key.as_str()))).chain([(None, None)]).collect();
    let home = server.data().parent().unwrap().to_str().unwrap().to_owned();
    let document = server.ask("/openapi.json");
    let mut routes = 0;
    for (pattern, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            routes += 1;
            let route = format!("{} {pattern}", method.to_uppercase());
            let path = pattern.replace("{execution}", "e1").replace("{version}", "head-0123456789ab");
            let path = path.replace("{run}", "run-1").replace("{task}", "t").replace("{hash}", "h").replace("{path}", "p.js");
            let check = |spelling: &str, routed: bool| {
                for (scope, key) in &holders {
                    let answer = ask(&server, &agent, *key, method, spelling);
                    let refused = matches!(answer.status, 401 | 403);
                    let found = answer.status != 404 && answer.status != 405;
                    match scope {
                        _ if allowed(&route, *scope) && routed => {
                            assert!(!refused, "{route} as {spelling}: {scope:?}, {answer:?}");
                        }
                        None => assert_eq!(answer.status, 401, "{route} as {spelling} without a key: {answer:?}"),
                        Some(_) => assert!(refused || (!found && !routed), "{route} as {spelling}: {scope:?}, {answer:?}"),
                    }
                    assert!(!answer.text.contains(&home), "{route} tells where the server keeps its files: {answer:?}");
                }
            };
            check(&path, true);
            for spelling in encoded(&path) {
                check(&spelling, true);
            }
            for unknown in [format!("/{path}"), format!("/.{path}")] {
                check(&unknown, false);
            }
            // The name of a file of the page may have slashes.
            check(&format!("{path}/"), pattern.ends_with("{path}"));
            // Parameters are part of the last segment.
            check(&format!("{path};a=b"), pattern.ends_with('}'));
        }
    }
    assert!(routes > 20, "the description lists {routes} routes");
}

#[test]
fn what_is_no_route_is_told_to_holders_of_a_key_alone() {
    let (server, keys) = guarded();
    let agent = agent();
    for (method, path, status) in [("get", "/v2/events", 404), ("post", "/v1/backup", 405), ("get", "/v1/dead/redrive", 405)] {
        assert_eq!(ask(&server, &agent, None, method, path).status, 401, "{method} {path}");
        assert_eq!(ask(&server, &agent, Some("pml_guessed"), method, path).status, 401, "{method} {path}");
        for key in &keys {
            let answer = ask(&server, &agent, Some(key), method, path);
            assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
            assert!(answer.text.contains("/openapi.json"), "{answer:?}");
        }
    }
}

#[test]
fn where_snapshots_are_kept_is_not_told() {
    let server = Server::start();
    server.accept(&crate::run::started("e1"));
    let home = server.data().parent().unwrap().to_str().unwrap().to_owned();
    let ask = |method: &str| ask(&server, &agent(), None, method, "/v1/snapshots");
    assert_eq!(ask("post").status, 200);
    let listed = ask("get");
    assert_eq!((listed.status, listed.text.contains(&home)), (200, false), "{listed:?}");
    // A file where the directory was: the place cannot be used.
    let place = server.data().join("snapshots");
    std::fs::remove_dir_all(&place).unwrap();
    std::fs::write(&place, "").unwrap();
    for method in ["get", "post"] {
        let failed = ask(method);
        assert_eq!(failed.status, 500, "{method}: {failed:?}");
        let told = failed.json()["error"].as_str().unwrap().to_owned();
        assert!(told.contains("the snapshot store cannot be used") && !told.contains(&home), "{told}");
    }
}
