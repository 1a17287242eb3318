//! Wire types of the requests for `discover` and its deprecated predecessors.

use serde::{Deserialize, Serialize};

use super::{AskError, checked_filter, checked_limit};
use crate::core::event::whole;
use crate::core::graph::Node;
use crate::core::id::Callee;
use crate::core::name::{UnknownName, resolve};
use crate::core::rank::discover::{DiscoverOptions, ItemFilter};
use crate::core::state::State;

const DISCOVER_LIMIT: usize = 10;
const DISCOVER_LIMIT_MAX: usize = 50;
const DISCOVER_OFFSET_MAX: usize = 10_000;
const SEARCH_LIMIT: usize = 5;

/// A question for tools and capabilities that fit an intent (S4 AC2), or that have a name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscoverRequest {
    #[serde(default)]
    pub intent: String,
    /// Instead of an intent: a name, a pattern of names with `*` and `?`, or an id.
    pub name: Option<String>,
    #[serde(default)]
    pub filter: Filter,
    #[serde(default, deserialize_with = "whole::optional")]
    pub limit: Option<usize>,
    /// How many results are left out at the beginning: `meta.next_offset` of the page before.
    #[serde(default, deserialize_with = "whole::one")]
    pub offset: usize,
    #[serde(default)]
    pub include_related: bool,
}

/// Which items of an answer are returned.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// tool, capability or all.
    #[serde(rename = "type", default)]
    pub only: ItemType,
    #[serde(default, alias = "minScore")]
    pub min_score: f64,
}

/// Tools, capabilities or both.
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
        if self.name.is_some() && !self.intent.trim().is_empty() {
            return Err(AskError::invalid("name", "is given besides an intent; give one of them"));
        }
        if self.offset > DISCOVER_OFFSET_MAX {
            let problem = format!("is {}, the limit is {DISCOVER_OFFSET_MAX}", self.offset);
            return Err(AskError::invalid("offset", problem));
        }
        checked_filter(
            self.filter.only.into(),
            self.filter.min_score,
            checked_limit(self.limit, DISCOVER_LIMIT, DISCOVER_LIMIT_MAX)?,
        )
    }
}

/// A question for tools only (S0); deprecated.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchToolsRequest {
    #[serde(alias = "intent")]
    pub query: String,
    #[serde(default)]
    pub context_tools: Vec<String>,
    #[serde(default, deserialize_with = "whole::optional")]
    pub limit: Option<usize>,
    #[serde(default)]
    pub include_related: bool,
}

impl SearchToolsRequest {
    pub(super) fn limit(&self) -> Result<usize, AskError> {
        checked_limit(self.limit, SEARCH_LIMIT, DISCOVER_LIMIT_MAX)
    }
}

/// A question for capabilities only; deprecated.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchCapabilitiesRequest {
    #[serde(alias = "query")]
    pub intent: String,
    #[serde(default, alias = "minScore")]
    pub min_score: f64,
    #[serde(default, deserialize_with = "whole::optional")]
    pub limit: Option<usize>,
}

impl SearchCapabilitiesRequest {
    pub(super) fn wanted(&self) -> Result<DiscoverOptions, AskError> {
        checked_filter(ItemFilter::Capabilities, self.min_score, checked_limit(self.limit, SEARCH_LIMIT, DISCOVER_LIMIT_MAX)?)
    }
}

/// The server of tools in a context that are named without one and are not known.
const UNKNOWN_SERVER: &str = "unknown";

/// The nodes of the tools in use. Unknown tools have no neighbours and are left out.
pub(super) fn context_nodes(state: &State, tools: &[String]) -> Result<Vec<Node>, AskError> {
    Ok(context_callees(state, "context_tools", tools)?.iter().filter_map(|callee| state.find(callee)).collect())
}

/// The calls so far. A name that means nothing is the call of an unknown tool: an agent asks after its very first call too.
pub(super) fn context_callees(state: &State, field: &'static str, texts: &[String]) -> Result<Vec<Callee>, AskError> {
    let find = |text: &String| match resolve(state, text) {
        Err(UnknownName::Bare(name)) => format!("{UNKNOWN_SERVER}:{name}").parse().map_err(UnknownName::from),
        found => found,
    };
    texts.iter().map(|text| find(text).map_err(|problem| invalid_name(field, text, &problem))).collect()
}

/// The tools and capabilities that these names mean.
pub(super) fn named_callees(state: &State, field: &'static str, texts: &[String]) -> Result<Vec<Callee>, AskError> {
    texts.iter().map(|text| named_callee(state, field, text)).collect()
}

pub(crate) fn named_callee(state: &State, field: &'static str, text: &str) -> Result<Callee, AskError> {
    resolve(state, text).map_err(|problem| invalid_name(field, text, &problem))
}

fn invalid_name(field: &'static str, text: &str, problem: &UnknownName) -> AskError {
    match problem {
        UnknownName::Invalid(problem) => AskError::invalid(field, format!("'{text}' {problem}")),
        other => AskError::invalid(field, other.to_string()),
    }
}
