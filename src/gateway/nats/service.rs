//! The NATS service that answers questions (`pml.<ws>.q.<question>`); `nats micro ls` lists it, `nats req` sends a question. All processes
//! with the query role join one queue group, so each question is answered by one of them.
//!
//! The payload of a question is empty or a JSON object with the same names as the query of the HTTP route. A new question is a line
//! in `QUESTIONS`.

use async_nats::service::endpoint::Endpoint;
use async_nats::service::{self, ServiceExt, error::Error};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::ask::Asker;
use crate::ask::catalogue::{self, GraphQuery, Refused, question};
use crate::ask::models::models;
use crate::ask::quality::quality;
use crate::ask::related::RelatedQuery;
use crate::core::redact::Redactor;
use crate::nats::Nats;
use crate::views::Views;

/// What the questions are answered from.
#[derive(Clone)]
struct AnswerContext {
    views: Views,
    asker: Asker,
    /// The longest message that the NATS server carries.
    answer_bytes_max: usize,
    redactor: Redactor,
}

type Answer = fn(&AnswerContext, &Value) -> Result<Value, Refused>;

/// The questions, each with the function that answers it.
const QUESTIONS: [(&str, Answer); 17] = [
    ("discover", |context, asked| Ok(json!(context.asker.discover(question(asked)?)?))),
    ("predict", |context, asked| Ok(json!(context.asker.predict(question(asked)?)?))),
    ("score", |context, asked| Ok(json!(context.asker.score(question(asked)?)?))),
    ("suggest", |context, asked| Ok(json!(context.asker.suggest(question(asked)?)?))),
    ("speculate", |context, asked| Ok(json!(context.asker.speculate(question(asked)?)?))),
    ("explain", |context, asked| Ok(json!(context.asker.explain(question(asked)?)?))),
    ("related", |context, asked| {
        let query = present(question::<RelatedQuery>(asked)?, |query| query.at.is_some())?;
        Ok(json!(context.asker.related(&query)?))
    }),
    ("trace", |context, asked| catalogue::trace(&context.views.current(), &question(asked)?)),
    ("executions", |context, asked| catalogue::executions(&context.views.current(), &question(asked)?)),
    ("quality", |context, asked| Ok(json!(quality(&context.views.current(), &question(asked)?)?))),
    ("models", |context, _| Ok(json!(models(&context.views.current(), None)))),
    ("search_tools", |context, asked| Ok(json!(context.asker.search_tools(question(asked)?)?))),
    ("search_capabilities", |context, asked| Ok(json!(context.asker.search_capabilities(question(asked)?)?))),
    ("tools", |context, asked| catalogue::tools(&context.views.current(), &question(asked)?)),
    ("capabilities", |context, asked| catalogue::capabilities(&context.views.current(), &question(asked)?)),
    ("graph", |context, asked| context.asker.graph(&present(question::<GraphQuery>(asked)?, |query| query.at.is_some())?)),
    ("state", |context, _| Ok(catalogue::state(&context.views.current()))),
];

/// Refuses a question about the past, which only HTTP answers.
fn present<Q>(query: Q, is_past: fn(&Q) -> bool) -> Result<Q, Refused> {
    if is_past(&query) { Err(Refused::invalid("at", "is answered over HTTP only")) } else { Ok(query) }
}

/// Most questions answered at the same time by one endpoint.
const CONCURRENT_ANSWERS_MAX: usize = 16;

/// The running service.
pub(crate) struct Service {
    running: service::Service,
    endpoints: Vec<tokio::task::JoinHandle<()>>,
}

impl Service {
    /// Starts answering questions.
    pub(crate) async fn start(
        nats: &Nats,
        views: &Views,
        asker: &Asker,
        redactor: &Redactor,
    ) -> Result<Self, async_nats::Error> {
        let client = nats.client().clone();
        let starting = nats.run(async move {
            let builder = client.service_builder().description("pml: procedural memory for AI agents");
            builder.start("pml", env!("CARGO_PKG_VERSION")).await
        });
        let running = starting.await?;
        let answer_bytes_max = nats.client().server_info().max_payload;
        let context =
            AnswerContext { views: views.clone(), asker: asker.clone(), answer_bytes_max, redactor: redactor.clone() };
        let mut endpoints = Vec::new();
        for (question, answer) in QUESTIONS {
            let subject = nats.subjects().question(question);
            let endpoint = running.endpoint_builder().name(question).add(subject.as_str()).await?;
            endpoints.push(nats.spawn(serve(endpoint, answer, context.clone())));
        }
        Ok(Self { running, endpoints })
    }

    /// Leaves the queue group, so that no question is sent to a process that does not answer it, and ends.
    pub(crate) async fn stop(self) {
        if let Err(error) = self.running.stop().await {
            tracing::debug!(%error, "the NATS service had ended");
        }
        for endpoint in self.endpoints {
            endpoint.abort();
        }
    }
}

async fn serve(endpoint: Endpoint, answer: Answer, context: AnswerContext) {
    let answering = endpoint.map(|request| {
        let context = context.clone();
        async move {
            let answer = tokio::task::spawn_blocking({
                let payload = request.message.payload.clone();
                move || respond(&payload, answer, &context)
            });
            let answer = answer.await.unwrap_or_else(|_| Err(Error { code: 500, status: "answering failed".to_owned() }));
            if let Err(error) = request.respond(answer).await {
                tracing::debug!(%error, "the answer to a question was not sent");
            }
        }
    });
    answering.buffer_unordered(CONCURRENT_ANSWERS_MAX).for_each(|()| std::future::ready(())).await;
}

fn respond(payload: &[u8], answer: Answer, context: &AnswerContext) -> Result<Bytes, Error> {
    let asked = if payload.trim_ascii().is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(payload)
            .map_err(|error| problem(400, format!("the question is not JSON: {error}"), &context.redactor))?
    };
    match answer(context, &asked) {
        Ok(answer) => {
            let (answer, max) = (answer.to_string(), context.answer_bytes_max);
            // The server would drop it, and whoever asked would wait in vain.
            if answer.len() > max {
                let said = format!(
                    "the answer is {} bytes long, this NATS server carries {max}; ask for less, or over HTTP",
                    answer.len()
                );
                return Err(problem(413, said, &context.redactor));
            }
            Ok(answer.into())
        }
        Err(Refused { field, problem: text, is_unknown }) => {
            Err(problem(if is_unknown { 404 } else { 400 }, format!("{field}: {text}"), &context.redactor))
        }
    }
}

pub(super) fn problem(code: usize, mut status: String, redactor: &Redactor) -> Error {
    // The text may quote the question.
    redactor.clean(&mut status);
    Error { code, status }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_schema_and_the_documentation_list_the_questions() {
        let document: Value = serde_saphyr::from_str(include_str!("../../../schemas/asyncapi.yaml")).unwrap();
        let listed = document["channels"]["question"]["parameters"]["question"]["enum"].as_array().unwrap();
        let listed: BTreeSet<&str> = listed.iter().filter_map(Value::as_str).collect();
        assert_eq!(listed, QUESTIONS.iter().map(|(name, _)| *name).collect());
        let table = include_str!("../../../docs/nats.md").lines().find(|line| line.contains("q.<question>")).unwrap();
        for (name, _) in QUESTIONS {
            assert!(table.contains(name), "docs/nats.md: '{name}' is not in the table of subjects");
        }
    }
}
