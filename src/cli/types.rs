//! `pml types`: the tools as TypeScript declarations, for editors and for agents that write programs.

use clap::Args;
use serde_json::json;

use super::output::Output;
use super::tools::{KnownTool, known};
use super::{LogLocation, Outcome};
use crate::code::declarations::{ToolDeclaration, declarations};
use crate::config::Config;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn run(arguments: Arguments, config: Config, output: &Output) -> Outcome {
    let tools = known(&arguments.location, &config).await?;
    let text = declared(tools.iter());
    output.json(&json!({"types": text}));
    output.say(text.trim_end());
    Ok(0)
}

/// The declarations of tools.
pub(super) fn declared<'a>(tools: impl Iterator<Item = &'a KnownTool>) -> String {
    let declaration = |tool: &'a KnownTool| ToolDeclaration {
        id: &tool.id,
        description: &tool.description,
        input_schema: tool.input_schema.as_ref(),
        output_schema: tool.output_schema.as_ref(),
    };
    declarations(&tools.map(declaration).collect::<Vec<_>>())
}
