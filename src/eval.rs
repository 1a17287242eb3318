//! Offline evaluation (`pml eval`): the training traces are learnt as an agent would publish them, then pml and plain baselines
//! answer questions about the test traces, which are not learnt.

pub mod ablation;
pub mod curves;
pub mod learn;
pub mod metrics;
pub mod next;
pub mod next_rankers;
pub mod plan;
pub mod plot;
mod predictors;
pub mod prequential;
pub mod rankers;
pub mod report;

use std::collections::{BTreeMap, BTreeSet};

use crate::ask::question;
use crate::core::id::ToolId;
use crate::core::rank::Index;
use crate::dataset::TraceLine;
use crate::embed::{EmbedError, Embedder};
use metrics::{DiscoverScores, Means};
use rankers::Ranker;

/// A split of a dataset into training and test traces.
pub struct Split {
    pub train: Vec<TraceLine>,
    pub test: Vec<TraceLine>,
}

impl Split {
    /// Returns one split per fold: the traces of the fold are the test traces, all others the training traces.
    pub fn folds(traces: &[TraceLine]) -> Vec<Self> {
        let folds: BTreeSet<u32> = traces.iter().filter_map(|trace| trace.fold).collect();
        let split = |fold: u32| {
            let (test, train) = traces.iter().cloned().partition(|trace: &TraceLine| trace.fold == Some(fold));
            Self { train, test }
        };
        folds.into_iter().map(split).collect()
    }
}

/// Scores rankers on the intent of every test trace; the right answers are the distinct tools that the trace calls. Traces without a
/// known tool are skipped, and so is a ranker that needs a trained part while none serves.
pub fn discover(
    index: &Index,
    embedder: &dyn Embedder,
    test: &[TraceLine],
    rankers: &[Ranker],
) -> Result<BTreeMap<&'static str, DiscoverScores>, EmbedError> {
    let mut means: BTreeMap<&'static str, Means> = BTreeMap::new();
    for trace in test {
        let known = |tool: &ToolId| index.state().tools.position(tool).is_some();
        let right: BTreeSet<ToolId> = trace.tools().filter(known).collect();
        if right.is_empty() {
            continue;
        }
        let question = question(Some(embedder), trace.intent.clone())?;
        for ranker in rankers {
            let Some(ranked) = ranker.rank(index, &question) else { continue };
            let ranks: Vec<usize> =
                (1..).zip(&ranked).filter(|(_, tool)| right.contains(*tool)).map(|(rank, _)| rank).collect();
            means.entry(ranker.name()).or_default().add(&ranks);
        }
    }
    Ok(means.into_iter().map(|(name, means)| (name, means.scores())).collect())
}

/// Means over the folds of a cross-validation, all with equal weight.
pub fn mean(folds: &[BTreeMap<&'static str, DiscoverScores>]) -> BTreeMap<&'static str, DiscoverScores> {
    let names: BTreeSet<&'static str> = folds.iter().flat_map(BTreeMap::keys).copied().collect();
    let mean_of = |name| DiscoverScores::mean(&folds.iter().filter_map(|fold| fold.get(name).copied()).collect::<Vec<_>>());
    names.into_iter().map(|name| (name, mean_of(name))).collect()
}
