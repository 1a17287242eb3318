//! Arguments and answering shared by the commands that ask a question: the log, the moment, and a server or a local fold.

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::LogLocation;
use super::source::Source;
use crate::ask::{AskError, Asker};
use crate::config::Config;
use crate::history::Moment;

/// What a question about the next call is asked in.
#[derive(Args)]
pub(super) struct SituationArguments {
    /// The intent: what is to be done, in plain words
    #[arg(default_value = "")]
    pub(super) intent: String,
    /// Calls so far, in order, separated by commas
    #[arg(long, value_name = "TOOL,TOOL", value_delimiter = ',')]
    pub(super) after: Vec<String>,
}

/// The arguments of every question.
#[derive(Args)]
pub(super) struct QuestionArguments {
    /// Answer as of this moment: a position, or a time such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "SEQ|TIME")]
    pub(super) at: Option<Moment>,
    #[command(flatten)]
    pub(super) location: LogLocation,
}

impl QuestionArguments {
    /// Answers `request`: by the server's route `path` if the question is about the present state of a running server, else from a
    /// fold of the log.
    pub(super) async fn answer<Q: Serialize, A: Serialize>(
        &self,
        config: &Config,
        path: &str,
        request: Q,
        ask: impl FnOnce(&Asker, Q) -> Result<A, AskError>,
    ) -> anyhow::Result<Value> {
        match (Source::open(&self.location, config).await?, self.at) {
            (Source::Server(remote), None) => remote.ask(path, &json!(request)),
            (source, at) => {
                let asker = source.asker(at, config).await?;
                Ok(json!(ask(&asker, request)?))
            }
        }
    }
}
