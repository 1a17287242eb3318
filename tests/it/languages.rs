//! Intents and tools in other languages than English, with the built-in embedder, which knows English only: found by their words and by
//! what past runs did.

use serde_json::{Value, json};

use crate::run::event;
use crate::server::{Server, eventually};

/// Tools with descriptions in French, German, Spanish and Chinese.
const TOOLS: [(&str, &str); 5] = [
    ("voyage:reserver", "R\u{e9}serve un billet de train ou un vol"),
    ("fichier:compresser", "Compresse les fichiers d'un dossier dans une archive"),
    ("bank:ueberweisen", "\u{dc}berweist Geld auf ein anderes Konto"),
    ("correo:enviar", "Env\u{ed}a un mensaje a una direcci\u{f3}n de correo electr\u{f3}nico"),
    ("mail:fasong", "\u{53d1}\u{9001}\u{7535}\u{5b50}\u{90ae}\u{4ef6}\u{7ed9}\u{8054}\u{7cfb}\u{4eba}"),
];

/// What people ask, and the tool that does it.
const ASKED: [(&str, &str); 5] = [
    ("reserver un vol pour Lyon", "voyage:reserver"),
    ("compresser tous les fichiers", "fichier:compresser"),
    ("Geld auf das Konto meiner Schwester \u{fc}berweisen", "bank:ueberweisen"),
    ("enviar un mensaje de correo electronico", "correo:enviar"),
    ("\u{53d1}\u{4e00}\u{5c01}\u{90ae}\u{4ef6}", "mail:fasong"),
];

#[test]
fn tools_are_found_in_the_language_that_they_are_described_in() {
    let server = Server::start();
    let registered =
        TOOLS.map(|(tool, description)| event("tool.registered", json!({"tool": tool, "description": description})));
    server.accept(&json!(registered));
    server.settled_state();
    for (intent, tool) in ASKED {
        eventually(&format!("{intent}: {tool}"), || {
            let answer = server.question("/v1/discover", &json!({"intent": intent, "limit": 3})).json();
            (answer["results"][0]["id"] == tool).then_some(())
        });
    }
}

#[test]
fn a_plan_is_learnt_from_runs_in_french_and_suggested_for_a_similar_intent() {
    let server = Server::start();
    for number in 0..6 {
        let document = json!({
            "execution": format!("fr-{number}"), "intent": "R\u{e9}serve un vol pour Lyon et envoie le billet au client",
            "steps": [{"tool": "voyage:reserver"}, {"tool": "courrier:envoyer", "depends_on": ["s1"]}],
        });
        assert_eq!(server.question("/v1/executions", &document).status, 202);
    }
    server.settled_state();
    let question = json!({"intent": "Reserve un vol pour Nice et envoie le billet", "context": ["voyage:reserver"]});
    let answer = server.question("/v1/predict", &question).json();
    assert_eq!(answer["ranked"][0]["item"], "courrier:envoyer", "{answer}");
    let plan = server.question("/v1/suggest", &json!({"intent": "Reserve un vol pour Nice et envoie le billet"})).json();
    let tools: Vec<&Value> = plan["plan"]["tasks"].as_array().unwrap().iter().map(|task| &task["tool"]).collect();
    assert_eq!(tools, ["voyage:reserver", "courrier:envoyer"], "{plan}");
}
