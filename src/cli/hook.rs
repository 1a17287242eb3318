//! `pml hook`: takes one event of a Claude Code hook from standard input. It writes the events to a spool file and starts a process that
//! delivers them, so that the agent does not wait, and nothing is lost while no server runs.

mod refused;
mod spool;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::output::Output;
use super::remote::Remote;
use super::{LogLocation, Outcome};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::id::SessionId;
use crate::core::intake::Limits;
use crate::core::time::Timestamp;
use crate::private;
use crate::readers::hook::{Hook, OpenRun};
use refused::Refused;
use spool::Spool;

/// Longest event of a hook, in bytes; results of tools may be long.
const INPUT_LEN_MAX: u64 = 32 << 20;
/// Sessions that are remembered; the oldest are forgotten first.
const SESSIONS_MAX: usize = 10_000;

#[derive(Args)]
pub(super) struct Arguments {
    /// Deliver what is in the spool and read nothing
    #[arg(long)]
    deliver: bool,
    /// Address of a running server [default: http:// and the configured http.listen]
    #[arg(long, env = "PML_URL")]
    url: Option<String>,
    /// API key for that server
    #[arg(long, env = "PML_KEY", hide_env_values = true)]
    key: Option<String>,
}

/// What is kept about a session from one event to the next.
#[derive(Serialize, Deserialize)]
struct SessionFile {
    session: String,
    /// When the first event came, in microseconds since 1970.
    since_us: i64,
    open: Option<OpenRun>,
}

pub(super) fn run(arguments: Arguments, file: Option<&Path>, config: &Config, output: &Output) -> Outcome {
    let directory = directory(|name| std::env::var_os(name))
        .context("neither HOME nor XDG_STATE_HOME is set; one says where events wait")?;
    let spool = Spool::new(&directory);
    if arguments.deliver {
        let location = LogLocation { url: arguments.url, key: arguments.key, data: None, nats: None };
        if spool.deliver(&Remote::new(&location, config))? > 0 {
            output.note(&format!("events that the server refused are in {}", Refused::new(&directory).path().display()));
        }
        return Ok(0);
    }
    let mut input = Vec::new();
    std::io::stdin().lock().take(INPUT_LEN_MAX).read_to_end(&mut input)?;
    let redactor = Limits::from(config).redactor;
    let hook = Hook::read(&input, &redactor)?;
    let sessions = directory.join("sessions");
    private::create_directory(&sessions).with_context(|| format!("cannot create {}", sessions.display()))?;
    let path = sessions.join(file_name(hook.session()));
    // Calls of one session may end at the same time.
    let _alone = private::Lock::wait(&path.with_extension("lock"))?;
    let now = Clock::system().now();
    let known = read_session(&path);
    let since_us = known.as_ref().map_or(now.micros(), |known| known.since_us);
    let (open, events) = hook.events(known.and_then(|known| known.open), now, &redactor);
    spool.add(&events)?;
    let session = SessionFile { session: hook.session().to_string(), since_us, open };
    private::replace_file(&path, serde_json::to_string(&session)?.as_bytes())?;
    if !events.is_empty() {
        start_delivery(&arguments, file);
    }
    Ok(0)
}

/// The directory of what `pml hook` keeps; `None` if the environment names none of the user. A directory that everybody writes to is not
/// used: others could put links and files there, and read what is added to them.
fn directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = path("XDG_STATE_HOME").or_else(|| path("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("pml/hooks"))
}

fn file_name(session: &SessionId) -> String {
    format!("{}.json", &blake3::hash(session.as_str().as_bytes()).to_hex()[..32])
}

fn read_session(path: &Path) -> Option<SessionFile> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// The sessions that hooks have reported, with the time of the first event: reading their logs too would teach everything twice.
pub(super) fn reported() -> BTreeMap<String, Timestamp> {
    let Some(directory) = directory(|name| std::env::var_os(name)) else { return BTreeMap::new() };
    let entries = std::fs::read_dir(directory.join("sessions")).into_iter().flatten().filter_map(Result::ok);
    let is_session = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
    let mut sessions: Vec<(SessionFile, PathBuf)> =
        entries.map(|entry| entry.path()).filter(is_session).filter_map(|path| Some((read_session(&path)?, path))).collect();
    sessions.sort_by_key(|(session, _)| session.since_us);
    let beyond = sessions.len().saturating_sub(SESSIONS_MAX);
    for (_, path) in sessions.drain(..beyond) {
        // What cannot be removed now can be next time.
        drop(std::fs::remove_file(path));
    }
    sessions.into_iter().map(|(session, _)| (session.session, Timestamp::from_micros(session.since_us))).collect()
}

/// What `pml doctor` looks at: the bytes that wait, and what was set aside. `None` if no hook has been used.
pub(super) fn spooled() -> Option<(u64, Refused)> {
    let directory = directory(|name| std::env::var_os(name)).filter(|directory| directory.exists())?;
    Some((Spool::new(&directory).len(), Refused::new(&directory)))
}

/// Starts a process that delivers and that the agent does not wait for. If it cannot be started, the next event tries again.
fn start_delivery(arguments: &Arguments, file: Option<&Path>) {
    let Ok(program) = std::env::current_exe() else { return };
    let mut command = Command::new(program);
    command.args(["hook", "--deliver"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(file) = file {
        command.arg("--config").arg(file);
    }
    // By the environment: arguments can be seen by everybody on the machine.
    for (name, value) in [("PML_URL", &arguments.url), ("PML_KEY", &arguments.key)] {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    drop(command.spawn());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_wait_below_the_home_of_the_user_and_nowhere_else() {
        let of = |set: &[(&str, &str)]| {
            directory(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value)))
        };
        assert_eq!(of(&[("XDG_STATE_HOME", "/s"), ("HOME", "/h")]), Some(PathBuf::from("/s/pml/hooks")));
        assert_eq!(of(&[("XDG_STATE_HOME", ""), ("HOME", "/h")]), Some(PathBuf::from("/h/.local/state/pml/hooks")));
        assert_eq!(of(&[("HOME", "")]), None);
    }
}
