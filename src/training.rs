//! Training runs around the pure `core::train`: requests and progress, the records of a run, its memory, promotion and rollback.
//!
//! The trainer actor, the HTTP routes and the command line use this module, so all three record the same facts for the same run.

mod change;
mod memory;
mod records;
mod status;

use crate::core::event::ModelPart;
use crate::core::state::State;
use crate::core::train::{self, TrainSettings};

pub(crate) use change::{ChangeError, change_record, promotion, rollback};
pub(crate) use memory::memory_estimate;
pub(crate) use records::{promotion_id, training_records};
pub use status::{EndedRun, RunVerdict, RunningRun, Trainer, TrainerStatus};

/// A wish for a training run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainRequest {
    /// The parts to train; all if empty.
    pub parts: Vec<ModelPart>,
    /// The seed; derived from the last record if left out.
    pub seed: Option<u64>,
}

impl TrainRequest {
    /// One request for both: every part that either names, and the seed of the later one.
    #[must_use]
    pub fn merge(self, later: Self) -> Self {
        let all = self.parts.is_empty() || later.parts.is_empty();
        let wanted = |part: &ModelPart| self.parts.contains(part) || later.parts.contains(part);
        let parts = if all { Vec::new() } else { ModelPart::ALL.into_iter().filter(wanted).collect() };
        Self { parts, seed: later.seed.or(self.seed) }
    }

    /// The settings of the run.
    pub fn settings(&self) -> TrainSettings {
        let mut settings = TrainSettings::default();
        if !self.parts.is_empty() {
            settings.parts.clone_from(&self.parts);
        }
        settings
    }

    /// The seed of a run on this state.
    pub fn seed(&self, state: &State) -> u64 {
        self.seed.unwrap_or_else(|| train::seed(state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_requests_lose_neither_parts_nor_seed() {
        let request = |parts: &[ModelPart], seed| TrainRequest { parts: parts.to_vec(), seed };
        let head = request(&[ModelPart::Head], Some(7));
        let both = head.clone().merge(request(&[ModelPart::Encoder], None));
        assert_eq!(both, request(&[ModelPart::Head, ModelPart::Encoder], Some(7)));
        assert_eq!(head.merge(TrainRequest::default()), request(&[], Some(7)), "all parts include the head");
    }
}
