//! Promotion and rollback of trained parts: what serves changes at one record, the same in every process.

use super::{Notice, State};
use crate::event::{ModelPromoted, ModelRolledBack};

impl State {
    pub(super) fn promote(&mut self, event: &ModelPromoted) -> Vec<Notice> {
        if !self.trained.promote(event) {
            return Vec::new();
        }
        vec![Notice::ModelPromoted { version: event.version.clone() }]
    }

    pub(super) fn roll_back(&mut self, event: &ModelRolledBack) -> Vec<Notice> {
        if !self.trained.roll_back(event) {
            return Vec::new();
        }
        vec![Notice::ModelRolledBack { part: event.part, to: event.to.clone() }]
    }
}
