//! What a shell, `man` and a packager ask the program: completions, manual pages, settings, version.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::server::pml;

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn completions_are_scripts_of_their_shells() {
    let home = TempDir::new().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = said(&pml().args(["completions", shell]).output().unwrap());
        assert!(script.contains("discover") && script.contains("snapshot"), "{shell}");
        if shell == "bash" {
            let path = home.path().join("pml.bash");
            fs::write(&path, script).unwrap();
            assert!(Command::new("bash").arg("-n").arg(path).status().unwrap().success());
        }
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let home = TempDir::new().unwrap();
    said(&pml().arg("man").arg(home.path()).output().unwrap());
    for name in ["pml.1", "pml-discover.1", "pml-log-cat.1", "pml-config-show.1"] {
        let page = fs::read_to_string(home.path().join(name)).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{name}");
    }
    let printed = said(&pml().arg("man").output().unwrap());
    assert!(printed.starts_with(".ie") || printed.contains(".TH pml"), "{printed}");
}

#[test]
fn the_version_says_which_program_it_is() {
    let long = said(&pml().arg("--version").output().unwrap());
    assert_eq!(long.lines().next(), Some(concat!("pml ", env!("CARGO_PKG_VERSION"))));
    assert!(long.contains("licence: MIT OR Apache-2.0"), "{long}");
    assert_eq!(said(&pml().arg("-V").output().unwrap()).lines().count(), 1);
}

#[test]
fn settings_are_shown_and_checked() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("pml.toml");
    let defaults = said(&pml().args(["config", "default"]).output().unwrap());
    assert_eq!(defaults.trim_end(), pml::config::DEFAULTS.trim_end());
    fs::write(&path, "[trace]\nsettle_ms = 7\n[nats]\npassword = 'hunter2'\n").unwrap();
    let show = |flag: &str| {
        let mut command = pml();
        command.args(["config", "show", flag]).env("PML_CONFIG", &path).env("PML__HTTP__WORKERS", "3");
        said(&command.output().unwrap())
    };
    let changed = show("--changed");
    assert!(changed.contains("settle_ms = 7") && changed.contains("workers = 3") && changed.contains("(hidden)"), "{changed}");
    assert!(!changed.contains("hunter2") && !changed.contains("late_ms"), "{changed}");
    let all: Value = serde_json::from_str(&show("--json")).unwrap();
    assert_eq!((&all["trace"]["late_ms"], &all["trace"]["settle_ms"]), (&Value::from(5_000), &Value::from(7)));

    let check = |text: &str| {
        fs::write(&path, text).unwrap();
        let output = pml().args(["config", "check"]).arg(&path).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
    };
    let (code, text) = check("[trace]\nsettle_ms = 7\n");
    assert!(code == Some(0) && text.contains("1 keys differ"), "{code:?}: {text}");
    for (wrong, named) in
        [("[trace]\nsetle_ms = 7\n", "setle_ms"), ("[http]\nworkers = 0\n", "http.workers"), ("[", "pml.toml")]
    {
        let (code, text) = check(wrong);
        assert!(code == Some(2) && text.contains(named), "{code:?}: {text}");
    }
    // A broken file does not keep anybody from the defaults.
    assert!(pml().args(["config", "default"]).env("PML_CONFIG", &path).output().unwrap().status.success());
}
