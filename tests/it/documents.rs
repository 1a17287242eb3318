//! Every command of README.md, docs/ and the clients' documents, run as it is printed: in a directory with a past, beside a running server
//! and a NATS server. What cannot be run here is listed with the reason, and its flags are compared with the help.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::json;
use tempfile::TempDir;

use crate::archive::Past;
use crate::nats_server::NatsServer;
use crate::outside::installed;
use crate::run::{finished, started, step};
use crate::server::{Server, pml};

/// Beginnings of commands that are not run, and why. Those of pml are compared with the help.
const NOT_RUN: [(&str, &str); 28] = [
    ("cargo ", "compiles"),
    ("scripts/", "installs, or runs these tests"),
    ("docker ", "no daemon is here"),
    ("claude ", "another program"),
    ("npm ", "installs"),
    ("npx ", "installs"),
    ("pip ", "installs"),
    ("nats-server ", "it runs already"),
    ("pml serve", "it runs already"),
    ("pml demo", "runs until Ctrl-C; tests/it/demo.rs has its test"),
    ("pml bench ", "measures for minutes"),
    ("pml train", "trains for a while; tests/it/training.rs has its tests"),
    ("pml eval DIR", "needs a dataset"),
    ("pml learn", "the logs of a person; tests/it/learn.rs has its tests"),
    ("pml hook", "the spool of a person; tests/it/hook.rs has its tests"),
    ("pml init", "the settings of a person; tests/it/hook.rs has its tests"),
    ("export OTEL_", "a variable for other programs"),
    ("pml eval --prequential pml-data", "the log of the running server"),
    ("pml servers import ~", "the settings of a person"),
    ("pml execute workflow.json", "needs servers and a workflow; tests/it/execute.rs has its tests"),
    ("pml execute --intent", "needs servers; tests/it/execute_intent.rs has its tests"),
    ("pml code run program.ts", "needs servers and a program; tests/it/code.rs has its tests"),
    ("nats req pml.default.run.", "needs servers; tests/it/runs_on_nats.rs has its tests"),
    ("pml explain --prediction 01K", "an id that nobody has"),
    ("pml speculate --plan", "its tasks depend on what is known"),
    ("pml replay --publish", "at recorded pace, which takes as long as the past took"),
    ("pml log copy --from pml-data", "the log of the running server, and a stream that is in use"),
    ("pml log copy --from nats", "a directory that exists"),
];

/// Whether a word of a command line, outside of quotes, stands for something else.
fn has_placeholder(command: &str) -> bool {
    let is_name = |word: &str| !word.is_empty() && word.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_');
    let stands_for = |word: &str| word.starts_with('[') || word.contains('|') || word.contains("...") || is_name(word);
    command.split(['\'', '"']).step_by(2).flat_map(str::split_whitespace).any(stands_for)
}

/// Whether a line of code is a command of a program that the documents use.
fn is_command(code: &str) -> bool {
    let mut words = code.split(' ');
    let (program, first) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let assigned = program.starts_with("PML_") && code.contains(" pml ");
    match program {
        "pml" => !first.is_empty() && first.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-'),
        "curl" | "nats" | "python" => true,
        _ => assigned || NOT_RUN.iter().any(|(begin, _)| code.starts_with(begin)),
    }
}

/// The commands of a document: lines of indented code that begin with a known program, with the lines that belong to them.
fn commands(document: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        let code = line.trim_start().trim_start_matches("$ ");
        if !line.starts_with("    ") || !is_command(code) {
            continue;
        }
        let mut command = code.split("  #").next().unwrap_or(code).trim_end().to_owned();
        while command.ends_with('\\') {
            command = format!("{}{}", command.trim_end_matches('\\'), lines.next().unwrap_or_default().trim());
        }
        if let Some((_, end)) = command.split_once("<<'") {
            let end = end.trim_end_matches('\'').to_owned();
            loop {
                let line = lines.next().expect("the text ends").trim_start();
                command = format!("{command}\n{line}");
                if line == end {
                    break;
                }
            }
        }
        commands.push(command);
    }
    commands
}

/// Where the commands of one document are run.
struct Place<'a> {
    home: TempDir,
    server: &'a Server,
    nats: &'a NatsServer,
}

impl<'a> Place<'a> {
    fn new(server: &'a Server, nats: &'a NatsServer, programs: &Path, document: &Path) -> Self {
        let home = TempDir::new().unwrap();
        // The README restores a backup to this directory; the others look at one that is there.
        if !document.ends_with("README.md") {
            Past::of(40).write(&home.path().join("data"));
        }
        for name in ["config", "examples", "models"] {
            std::os::unix::fs::symlink(here(name), home.path().join(name)).unwrap();
        }
        let models = std::env::var_os("PML_TEST_MODELS").expect("no ONNX model to test with: run the tests by scripts/test");
        std::os::unix::fs::symlink(models, home.path().join(".models")).unwrap();
        std::os::unix::fs::symlink(programs, home.path().join("bin")).unwrap();
        Self { home, server, nats }
    }

    fn run(&self, command: &str) -> Output {
        let address = self.server.url().trim_start_matches("http://");
        let command = command
            .replace("127.0.0.1:8080", address)
            .replace("nats://127.0.0.1:4222", &self.nats.url())
            // A stream has no end; what comes in a second shows that it begins.
            .replace("curl -N ", "curl -fsSN --max-time 1 ");
        let mut shell = Command::new("bash");
        let path = format!("{}:{}", self.home.path().join("bin").display(), std::env::var("PATH").unwrap());
        shell.args(["-e", "-c", &command]).current_dir(self.home.path()).env("PATH", path);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PML_")) {
            shell.env_remove(name);
        }
        shell.env("PML__HTTP__LISTEN", address).env("PML_URL_OF_CLIENTS", self.server.url());
        shell.env("NATS_URL", self.nats.url()).env("PYTHONPATH", here("clients/python")).output().unwrap()
    }
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A directory with the programs that the documents call.
fn programs(python: &Path) -> TempDir {
    let directory = TempDir::new().unwrap();
    std::os::unix::fs::symlink(pml().get_program(), directory.path().join("pml")).unwrap();
    let script = |name: &str, text: String| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let python = python.display();
    let nats = here("tests/outside/nats_cli.py");
    script("nats", format!("#!/bin/sh\nexec {python} {} \"$@\"\n", nats.display()));
    script("python", format!("#!/bin/sh\nPML_URL=$PML_URL_OF_CLIENTS exec {python} \"$@\"\n"));
    directory
}

/// Compares the subcommand and the flags of a command with the help of the subcommand.
fn check_form(command: &str) {
    for part in command.split(';').map(str::trim).filter(|part| part.starts_with("pml ")) {
        let is_subcommand = |word: &&str| word.chars().all(|letter| letter.is_ascii_lowercase());
        let words: Vec<&str> = part.split_whitespace().skip(1).collect();
        let mut subcommand: Vec<&str> = words.iter().take_while(|word| is_subcommand(word)).copied().collect();
        let help = loop {
            let asked = pml().args(&subcommand).arg("--help").output().unwrap();
            if asked.status.success() {
                break String::from_utf8(asked.stdout).unwrap();
            }
            assert!(subcommand.pop().is_some(), "{part}: no such command");
        };
        assert!(!subcommand.is_empty(), "{part}: no such command");
        let flags =
            words.iter().map(|word| word.trim_matches(['[', ']'])).filter(|word| word.starts_with("--") && word.len() > 2);
        for flag in flags {
            assert!(help.contains(flag), "{part}: {flag} is not in the help");
        }
    }
}

/// Material for the questions of the documents.
fn learn(server: &Server) {
    let runs = [
        ("fs:list", "zip:pack"),
        ("flight:flight_search", "travel:book_flight"),
        ("db:dump", "fs:write"),
        ("fs:read", "zip:pack"),
    ];
    for (number, (first, second)) in runs.iter().cycle().take(24).enumerate() {
        let id = format!("d{number}");
        let events = [started(&id), step(&id, "s1", first, &[]), step(&id, "s2", second, &["s1"]), finished(&id)];
        server.accept(&json!(events));
    }
    server.settled_state();
}

fn documents() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(here("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    found
        .extend(["README.md", "clients/python/README.md", "clients/typescript/README.md", "packaging/npm/README.md"].map(here));
    found.sort();
    found
}

#[test]
fn every_command_of_the_documents_runs_as_printed() {
    let Some(python) = installed("PML_TEST_PYTHON") else { return };
    let programs = programs(&python);
    let nats = NatsServer::start();
    let _on_nats = Server::serving(&["--nats", &nats.url()], &[("NATS__APPEND", "pipelined")]);
    let server = Server::start();
    learn(&server);
    let mut counted = 0;
    let mut problems = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let place = Place::new(&server, &nats, programs.path(), &document);
        for command in commands(&text) {
            if has_placeholder(command.lines().next().unwrap_or_default())
                || NOT_RUN.iter().any(|(begin, _)| command.starts_with(begin))
            {
                check_form(&command);
                continue;
            }
            counted += 1;
            let output = place.run(&command);
            let ended_by_time = command.starts_with("curl -N") && output.status.code() == Some(28);
            if !output.status.success() && !ended_by_time {
                let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
                problems.push(format!("{}: {command}\n{}\n{said}", document.display(), output.status));
            }
        }
    }
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
    assert!(counted >= 50, "{counted} commands were found");
}

/// The blocks of a language in a document.
fn blocks<'a>(document: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("```{language}\n");
    document.split(opening.as_str()).skip(1).map(|rest| rest.split("```").next().unwrap_or(rest)).collect()
}

#[test]
fn the_agent_of_the_quick_start_has_twelve_lines_and_learns() {
    let Some(python) = installed("PML_TEST_PYTHON") else { return };
    let document = fs::read_to_string(here("docs/quickstart.md")).unwrap();
    let agent = fs::read_to_string(here("examples/python/client_agent.py")).unwrap();
    assert_eq!(blocks(&document, "python"), [agent.as_str()], "docs/quickstart.md shows examples/python/client_agent.py");
    assert!(agent.lines().count() <= 12, "{}", agent.lines().count());
    let server = Server::start();
    let run = || {
        let mut command = Command::new(&python);
        command.arg(here("examples/python/client_agent.py")).args(["zip the reports", "fs:list", "zip:pack"]);
        let output = command.env("PYTHONPATH", here("clients/python")).env("PML_URL", server.url()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        server.settled_state();
        String::from_utf8(output.stdout).unwrap()
    };
    for _ in 0..6 {
        run();
    }
    let said = run();
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("after [] expected ['fs:list'"), "{said}");
    assert!(lines[1].starts_with("after ['fs:list'] expected ['zip:pack'"), "{said}");
    assert_eq!(server.ask("/v1/state")["events"]["feedback.given"], 14);
}

#[test]
fn the_examples_of_the_python_client_run() {
    let Some(python) = installed("PML_TEST_PYTHON") else { return };
    let server = Server::start();
    let document = fs::read_to_string(here("clients/python/README.md")).unwrap();
    for block in blocks(&document, "python") {
        let mut command = Command::new(&python);
        let output = command
            .args(["-c", block])
            .env("PYTHONPATH", here("clients/python"))
            .env("PML_URL", server.url())
            .output()
            .unwrap();
        assert!(output.status.success(), "{block}\n{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(server.settled_state()["events"]["trace.completed"], 1);
}

#[test]
fn the_dockerfile_has_no_findings() {
    let Some(python) = installed("PML_TEST_PYTHON") else { return };
    let linter = python.with_file_name("hadolint");
    let output = Command::new(linter).arg(here("Dockerfile")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
