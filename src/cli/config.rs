//! `pml config`: the defaults, the settings in effect, and whether a file is valid.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;

use super::outcome::Outcome;
use super::output::{Output, print_line};
use crate::config::{Config, DEFAULTS, changed};

#[derive(Subcommand)]
pub(super) enum Command {
    /// Print the settings in effect: the defaults, overridden by the file and by the environment; secrets are hidden
    Show {
        /// Only settings that differ from the defaults
        #[arg(long)]
        changed: bool,
    },
    /// Print the default configuration file, with the meaning of every key
    Default,
    /// Check a configuration file together with the environment: exit code 2 if it is not valid
    Check {
        /// The file [default: that of --config]
        file: Option<PathBuf>,
    },
}

pub(super) fn run(
    command: Command,
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
    output: &Output,
) -> Outcome {
    match command {
        Command::Default => print_line(DEFAULTS.trim_end()),
        Command::Show { changed: only_changed } => {
            let effective = Config::effective(file, environment)?;
            let shown = if only_changed { changed(&effective) } else { effective };
            output.json(&json!(shown));
            let text = shown.to_string();
            output.say(if text.is_empty() { "# every setting has its default" } else { text.trim_end() });
        }
        Command::Check { file: other } => {
            let file = other.as_deref().or(file);
            let settings = changed(&Config::effective(file, environment)?);
            let keys = settings.values().map(|value| value.as_table().map_or(1, toml::Table::len)).sum::<usize>();
            let place = file.map_or_else(|| "no file".to_owned(), |path| path.display().to_string());
            output.json(&json!({"valid": true, "changed": settings}));
            output.say(format!("valid: {place}; {keys} keys differ from the defaults (`pml config show --changed`)"));
        }
    }
    Ok(0)
}
