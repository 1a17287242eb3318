//! `/v1/execute`: starts, follows, continues and ends runs of workflows.

use std::sync::Arc;

use actix_web::http::header::ACCEPT;
use actix_web::web::{Bytes, Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use futures_util::stream::{self, Stream};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error::ApiError;
use super::input::{Json, Query};
use super::stream::{HEARTBEAT, OpenStream, until_closing};
use super::{Gateway, auth};
use crate::config::Scope;
use crate::core::id::{ExecutionId, StepId};
use crate::execute::dto::RunDto;
use crate::execute::{AbortRequest, Begun, ContinueRequest, ExecuteRequest, RunState, Runner, parse};

/// Largest result that is part of an answer, in bytes of JSON; a larger one is fetched in pieces.
const RESULT_BYTES_MAX: usize = 256 << 10;
/// Bytes of a piece of a result, unless the request says otherwise, and at most.
const PAGE_BYTES: usize = 64 << 10;
const PAGE_BYTES_MAX: usize = 1 << 20;

pub(super) async fn start(
    request: HttpRequest,
    body: Json<ExecuteRequest>,
    gateway: Data<Gateway>,
) -> Result<HttpResponse, ApiError> {
    let body = body.into_inner().0;
    check_approval(&request, &gateway, body.approved)?;
    let wait = body.wait;
    match gateway.runner.begin(body).await? {
        Begun::Run(run) => answer(&request, &gateway, run, wait).await,
        Begun::Incomplete(plan) if follows(&request) => {
            Ok(HttpResponse::Ok().content_type("text/event-stream").body(sse("done", &plan.to_json())))
        }
        Begun::Incomplete(plan) => Ok(HttpResponse::Ok().json(plan.to_json())),
    }
}

pub(super) async fn go_on(
    request: HttpRequest,
    body: Json<ContinueRequest>,
    gateway: Data<Gateway>,
) -> Result<HttpResponse, ApiError> {
    check_approval(&request, &gateway, body.token.is_some())?;
    let run = gateway.runner.go_on(&body)?;
    answer(&request, &gateway, run, body.wait).await
}

/// Fails if the request approves calls and its key may not: whoever runs a workflow need not be who approves it.
fn check_approval(request: &HttpRequest, gateway: &Gateway, approves: bool) -> Result<(), ApiError> {
    if approves && !auth::has_scope(request, &gateway.settings.keys, Scope::Approve) {
        return Err(ApiError::Scope(Scope::Approve));
    }
    Ok(())
}

pub(super) async fn abort(body: Json<AbortRequest>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let status = gateway.runner.abort(&parse("run", &body.run)?).await?;
    Ok(HttpResponse::Ok().json(RunDto::new(&status, &gateway.runner, RESULT_BYTES_MAX)))
}

pub(super) async fn list(gateway: Data<Gateway>) -> HttpResponse {
    let mut runs = gateway.runner.runs();
    for run in &mut runs {
        // Whoever asks for the list need not be who sent the intents.
        gateway.publisher.limits().redactor.clean(&mut Arc::make_mut(run).intent);
    }
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
    if follows(request) {
        let open = OpenStream::register(gateway)?;
        let events = progress(gateway.runner.clone(), &run, open)?;
        return Ok(HttpResponse::Ok()
            .content_type("text/event-stream")
            .insert_header(("cache-control", "no-cache"))
            .streaming(until_closing(events, gateway)));
    }
    let status = gateway.runner.answered(&run, wait).await?;
    let mut response = if status.state == RunState::Running { HttpResponse::Accepted() } else { HttpResponse::Ok() };
    Ok(response.json(RunDto::new(&status, &gateway.runner, RESULT_BYTES_MAX)))
}

/// Whether the answer is a stream of progress.
fn follows(request: &HttpRequest) -> bool {
    let accepts = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepts.contains("text/event-stream")
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

fn sse(event: &str, run: &impl Serialize) -> Bytes {
    // One line: JSON as pml prints it has no line breaks.
    format!("event: {event}\ndata: {}\n\n", json!(run)).into()
}
