//! `pml eval`: learn the training traces as an agent would have told them, answer the test traces without learning from them, and
//! compare what pml answers with plain baselines.

pub mod curves;
pub mod learn;
pub mod metrics;
pub mod next;
pub mod next_rankers;
pub mod plot;
pub mod prequential;
pub mod rankers;

use std::collections::{BTreeMap, BTreeSet};

use crate::ask::question;
use crate::core::id::ToolId;
use crate::core::rank::Index;
use crate::dataset::TraceLine;
use crate::embed::{EmbedError, Embedder};
use metrics::{Discover, Means};
use rankers::Ranker;

/// Traces to learn from and traces to be asked about.
pub struct Split {
    pub train: Vec<TraceLine>,
    pub test: Vec<TraceLine>,
}

impl Split {
    /// One split per fold: its own traces are the test, the others the training.
    pub fn folds(traces: &[TraceLine]) -> Vec<Self> {
        let folds: BTreeSet<u32> = traces.iter().filter_map(|trace| trace.fold).collect();
        let split = |fold: u32| {
            let (test, train) = traces.iter().cloned().partition(|trace: &TraceLine| trace.fold == Some(fold));
            Self { train, test }
        };
        folds.into_iter().map(split).collect()
    }
}

/// Asks every ranker about every test trace; gold are the distinct tools it calls. Traces that call nothing known are left out.
pub fn discover(
    index: &Index,
    embedder: &dyn Embedder,
    test: &[TraceLine],
) -> Result<BTreeMap<&'static str, Discover>, EmbedError> {
    let mut means: BTreeMap<&'static str, Means> = BTreeMap::new();
    for trace in test {
        let known = |tool: &ToolId| index.state().tools.position(tool).is_some();
        let gold: BTreeSet<ToolId> = trace.tools().filter(known).collect();
        if gold.is_empty() {
            continue;
        }
        let question = question(Some(embedder), trace.intent.clone())?;
        for ranker in Ranker::ALL {
            let ranked = ranker.rank(index, &question);
            let ranks: Vec<usize> = (1..).zip(&ranked).filter(|(_, tool)| gold.contains(*tool)).map(|(rank, _)| rank).collect();
            means.entry(ranker.name()).or_default().add(&ranks);
        }
    }
    Ok(means.into_iter().map(|(name, means)| (name, means.discover())).collect())
}

/// The mean over the folds of a cross-validation, each counting alike.
pub fn mean(folds: &[BTreeMap<&'static str, Discover>]) -> BTreeMap<&'static str, Discover> {
    let names: BTreeSet<&'static str> = folds.iter().flat_map(BTreeMap::keys).copied().collect();
    let of = |name| Discover::mean(&folds.iter().filter_map(|fold| fold.get(name).copied()).collect::<Vec<_>>());
    names.into_iter().map(|name| (name, of(name))).collect()
}
