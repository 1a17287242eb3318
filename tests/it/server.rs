//! The real program as a server: its own process, its own directory, real HTTP over loopback.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long anything that a healthy server does may take on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// The longest pause between two questions about the same.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// The program, away from whatever configuration the surroundings hold.
pub(crate) fn pml() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pml"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PML_") {
            command.env_remove(name);
        }
    }
    command
}

/// The same with an open umask, and with errors instead of a deadly signal when a file reaches the limit of its size.
pub(crate) fn careless() -> Command {
    let plain = pml();
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0; trap '' XFSZ; exec \"$0\" \"$@\""]).arg(plain.get_program());
    for (name, value) in plain.get_envs() {
        assert!(value.is_none(), "variables are only removed");
        command.env_remove(name);
    }
    command
}

/// Asks again until there is an answer, ever less often: a question costs a server time that others on the machine need.
#[expect(clippy::disallowed_methods, reason = "another process is waited for, and its clock is the wall's")]
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    let mut pause = Duration::from_millis(2);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(pause);
        pause = (pause * 3 / 2).min(PAUSE_MAX);
    }
}

/// The environment variable of a setting such as `LIMITS__STEPS_MAX`; variables of object stores keep their names.
pub(crate) fn server_variable(setting: &str) -> String {
    if setting.starts_with("AWS_") { setting.to_owned() } else { format!("PML__{setting}") }
}

pub(crate) fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE)).build().into()
}

/// What a server said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn read(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Self, ureq::Error> {
        let mut response = response?;
        let retry_after = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
        let text = response.body_mut().with_config().limit(1 << 30).read_to_string()?;
        Ok(Self { status: response.status().as_u16(), retry_after, text })
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The status of every event, in order.
    pub(crate) fn statuses(&self) -> Vec<String> {
        let json = self.json();
        let results = json["results"].as_array().unwrap_or_else(|| panic!("no results: {self:?}"));
        results.iter().map(|result| result["status"].as_str().unwrap().to_owned()).collect()
    }
}

pub(crate) struct Server {
    home: TempDir,
    program: fn() -> Command,
    arguments: Vec<String>,
    settings: Vec<(String, String)>,
    process: Process,
}

struct Process {
    child: Child,
    /// Held open, so that the server can go on printing.
    _stdout: BufReader<ChildStdout>,
    url: String,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// With settings such as `("LIMITS__STEPS_MAX", "3")`.
    pub(crate) fn with(settings: &[(&str, &str)]) -> Self {
        Self::serving(&[], settings)
    }

    /// With the program called in this way.
    pub(crate) fn launched(program: fn() -> Command, settings: &[(&str, &str)]) -> Self {
        Self::build(program, &[], settings)
    }

    /// With arguments of `pml serve` such as `["--roles", "trace"]`, and with settings.
    pub(crate) fn serving(arguments: &[&str], settings: &[(&str, &str)]) -> Self {
        Self::build(pml, arguments, settings)
    }

    fn build(program: fn() -> Command, arguments: &[&str], settings: &[(&str, &str)]) -> Self {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        // Tests count records, so nothing is trained unless a test asks for it.
        let quick = [("TRACE__SETTLE_MS", "20"), ("EXECUTION__REORDER_WAIT_MS", "200"), ("TRAINER__ENABLED", "false")];
        let settings = quick.iter().chain(settings).map(|(name, value)| (server_variable(name), (*value).to_owned()));
        let settings: Vec<_> = settings.collect();
        let home = TempDir::new().unwrap();
        let process = spawn(program, home.path(), &arguments, &settings);
        Self { home, program, arguments, settings, process }
    }

    pub(crate) fn url(&self) -> &str {
        &self.process.url
    }

    /// The id of its process.
    pub(crate) fn process(&self) -> u32 {
        self.process.child.id()
    }

    pub(crate) fn data(&self) -> PathBuf {
        data_below(self.home.path())
    }

    pub(crate) fn post_as(&self, content_type: &str, body: impl AsRef<[u8]>) -> Answer {
        let request = agent().post(format!("{}/v1/events", self.url())).header("content-type", content_type);
        Answer::read(request.send(body.as_ref())).unwrap()
    }

    /// Publishes one event, or an array of them.
    pub(crate) fn post(&self, events: &Value) -> Answer {
        self.post_as("application/json", events.to_string())
    }

    /// Publishes events that must all be accepted.
    pub(crate) fn accept(&self, events: &Value) -> Answer {
        let answer = self.post(events);
        assert!(answer.status == 202 && answer.statuses().iter().all(|status| status == "accepted"), "{answer:?}");
        answer
    }

    pub(crate) fn redrive(&self) -> Value {
        let request = agent().post(format!("{}/v1/dead/redrive", self.url())).header("content-type", "application/json");
        Answer::read(request.send("{}")).unwrap().json()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        Answer::read(agent().get(format!("{}{path}", self.url())).call()).unwrap()
    }

    /// The answer to a question that must be answered.
    pub(crate) fn ask(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// Posts a question.
    pub(crate) fn question(&self, path: &str, question: &Value) -> Answer {
        let request = agent().post(format!("{}{path}", self.url())).header("content-type", "application/json");
        Answer::read(request.send(question.to_string())).unwrap()
    }

    /// The whole log.
    pub(crate) fn records(&self) -> Vec<Value> {
        self.get("/v1/events").text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The trace of an execution, once it is closed.
    pub(crate) fn closed_trace(&self, execution: &str) -> Value {
        eventually("the trace to be closed", || {
            let answer = self.get(&format!("/v1/traces/{execution}"));
            Some(answer.json()).filter(|trace| answer.status == 200 && trace["status"] != "open")
        })
    }

    /// The state, once it holds the whole log, no execution is open and every text has its vector.
    pub(crate) fn settled_state(&self) -> Value {
        eventually("every execution to be closed", || {
            let state = self.ask("/v1/state");
            // Not ready while it catches up after a start.
            let tail = self.get("/readyz").json()["tail_seq"].clone();
            let embedded = state["texts"] == state["texts_embedded"];
            Some(state).filter(|state| state["open_executions"] == 0 && embedded && state["applied_seq"] == tail)
        })
    }

    /// The state once it holds the whole log, whatever is open.
    pub(crate) fn settled_open_state(&self) -> Value {
        eventually("the whole log to be folded", || {
            let (state, tail) = (self.ask("/v1/state"), self.get("/readyz").json()["tail_seq"].clone());
            Some(state).filter(|state| state["applied_seq"] == tail && state["texts"] == state["texts_embedded"])
        })
    }

    /// The last position of the log.
    pub(crate) fn tail(&self) -> u64 {
        self.get("/readyz").json()["tail_seq"].as_u64().unwrap()
    }

    /// The most memory that the process has had so far, in bytes, where the system tells it.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
    }

    /// SIGTERM: it may finish what it has begun. Returns its exit code.
    pub(crate) fn terminate(&mut self) -> Option<i32> {
        let told = Command::new("kill").args(["-TERM", &self.process.child.id().to_string()]).status().unwrap();
        assert!(told.success());
        self.process.child.wait().unwrap().code()
    }

    /// Waits until it has ended by itself. Returns its exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        eventually("the server to end", || self.process.child.try_wait().unwrap()).code()
    }

    /// What it wrote to standard error since it was started.
    pub(crate) fn complaints(&self) -> String {
        std::fs::read_to_string(complaints_below(self.home.path())).unwrap()
    }

    /// SIGKILL: no handler runs, nothing is flushed.
    pub(crate) fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Starts it again on the same directory and, it may be, another port.
    pub(crate) fn restart(&mut self) {
        self.restart_with(&[]);
    }

    /// Killed and started again with more settings.
    pub(crate) fn restart_with(&mut self, settings: &[(&str, &str)]) {
        self.kill9();
        self.settings.extend(settings.iter().map(|(name, value)| (format!("PML__{name}"), (*value).to_owned())));
        self.process = spawn(self.program, self.home.path(), &self.arguments, &self.settings);
    }
}

impl Process {
    fn kill9(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it was killed");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill9();
    }
}

fn complaints_below(home: &Path) -> PathBuf {
    home.join("stderr.txt")
}

fn data_below(home: &Path) -> PathBuf {
    home.join("data")
}

fn spawn(program: fn() -> Command, home: &Path, arguments: &[String], settings: &[(String, String)]) -> Process {
    let complaints = complaints_below(home);
    let mut child = program()
        .args(["serve", "--json", "--listen", "127.0.0.1:0", "--data"])
        .arg(data_below(home))
        .args(arguments)
        .envs(settings.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(&complaints).unwrap())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let started: Option<Value> = serde_json::from_str(&line).ok();
    let Some(address) = started.as_ref().and_then(|started| started["listen"].as_str()) else {
        panic!("the server did not start: {line}{}", std::fs::read_to_string(&complaints).unwrap());
    };
    Process { url: format!("http://{address}"), child, _stdout: stdout }
}

#[test]
fn a_server_that_was_killed_starts_again_with_its_log() {
    let mut server = Server::start();
    let seq = server.accept(&crate::run::started("e1")).json()["results"][0]["seq"].clone();
    server.restart();
    let kept = server.records();
    assert!(kept.iter().any(|record| record["seq"] == seq && record["data"]["execution"] == "e1"), "{kept:?}");
    assert_eq!(server.ask("/v1/traces/e1")["status"], "open");
}
