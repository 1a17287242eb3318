//! Vectors as facts: every text gets one, once per model, whatever happens to the actor, and a change of model is one moment.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::run::{event, whole};
use crate::server::{Server, eventually};

fn tool(id: &str, description: &str) -> Value {
    let (server, name) = id.split_once(':').unwrap();
    event("tool.registered", json!({"tool": id, "server": server, "name": name, "description": description}))
}

/// How often each text was embedded by each model.
fn embedded(server: &Server) -> BTreeMap<(String, String), usize> {
    let mut times = BTreeMap::new();
    for record in server.records().iter().filter(|record| record["type"] == "pml.embedding.computed") {
        let text = |name: &str| record["data"][name].as_str().unwrap().to_owned();
        *times.entry((text("model"), text("text_hash"))).or_default() += 1;
    }
    times
}

#[test]
fn every_text_is_embedded_once() {
    let server = Server::with(&[("TEMPLATES__PATH", "")]);
    server.accept(&json!([tool("fs:read", "Read a file"), tool("fs:write", "Write a file")]));
    server.accept(&whole("e1"));
    server.accept(&whole("e2"));
    let state = server.settled_state();
    // Two tools, one intent, one capability.
    assert_eq!((&state["texts"], &state["intents"]), (&json!(4), &json!(1)));
    let times = embedded(&server);
    assert_eq!((times.len(), times.values().all(|times| *times == 1)), (4, true), "{times:?}");
    server.accept(&tool("fs:read", "Read a file of any size"));
    assert_eq!(server.settled_state()["texts"], 4, "the old text is not wanted any more");
    assert_eq!(embedded(&server).len(), 5);
}

#[test]
fn another_model_serves_from_the_record_with_which_it_has_everything() {
    let models = std::env::var("PML_TEST_MODELS").expect("PML_TEST_MODELS names the ONNX models; run scripts/test");
    let mut server = Server::with(&[("TEMPLATES__PATH", "")]);
    server.accept(&json!([tool("fs:read", "Read a file"), tool("web:shot", "Take a picture of a page")]));
    server.accept(&whole("e1"));
    let before = server.settled_state()["embedding_model"].clone();
    server.restart_with(&[("EMBEDDING__EMBEDDER", "onnx"), ("EMBEDDING__MODEL_DIR", &format!("{models}/minilm"))]);
    let after = eventually("the other model to take over", || {
        let state = server.settled_state();
        Some(state["embedding_model"].clone()).filter(|model| *model != before)
    });
    assert!(after.as_str().unwrap().starts_with("minilm"), "{after}");
    let times = embedded(&server);
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    let by = |model: &Value| times.keys().filter(|(by, _)| model == by).count();
    assert_eq!((by(&before), by(&after)), (4, 4));
    let answer = eventually("the index to take the other model", || {
        let answer = server.question("/v1/discover", &json!({"intent": "screenshot of a website"})).json();
        Some(answer).filter(|answer| answer["results"][0]["signals"]["dense"].as_f64() > Some(0.0))
    });
    assert_eq!(answer["results"][0]["id"], "web:shot");
}
