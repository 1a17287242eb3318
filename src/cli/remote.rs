//! HTTP client for a running server.

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use serde_json::Value;
use ureq::{Agent, Body, http::Response};

use super::LogLocation;
use crate::config::Config;

/// Pause before a request that met back-pressure is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Attempts per request.
const RETRIES_MAX: u32 = 60;

/// The server cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("cannot reach {url} ({problem}); start a server with `pml serve`, or name another with --url")]
pub(super) struct Unreachable {
    url: String,
    problem: String,
}

impl Unreachable {
    pub(super) fn new(url: &str, error: &ureq::Error) -> Self {
        Self { url: url.to_owned(), problem: error.to_string() }
    }
}

/// `Remote` sends requests to one server.
pub(super) struct Remote {
    agent: Agent,
    base: String,
    key: Option<String>,
}

impl Remote {
    pub(super) fn new(location: &LogLocation, config: &Config) -> Self {
        let base = location.url.clone().unwrap_or_else(|| format!("http://{}", config.http.listen));
        let agent = Agent::config_builder().http_status_as_error(false).timeout_connect(Some(Duration::from_secs(5))).build();
        Self { agent: agent.into(), base: base.trim_end_matches('/').to_owned(), key: location.key.clone() }
    }

    pub(super) fn url(&self) -> &str {
        &self.base
    }

    /// Gets a JSON answer; any status but success is an error.
    pub(super) fn get(&self, path: &str) -> anyhow::Result<Value> {
        read_json(self.send_get(path, "application/json")?)
    }

    /// Posts a question and returns the answer; any status but 200 is an error.
    pub(super) fn ask(&self, path: &str, question: &Value) -> anyhow::Result<Value> {
        let (status, answer) = self.post(path, "application/json", question.to_string().as_bytes())?;
        let problem = answer.get("error").and_then(Value::as_str).unwrap_or("no reason given");
        anyhow::ensure!(status == 200, "the server answered {status}: {problem}");
        Ok(answer)
    }

    /// Posts a body and returns the answer's status and JSON, null for a failure in another form: proxies answer with pages. Tries again
    /// while the server is busy.
    pub(super) fn post(&self, path: &str, content_type: &str, body: &[u8]) -> anyhow::Result<(u16, Value)> {
        for _ in 0..RETRIES_MAX {
            let mut request = self.agent.post(format!("{}{path}", self.base)).header("content-type", content_type);
            if let Some(key) = &self.key {
                request = request.header("authorization", format!("Bearer {key}"));
            }
            let mut response = request.send(body).map_err(|error| self.unreachable(&error))?;
            let status = response.status().as_u16();
            if status == 429 || status == 503 {
                std::thread::sleep(RETRY_PAUSE);
                continue;
            }
            return match response.body_mut().read_json() {
                Ok(answer) => Ok((status, answer)),
                Err(_) if status >= 400 => Ok((status, Value::Null)),
                Err(error) => Err(error.into()),
            };
        }
        anyhow::bail!("{} is busy; try again later", self.base)
    }

    /// Returns the lines of a streamed answer.
    pub(super) fn lines(&self, path: &str, accept: &str) -> anyhow::Result<impl Iterator<Item = std::io::Result<String>>> {
        Ok(BufReader::new(self.stream(path, accept)?).lines())
    }

    /// Posts a question and returns the server-sent events of the answer, each as its name and its data.
    pub(super) fn events(
        &self,
        path: &str,
        question: &Value,
    ) -> anyhow::Result<impl Iterator<Item = anyhow::Result<(String, Value)>>> {
        let mut request = self.agent.post(format!("{}{path}", self.base)).header("accept", "text/event-stream");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let request = request.header("content-type", "application/json");
        let response = request.send(question.to_string().as_bytes()).map_err(|error| self.unreachable(&error))?;
        if !response.status().is_success() {
            read_json(response)?;
            anyhow::bail!("{} answered without a stream", self.base);
        }
        let mut lines = BufReader::new(response.into_body().into_reader()).lines();
        let mut name = String::new();
        Ok(std::iter::from_fn(move || {
            loop {
                let line = match lines.next()? {
                    Ok(line) => line,
                    Err(error) => return Some(Err(error.into())),
                };
                if let Some(event) = line.strip_prefix("event: ") {
                    event.clone_into(&mut name);
                } else if let Some(data) = line.strip_prefix("data: ") {
                    return Some(serde_json::from_str(data).map(|data| (name.clone(), data)).map_err(Into::into));
                }
            }
        }))
    }

    /// Returns the bytes of a streamed answer.
    pub(super) fn bytes(&self, path: &str) -> anyhow::Result<impl Read> {
        self.stream(path, "application/octet-stream")
    }

    fn stream(&self, path: &str, accept: &str) -> anyhow::Result<impl Read + use<>> {
        let response = self.send_get(path, accept)?;
        if response.status().is_success() {
            return Ok(response.into_body().into_reader());
        }
        read_json(response)?;
        anyhow::bail!("{} answered without a stream", self.base)
    }

    fn send_get(&self, path: &str, accept: &str) -> anyhow::Result<Response<Body>> {
        let mut request = self.agent.get(format!("{}{path}", self.base)).header("accept", accept);
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        Ok(request.call().map_err(|error| self.unreachable(&error))?)
    }

    fn unreachable(&self, error: &ureq::Error) -> Unreachable {
        Unreachable::new(&self.base, error)
    }
}

fn read_json(mut response: Response<Body>) -> anyhow::Result<Value> {
    let status = response.status();
    let value: Value = response.body_mut().read_json()?;
    if !status.is_success() {
        let problem = value.get("error").and_then(Value::as_str).unwrap_or("no reason given");
        anyhow::bail!("the server answered {status}: {problem}");
    }
    Ok(value)
}
