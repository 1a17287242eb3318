//! Measures `pml hook` as an agent runs it: a process that takes one event and ends, while no server runs. The floor is the start of the
//! same program for nothing.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{Case, Stopwatch, median};

const RUNS: usize = 51;
/// Nobody listens on the discard port.
const AWAY: &str = "http://127.0.0.1:9";

/// Runs the hook for the calls of one session, with its spool below `scratch`.
pub(super) fn run(scratch: &Path) -> anyhow::Result<Case> {
    let home = scratch.join("hook");
    std::fs::create_dir_all(&home)?;
    let program = std::env::current_exe()?;
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(&home).env("XDG_STATE_HOME", &home).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let (mut floors, mut times) = (Vec::new(), Vec::new());
    for number in 0..RUNS {
        floors.push(milliseconds(command(&["--version"]), "")?);
        times.push(milliseconds(command(&["hook", "--url", AWAY]), &event(number).to_string())?);
    }
    // Those that tried to deliver have ended when this one has.
    command(&["hook", "--deliver", "--url", AWAY]).status()?;
    let (value, floor) = (median(times), median(floors));
    Ok(Case { case: "hook_without_server", value, unit: "ms", floor: Some(floor), ratio: Some(value / floor) })
}

/// How long a process takes from its start to its end, with this input.
fn milliseconds(mut command: Command, input: &str) -> anyhow::Result<f64> {
    let watch = Stopwatch::start();
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(input.as_bytes())?;
    }
    let status = child.wait()?;
    anyhow::ensure!(status.success(), "{command:?} ended with {status}");
    Ok(watch.elapsed().as_secs_f64() * 1e3)
}

fn event(number: usize) -> Value {
    let mut event =
        json!({"session_id": "bench", "cwd": "/srv", "hook_event_name": "UserPromptSubmit", "prompt": "push the branch"});
    if number > 0 {
        event = json!({
            "session_id": "bench", "cwd": "/srv", "hook_event_name": "PostToolUse", "tool_name": "Bash",
            "tool_use_id": format!("t{number}"), "tool_input": {"command": "git push"}, "tool_response": {"stdout": "done\n".repeat(200)},
        });
    }
    event
}
