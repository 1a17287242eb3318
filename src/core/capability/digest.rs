//! The digest of the table of capabilities.

use super::Capabilities;
use crate::digest::{DigestWriter, Digestible};
use crate::event::Json;

impl Digestible for Capabilities {
    fn digest(&self, writer: &mut DigestWriter) {
        writer.len(self.table.len());
        for capability in &self.table {
            writer.u128(capability.id.to_bits()).text(&capability.handle).text(&capability.name).text(&capability.description);
            writer.text(capability.status.name()).u32(capability.level);
            writer.u64(capability.usage).u64(capability.successes).u64(capability.duration_total_ms);
            for text in [capability.code.as_deref(), capability.parameters_schema.as_ref().map(Json::as_str)] {
                writer.optional(text, |writer, text| {
                    writer.text(text);
                });
            }
            writer.u64(capability.first_seq.0).u64(capability.last_seq.0);
            capability.decided.digest(writer);
            capability.structure.digest(writer);
            writer.len(capability.members.len()).len(capability.parents.len());
            for node in capability.members.iter().chain(&capability.parents) {
                writer.u32(node.to_bits());
            }
            writer.len(capability.intents.len());
            for intent in &capability.intents {
                writer.text(intent);
            }
        }
    }
}
