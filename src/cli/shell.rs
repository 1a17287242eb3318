//! `pml completions` and `pml man`: what a shell and `man` want to know about the commands, made from their definitions.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use super::outcome::Outcome;
use super::output::Output;

#[derive(Args)]
pub(super) struct Completions {
    /// The shell that will read them
    shell: Shell,
}

#[derive(Args)]
pub(super) struct Manual {
    /// Directory to write one page per command to; without it, the page of `pml` itself is printed
    directory: Option<PathBuf>,
}

pub(super) fn completions(arguments: Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "pml", &mut script);
    print_bytes(&script)
}

pub(super) fn manual(arguments: Manual, output: &Output) -> Outcome {
    if let Some(directory) = arguments.directory {
        std::fs::create_dir_all(&directory)?;
        clap_mangen::generate_to(Cli::command(), &directory)?;
        output.say(format!("written to {}; `man -l {}/pml.1` shows the first", directory.display(), directory.display()));
        return Ok(0);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    print_bytes(&page)
}

fn print_bytes(bytes: &[u8]) -> Outcome {
    std::io::stdout().lock().write_all(bytes)?;
    Ok(0)
}
