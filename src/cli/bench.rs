//! `pml bench`.
use super::Outcome;
use super::output::Output;
use crate::config::Config;
use clap::Subcommand;
#[derive(Subcommand)]
pub(super) enum Command {
    /// x
    Ingest,
}
pub(super) async fn run(_c: Command, _config: Config, _output: &Output) -> Outcome {
    Ok(0)
}
