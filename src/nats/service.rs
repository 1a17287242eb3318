//! Questions over NATS (`pml.<ws>.q.<question>`), as a NATS service: `nats micro ls` finds it, `nats req` asks it. Every process with
//! the query role joins one queue group, so each question is answered once, by any of them.
//!
//! A question carries a JSON object with the same names as the query of the HTTP route, or nothing. Adding a question is a line in
//! `QUESTIONS`.

use async_nats::service::endpoint::Endpoint;
use async_nats::service::{self, ServiceExt, error::Error};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::Nats;
use crate::actors::graph_sync::Views;
use crate::ask::models::models;
use crate::ask::{AskError, Asker};
use crate::gateway::answers::{self, Refused, question};

/// What answers rest on.
#[derive(Clone)]
struct Known {
    views: Views,
    asker: Asker,
}

type Answer = fn(&Known, &Value) -> Result<Value, Refused>;

/// What can be asked.
const QUESTIONS: [(&str, Answer); 10] = [
    ("discover", |known, asked| Ok(json!(known.asker.discover(question(asked)?)?))),
    ("predict", |known, asked| Ok(json!(known.asker.predict(question(asked)?)?))),
    ("explain", |known, asked| Ok(json!(known.asker.explain(question(asked)?)?))),
    ("models", |known, _| Ok(json!(models(&known.views.current())))),
    ("search_tools", |known, asked| Ok(json!(known.asker.search_tools(question(asked)?)?))),
    ("search_capabilities", |known, asked| Ok(json!(known.asker.search_capabilities(question(asked)?)?))),
    ("tools", |known, asked| answers::tools(&known.views.current(), &question(asked)?)),
    ("capabilities", |known, asked| answers::capabilities(&known.views.current(), &question(asked)?)),
    ("graph", |known, asked| answers::graph(&known.views.current(), &question(asked)?)),
    ("state", |known, _| Ok(answers::state(&known.views.current()))),
];

/// Questions answered at the same time by one endpoint.
const ANSWERS_UNDER_WAY: usize = 16;

/// Answers questions until it is stopped.
pub(crate) struct Service {
    running: service::Service,
    endpoints: Vec<tokio::task::JoinHandle<()>>,
}

impl Service {
    pub(crate) async fn start(nats: &Nats, views: &Views, asker: &Asker) -> Result<Self, async_nats::Error> {
        let client = nats.client().clone();
        let starting = nats.run(async move {
            let builder = client.service_builder().description("pml: procedural memory for AI agents");
            builder.start("pml", env!("CARGO_PKG_VERSION")).await
        });
        let running = starting.await?;
        let known = Known { views: views.clone(), asker: asker.clone() };
        let mut endpoints = Vec::new();
        for (question, answer) in QUESTIONS {
            let subject = nats.subjects().question(question);
            let endpoint = running.endpoint_builder().name(question).add(subject.as_str()).await?;
            endpoints.push(nats.spawn(serve(endpoint, answer, known.clone())));
        }
        Ok(Self { running, endpoints })
    }

    /// Leaves the queue group, so that no question waits for an answer that does not come.
    pub(crate) async fn stop(self) {
        if let Err(error) = self.running.stop().await {
            tracing::debug!(%error, "the NATS service had ended");
        }
        for endpoint in self.endpoints {
            endpoint.abort();
        }
    }
}

async fn serve(endpoint: Endpoint, answer: Answer, known: Known) {
    let answering = endpoint.map(|request| {
        let known = known.clone();
        async move {
            let answer = tokio::task::spawn_blocking({
                let payload = request.message.payload.clone();
                move || respond(&payload, answer, &known)
            });
            let answer = answer.await.unwrap_or_else(|_| Err(problem(500, "answering failed".to_owned())));
            if let Err(error) = request.respond(answer).await {
                tracing::debug!(%error, "an answer was not sent");
            }
        }
    });
    answering.buffer_unordered(ANSWERS_UNDER_WAY).for_each(|()| std::future::ready(())).await;
}

fn respond(payload: &[u8], answer: Answer, known: &Known) -> Result<Bytes, Error> {
    let asked = if payload.trim_ascii().is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(payload).map_err(|error| problem(400, format!("the question is not JSON: {error}")))?
    };
    match answer(known, &asked) {
        Ok(answer) => Ok(answer.to_string().into()),
        Err(Refused { field, problem: text }) => Err(problem(400, format!("{field}: {text}"))),
    }
}

impl From<AskError> for Refused {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Invalid { field, problem } => Self { field, problem },
            AskError::Embed(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a question cannot be embedded");
                Self { field: "intent", problem: "cannot be embedded".to_owned() }
            }
        }
    }
}

fn problem(code: usize, status: String) -> Error {
    Error { code, status }
}
