//! The data of what people decide about capabilities. Each event states the whole decision, so that it can be taken back by another.

use crate::id::CapabilityId;

/// A person gave a capability another name, or took that back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapabilityRenamed {
    pub capability: CapabilityId,
    /// `None`: the name that it had by itself.
    pub name: Option<String>,
}

/// A person said that a capability is the same as another one, or took that back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapabilityMerged {
    pub capability: CapabilityId,
    /// The one that stands for both; `None`: it stands for itself.
    pub into: Option<CapabilityId>,
}

/// A person approved a capability, or took that back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapabilityApproved {
    pub capability: CapabilityId,
    pub approved: bool,
}

/// A person retired a capability, or took that back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapabilityRetired {
    pub capability: CapabilityId,
    pub retired: bool,
}
