//! The fold of what people decide about capabilities, as far as more than the table of capabilities changes.

use super::State;
use crate::capability::Capability;
use crate::event::CapabilityRenamed;
use crate::id::Seq;

impl State {
    /// Gives a capability another name. It is found by its name, so another text needs a vector.
    pub(super) fn rename_capability(&mut self, event: &CapabilityRenamed, seq: Seq) {
        let text = |state: &Self| state.capabilities.get(event.capability).and_then(Capability::text);
        let before = text(self);
        self.capabilities.rename(event.capability, event.name.as_deref(), seq);
        let now = text(self);
        self.text_changed(before, now);
    }
}

#[cfg(test)]
mod tests {
    use crate::event::{CapabilityRenamed, Event};
    use crate::given::History;

    #[test]
    fn a_renamed_capability_needs_the_vector_of_its_new_name_and_then_again_of_its_own() {
        let mut history = History::new("run ok zip: fs:list, fs:zip < fs:list");
        let capability = history.state.capabilities.at(0).id;
        let lacking = |history: &History| -> Vec<String> {
            history.state.vectors.lacking("m", usize::MAX).into_iter().map(|(_, text)| text.to_string()).collect()
        };
        let before = lacking(&history);
        let mut rename = |name: Option<&str>| {
            let name = name.map(str::to_owned);
            history.apply(Event::CapabilityRenamed(CapabilityRenamed { capability, name }));
            lacking(&history)
        };
        assert!(rename(Some("pack everything")).iter().any(|text| text.contains("pack everything")));
        assert_eq!(rename(None), before);
    }
}
