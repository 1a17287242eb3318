//! `pml init`: the settings with which the agents on this machine use pml and report to it. Shows the difference; writes on request, with a
//! backup; `--undo` takes the settings out again.

mod agents;
mod difference;
mod json_text;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

use super::Outcome;
use super::output::Output;
use crate::config::Config;
use agents::{Change, Settings};

#[derive(Args)]
pub(super) struct Arguments {
    /// Write the settings; without it, the difference is only shown
    #[arg(long)]
    write: bool,
    /// Take pml's settings out again
    #[arg(long)]
    undo: bool,
    /// Address of the server [default: http:// and the configured http.listen]
    #[arg(long, env = "PML_URL")]
    url: Option<String>,
}

pub(super) fn run(arguments: &Arguments, config: &Config, output: &Output) -> Outcome {
    let url = arguments.url.clone().unwrap_or_else(|| format!("http://{}", config.http.listen));
    let home =
        std::env::var_os("HOME").map(PathBuf::from).context("HOME is not set; it says where agents keep their settings")?;
    let change = if arguments.undo { Change::Remove } else { Change::Add };
    let settings = Settings { program: program(), url: url.trim_end_matches('/').to_owned() };
    let mut shown = Vec::new();
    for file in agents::files(&home) {
        let before = read(&file.path)?;
        let after = settings.changed(file.kind, &before, change).with_context(|| file.path.display().to_string())?;
        let is_changed = before != after;
        // Only what changes is shown: the rest of an agent's settings is nobody's business, and may hold keys.
        let difference = is_changed.then(|| difference::lines(&before, &after));
        if let Some(difference) = &difference {
            output.say(format!("{} ({})", file.path.display(), file.agent));
            output.say(difference);
        } else {
            output.say(format!("{} ({}): nothing to change", file.path.display(), file.agent));
        }
        if is_changed && arguments.write {
            write(&file.path, &before, &after)?;
        }
        shown.push(json!({
            "agent": file.agent, "file": file.path, "changed": is_changed, "written": is_changed && arguments.write,
            "difference": difference,
        }));
    }
    print(shown, arguments, &settings, output);
    Ok(0)
}

fn print(files: Vec<Value>, arguments: &Arguments, settings: &Settings, output: &Output) {
    let is_any_changed = files.iter().any(|file| file["changed"] == true);
    let variables = settings.variables();
    output.json(&json!({"files": files, "variables": variables.iter().cloned().collect::<serde_json::Map<_, _>>()}));
    if files.is_empty() {
        output.say("no agent was found: neither ~/.claude nor ~/.codex is there");
    }
    match (is_any_changed, arguments.write) {
        (true, true) => output.say("written; the files as they were before pml are beside them, with the ending .pml-backup"),
        (true, false) => output.say("nothing was written; --write writes"),
        (false, _) => {}
    }
    if !arguments.undo {
        output.say("\nAgents that are instrumented with OpenTelemetry report with:");
        for (name, value) in &variables {
            output.say(format!("  export {name}={}", value.as_str().unwrap_or_default()));
        }
    }
}

/// How the program is called: by its name if that leads to it, else by its path.
fn program() -> String {
    let own = std::env::current_exe().ok();
    let places = std::env::var_os("PATH").unwrap_or_default();
    let first = std::env::split_paths(&places).map(|place| place.join("pml")).find(|path| path.is_file());
    let is_own = |path: &PathBuf| path.canonicalize().ok().zip(own.as_ref()).is_some_and(|(path, own)| path == *own);
    match (first.is_some_and(|first| is_own(&first)), own) {
        (false, Some(own)) => own.display().to_string(),
        _ => "pml".to_owned(),
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        read => read.with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Writes a file whole. The first time, keeps it as it was. A symbolic link stays one: what it leads to is written.
fn write(path: &Path, before: &str, after: &str) -> anyhow::Result<()> {
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let beside = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let (backup, part) = (beside(".pml-backup"), beside(".pml-part"));
    let written = (|| {
        if !backup.exists() && path.exists() {
            // A copy keeps the permissions.
            std::fs::copy(path, &backup)?;
        }
        if path.exists() {
            std::fs::copy(path, &part)?;
        }
        std::fs::write(&part, after)?;
        if std::fs::read_to_string(path).unwrap_or_default() != before {
            std::fs::remove_file(&part)?;
            return Err(std::io::Error::other("it was changed in the meantime; try again"));
        }
        std::fs::rename(&part, path)
    })();
    written.with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_a_link_stays_one_and_what_it_leads_to_is_written() {
        let home = tempfile::TempDir::new().unwrap();
        let (file, link) = (home.path().join("dotfiles.json"), home.path().join("settings.json"));
        std::fs::write(&file, "before").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, "before", "after").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "after");
        assert_eq!(std::fs::read_to_string(home.path().join("dotfiles.json.pml-backup")).unwrap(), "before");
        assert!(write(&link, "before", "again").is_err(), "it was changed in the meantime");
        let new = home.path().join("new.json");
        write(&new, "", "x").unwrap();
        assert_eq!(std::fs::read_to_string(&new).unwrap(), "x");
    }
}
