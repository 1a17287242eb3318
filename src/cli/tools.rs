//! The tools of a server or a log, as commands need them.

use serde::Deserialize;
use serde_json::Value;

use super::LogLocation;
use super::source::Source;
use crate::ask::catalogue::{self, AnnotationsDto, PAGE_MAX, Page};
use crate::config::Config;
use crate::core::event::ToolAnnotations;
use crate::core::id::ToolId;
use crate::history::Moment;

/// A tool as `GET /v1/tools` describes it.
pub(super) struct KnownTool {
    pub(super) id: ToolId,
    pub(super) description: String,
    pub(super) input_schema: Option<Value>,
    pub(super) output_schema: Option<Value>,
    pub(super) annotations: Option<ToolAnnotations>,
}

#[derive(Deserialize)]
struct Listed {
    tool: String,
    #[serde(default)]
    description: String,
    input_schema: Option<Value>,
    output_schema: Option<Value>,
    annotations: Option<AnnotationsDto>,
    stub: bool,
    removed: bool,
}

/// The tools that are offered, sorted by id.
pub(super) async fn known(location: &LogLocation, config: &Config) -> anyhow::Result<Vec<KnownTool>> {
    let source = Source::open(location, config).await?;
    let state = if let Source::Server(_) = source { None } else { Some(source.state(Moment::Now).await?) };
    let (mut tools, mut after) = (Vec::new(), None);
    loop {
        let page = match (&source, &state) {
            (Source::Server(remote), _) => {
                let from = after.as_ref().map(|after| format!("&after={after}")).unwrap_or_default();
                remote.get(&format!("/v1/tools?limit={PAGE_MAX}{from}"))?
            }
            (_, Some(state)) => {
                let page = Page { after: after.clone(), limit: Some(PAGE_MAX) };
                catalogue::tools(state, &page).map_err(|refused| anyhow::anyhow!("{}: {}", refused.field, refused.problem))?
            }
            (_, None) => anyhow::bail!("the log has no state"),
        };
        let listed: Vec<Listed> = serde_json::from_value(page["tools"].clone())?;
        for tool in listed.into_iter().filter(|tool| !tool.stub && !tool.removed) {
            tools.push(KnownTool {
                id: tool.tool.parse()?,
                description: tool.description,
                input_schema: tool.input_schema,
                output_schema: tool.output_schema,
                annotations: tool.annotations.map(Into::into),
            });
        }
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => return Ok(tools),
        }
    }
}
