//! The wire types of what people decide about capabilities.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::WireText;

/// A person gave a capability another name, or took that back.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CapabilityRenamed<'a> {
    #[serde(borrow)]
    pub(crate) capability: WireText<'a>,
    /// Absent: the name that it had by itself.
    #[serde(borrow)]
    pub(crate) name: Option<WireText<'a>>,
}

/// A person said that a capability is the same as another one, or took that back.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CapabilityMerged<'a> {
    #[serde(borrow)]
    pub(crate) capability: WireText<'a>,
    /// The one that stands for both. Absent: it stands for itself.
    #[serde(borrow)]
    pub(crate) into: Option<WireText<'a>>,
}

/// A person approved a capability, or took that back.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CapabilityApproved<'a> {
    #[serde(borrow)]
    pub(crate) capability: WireText<'a>,
    pub(crate) approved: bool,
}

/// A person retired a capability, so that it is not offered any more, or took that back.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CapabilityRetired<'a> {
    #[serde(borrow)]
    pub(crate) capability: WireText<'a>,
    pub(crate) retired: bool,
}
