//! The ablation: the answers with everything trained, and without one part at a time.

use std::str::FromStr;
use std::sync::Arc;

use super::learn::Learner;
use super::metrics::DiscoverScores;
use super::next::{self, NextScores, next};
use super::next_rankers::NextRanker;
use super::rankers::Ranker;
use super::{Split, discover, mean};
use crate::core::event::ModelPart;
use crate::core::graph::cold_start::ColdStart;
use crate::core::graph::measures::{Measures, tool_vectors};
use crate::core::rank::Index;
use crate::core::train::{Switch, TrainSettings, TrainedPart};
use crate::embed::{EmbedError, Embedder};

/// What a training does without: a part, a part of SHGAT, or the signal `hyperpath`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    Part(ModelPart),
    Switch(Switch),
    Hyperpath,
}

impl Without {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 9] = [
        Self::Part(ModelPart::Head),
        Self::Part(ModelPart::Encoder),
        Self::Part(ModelPart::Shgat),
        Self::Switch(Switch::MessagePassing),
        Self::Switch(Switch::Priorities),
        Self::Switch(Switch::Semantic),
        Self::Switch(Switch::Structure),
        Self::Switch(Switch::Temporal),
        Self::Hyperpath,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Part(part) => part.name(),
            Self::Switch(switch) => switch.name(),
            Self::Hyperpath => "hyperpath",
        }
    }

    /// Leaves it out of a training.
    pub fn leave_out(self, settings: &mut TrainSettings) {
        match self {
            Self::Part(left_out) => settings.parts.retain(|part| *part != left_out),
            Self::Switch(switch) => switch.turn_off(&mut settings.shgat.switches),
            Self::Hyperpath => settings.hyperpaths = false,
        }
    }
}

impl FromStr for Without {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|part| part.name() == text).ok_or_else(|| format!("'{text}' is none of {}", known()))
    }
}

/// How a row of the table was trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    Everything,
    Without(Without),
    Untrained,
}

impl Variant {
    /// The rows of the table, in order.
    pub fn all() -> Vec<Self> {
        let without = Without::ALL.into_iter().map(Self::Without);
        std::iter::once(Self::Everything).chain(without).chain([Self::Untrained]).collect()
    }

    pub fn name(self) -> String {
        match self {
            Self::Everything => "everything".to_owned(),
            Self::Without(without) => format!("without {}", without.name()),
            Self::Untrained => "untrained".to_owned(),
        }
    }

    fn settings(self) -> Option<TrainSettings> {
        let mut settings = TrainSettings::default();
        match self {
            Self::Everything => {}
            Self::Without(without) => without.leave_out(&mut settings),
            Self::Untrained => return None,
        }
        Some(settings)
    }
}

/// What pml answers under one variant.
pub struct AblationRow {
    pub variant: Variant,
    pub discover: DiscoverScores,
    pub next: NextScores,
    /// The parts that the gate accepted, by split.
    pub accepted: Vec<Vec<ModelPart>>,
}

/// Trains and evaluates every variant on what a learner has learnt from each split. `done` is called after every evaluation.
pub fn ablation(
    learnt: &[(Learner<'_>, &Split)],
    embedder: &dyn Embedder,
    cold_start: ColdStart,
    done: impl Fn(),
) -> Result<Vec<AblationRow>, EmbedError> {
    let mut rows = Vec::new();
    for variant in Variant::all() {
        let (mut found, mut steps, mut accepted) = (Vec::new(), Vec::new(), Vec::new());
        for (learner, split) in learnt {
            let mut learner = learner.clone();
            let parts = variant.settings().map(|settings| learner.train(&settings)).unwrap_or_default();
            let is_accepted = |part: &&TrainedPart| part.event.accepted;
            accepted.push(parts.iter().filter(is_accepted).map(|part| part.event.version.part()).collect());
            let index = Index::default().update(Arc::new(learner.into_state())).calibrated();
            found.push(discover(&index, embedder, &split.test, &[Ranker::Pml])?);
            let measures = Measures::compute(index.state(), None, cold_start, &tool_vectors(index.state()));
            steps.push(next(index.state(), &measures, embedder, split, &[NextRanker::Pml])?);
            done();
        }
        let discover = mean(&found).remove(Ranker::Pml.name()).unwrap_or_else(|| DiscoverScores::mean(&[]));
        let next = next::mean(&steps).remove(NextRanker::Pml.name()).unwrap_or_default();
        rows.push(AblationRow { variant, discover, next, accepted });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_can_be_left_out_by_its_name() {
        for without in Without::ALL {
            assert_eq!(without.name().parse(), Ok(without));
            let (mut settings, all) = (TrainSettings::default(), TrainSettings::default());
            without.leave_out(&mut settings);
            let changed = settings.parts != all.parts
                || settings.shgat.switches != all.shgat.switches
                || settings.hyperpaths != all.hyperpaths;
            assert!(changed, "{without:?}");
        }
        assert!("ranker".parse::<Without>().is_err());
        assert_eq!(Variant::all().len(), 11);
    }
}
