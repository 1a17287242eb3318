//! Reading the command line. What it names wins over what the environment names: `--data` is not refused because `PML_URL` is set.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches};

use super::Cli;

/// The options that name the log that a command works on, and whose values may come from the environment.
const PLACES: [&str; 2] = ["url", "nats"];

/// Reads the command line, or ends the process with a message.
pub(super) fn command_line() -> Cli {
    let arguments: Vec<_> = std::env::args_os().collect();
    let matches = Cli::command().try_get_matches_from(&arguments).or_else(|refused| {
        if refused.kind() != ErrorKind::ArgumentConflict {
            return Err(refused);
        }
        // Without an argument that names another place, two variables contradict each other.
        let mut command = without_environment(Cli::command());
        match command.try_get_matches_from_mut(&arguments) {
            Ok(matches) if names_place(&command, &matches) => Ok(matches),
            Ok(_) => Err(refused),
            Err(other) => Err(other),
        }
    });
    matches.and_then(|matches| Cli::from_arg_matches(&matches)).unwrap_or_else(|error| error.exit())
}

/// The command, and those below it, without the variables of the places.
fn without_environment(command: Command) -> Command {
    let command = command
        .mut_args(|argument| if PLACES.contains(&argument.get_id().as_str()) { argument.env(None::<&str>) } else { argument });
    command.mut_subcommands(without_environment)
}

/// Whether an argument that was given names a place, or excludes one.
fn names_place(command: &Command, matches: &ArgMatches) -> bool {
    let excludes =
        |one: &Arg, other: &Arg| command.get_arg_conflicts_with(one).iter().any(|arg| arg.get_id() == other.get_id());
    let places: Vec<&Arg> = command.get_arguments().filter(|arg| PLACES.contains(&arg.get_id().as_str())).collect();
    let is_given = |arg: &&Arg| matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    let about_place =
        |arg: &Arg| places.iter().any(|place| place.get_id() == arg.get_id() || excludes(place, arg) || excludes(arg, place));
    command.get_arguments().filter(is_given).any(about_place)
        || matches
            .subcommand()
            .is_some_and(|(name, below)| command.find_subcommand(name).is_some_and(|command| names_place(command, below)))
}
