//! The command line of pml: text for people, `--json` for programs, and these exit codes.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | failed |
//! | 2 | wrong arguments or configuration |
//! | 3 | some events were refused |
//! | 4 | the server cannot be reached |
//! | 5 | the log or a snapshot is damaged |

mod archive;
mod backup;
mod bench;
mod capability;
mod code;
mod config;
mod copy;
mod dead;
mod demo;
mod diff;
mod discover;
mod doctor;
mod embed;
mod emit;
mod eval;
mod execute;
mod executions;
mod explain;
mod fork;
mod hook;
mod import;
mod init;
mod key;
mod learn;
mod log;
mod mcp;
mod model;
mod outcome;
mod output;
mod parse;
mod predict;
mod prequential;
mod publish;
mod question;
mod readable;
mod related;
mod remote;
mod replay;
mod report;
mod retrain;
mod sandbox;
mod score;
mod scratch;
mod serve;
mod servers;
mod shell;
mod skills;
mod snapshot;
mod source;
mod speculate;
mod suggest;
mod target;
mod tools;
mod train;
mod types;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{Args, Parser, Subcommand};

use crate::config::Config;
use crate::runtime::SANDBOX;
use outcome::{CommandError, Outcome};
use output::Output;

/// Procedural memory for AI agents: keeps what agents did, learns which tools work together.
#[derive(Parser)]
#[command(name = "pml", version, long_version = long_version(), about, max_term_width = 120, after_help = EXIT_CODES)]
struct Cli {
    /// Configuration file; `pml config default` prints one with all keys
    #[arg(long, global = true, env = "PML_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON for programs
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

/// The version with the commit (`PML_COMMIT` when it was built) and the repository, where they are known, so that a report of a problem
/// says which program it is about.
fn long_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let known = [
            ("commit", option_env!("PML_COMMIT").unwrap_or_default()),
            ("repository", env!("CARGO_PKG_REPOSITORY")),
            ("licence", env!("CARGO_PKG_LICENSE")),
        ];
        let lines = known.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| format!("\n{name}: {value}"));
        env!("CARGO_PKG_VERSION").to_owned() + &lines.collect::<String>()
    });
    &TEXT
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 wrong arguments or configuration, 3 some events were refused, \
4 the server cannot be reached, 5 the log or a snapshot is damaged

Environment: PML_LOG sets what is logged to standard error (error, warn, info, debug, or pml=debug,actix_server=info and the like; \
debug logs every request); NO_COLOR turns colours off; PML_CONFIG, PML_URL, PML_KEY, PML_NATS stand for the options of these names; \
PML__SECTION__KEY sets a key of the configuration";

#[derive(Subcommand)]
enum Command {
    /// Run the server: embedded log, HTTP on a loopback address
    Serve(serve::Arguments),
    /// Serve the Model Context Protocol on standard input and output, from a server, a data directory [default: that of the configuration] or NATS
    Mcp(mcp::Arguments),
    /// Learn from traces shipped with the program and serve what was learnt
    Demo(demo::Arguments),
    /// Publish events from a file, from standard input or from flags
    Publish(publish::Arguments),
    /// Show or write the settings with which the agents on this machine use pml and report to it
    Init(init::Arguments),
    /// Take one event of a Claude Code hook from standard input and deliver it in the background
    Hook(hook::Arguments),
    /// Learn from the logs of agents, exports and spans that are already there
    Learn(learn::Arguments),
    /// Learn the traces of a dataset directory
    Import(import::ImportArguments),
    /// Write tools and traces as a dataset directory
    Export(import::ExportArguments),
    /// Find the tools and capabilities that fit an intent, with reasons
    Discover(discover::Arguments),
    /// Predict the next call from an intent and the calls so far
    Predict(predict::Arguments),
    /// Score tools and capabilities for an intent, and the success of a path of calls
    Score(score::Arguments),
    /// Suggest a plan for an intent: which tools, in which order, what can run side by side
    Suggest(suggest::Arguments),
    /// Show which calls may be run before an agent asks for them: the next layer of a plan, or the predicted call
    Speculate(speculate::Arguments),
    /// Explain a prediction, with the records it was learnt from
    Explain(explain::Arguments),
    /// Run a workflow, a capability or a plan for an intent on the MCP servers of a running pml
    Execute(execute::Arguments),
    /// Check and run programs in TypeScript that call tools
    #[command(subcommand)]
    Code(code::Command),
    /// Write the types of the tools for programs: `pml types > pml.d.ts`
    Types(types::Arguments),
    /// List and show executions: what ran when
    #[command(subcommand)]
    Executions(executions::Command),
    /// Add, remove, list, test and switch the MCP servers whose tools pml calls
    #[command(subcommand)]
    Servers(servers::Command),
    /// Write learnt capabilities as Agent Skills, or declare skills as capabilities
    #[command(subcommand)]
    Skills(skills::Command),
    /// Show the neighbours of a tool in the graph: edges, tools often called before and after, community, path to another tool
    Related(related::Arguments),
    /// Compare the answers of pml with plain baselines, on traces it has not learnt
    Eval(eval::Arguments),
    /// Report what predictions would have saved on a history: calls of a model, tokens, time
    Report(report::Arguments),
    /// Train the parts of the model, measure them and record the runs
    Train(train::Arguments),
    /// List, show, compare, promote and roll back trained versions
    #[command(subcommand)]
    Model(model::Command),
    /// Rename, merge, approve or retire capabilities, and take that back
    #[command(subcommand)]
    Capability(capability::Command),
    /// Repeat a recorded training run and compare the digests: exit code 0 if equal, 1 if not
    Retrain(retrain::Arguments),
    /// Replay the log: show a past state, write it as a new data directory, or publish it as a live stream
    Replay(replay::Arguments),
    /// Compare the state at two moments: tools, capabilities, edges, and the answers for an intent
    Diff(diff::Arguments),
    /// Create a data directory from the history of another log up to a moment, with other settings
    Fork(fork::Arguments),
    /// Write the log to one file, also while its server runs
    Backup(backup::BackupArguments),
    /// Create a data directory from a backup file
    Restore(backup::RestoreArguments),
    /// Read, copy, export or verify the log
    #[command(subcommand)]
    Log(log::Command),
    /// Create, list, verify, restore or remove snapshots of the state as Parquet files
    #[command(subcommand)]
    Snapshot(snapshot::Command),
    /// List refused events and publish them again
    #[command(subcommand)]
    Dead(dead::Command),
    /// Compute the vectors of texts and compare them
    Embed(embed::Arguments),
    /// Create an API key for the configuration
    Key(key::Arguments),
    /// Check configuration, data directory and server
    Doctor(doctor::Arguments),
    /// Measure speed against the raw operation in the same run
    #[command(subcommand)]
    Bench(bench::Command),
    #[command(flatten)]
    Unconfigured(Unconfigured),
}

/// Commands that work whatever the configuration holds.
#[derive(Subcommand)]
enum Unconfigured {
    /// Show and check the configuration
    #[command(subcommand)]
    Config(config::Command),
    /// Print the completions of the commands for a shell
    Completions(shell::Completions),
    /// Write the manual pages of the commands
    Man(shell::Manual),
}

/// The log that a command works on: that of a running server, in a data directory, or on NATS.
#[derive(Args, Clone)]
struct LogLocation {
    /// Address of a running server [default: http:// and the configured http.listen]
    #[arg(long, env = "PML_URL", conflicts_with = "data")]
    url: Option<String>,
    /// API key for that server
    #[arg(long, env = "PML_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Data directory of a server that is not running
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// NATS servers that keep the log, separated by commas
    #[arg(long, env = "PML_NATS", hide_env_values = true, value_name = "URL", conflicts_with_all = ["url", "data"])]
    nats: Option<String>,
}

/// Runs the program and returns its exit code.
pub fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|name| name == SANDBOX) {
        // It has no configuration, no log lines and no threads, and starts at once: building the parser would take a millisecond.
        return sandbox::run();
    }
    let cli = parse::command_line();
    let output = Output::new(cli.json);
    start_tracing(matches!(cli.command, Command::Serve(_)));
    // Lossy: a variable of another program need not be UTF-8.
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let environment = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
    let file = cli.config.as_deref();
    let outcome = match cli.command {
        Command::Unconfigured(Unconfigured::Config(command)) => config::run(command, file, environment, &output),
        Command::Unconfigured(Unconfigured::Completions(arguments)) => shell::completions(arguments),
        Command::Unconfigured(Unconfigured::Man(arguments)) => shell::manual(arguments, &output),
        command => {
            Config::load(file, environment).map_err(CommandError::from).and_then(|config| run(command, file, config, &output))
        }
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(CommandError { code, error }) => {
            output.failure(&error);
            ExitCode::from(code)
        }
    }
}

fn run(command: Command, file: Option<&Path>, config: Config, output: &Output) -> Outcome {
    match command {
        Command::Serve(arguments) => on_actors(serve::run(arguments, config, output)),
        Command::Mcp(arguments) => on_actors(mcp::run(arguments, config)),
        Command::Demo(arguments) => on_actors(demo::run(arguments, config, output)),
        Command::Publish(arguments) => on_actors(publish::run(arguments, config, output)),
        Command::Init(arguments) => init::run(&arguments, &config, output),
        Command::Hook(arguments) => hook::run(arguments, file, &config, output),
        Command::Learn(arguments) => on_actors(learn::run(arguments, config, output)),
        Command::Import(arguments) => on_actors(import::import(arguments, config, output)),
        Command::Export(arguments) => on_actors(import::export(arguments, config, output)),
        Command::Discover(arguments) => on_actors(discover::run(arguments, config, output)),
        Command::Predict(arguments) => on_actors(predict::run(arguments, config, output)),
        Command::Score(arguments) => on_actors(score::run(arguments, config, output)),
        Command::Suggest(arguments) => on_actors(suggest::run(arguments, config, output)),
        Command::Speculate(arguments) => on_actors(speculate::run(arguments, config, output)),
        Command::Explain(arguments) => on_actors(explain::run(arguments, config, output)),
        Command::Execute(arguments) => execute::run(arguments, &config, output),
        Command::Code(command) => on_actors(code::run(command, config, output)),
        Command::Types(arguments) => on_actors(types::run(arguments, config, output)),
        Command::Executions(command) => on_actors(executions::run(command, config, output)),
        Command::Servers(command) => on_actors(servers::run(command, config, output)),
        Command::Skills(command) => on_actors(skills::run(command, config, output)),
        Command::Eval(arguments) => on_actors(eval::run(arguments, config, output)),
        Command::Report(arguments) => on_actors(report::run(arguments, config, output)),
        Command::Related(arguments) => on_actors(related::run(arguments, config, output)),
        Command::Train(arguments) => on_actors(train::run(arguments, config, output)),
        Command::Model(command) => on_actors(model::run(command, config, output)),
        Command::Capability(command) => on_actors(capability::run(command, config, output)),
        Command::Retrain(arguments) => on_actors(retrain::run(arguments, config, output)),
        Command::Replay(arguments) => on_actors(replay::run(arguments, config, output)),
        Command::Diff(arguments) => on_actors(diff::run(arguments, config, output)),
        Command::Fork(arguments) => on_actors(fork::run(arguments, file, config, output)),
        Command::Backup(arguments) => on_actors(backup::backup(arguments, config, output)),
        Command::Restore(arguments) => on_actors(backup::restore(arguments, config, output)),
        Command::Log(command) => on_actors(log::run(command, config, output)),
        Command::Snapshot(command) => on_actors(snapshot::run(command, config, output)),
        Command::Dead(command) => on_actors(dead::run(command, config, output)),
        Command::Embed(arguments) => embed::run(arguments, config, output),
        Command::Key(arguments) => Ok(key::run(arguments, output)),
        Command::Doctor(arguments) => on_actors(doctor::run(arguments, config, output)),
        Command::Bench(command) => on_actors(bench::run(command, config, output)),
        Command::Unconfigured(_) => unreachable!("they are run without a configuration"),
    }
}

/// Runs a command in an actix system, which the actors and the reader of the log need.
fn on_actors(work: impl Future<Output = Outcome>) -> Outcome {
    actix_rt::System::new().block_on(work)
}

/// Sends log lines to standard error: from level info for a server, errors only for other commands.
fn start_tracing(serving: bool) {
    let default = if serving { "info,actix_server=warn,rmcp=warn" } else { "error" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("PML_LOG").unwrap_or_else(|_| default.into());
    let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr()) && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi).init();
}
