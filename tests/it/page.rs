//! The page: every file is found, compressed and cached, under a strict policy; and what a key allows is told.

use std::path::{Path, PathBuf};

use pml::gateway::http::{hash_key, new_key};
use serde_json::json;

use crate::server::{Server, agent};

fn assets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page/assets")
}

/// The names of the files below a folder, relative to `assets`.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = entries.flat_map(|path| {
        if path.is_dir() { names(&path) } else { vec![path.strip_prefix(assets()).unwrap().to_str().unwrap().to_owned()] }
    });
    below.collect()
}

#[test]
fn every_file_of_the_page_is_served() {
    let server = Server::with(&[]);
    let index = server.get("/");
    assert_eq!(index.status, 200);
    let base = index.text.split("src=\"").nth(1).unwrap().split("main.js").next().unwrap().to_owned();
    let mut found = 0;
    for name in names(&assets()) {
        if name == "index.html" {
            continue;
        }
        let answer = server.get(&format!("{base}{name}"));
        assert_eq!(answer.status, 200, "{name} is not in src/gateway/page/files.rs");
        assert_eq!(answer.text, std::fs::read_to_string(assets().join(&name)).unwrap(), "{name}");
        found += 1;
    }
    assert!(found > 30, "{found} files");
    assert_eq!(server.get("/assets/0000000000000000/main.js").status, 404);
    assert_eq!(server.get(&format!("{base}../../../Cargo.toml")).status, 404);
}

#[test]
fn files_are_compressed_kept_by_browsers_and_bound_to_the_origin() {
    let server = Server::with(&[]);
    let ask = |path: &str, header: (&str, &str)| {
        agent().get(format!("{}{path}", server.url())).header(header.0, header.1).call().unwrap()
    };
    let index = ask("/", ("accept-encoding", "identity"));
    let of = |name: &str| index.headers()[name].to_str().unwrap().to_owned();
    assert!(of("content-security-policy").starts_with("default-src 'none'; script-src 'self'"));
    assert!(!of("content-security-policy").contains("unsafe"));
    assert_eq!((of("cache-control"), of("x-content-type-options")), ("no-cache".to_owned(), "nosniff".to_owned()));
    let tag = of("etag");
    assert_eq!(ask("/", ("if-none-match", &tag)).status().as_u16(), 304);
    let script = format!("/assets/{}/main.js", tag.trim_matches('"'));
    let sent = ask(&script, ("accept-encoding", "br, gzip"));
    assert_eq!(sent.headers()["content-encoding"], "gzip");
    assert_eq!(sent.headers()["content-type"], "text/javascript; charset=utf-8");
    assert_eq!(sent.headers()["cache-control"], "public, max-age=31536000, immutable");
    assert!(!ask(&script, ("accept-encoding", "identity")).headers().contains_key("content-encoding"));
}

#[test]
fn a_page_learns_what_its_key_allows() {
    let open = Server::with(&[]).ask("/v1/access");
    assert_eq!(open, json!({"key_needed": false, "scopes": ["publish", "query", "execute", "approve", "admin"]}));
    let key = new_key();
    let setting = format!("[{{name = 'looker', hash = '{}', scopes = ['query']}}]", hash_key(&key));
    let server = Server::with(&[("HTTP__KEYS", &setting)]);
    let ask = |given: &str| {
        let url = format!("{}/v1/access", server.url());
        let text = agent().get(url).header("authorization", given).call().unwrap().body_mut().read_to_string().unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    assert_eq!(ask(&format!("Bearer {key}")), json!({"key_needed": true, "name": "looker", "scopes": ["query"]}));
    for unknown in ["", "Bearer pml_other"] {
        assert_eq!(ask(unknown), json!({"key_needed": true, "scopes": []}));
    }
}
