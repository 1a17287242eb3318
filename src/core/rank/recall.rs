//! Past intents near a question, and what succeeded with them: nearest neighbours, each weighing its similarity to a power.

use std::sync::Arc;

use super::documents::Documents;
use super::rows::Rows;
use crate::core::graph::{Node, NodeKind};
use crate::core::memory::PastIntent;
use crate::core::state::State;
use crate::core::text::clauses;
use crate::core::vectors::TextHash;

/// How far to look and how much nearer ones count more.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// Past runs that vote, the nearest ones.
    pub runs: u32,
    /// A vote weighs the similarity to this power.
    pub power: i32,
}

/// Sharp: what the nearest did.
pub const NEAR: Reach = Reach { runs: 50, power: 12 };
/// Smooth: what is usual around here.
pub const WIDE: Reach = Reach { runs: 20, power: 4 };
/// For one clause, which is less distinct than a whole intent.
pub const CLAUSE: Reach = Reach { runs: 20, power: 8 };

/// What a run that failed counts for, next to one that succeeded: some of what it did was right, but not all of it.
const FAILED_RUN: f32 = 0.5;

/// One past intent and how it votes.
#[derive(Clone, Debug)]
struct Past {
    remembered: Arc<PastIntent>,
    /// What one of its runs counts for, between a failed and a succeeded one.
    trust: f32,
    /// The share of its runs, so counted, that used a node.
    shares: Arc<[(Node, f32)]>,
}

impl Past {
    /// A run that went well is remembered with its capability, whose members are what it called; so those tell which of the uses
    /// stood in good runs.
    #[expect(clippy::cast_precision_loss, reason = "shares; the last digits do not matter")]
    fn new(remembered: &Arc<PastIntent>, state: &State) -> Self {
        let capabilities = remembered.used.iter().filter_map(|(node, times)| match node.kind() {
            NodeKind::Capability(position) => Some((state.capabilities.at(position), *times)),
            NodeKind::Tool(_) => None,
        });
        let good: Vec<_> = capabilities.collect();
        let counted = |good: u32, all: u32| {
            let good = good.min(all);
            good as f32 + FAILED_RUN * (all - good) as f32
        };
        let runs = counted(good.iter().map(|(_, times)| times).sum(), remembered.runs);
        let share = |&(node, times): &(Node, u32)| {
            let well = match node.kind() {
                NodeKind::Tool(_) => {
                    good.iter().filter(|(capability, _)| capability.members.contains(&node)).map(|(_, n)| n).sum()
                }
                NodeKind::Capability(_) => times,
            };
            (node, counted(well, times) / runs)
        };
        let shares = remembered.used.iter().map(share).collect();
        Self { remembered: Arc::clone(remembered), trust: runs / remembered.runs as f32, shares }
    }
}

/// Row of an intent that lacks its vector.
#[derive(Clone, Copy, Debug)]
struct Lacking {
    row: usize,
    hash: TextHash,
}

#[derive(Clone, Debug, Default)]
pub struct Recall {
    /// Number in the memory of the first entry: when the memory forgets it, everything is made anew.
    first: Option<u64>,
    entries: Vec<Past>,
    intents: Rows,
    /// The clauses of all intents; an intent of one clause stands for itself.
    clauses: Rows,
    /// The entry each clause belongs to.
    owners: Vec<u32>,
    intents_lacking: Vec<Lacking>,
    clauses_lacking: Vec<Lacking>,
}

/// A past intent near a question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    pub entry: usize,
    pub similarity: f32,
    /// What its vote weighs. All together weigh as much as the nearest is similar: a memory of other things has little to say.
    pub weight: f32,
}

impl Recall {
    pub(super) fn update(&mut self, state: &State, dim: usize, model_changed: bool) {
        let first = state.memory.iter().next().map(|(number, _)| number);
        if model_changed || self.first != first {
            *self = Self { first, intents: Rows::new(dim), clauses: Rows::new(dim), ..Self::default() };
        }
        for (at, (_, entry)) in state.memory.iter().enumerate() {
            match self.entries.get_mut(at) {
                Some(known) => {
                    if !Arc::ptr_eq(&known.remembered, entry) {
                        *known = Past::new(entry, state);
                    }
                }
                None => self.add(entry, state),
            }
        }
        fill(&mut self.intents, &mut self.intents_lacking, state);
        fill(&mut self.clauses, &mut self.clauses_lacking, state);
    }

    fn add(&mut self, entry: &Arc<PastIntent>, state: &State) {
        let owner = u32::try_from(self.entries.len()).expect("the memory is bounded");
        self.intents_lacking.push(Lacking { row: self.intents.len(), hash: entry.hash });
        self.intents.push_empty();
        let parts = clauses(&entry.intent);
        let hashes = if parts.is_empty() { vec![entry.hash] } else { parts.into_iter().map(TextHash::compute).collect() };
        for hash in hashes {
            self.clauses_lacking.push(Lacking { row: self.clauses.len(), hash });
            self.clauses.push_empty();
            self.owners.push(owner);
        }
        self.entries.push(Past::new(entry, state));
    }

    /// The nearest past intents, nearest first, as far as each of `reaches`; `except` is left out.
    pub fn near<const N: usize>(&self, vector: &[f32], reaches: [Reach; N], except: Option<usize>) -> [Vec<Neighbour>; N] {
        let products = &self.intents.products(&[vector])[0];
        reaches.map(|reach| self.neighbours(products, |row| row, reach, except))
    }

    /// For each vector, the nearest past intents by their clauses; one with several near clauses counts several times.
    pub fn near_clauses(&self, vectors: &[&[f32]], reach: Reach, except: Option<usize>) -> Vec<Vec<Neighbour>> {
        let owner = |row: usize| self.owners[row] as usize;
        let products = self.clauses.products(vectors);
        products.iter().map(|products| self.neighbours(products, owner, reach, except)).collect()
    }

    fn neighbours(
        &self,
        products: &[f32],
        entry_of: impl Fn(usize) -> usize,
        reach: Reach,
        except: Option<usize>,
    ) -> Vec<Neighbour> {
        let positive = products.iter().enumerate().filter(|(_, product)| **product > 0.0);
        let mut rows: Vec<(f32, usize)> = positive.map(|(row, product)| (*product, row)).collect();
        rows.retain(|(_, row)| Some(entry_of(*row)) != except);
        let nearer = |a: &(f32, usize), b: &(f32, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        let keep = reach.runs as usize;
        if rows.len() > keep {
            rows.select_nth_unstable_by(keep - 1, nearer);
            rows.truncate(keep);
        }
        rows.sort_unstable_by(nearer);
        let mut left = reach.runs;
        let mut neighbours = Vec::with_capacity(rows.len());
        for (similarity, row) in rows {
            let entry = entry_of(row);
            let Past { remembered, trust, .. } = &self.entries[entry];
            let runs = remembered.runs.min(left);
            if runs == 0 {
                break;
            }
            left -= runs;
            #[expect(clippy::cast_precision_loss, reason = "at most `reach.runs`")]
            let weight = similarity.powi(reach.power) * runs as f32 * trust;
            neighbours.push(Neighbour { entry, similarity, weight });
        }
        let total: f32 = neighbours.iter().map(|neighbour| neighbour.weight).sum();
        let nearest = neighbours.first().map_or(0.0, |neighbour| neighbour.similarity).min(1.0);
        if total > 0.0 {
            for neighbour in &mut neighbours {
                neighbour.weight *= nearest / total;
            }
        }
        neighbours
    }

    /// By slot: the share of the votes for it.
    pub fn votes(&self, neighbours: &[Neighbour], documents: &Documents) -> Vec<f32> {
        let mut votes = vec![0.0; documents.len()];
        for neighbour in neighbours {
            for (node, share) in self.shares(neighbour.entry) {
                if let Some(slot) = documents.slot(*node) {
                    votes[slot] += neighbour.weight * share;
                }
            }
        }
        votes
    }

    pub fn entry(&self, entry: usize) -> &PastIntent {
        &self.entries[entry].remembered
    }

    /// What was used with an entry, and in which share of its runs; failed ones count less.
    pub fn shares(&self, entry: usize) -> &[(Node, f32)] {
        &self.entries[entry].shares
    }

    /// The vector of an entry; zeros while it has none.
    pub fn vector(&self, entry: usize) -> &[f32] {
        self.intents.row(entry)
    }

    /// The vectors of the clauses of an entry, and whether it has any besides itself.
    pub fn clause_vectors(&self, entry: usize) -> impl Iterator<Item = &[f32]> {
        let owner = u32::try_from(entry).expect("the memory is bounded");
        let from = self.owners.partition_point(|other| *other < owner);
        let to = self.owners.partition_point(|other| *other <= owner);
        (from..to).map(|row| self.clauses.row(row))
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

fn fill(rows: &mut Rows, lacking: &mut Vec<Lacking>, state: &State) {
    lacking.retain(|lacking| match state.vectors.get(lacking.hash) {
        Some(vector) => {
            rows.set(lacking.row, vector);
            false
        }
        None => true,
    });
}
