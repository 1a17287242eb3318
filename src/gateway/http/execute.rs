//! `/v1/execute`: starts, follows, continues and ends runs of workflows.

use actix_web::http::header::ACCEPT;
use actix_web::web::{Bytes, Data, Json, Path, Query};
use actix_web::{HttpRequest, HttpResponse};
use futures_util::stream::{self, Stream};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Gateway;
use super::error::ApiError;
use super::stream::{HEARTBEAT, OpenStream};
use crate::core::id::{ExecutionId, StepId};
use crate::core::workflow::Workflow;
use crate::execute::dto::RunDto;
use crate::execute::{Program, RunError, RunOptions, RunState, Runner, Work};

/// Largest result that is part of an answer, in bytes of JSON; a larger one is fetched in pieces.
const RESULT_BYTES_MAX: usize = 256 << 10;
/// Bytes of a piece of a result, unless the request says otherwise, and at most.
const PAGE_BYTES: usize = 64 << 10;
const PAGE_BYTES_MAX: usize = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecuteBody {
    /// The tasks, as an object with the member `tasks`.
    workflow: Option<Value>,
    /// Instead of a workflow: a program in TypeScript.
    code: Option<String>,
    /// Instead of a workflow: a capability by name or id.
    capability: Option<String>,
    /// The arguments of the program or capability.
    #[serde(default)]
    arguments: Map<String, Value>,
    intent: Option<String>,
    session: Option<String>,
    agent: Option<String>,
    /// Approves all calls beforehand.
    #[serde(default)]
    approved: bool,
    /// An earlier run whose finished tasks are taken over.
    reuse: Option<String>,
    /// Whether the answer waits for the end of the run.
    #[serde(default = "yes")]
    wait: bool,
}

fn yes() -> bool {
    true
}

pub(super) async fn start(
    request: HttpRequest,
    body: Json<ExecuteBody>,
    gateway: Data<Gateway>,
) -> Result<HttpResponse, ApiError> {
    let body = body.into_inner();
    let (work, words) = work(&body, &gateway)?;
    let options = RunOptions {
        intent: body.intent.or(words),
        session: parsed("session", body.session)?,
        agent: body.agent,
        approved: body.approved,
        reuse: parsed("reuse", body.reuse)?,
        within: None,
    };
    let run = gateway.runner.start(work, options)?;
    answer(&request, &gateway, run, body.wait).await
}

/// What is to be run, and what a capability is for in words.
fn work(body: &ExecuteBody, gateway: &Gateway) -> Result<(Work, Option<String>), ApiError> {
    match (&body.workflow, &body.code, &body.capability) {
        (Some(workflow), None, None) => {
            let limit = gateway.publisher.limits().steps_max;
            Ok((Workflow::from_json(workflow, limit).map_err(RunError::from)?.into(), None))
        }
        (None, Some(code), None) => Ok((Program::read(code.clone(), body.arguments.clone())?.into(), None)),
        (None, None, Some(name)) => {
            let (work, words) = Work::capability(&gateway.views.current(), name, &body.arguments)?;
            Ok((work, Some(words)))
        }
        _ => {
            let problem = "give a workflow, code or a capability, one of them".to_owned();
            Err(ApiError::BadRequest { field: "workflow", problem })
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContinueBody {
    /// Approves what the run waits for.
    token: Option<String>,
    /// Resumes this interrupted or failed run.
    run: Option<String>,
    #[serde(default = "yes")]
    wait: bool,
}

pub(super) async fn go_on(
    request: HttpRequest,
    body: Json<ContinueBody>,
    gateway: Data<Gateway>,
) -> Result<HttpResponse, ApiError> {
    let run = match (&body.token, &body.run) {
        (Some(token), None) => gateway.runner.approve(token)?,
        (None, Some(run)) => gateway.runner.resume(&parse("run", run)?)?,
        _ => return Err(ApiError::BadRequest { field: "token", problem: "give a token or a run, one of them".to_owned() }),
    };
    answer(&request, &gateway, run, body.wait).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AbortBody {
    run: String,
}

pub(super) async fn abort(body: Json<AbortBody>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let status = gateway.runner.abort(&parse("run", &body.run)?).await?;
    Ok(HttpResponse::Ok().json(RunDto::new(&status, &gateway.runner, RESULT_BYTES_MAX)))
}

pub(super) async fn list(gateway: Data<Gateway>) -> HttpResponse {
    let runs = gateway.runner.runs();
    let runs: Vec<RunDto> = runs.iter().map(|status| RunDto::new(status, &gateway.runner, 0)).collect();
    HttpResponse::Ok().json(json!({"runs": runs}))
}

pub(super) async fn show(path: Path<String>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let status = gateway.runner.status(&parse("run", &path)?)?;
    Ok(HttpResponse::Ok().json(RunDto::new(&status, &gateway.runner, RESULT_BYTES_MAX)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
}

/// A piece of the result of one task, as text of JSON.
pub(super) async fn result(
    path: Path<(String, String)>,
    query: Query<PageQuery>,
    gateway: Data<Gateway>,
) -> Result<HttpResponse, ApiError> {
    let (run, task): (ExecutionId, StepId) = (parse("run", &path.0)?, parse("task", &path.1)?);
    let limit = query.limit.unwrap_or(PAGE_BYTES);
    if !(1..=PAGE_BYTES_MAX).contains(&limit) {
        let problem = format!("is {limit}, it must be from 1 to {PAGE_BYTES_MAX}");
        return Err(ApiError::BadRequest { field: "limit", problem });
    }
    let page = gateway.runner.result_page(&run, &task, query.offset, limit)?;
    Ok(HttpResponse::Ok().json(json!({"text": page.text, "next": page.next, "total": page.total})))
}

/// Answers with the run: as a stream of its progress, at its end, or at once.
async fn answer(
    request: &HttpRequest,
    gateway: &Data<Gateway>,
    run: ExecutionId,
    wait: bool,
) -> Result<HttpResponse, ApiError> {
    let accepts = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/event-stream") {
        let open = OpenStream::register(gateway)?;
        let events = progress(gateway.runner.clone(), &run, open)?;
        return Ok(HttpResponse::Ok()
            .content_type("text/event-stream")
            .insert_header(("cache-control", "no-cache"))
            .streaming(events));
    }
    let status = if wait { gateway.runner.wait(&run).await? } else { gateway.runner.status(&run)? };
    let mut response = if status.state == RunState::Running { HttpResponse::Accepted() } else { HttpResponse::Ok() };
    Ok(response.json(RunDto::new(&status, &gateway.runner, RESULT_BYTES_MAX)))
}

/// The changes of a run's status as events `progress`, and its end, with results, as `done`.
fn progress(
    runner: Runner,
    run: &ExecutionId,
    open: OpenStream,
) -> Result<impl Stream<Item = Result<Bytes, ApiError>> + use<>, ApiError> {
    let mut changes = runner.progress(run)?;
    changes.mark_changed();
    Ok(stream::unfold(Some((runner, changes, open)), |following| async {
        let (runner, mut changes, open) = following?;
        match tokio::time::timeout(HEARTBEAT, changes.changed()).await {
            Err(_) => return Some((Ok(Bytes::from_static(b": waiting\n\n")), Some((runner, changes, open)))),
            Ok(Err(_)) => return None,
            Ok(Ok(())) => {}
        }
        let status = std::sync::Arc::clone(&changes.borrow_and_update());
        if status.state == RunState::Running {
            let event = sse("progress", &RunDto::new(&status, &runner, 0));
            return Some((Ok(event), Some((runner, changes, open))));
        }
        Some((Ok(sse("done", &RunDto::new(&status, &runner, RESULT_BYTES_MAX))), None))
    }))
}

fn sse(event: &str, run: &RunDto) -> Bytes {
    // One line: JSON as pml prints it has no line breaks.
    format!("event: {event}\ndata: {}\n\n", json!(run)).into()
}

fn parse<T>(field: &'static str, text: &str) -> Result<T, ApiError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|problem: T::Err| ApiError::BadRequest { field, problem: problem.to_string() })
}

fn parsed<T>(field: &'static str, text: Option<String>) -> Result<Option<T>, ApiError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.map(|text| parse(field, &text)).transpose()
}
