//! What can be asked, as it comes over the wire.

use serde::{Deserialize, Serialize};

use super::{AskError, limited, wanted};
use crate::core::graph::Node;
use crate::core::id::Callee;
use crate::core::rank::discover::{DiscoverOptions, ItemFilter};
use crate::core::state::State;

const DISCOVER_LIMIT: usize = 10;
const DISCOVER_LIMIT_MAX: usize = 50;
const SEARCH_LIMIT: usize = 5;

/// S4 AC2.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscoverRequest {
    pub intent: String,
    #[serde(default)]
    pub filter: Filter,
    pub limit: Option<usize>,
    #[serde(default)]
    pub include_related: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// tool, capability or all.
    #[serde(rename = "type", default)]
    pub only: ItemType,
    #[serde(default, alias = "minScore")]
    pub min_score: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ItemType {
    #[default]
    All,
    Tool,
    Capability,
}

impl From<ItemType> for ItemFilter {
    fn from(item: ItemType) -> Self {
        match item {
            ItemType::All => Self::All,
            ItemType::Tool => Self::Tools,
            ItemType::Capability => Self::Capabilities,
        }
    }
}

impl DiscoverRequest {
    pub(super) fn wanted(&self) -> Result<DiscoverOptions, AskError> {
        wanted(self.filter.only.into(), self.filter.min_score, limited(self.limit, DISCOVER_LIMIT, DISCOVER_LIMIT_MAX)?)
    }
}

/// S0; deprecated.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchToolsRequest {
    #[serde(alias = "intent")]
    pub query: String,
    #[serde(default)]
    pub context_tools: Vec<String>,
    pub limit: Option<usize>,
    #[serde(default)]
    pub include_related: bool,
}

impl SearchToolsRequest {
    pub(super) fn limit(&self) -> Result<usize, AskError> {
        limited(self.limit, SEARCH_LIMIT, DISCOVER_LIMIT_MAX)
    }
}

/// Deprecated.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchCapabilitiesRequest {
    #[serde(alias = "query")]
    pub intent: String,
    #[serde(default, alias = "minScore")]
    pub min_score: f64,
    pub limit: Option<usize>,
}

impl SearchCapabilitiesRequest {
    pub(super) fn wanted(&self) -> Result<DiscoverOptions, AskError> {
        wanted(ItemFilter::Capabilities, self.min_score, limited(self.limit, SEARCH_LIMIT, DISCOVER_LIMIT_MAX)?)
    }
}

/// The nodes of the tools in use. One that is not known has no neighbours either and is left out.
pub(super) fn context(state: &State, tools: &[String]) -> Result<Vec<Node>, AskError> {
    Ok(callees("context_tools", tools)?.iter().filter_map(|callee| state.find(callee)).collect())
}

pub(super) fn callees(field: &'static str, texts: &[String]) -> Result<Vec<Callee>, AskError> {
    let parse = |text: &String| text.parse().map_err(|problem| AskError::invalid(field, format!("'{text}' {problem}")));
    texts.iter().map(parse).collect()
}
