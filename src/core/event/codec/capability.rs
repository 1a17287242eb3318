//! Conversions of what people decide about capabilities.

use super::{Cow, Refusal, borrowed, domain, owned, parse, parse_optional, wire};

impl<'a> From<&'a domain::CapabilityRenamed> for wire::CapabilityRenamed<'a> {
    fn from(event: &'a domain::CapabilityRenamed) -> Self {
        Self { capability: Cow::Owned(event.capability.to_string()), name: borrowed(event.name.as_ref()) }
    }
}

impl TryFrom<wire::CapabilityRenamed<'_>> for domain::CapabilityRenamed {
    type Error = Refusal;

    fn try_from(wire: wire::CapabilityRenamed<'_>) -> Result<Self, Refusal> {
        Ok(Self { capability: parse("capability", &wire.capability)?, name: owned(wire.name) })
    }
}

impl<'a> From<&'a domain::CapabilityMerged> for wire::CapabilityMerged<'a> {
    fn from(event: &'a domain::CapabilityMerged) -> Self {
        Self { capability: Cow::Owned(event.capability.to_string()), into: event.into.map(|into| Cow::Owned(into.to_string())) }
    }
}

impl TryFrom<wire::CapabilityMerged<'_>> for domain::CapabilityMerged {
    type Error = Refusal;

    fn try_from(wire: wire::CapabilityMerged<'_>) -> Result<Self, Refusal> {
        Ok(Self { capability: parse("capability", &wire.capability)?, into: parse_optional("into", wire.into)? })
    }
}

impl<'a> From<&'a domain::CapabilityApproved> for wire::CapabilityApproved<'a> {
    fn from(event: &'a domain::CapabilityApproved) -> Self {
        Self { capability: Cow::Owned(event.capability.to_string()), approved: event.approved }
    }
}

impl TryFrom<wire::CapabilityApproved<'_>> for domain::CapabilityApproved {
    type Error = Refusal;

    fn try_from(wire: wire::CapabilityApproved<'_>) -> Result<Self, Refusal> {
        Ok(Self { capability: parse("capability", &wire.capability)?, approved: wire.approved })
    }
}

impl<'a> From<&'a domain::CapabilityRetired> for wire::CapabilityRetired<'a> {
    fn from(event: &'a domain::CapabilityRetired) -> Self {
        Self { capability: Cow::Owned(event.capability.to_string()), retired: event.retired }
    }
}

impl TryFrom<wire::CapabilityRetired<'_>> for domain::CapabilityRetired {
    type Error = Refusal;

    fn try_from(wire: wire::CapabilityRetired<'_>) -> Result<Self, Refusal> {
        Ok(Self { capability: parse("capability", &wire.capability)?, retired: wire.retired })
    }
}
