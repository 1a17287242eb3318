//! The NATS service that runs workflows (`pml.<ws>.run.<request>`). The subjects are not among the questions, so that a permission to ask
//! is none to execute; approving has a subject of its own for the same reason. Only the process that holds the lease of the role `upstream`
//! joins, so every request reaches the one that can execute it.

use std::pin::Pin;
use std::sync::Arc;

use async_nats::service::endpoint::Endpoint;
use async_nats::service::{ServiceExt, error::Error};
use bytes::Bytes;
use futures_util::StreamExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::service::problem;
use crate::core::id::{ExecutionId, StepId};
use crate::execute::dto::RunDto;
use crate::execute::{AbortRequest, Begun, ContinueRequest, ExecuteRequest, RunError, RunStatus, Runner, parse};
use crate::nats::Nats;

/// What the service is built from.
pub(crate) struct RunsParts {
    pub(crate) nats: Nats,
    pub(crate) runner: Runner,
    pub(crate) stop: watch::Receiver<bool>,
}

type Answering = Pin<Box<dyn Future<Output = Result<Value, RunError>> + Send>>;
type Handler = fn(Answerer, Value) -> Answering;

/// The requests, each with what answers it.
const REQUESTS: [(&str, Handler); 5] = [
    ("execute", |answerer, asked| Box::pin(async move { answerer.execute(read(asked)?).await })),
    ("continue", |answerer, asked| Box::pin(async move { answerer.resume(&read(asked)?).await })),
    ("approve", |answerer, asked| Box::pin(async move { answerer.approve(&read(asked)?).await })),
    ("abort", |answerer, asked| Box::pin(async move { answerer.abort(&read(asked)?).await })),
    ("show", |answerer, asked| Box::pin(async move { answerer.show(&read(asked)?) })),
];
/// Requests answered at the same time by one endpoint; runs are limited by the runner.
const CONCURRENT_ANSWERS_MAX: usize = 256;

/// Asks for a run as it is, or for a piece of the result of one of its tasks.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShowRequest {
    run: String,
    task: Option<String>,
    #[serde(default)]
    offset: usize,
}

/// Answers requests until `stop`.
pub(crate) async fn run(parts: RunsParts) {
    let RunsParts { nats, runner, mut stop } = parts;
    let bytes_max = nats.client().server_info().max_payload / 2;
    let serving = async {
        let builder = nats.client().service_builder().description("pml: runs workflows on MCP servers");
        let service = builder.start("pml-runs", env!("CARGO_PKG_VERSION")).await?;
        let mut endpoints = Vec::new();
        for (name, handler) in REQUESTS {
            let endpoint = service.endpoint_builder().name(name).add(nats.subjects().run(name).as_str()).await?;
            endpoints.push(serve(endpoint, handler, Answerer { runner: runner.clone(), bytes_max }));
        }
        tokio::select! {
            _ = futures_util::future::join_all(endpoints) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        // Leaves the queue group, so that no request is sent to a process that does not answer it.
        service.stop().await
    };
    if let Err(error) = serving.await {
        tracing::error!(%error, "workflows cannot be run over NATS");
    }
}

async fn serve(endpoint: Endpoint, handler: Handler, answerer: Answerer) {
    let answering = endpoint.map(|request| {
        let answerer = answerer.clone();
        async move {
            let answer = respond(&request.message.payload, handler, answerer).await;
            if let Err(error) = request.respond(answer).await {
                tracing::debug!(%error, "the answer to a request was not sent");
            }
        }
    });
    answering.buffer_unordered(CONCURRENT_ANSWERS_MAX).for_each(|()| std::future::ready(())).await;
}

async fn respond(payload: &[u8], handler: Handler, answerer: Answerer) -> Result<Bytes, Error> {
    let asked: Value = serde_json::from_slice(payload)
        .map_err(|error| problem(400, format!("the request is not JSON: {error}"), answerer.runner.redactor()))?;
    let runner = answerer.runner.clone();
    match handler(answerer, asked).await {
        Ok(answer) => Ok(answer.to_string().into()),
        Err(error) => Err(problem(error.status().into(), error.to_string(), runner.redactor())),
    }
}

fn read<T: DeserializeOwned>(asked: Value) -> Result<T, RunError> {
    serde_json::from_value(asked).map_err(|error| RunError::Request { field: "request", problem: error.to_string() })
}

#[derive(Clone)]
struct Answerer {
    runner: Runner,
    /// Bytes of results in one answer, all tasks together; the rest of a message is for their names and states.
    bytes_max: usize,
}

impl Answerer {
    async fn execute(&self, request: ExecuteRequest) -> Result<Value, RunError> {
        if request.approved {
            let problem = "is not taken over NATS; send the token to the subject run.approve".to_owned();
            return Err(RunError::Request { field: "approved", problem });
        }
        let wait = request.wait;
        match self.runner.begin(request).await? {
            Begun::Run(run) => self.answered(&run, wait).await,
            Begun::Incomplete(plan) => Ok(plan.to_json()),
        }
    }

    async fn resume(&self, request: &ContinueRequest) -> Result<Value, RunError> {
        if request.token.is_some() {
            let problem = "is not taken here; send it to the subject run.approve".to_owned();
            return Err(RunError::Request { field: "token", problem });
        }
        self.answered(&self.runner.go_on(request)?, request.wait).await
    }

    async fn approve(&self, request: &ContinueRequest) -> Result<Value, RunError> {
        if request.run.is_some() {
            let problem = "is not taken here; send it to the subject run.continue".to_owned();
            return Err(RunError::Request { field: "run", problem });
        }
        self.answered(&self.runner.go_on(request)?, request.wait).await
    }

    async fn abort(&self, request: &AbortRequest) -> Result<Value, RunError> {
        Ok(self.shown(&self.runner.abort(&parse("run", &request.run)?).await?))
    }

    fn show(&self, request: &ShowRequest) -> Result<Value, RunError> {
        let run: ExecutionId = parse("run", &request.run)?;
        let Some(task) = &request.task else { return Ok(self.shown(&self.runner.status(&run)?)) };
        let task: StepId = parse("task", task)?;
        // A text of JSON is at most twice as long inside JSON, since it has no control characters.
        let page = self.runner.result_page(&run, &task, request.offset, self.bytes_max / 2)?;
        Ok(json!({"text": page.text, "next": page.next, "total": page.total}))
    }

    async fn answered(&self, run: &ExecutionId, wait: bool) -> Result<Value, RunError> {
        Ok(self.shown(&self.runner.answered(run, wait).await?))
    }

    fn shown(&self, status: &Arc<RunStatus>) -> Value {
        json!(RunDto::new(status, &self.runner, self.bytes_max / status.tasks.len().max(1)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_schema_and_the_documentation_list_the_requests() {
        let document: Value = serde_saphyr::from_str(include_str!("../../../schemas/asyncapi.yaml")).unwrap();
        let listed = document["channels"]["run"]["parameters"]["request"]["enum"].as_array().unwrap();
        let listed: BTreeSet<&str> = listed.iter().filter_map(Value::as_str).collect();
        assert_eq!(listed, REQUESTS.iter().map(|(name, _)| *name).collect());
        let table = include_str!("../../../docs/nats.md").lines().find(|line| line.contains("run.<request>")).unwrap();
        for (name, _) in REQUESTS {
            assert!(table.contains(name), "docs/nats.md: '{name}' is not in the table of subjects");
        }
    }
}
