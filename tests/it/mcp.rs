//! The MCP gateway over HTTP: the messages of the protocol, who may do what, limits.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};

use pml::gateway::http::{hash_key, new_key};
use serde_json::{Value, json};

use crate::run::{event, whole};
use crate::server::{Answer, Server, agent, eventually};

/// A server that knows some tools, and has no servers to call.
pub(crate) fn desk(settings: &[(&str, &str)]) -> Server {
    let settings: Vec<(&str, &str)> = [("TEMPLATES__PATH", "")].iter().chain(settings).copied().collect();
    let server = Server::with(&settings);
    server.accept(&json!([
        tool("browser:screenshot", "Take a screenshot of the current web page"),
        tool("browser:navigate", "Open a web page"),
        tool("mail:send", "Send an email message to a recipient"),
    ]));
    server.settled_state();
    server
}

pub(crate) fn tool(id: &str, description: &str) -> Value {
    let (server, name) = id.split_once(':').unwrap();
    let schema = json!({"type": "object", "properties": {"url": {"type": "string"}}});
    event(
        "tool.registered",
        json!({"tool": id, "server": server, "name": name, "description": description, "input_schema": schema}),
    )
}

fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// The result of a message to `/message`.
pub(crate) fn message(server: &Server, method: &str, params: &Value) -> Value {
    let answer = server.question("/message", &request(method, params));
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = answer.json();
    assert!(answer.get("error").is_none(), "{answer}");
    answer["result"].clone()
}

pub(crate) fn call(server: &Server, tool: &str, arguments: &Value) -> Value {
    message(server, "tools/call", &json!({"name": tool, "arguments": arguments}))
}

/// The result of a call that succeeds, once the index holds everything.
fn answer(server: &Server, tool: &str, arguments: &Value) -> Value {
    let tail = server.settled_state()["applied_seq"].clone();
    eventually("the index to catch up", || {
        let result = call(server, tool, arguments);
        assert_eq!(result["isError"], false, "{result}");
        let content = result["structuredContent"].clone();
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), content, "clients without structured content read the same");
        let based_on = if content["meta"].is_object() { &content["meta"]["based_on_seq"] } else { &content["based_on_seq"] };
        (*based_on == tail).then_some(content)
    })
}

#[test]
fn the_curl_of_the_source_document_works_as_printed() {
    let server = desk(&[]);
    // The body and the header of the example; only the port differs.
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
    "name":"pml:search_tools",
    "arguments":{"query":"screenshot","limit":5}
  }}"#;
    let answer = eventually("the index to catch up", || {
        let sent = agent().post(format!("{}/message", server.url())).header("Content-Type", "application/json").send(body);
        let answer = Answer::read(sent).unwrap().json();
        answer["result"]["structuredContent"]["tools"][0].is_object().then_some(answer)
    });
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(1)));
    let content = &answer["result"]["structuredContent"];
    let first = &content["tools"][0];
    assert_eq!((&first["tool_id"], &first["server_id"]), (&json!("browser:screenshot"), &json!("browser")));
    for field in ["semantic_score", "graph_score", "final_score"] {
        assert!(first[field].is_number(), "{field}: {first}");
    }
    assert_eq!(content["deprecated"], "use discover");
    assert!(server.complaints().contains("search_tools is deprecated; use discover"), "{}", server.complaints());
}

#[test]
fn tools_answer_as_their_questions_do_over_http() {
    let server = desk(&[]);
    server.accept(&whole("e1"));
    let same = |tool: &str, path: &str, question: Value| {
        let told = answer(&server, tool, &question);
        assert_eq!(told, server.question(path, &question).json(), "{tool}");
        told
    };
    let question = json!({"intent": "take a picture of the page", "include_related": true});
    let discovered = same("pml_discover", "/v1/discover", question);
    assert_eq!(discovered["results"][0]["id"], "browser:screenshot");
    same("pml_search_capabilities", "/v1/search_capabilities", json!({"intent": "copy a file"}));
    let capability = same("pml_discover", "/v1/discover", json!({"intent": "copy a file", "filter": {"type": "capability"}}));
    assert_eq!(capability["results"][0]["type"], "capability");
    let suggested = same("pml_suggest", "/v1/suggest", json!({"intent": "copy a file"}));
    assert!(suggested["alternatives"].is_array() && suggested["sure"].is_boolean(), "{suggested}");
    let predicted = same("pml_predict", "/v1/predict", json!({"intent": "copy a file", "context": ["fs:read"]}));
    assert_eq!(predicted["ranked"][0]["item"], "fs:write");
}

#[test]
fn discover_finds_by_name_pattern_and_id_and_pages() {
    let server = desk(&[]);
    server.accept(&whole("e1"));
    let found = |question: Value| {
        let content = answer(&server, "pml_discover", &question);
        let ids: Vec<String> =
            content["results"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect();
        (ids, content["meta"].clone())
    };
    for name in ["screenshot", "browser:screenshot", "mcp__browser__screenshot", "SCREEN*", "browser:s?reenshot"] {
        assert_eq!(found(json!({"name": name})).0, ["browser:screenshot"], "{name}");
    }
    let (ids, meta) = found(json!({"name": "browser:*", "limit": 1}));
    assert_eq!((ids, &meta["total_found"], &meta["next_offset"]), (vec!["browser:navigate".to_owned()], &json!(2), &json!(1)));
    let (ids, meta) = found(json!({"name": "browser:*", "limit": 1, "offset": 1}));
    assert_eq!((ids, meta.get("next_offset")), (vec!["browser:screenshot".to_owned()], None));
    let (capabilities, _) = found(json!({"name": "*", "filter": {"type": "capability"}}));
    assert_eq!(capabilities.len(), 1);
    assert_eq!(found(json!({"name": capabilities[0]})).0, capabilities);
    assert_eq!(found(json!({"name": "nothing"})).0, [""; 0]);
    let first = found(json!({"intent": "open a web page", "limit": 1}));
    let second = found(json!({"intent": "open a web page", "limit": 1, "offset": 1}));
    let both = found(json!({"intent": "open a web page", "limit": 2}));
    assert_eq!([first.0, second.0].concat(), both.0, "pages follow each other");
    let wrong = call(&server, "pml_discover", &json!({"name": "a", "intent": "b"}));
    assert!(
        wrong["isError"] == true && wrong["content"][0]["text"].as_str().unwrap().contains("name: is given besides"),
        "{wrong}"
    );
}

#[test]
fn wrong_messages_and_calls_say_what_is_wrong() {
    let server = desk(&[]);
    let error = |body: &str| {
        let sent = agent().post(format!("{}/message", server.url())).header("content-type", "application/json").send(body);
        let answer = Answer::read(sent).unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        let error = answer.json()["error"].clone();
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    };
    assert_eq!(error("{").0, -32_700);
    assert_eq!(error("[]").0, -32_600);
    assert_eq!(error("{}").0, -32_600);
    assert_eq!(error(&request("nonsense", &json!({})).to_string()), (-32_601, "method: 'nonsense' is unknown".to_owned()));
    assert_eq!(error(&request("tools/call", &json!({"arguments": {}})).to_string()).0, -32_602);
    let unknown = error(&request("tools/call", &json!({"name": "no_such"})).to_string());
    assert_eq!(unknown, (-32_602, "unknown tool 'no_such'; pml_discover finds tools by intent or name".to_owned()));
    assert_eq!(error(&request("resources/read", &json!({"uri": "pml://tools/no:such"})).to_string()).0, -32_002);
    let refused = |tool: &str, arguments: Value, expected: &str| {
        let result = call(&server, tool, &arguments);
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(result["isError"] == true && text.contains(expected), "{tool} {arguments}: {result}");
    };
    refused("pml_discover", json!({}), "intent: is blank");
    refused("pml_discover", json!({"intent": "x", "colour": "red"}), "colour");
    refused("pml_predict", json!({"context": ["a:b:c d"]}), "context");
    refused("pml_feedback", json!({"verdict": "accepted"}), "prediction");
    refused("pml_feedback", json!({"prediction": "7", "verdict": "accepted"}), "prediction: '7' is not the id of a record");
    refused("pml_continue", json!({}), "token");
    refused("pml_continue", json!({"cursor": "7"}), "cursor");
    refused("pml_execute", json!({}), "tasks");
    refused("mail:send", json!({}), "no tool 'mail:send' is offered");
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let answer = server.question("/message", &notification);
    assert_eq!((answer.status, answer.text.as_str()), (202, ""));
}

#[test]
fn feedback_becomes_an_event() {
    let server = desk(&[]);
    let id = pml::clock::Clock::system().fresh_id().to_string();
    let told = call(&server, "pml:feedback", &json!({"prediction": id, "verdict": "rejected"}));
    assert_eq!(told["structuredContent"]["status"], "recorded", "{told}");
    let records = server.records();
    let feedback = records.iter().find(|record| record["type"] == "pml.feedback.given").unwrap();
    assert_eq!((&feedback["data"]["prediction"], &feedback["data"]["verdict"]), (&json!(id), &json!("rejected")));
}

#[test]
fn feedback_on_an_asked_prediction_moves_its_threshold() {
    let server = desk(&[]);
    server.accept(&whole("e1"));
    let question = json!({"intent": "copy a file", "context": ["fs:read"]});
    let predicted = answer(&server, "pml_predict", &question);
    let threshold = |server: &Server| {
        let thresholds = server.ask("/v1/models")["models"][0]["thresholds"].as_array().unwrap().clone();
        thresholds.into_iter().find(|entry| entry["item"] == predicted["ranked"][0]["item"])
    };
    assert_eq!(threshold(&server), None, "nothing was observed: {predicted}");
    let told = call(&server, "pml_feedback", &json!({"prediction": predicted["prediction"], "verdict": "accepted"}));
    assert_eq!(told["isError"], false, "{told}");
    eventually("the threshold to move", || threshold(&server));
}

#[test]
fn descriptions_name_the_servers_behind_them_and_follow_the_catalogue() {
    let server = desk(&[]);
    let description = |server: &Server| {
        let listed = message(server, "tools/list", &json!({}));
        let tools = listed["tools"].as_array().unwrap().clone();
        let discover = tools.iter().find(|tool| tool["name"] == "pml_discover").unwrap();
        discover["description"].as_str().unwrap().to_owned()
    };
    assert!(description(&server).contains("There are 3 tools of the servers browser, mail"), "{}", description(&server));
    server.accept(&tool("github:create_issue", "Create an issue"));
    eventually("the description to name the new server", || {
        description(&server).contains("browser, github, mail").then_some(())
    });
    let initialized = message(&server, "initialize", &json!({"protocolVersion": "2025-06-18", "capabilities": {}}));
    assert_eq!(initialized["protocolVersion"], "2025-06-18");
    assert!(initialized["instructions"].as_str().unwrap().contains("github"), "{initialized}");
}

#[test]
fn resources_show_the_catalogue_and_what_was_learnt() {
    let server = desk(&[]);
    server.accept(&whole("e1"));
    server.settled_state();
    let listed = message(&server, "resources/list", &json!({}));
    let uris: Vec<&str> = listed["resources"].as_array().unwrap().iter().map(|entry| entry["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, ["pml://catalogue", "pml://capabilities", "pml://servers/browser", "pml://servers/mail"]);
    let read = |uri: &str| -> Value {
        let result = message(&server, "resources/read", &json!({ "uri": uri }));
        serde_json::from_str(result["contents"][0]["text"].as_str().unwrap()).unwrap()
    };
    assert_eq!(read("pml://catalogue")["servers"][0], json!({"server": "browser", "tools": 2, "uri": "pml://servers/browser"}));
    assert_eq!(read("pml://servers/browser")["meta"]["total_found"], 2);
    assert_eq!(read("pml://tools/mail:send")["results"][0]["description"], "Send an email message to a recipient");
    let learnt = eventually("the capability", || {
        let learnt = read("pml://capabilities");
        learnt["results"][0].is_object().then_some(learnt)
    });
    assert_eq!(learnt["results"][0]["tools"], json!(["fs:read", "fs:write"]));
    let id = learnt["results"][0]["id"].as_str().unwrap();
    assert_eq!(read(&format!("pml://capabilities/{id}"))["results"][0]["id"], id);
}

/// A server with keys of these scopes.
fn guarded(scopes: &[&str]) -> (Server, Vec<String>) {
    let keys: Vec<String> = scopes.iter().map(|_| new_key()).collect();
    let entry = |(scope, key): (&&str, &String)| {
        let scopes: Vec<String> = scope.split('+').map(|scope| format!("'{scope}'")).collect();
        format!("{{name = '{scope}', hash = '{}', scopes = [{}]}}", hash_key(key), scopes.join(", "))
    };
    let entries: Vec<String> = scopes.iter().zip(&keys).map(entry).collect();
    (Server::with(&[("HTTP__KEYS", &format!("[{}]", entries.join(", ")))]), keys)
}

#[test]
fn tools_need_their_scopes_besides_that_of_the_route() {
    let (server, keys) = guarded(&["query", "query+publish", "query+execute", "publish"]);
    let ask = |key: &str, tool: &str, arguments: &Value| {
        let body = request("tools/call", &json!({"name": tool, "arguments": arguments}));
        let sent = agent().post(format!("{}/message", server.url())).header("authorization", format!("Bearer {key}"));
        Answer::read(sent.header("content-type", "application/json").send(body.to_string())).unwrap()
    };
    let lacks = |key: &str, tool: &str, scope: &str| {
        let answer = ask(key, tool, &json!({"name": "x", "verdict": "accepted"}));
        let text = answer.json()["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        text == format!("the API key lacks the scope '{scope}'")
    };
    let [query, publish, execute, no_query] = [0, 1, 2, 3].map(|at| keys[at].as_str());
    assert!(!lacks(query, "pml_discover", "query"));
    for tool in ["pml_execute", "pml_continue", "fs__read"] {
        assert!(lacks(query, tool, "execute") && lacks(publish, tool, "execute") && !lacks(execute, tool, "execute"), "{tool}");
    }
    assert!(lacks(query, "pml_feedback", "publish") && !lacks(publish, "pml_feedback", "publish"));
    assert_eq!(ask(no_query, "pml_discover", &json!({"name": "x"})).status, 403);
    let unknown = ask("pml_guessed", "pml_discover", &json!({"name": "x"}));
    assert_eq!(unknown.status, 401);
}

/// Posts to `/mcp` as a client of streamable HTTP does.
fn post_mcp(server: &Server, headers: &[(&str, &str)], body: &Value) -> ureq::http::Response<ureq::Body> {
    let mut request = agent().post(format!("{}/mcp", server.url())).header("content-type", "application/json");
    request = request.header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send(body.to_string()).unwrap()
}

fn initialize(version: &str) -> Value {
    let client = json!({"name": "test", "version": "1"});
    request("initialize", &json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client}))
}

/// The first message of a response, JSON or event stream.
fn first_message(mut response: ureq::http::Response<ureq::Body>) -> Value {
    let text = response.body_mut().read_to_string().unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).find(|data| !data.is_empty());
    serde_json::from_str(data.unwrap_or(&text)).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn every_protocol_version_is_served() {
    let server = desk(&[]);
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let response = post_mcp(&server, &[], &initialize(version));
        let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        assert_eq!(first_message(response)["result"]["protocolVersion"], version);
        let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", version)];
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(post_mcp(&server, &headers, &ready).status(), 202);
        let listed = first_message(post_mcp(&server, &headers, &request("tools/list", &json!({}))));
        assert!(listed["result"]["tools"].as_array().unwrap().len() >= 7, "{version}: {listed}");
    }
    // Without sessions: every request says who sends it.
    let version = "2026-07-28";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let ask = |method: &str, name: Option<&str>, mut params: Value| {
        params["_meta"] = meta.clone();
        let mut headers = vec![("mcp-protocol-version", version), ("mcp-method", method)];
        headers.extend(name.map(|name| ("mcp-name", name)));
        first_message(post_mcp(&server, &headers, &request(method, &params)))
    };
    let known = ask("server/discover", None, json!({}))["result"]["supportedVersions"].as_array().unwrap().len();
    assert_eq!(known, 5);
    assert!(ask("tools/list", None, json!({}))["result"]["tools"].is_array());
    let called = ask("tools/call", Some("pml_discover"), json!({"name": "pml_discover", "arguments": {"name": "*"}}));
    assert_eq!(called["result"]["structuredContent"]["meta"]["total_found"], 3, "{called}");
}

#[test]
fn a_client_is_told_when_the_lists_change() {
    let server = desk(&[]);
    let version = "2025-06-18";
    let response = post_mcp(&server, &[], &initialize(version));
    let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    first_message(response);
    let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", version)];
    post_mcp(&server, &headers, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let mut request = agent().get(format!("{}/mcp", server.url())).header("accept", "text/event-stream");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let stream = request.call().unwrap();
    assert_eq!(stream.status(), 200);
    server.accept(&tool("github:create_issue", "Create an issue"));
    let mut wanted = BTreeSet::from(["notifications/tools/list_changed", "notifications/resources/list_changed"]);
    for line in BufReader::new(stream.into_body().into_reader()).lines() {
        wanted.retain(|method| !line.as_ref().unwrap().contains(*method));
        if wanted.is_empty() {
            return;
        }
    }
    panic!("the stream ended without {wanted:?}");
}

#[test]
fn sessions_are_limited_and_can_be_ended() {
    let server = desk(&[("MCP__SESSIONS_MAX", "2")]);
    let open = || post_mcp(&server, &[], &initialize("2025-06-18"));
    let sessions: Vec<String> = (0..2).map(|_| open().headers()["mcp-session-id"].to_str().unwrap().to_owned()).collect();
    let refused = open();
    assert_eq!(refused.status(), 429);
    assert!(first_message(refused)["error"].as_str().unwrap().contains("mcp.sessions_max"));
    let end = |session: &str| agent().delete(format!("{}/mcp", server.url())).header("mcp-session-id", session).call().unwrap();
    assert!(end(&sessions[0]).status().is_success());
    assert_eq!(eventually("room for a session", || Some(open().status()).filter(|status| *status == 200)), 200);
}

#[test]
fn other_hosts_are_allowed_by_configuration_alone() {
    let (server, keys) = guarded(&["query"]);
    let ask = |server: &Server, host: &str| {
        let key = format!("Bearer {}", keys[0]);
        post_mcp(server, &[("authorization", &key), ("host", host)], &initialize("2025-06-18")).status().as_u16()
    };
    assert_eq!((ask(&server, "localhost"), ask(&server, "pml.example.com")), (200, 403));
    let mut server = server;
    server.restart_with(&[("MCP__ALLOWED_HOSTS", "['pml.example.com']")]);
    assert_eq!((ask(&server, "pml.example.com"), ask(&server, "evil.example.com")), (200, 403));
}
