//! The clients in `clients/`, packed as they are published (wheel, npm pack): their own tests, against a real server. And the packages
//! that carry the program: from the installation to a prediction.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::nats_server::NatsServer;
use crate::outside::installed;
use crate::server::{Server, pml};

/// From the installation of the wheels to a prediction, on a machine that may be busy with other tests.
const FIRST_PREDICTION_MAX: Duration = Duration::from_mins(1);

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Runs a command that must succeed and returns what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (said, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{said}\n{complaints}");
    said.into_owned()
}

fn copy(from: &Path, to: &Path) {
    run(Command::new("cp").arg("-r").arg(from).arg(to));
}

/// The only file below `directory` whose name ends so.
fn only(directory: &Path, ending: &str) -> PathBuf {
    let mut found: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.to_string_lossy().ends_with(ending));
    assert_eq!(found.len(), 1, "{}: {found:?}", directory.display());
    found.remove(0)
}

/// The wheel of the Python client.
fn client_wheel(python: &Path, directory: &Path) -> PathBuf {
    let source = directory.join("source");
    copy(&here("clients/python"), &source);
    run(Command::new(python).args(["-m", "flit_core.wheel", "--outdir"]).arg(directory).arg(&source));
    only(directory, ".whl")
}

/// The packed Python client and its tests, in a directory of their own.
struct PackedClient {
    python: PathBuf,
    directory: TempDir,
}

impl PackedClient {
    fn new() -> Option<Self> {
        let (python, directory) = (installed("PML_TEST_PYTHON")?, TempDir::new().unwrap());
        let wheel = client_wheel(&python, directory.path());
        run(Command::new(&python).args(["-m", "zipfile", "-e"]).arg(wheel).arg(directory.path().join("packages")));
        Some(Self { python, directory })
    }

    /// Runs some of its tests, by module.
    fn test(&self, modules: &[&str], environment: &[(&str, &str)]) {
        let path = [self.directory.path().join("packages"), self.directory.path().join("source/tests")];
        let mut command = Command::new(&self.python);
        command.args(["-m", "unittest"]).args(modules).env("PYTHONPATH", std::env::join_paths(path).unwrap());
        // Elsewhere, so that nothing but the packed client is found.
        run(command.envs(environment.iter().copied()).current_dir(self.directory.path()));
    }
}

#[test]
fn the_python_client_reports_runs_and_asks() {
    let Some(client) = PackedClient::new() else { return };
    let server = Server::start();
    client.test(&["test_runs", "test_aio", "test_adapters"], &[("PML_TEST_URL", server.url())]);
    client.test(&["test_questions"], &[("PML_TEST_URL", Server::start().url())]);
}

#[test]
fn the_python_client_goes_on_when_the_server_is_away() {
    let Some(client) = PackedClient::new() else { return };
    let server = Server::start();
    client.test(&["test_away"], &[("PML_TEST_URL", server.url())]);
}

#[test]
fn the_python_client_works_over_nats() {
    let Some(client) = PackedClient::new() else { return };
    let nats = NatsServer::start();
    let _server = Server::serving(&["--nats", &nats.url()], &[("NATS__APPEND", "pipelined")]);
    client.test(&["test_nats"], &[("PML_TEST_NATS", &nats.url())]);
}

#[test]
fn the_python_client_is_typed() {
    let Some(python) = installed("PML_TEST_PYTHON") else { return };
    let cache = python.parent().unwrap().join("../mypy-cache");
    let mut check = Command::new(&python);
    // Without following imports: the packages of the adapters are a hundred times larger than the client.
    check.args([
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=skip",
        "--allow-subclassing-any",
        "-p",
        "pml_client",
        "--cache-dir",
    ]);
    run(check.arg(cache).current_dir(here("clients/python")));
}

#[test]
fn the_typescript_client_reports_runs_and_asks() {
    let Some(node) = installed("PML_TEST_NODE") else { return };
    let modules = here("clients/typescript/node_modules");
    assert!(modules.exists(), "{} is missing; run scripts/test, which installs it", modules.display());
    let directory = TempDir::new().unwrap();
    let source = directory.path().join("source");
    std::fs::create_dir_all(source.join("node_modules")).unwrap();
    for name in ["src", "test", "package.json", "tsconfig.json", "tsconfig.test.json", "README.md"] {
        copy(&here("clients/typescript").join(name), &source);
    }
    // What it is tested with, beside the place of the packed client.
    for entry in std::fs::read_dir(&modules).unwrap().map(Result::unwrap) {
        std::os::unix::fs::symlink(entry.path(), source.join("node_modules").join(entry.file_name())).unwrap();
    }
    let compile = |project: &str| {
        let compiler = modules.join("typescript/bin/tsc");
        run(Command::new(&node).arg(compiler).args(["-p", project]).current_dir(&source));
    };
    compile("tsconfig.json");
    let packed = run(Command::new("npm").args(["pack", "--ignore-scripts", "--silent"]).current_dir(&source));
    run(Command::new("tar").arg("xzf").arg(source.join(packed.trim())).current_dir(directory.path()));
    let installed = source.join("node_modules/pml-client");
    std::fs::rename(directory.path().join("package"), &installed).unwrap();
    std::fs::remove_dir_all(source.join("dist")).unwrap();
    // Under its own name a package would find itself, not what was packed.
    std::fs::write(source.join("package.json"), r#"{"type": "module"}"#).unwrap();
    // The example of its document is one more test.
    let document = std::fs::read_to_string(source.join("README.md")).unwrap();
    let example = document.split("```ts\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    std::fs::write(source.join("test/readme.test.ts"), example).unwrap();
    compile("tsconfig.test.json");
    let servers = [Server::start(), Server::start()];
    let groups: [&[&str]; 2] = [&["questions"], &["runs", "away", "adapters", "readme"]];
    for (server, files) in servers.iter().zip(groups) {
        let mut tests = Command::new(&node);
        tests.args(["--test", "--test-force-exit"]).args(files.iter().map(|name| format!("build/{name}.test.js")));
        run(tests.env("PML_TEST_URL", server.url()).env("PML_URL", server.url()).current_dir(&source));
    }
}

#[test]
fn the_packages_of_the_program_are_installed_and_start_it() {
    let (Some(python), Some(node)) = (installed("PML_TEST_PYTHON"), installed("PML_TEST_NODE")) else { return };
    let directory = TempDir::new().unwrap();
    // Without what a debugger needs it is half as large.
    let program = directory.path().join("pml");
    run(Command::new("strip").arg("-o").arg(&program).arg(pml().get_program()));
    let mut pack = Command::new(&python);
    let made = run(pack.arg(here("scripts/package")).arg(program).arg(directory.path().join("made")).arg("--stored"));
    let made: Vec<&Path> = made.lines().map(Path::new).collect();
    a_prediction_a_minute_after_pip_install(&python, made[0]);
    the_npm_launcher_starts_the_program_of_the_platform(&node, made[1], made[2]);
}

#[expect(clippy::disallowed_methods, reason = "the time that a user waits is measured")]
fn a_prediction_a_minute_after_pip_install(python: &Path, server_wheel: &Path) {
    let directory = TempDir::new().unwrap();
    let client_wheel = client_wheel(python, directory.path());
    let begun = Instant::now();
    let environment = directory.path().join("environment");
    run(Command::new(python).args(["-m", "venv", "--without-pip"]).arg(&environment));
    let mut install = Command::new(python);
    install.args(["-m", "pip", "--python"]).arg(environment.join("bin/python")).args(["install", "--quiet", "--no-index"]);
    run(install.arg(server_wheel).arg(client_wheel));
    let mut minute = Command::new(environment.join("bin/python"));
    minute.arg(here("tests/outside/first_minute.py")).current_dir(directory.path()).env("PATH", environment.join("bin"));
    assert_eq!(run(&mut minute).trim(), "zip:pack");
    assert!(begun.elapsed() < FIRST_PREDICTION_MAX, "{:?}", begun.elapsed());
}

fn the_npm_launcher_starts_the_program_of_the_platform(node: &Path, launcher: &Path, platform: &Path) {
    let start = || Command::new(node).arg(launcher.join("bin/pml.js")).arg("--version").output().unwrap();
    let missing = start();
    assert!(!missing.status.success(), "the program is not installed yet");
    let name = platform.file_name().unwrap();
    assert!(String::from_utf8_lossy(&missing.stderr).contains(name.to_str().unwrap()), "{missing:?}");
    let modules = launcher.join("node_modules");
    std::fs::create_dir(&modules).unwrap();
    std::fs::rename(platform, modules.join(name)).unwrap();
    let said = start();
    assert!(said.status.success() && said.stdout.starts_with(b"pml "), "{said:?}");
    let packed = run(Command::new("npm").args(["pack", "--dry-run", "--silent"]).current_dir(launcher));
    assert_eq!(packed.trim(), format!("pml-server-{}.tgz", env!("CARGO_PKG_VERSION")));
}
