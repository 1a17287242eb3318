//! Promotion and rollback of trained parts: what serves changes at one record, the same in every process.

use super::{Notice, State};
use crate::event::{ModelPromoted, ModelRolledBack};
use crate::predict::parts::Parts;

impl State {
    pub(super) fn promote(&mut self, event: &ModelPromoted) -> Vec<Notice> {
        if !self.trained.promote(event) {
            return Vec::new();
        }
        self.parts_changed();
        vec![Notice::ModelPromoted { version: event.version.clone() }]
    }

    pub(super) fn roll_back(&mut self, event: &ModelRolledBack) -> Vec<Notice> {
        if !self.trained.roll_back(event) {
            return Vec::new();
        }
        self.parts_changed();
        vec![Notice::ModelRolledBack { part: event.part, to: event.to.clone() }]
    }

    /// Derives the parts that serve from the trained versions and the embedding model.
    pub(super) fn parts_changed(&mut self) {
        self.predictor.parts = Parts::new(&self.trained, self.vectors.model());
    }
}
