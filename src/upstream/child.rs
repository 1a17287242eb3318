//! A server as a child process: it gets only the environment that the configuration names, runs in a process group of its own, and ends
//! with its connection.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::bounded::LineLimit;

/// How long a child may take to end after its input was closed, before it is killed.
const END_WAIT: Duration = Duration::from_millis(500);
/// Lines of standard error kept, and bytes of each.
const STDERR_LINES_MAX: usize = 50;
const STDERR_LINE_BYTES_MAX: usize = 400;

/// What is started.
pub(super) struct Program {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    /// All variables of its environment.
    pub(super) env: Vec<(String, String)>,
    pub(super) directory: Option<PathBuf>,
}

/// The last lines of a child's standard error. Clones share them.
#[derive(Clone, Default)]
pub(super) struct StderrLines(Arc<Mutex<VecDeque<String>>>);

impl StderrLines {
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }

    fn push(&self, line: &[u8]) {
        let text = String::from_utf8_lossy(&line[..line.len().min(STDERR_LINE_BYTES_MAX)]).into_owned();
        let mut lines = self.0.lock();
        if lines.len() == STDERR_LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(text);
    }
}

/// The transport to a child process.
pub(super) struct ChildTransport {
    messages: AsyncRwTransport<RoleClient, LineLimit<ChildStdout>, ChildStdin>,
    child: ProcessGroup,
}

/// Starts the program. Its standard error goes to `stderr`.
pub(super) fn start(program: Program, message_bytes_max: usize, stderr: &StderrLines) -> std::io::Result<ChildTransport> {
    let mut command = Command::new(&program.command);
    command.args(&program.args).env_clear();
    command.envs(program.env);
    if let Some(directory) = program.directory {
        command.current_dir(directory);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    let mut child = command.spawn()?;
    let piped = || std::io::Error::other("a pipe to the child is missing");
    let (stdin, stdout) = (child.stdin.take().ok_or_else(piped)?, child.stdout.take().ok_or_else(piped)?);
    if let Some(pipe) = child.stderr.take() {
        tokio::spawn(keep_stderr(pipe, stderr.clone()));
    }
    let limited = LineLimit::new(stdout, message_bytes_max);
    Ok(ChildTransport {
        messages: AsyncRwTransport::new_client(limited, stdin).with_max_line_length(message_bytes_max),
        child: ProcessGroup { id: child.id(), child: Some(child) },
    })
}

impl Transport<RoleClient> for ChildTransport {
    type Error = std::io::Error;

    fn send(&mut self, item: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.messages.send(item)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.messages.receive()
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.messages.close().await?;
        self.child.end().await;
        Ok(())
    }
}

/// A child with everything that it has started. Dropping it kills them all.
struct ProcessGroup {
    /// The id of the child, which leads its group. The group may outlive it.
    id: Option<u32>,
    child: Option<Child>,
}

impl ProcessGroup {
    /// Waits a moment for the child to end, then kills what is left.
    async fn end(&mut self) {
        if let Some(child) = &mut self.child {
            // Whether it ended or not, the group is killed next.
            drop(tokio::time::timeout(END_WAIT, child.wait()).await);
        }
        self.kill();
    }

    fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        #[cfg(unix)]
        if let Some(group) = self.id.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw) {
            // An error means that nobody is left.
            let _none_left = rustix::process::kill_process_group(group, rustix::process::Signal::KILL).is_err();
        }
        // An error means that it has ended. Tokio reaps it in the background.
        drop(child.start_kill());
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads standard error to its end, so that the child never waits for it, and keeps the last lines.
async fn keep_stderr(mut pipe: ChildStderr, lines: StderrLines) {
    if let Err(error) = read_lines(&mut pipe, &lines).await {
        tracing::debug!(%error, "the standard error of a server cannot be read");
    }
}

async fn read_lines(pipe: &mut (impl AsyncRead + Unpin), lines: &StderrLines) -> std::io::Result<()> {
    let (mut buffer, mut line) = ([0; 4096], Vec::new());
    loop {
        let read = pipe.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        for byte in &buffer[..read] {
            if *byte == b'\n' {
                lines.push(&line);
                line.clear();
            } else if line.len() < STDERR_LINE_BYTES_MAX {
                line.push(*byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_lines_of_standard_error_are_kept_each_of_them_cut() {
        let lines = StderrLines::default();
        let mut text = String::new();
        for number in 0..100 {
            text.push_str(&format!("line {number} {}\n", "x".repeat(1_000)));
        }
        read_lines(&mut text.as_bytes(), &lines).await.unwrap();
        let kept = lines.lines();
        assert_eq!((kept.len(), kept[0].len()), (STDERR_LINES_MAX, STDERR_LINE_BYTES_MAX));
        assert!(kept[0].starts_with("line 50 ") && kept[49].starts_with("line 99 "));
    }
}
