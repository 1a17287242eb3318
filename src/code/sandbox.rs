//! The sandbox: a program runs in a child process that has no environment, and whose interpreter knows no files, no network and no
//! other programs. All it can do is ask for calls.
//!
//! The parent trusts nothing of the child: it checks every message, counts the calls again, bounds what it reads, and kills a child that
//! stays silent. A child serves one run; whatever happens to it, the parent gets an outcome.

mod child;
pub mod engine;
mod limits;
mod protocol;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout};

pub use child::serve_child;
pub use limits::{Limits, MESSAGE_BYTES_MAX, RunError};
pub use protocol::{Answer, CallRequest, Launch, Outcome};
use protocol::{LENGTH_BYTES, ToChild, ToParent};

/// How long a child may stay silent beyond the time limit, which it watches itself.
const GRACE: Duration = Duration::from_millis(500);
/// Bytes around the text of a message: names, brackets, and quotes that had to be escaped.
const ENVELOPE_BYTES: usize = 64 * 1024;

/// The program that serves as the child, with its arguments: something that calls [`serve_child`].
#[derive(Clone, Debug)]
pub struct ChildCommand {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

/// A child process that waits for its program. Dropping it kills the process.
pub struct Sandbox {
    child: Child,
    input: ChildStdin,
    output: Messages,
    limits: Limits,
}

impl Sandbox {
    /// Starts the child. It needs some milliseconds until it reads its program; the caller need not wait for that.
    pub fn start(command: &ChildCommand, limits: Limits) -> Result<Self, RunError> {
        let mut process = tokio::process::Command::new(&command.program);
        process.args(&command.arguments).env_clear().current_dir("/").kill_on_drop(true);
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = process.spawn().map_err(|error| RunError::Start(error.to_string()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(RunError::Start("it has no pipes".to_owned()));
        };
        let length_max = MESSAGE_BYTES_MAX.max(limits.output_bytes.saturating_mul(6)) + ENVELOPE_BYTES;
        Ok(Self { child, input, output: Messages { output, bytes: Vec::new(), length_max }, limits })
    }

    /// The id of the process, while it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Runs a program. Every call that it asks for is handed to `call`; calls that do not wait for each other are under way at the same
    /// time. The error of a call is thrown in the program.
    pub async fn run<F>(mut self, launch: Launch, call: impl Fn(CallRequest) -> F) -> Outcome
    where
        F: Future<Output = Result<Box<RawValue>, String>>,
    {
        let outcome = self.serve(launch, call).await.unwrap_or_else(Outcome::failed);
        // Already gone, or not to be waited for: either way there is nothing to do about an error.
        drop(self.child.kill().await);
        outcome
    }

    async fn serve<F>(&mut self, launch: Launch, call: impl Fn(CallRequest) -> F) -> Result<Outcome, RunError>
    where
        F: Future<Output = Result<Box<RawValue>, String>>,
    {
        let mut outgoing = frame(&ToChild::Run { launch, limits: self.limits })?;
        let mut calls = FuturesUnordered::new();
        let mut call_count = 0;
        loop {
            let silence = tokio::time::sleep(self.limits.time() + GRACE);
            tokio::select! {
                message = self.output.next() => match message {
                    Ok(Some(ToParent::Call(request))) => {
                        call_count += 1;
                        if call_count > self.limits.calls_max {
                            return Err(RunError::Calls(self.limits.calls_max));
                        }
                        let (id, result) = (request.id, call(request));
                        calls.push(async move { (id, result.await) });
                    }
                    Ok(Some(ToParent::Done(outcome))) => return Ok(outcome),
                    Ok(None) => return Err(self.died().await),
                    Err(error) => return Err(error),
                },
                Some((id, result)) = calls.next(), if !calls.is_empty() => {
                    outgoing.extend(frame(&ToChild::Answer(Answer { id, result: bounded(result) }))?);
                }
                written = self.input.write(&outgoing), if !outgoing.is_empty() => match written {
                    Ok(count) => drop(outgoing.drain(..count)),
                    // It has closed its end: it is about to say why, or is gone.
                    Err(_) => outgoing.clear(),
                },
                () = silence, if calls.is_empty() => return Err(RunError::Time(self.limits.time_ms)),
            }
        }
    }

    /// Why the child has closed its output without an outcome.
    async fn died(&mut self) -> RunError {
        match tokio::time::timeout(GRACE, self.child.wait()).await {
            Ok(Ok(status)) => RunError::Died(status.to_string()),
            Ok(Err(error)) => RunError::Died(error.to_string()),
            Err(_) => RunError::Died("it closed its output".to_owned()),
        }
    }
}

fn frame(message: &ToChild) -> Result<Vec<u8>, RunError> {
    protocol::frame(message).map_err(|error| RunError::Protocol(error.to_string()))
}

/// A result that is too long for a message becomes an error of the call.
fn bounded(result: Result<Box<RawValue>, String>) -> Result<Box<RawValue>, String> {
    match result {
        Ok(value) if value.get().len() > MESSAGE_BYTES_MAX => {
            Err(format!("the result has {} bytes, the limit is {MESSAGE_BYTES_MAX}", value.get().len()))
        }
        result => result,
    }
}

/// The messages of the child. What has been read of one stays in `bytes`, so a caller may stop waiting for it at any time.
struct Messages {
    output: ChildStdout,
    bytes: Vec<u8>,
    length_max: usize,
}

impl Messages {
    /// The next message; `None` at the end.
    async fn next(&mut self) -> Result<Option<ToParent>, RunError> {
        loop {
            if let Some((head, body)) = self.bytes.split_first_chunk::<LENGTH_BYTES>() {
                let length = u32::from_le_bytes(*head) as usize;
                if length > self.length_max {
                    return Err(RunError::Protocol(format!("it has {length} bytes")));
                }
                if let Some(message) = body.get(..length) {
                    let message = serde_json::from_slice(message).map_err(|error| RunError::Protocol(error.to_string()))?;
                    self.bytes.drain(..LENGTH_BYTES + length);
                    return Ok(Some(message));
                }
            }
            match self.output.read_buf(&mut self.bytes).await {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) => return Err(RunError::Died(error.to_string())),
            }
        }
    }
}
