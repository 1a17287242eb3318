//! `pml demo`: every view of the page has something to show soon after the start, what is shipped is learnt, and nothing is left behind.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{Answer, agent, eventually, pml};

/// From the start of the program to the last view that has something to show. A person, with a release build and nothing beside it, waits
/// a sixth of it at most.
const SOON: Duration = Duration::from_mins(1);
const INTENT: &str = "book a flight and rent a car";

/// The demo while it runs; what it prints is read as it comes.
struct Demo {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    url: String,
}

impl Demo {
    fn start(home: &TempDir) -> Self {
        let mut command = pml();
        command.args(["demo", "--json", "--listen", "127.0.0.1:0"]).env("TMPDIR", home.path());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut demo = Self { lines: BufReader::new(child.stdout.take().unwrap()).lines(), child, url: String::new() };
        demo.url = format!("http://{}", demo.line()["listen"].as_str().unwrap());
        demo
    }

    fn line(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    /// What a view reads: by GET, or by POST if there is a question.
    fn ask(&self, path: &str, question: &Value) -> Value {
        let url = format!("{}{path}", self.url);
        let answer = if question.is_null() {
            Answer::read(agent().get(url).call())
        } else {
            Answer::read(agent().post(url).header("content-type", "application/json").send(question.to_string()))
        };
        answer.ok().and_then(|answer| serde_json::from_str(&answer.text).ok()).unwrap_or_default()
    }

    /// SIGTERM, as Ctrl-C in a terminal. Returns its exit code.
    fn stop(mut self) -> Option<i32> {
        assert!(Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

fn has_entries(value: &Value) -> bool {
    value.as_array().is_some_and(|entries| !entries.is_empty())
}

/// A view, what it reads, and whether that is something to show.
type View = (&'static str, &'static str, Value, fn(&Value) -> bool);

fn views() -> Vec<View> {
    let intent = || json!({"intent": INTENT});
    vec![
        ("now: events", "/v1/state", Value::Null, |state| state["events"]["execution.started"].as_u64() > Some(0)),
        ("now: tools", "/v1/tools", Value::Null, |answer| has_entries(&answer["tools"])),
        ("ask: discover", "/v1/discover", intent(), |answer| has_entries(&answer["results"])),
        ("ask: predict", "/v1/predict", intent(), |answer| has_entries(&answer["ranked"])),
        ("ask: suggest", "/v1/suggest", intent(), |answer| answer["plan"].is_object()),
        ("graph", "/v1/graph?limit=100&measures=true", Value::Null, |answer| has_entries(&answer["edges"])),
        ("executions", "/v1/executions", Value::Null, |answer| has_entries(&answer["executions"])),
        ("capabilities", "/v1/capabilities", Value::Null, |answer| has_entries(&answer["capabilities"])),
        ("learning", "/v1/models", Value::Null, |answer| answer["models"][0]["examples"].as_u64() > Some(0)),
        ("system", "/v1/system", Value::Null, |answer| has_entries(&answer["roles"])),
    ]
}

#[test]
#[expect(clippy::disallowed_methods, reason = "another process is waited for, and its clock is the wall's")]
fn the_demo_has_something_to_show_on_every_view_soon_and_leaves_nothing_behind() {
    let home = TempDir::new().unwrap();
    let begun = Instant::now();
    let mut demo = Demo::start(&home);
    for (view, path, question, has_something) in views() {
        eventually(view, || has_something(&demo.ask(path, &question)).then_some(()));
        assert!(begun.elapsed() < SOON, "{view} has something to show after {:?}", begun.elapsed());
    }
    let learnt = demo.line();
    assert_eq!(learnt["traces"], json!(3_027), "{learnt}");
    let predictions = learnt["predictions"].as_array().unwrap();
    assert_eq!(predictions.len(), 3, "one arrives before each call: {learnt}");
    assert!(predictions.iter().filter(|one| one["predicted"] == one["called"]).count() >= 2, "{learnt}");
    assert!(learnt["tools"].as_u64().unwrap() >= 260 && learnt["capabilities"].as_u64().unwrap() > 500, "{learnt}");
    assert_eq!(demo.stop(), Some(0));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}
