//! Nearest-neighbour search over the past intents: those near a question vote for what succeeded with them, each with its
//! similarity to a power as weight.

use std::sync::Arc;

use super::documents::Documents;
use super::packed::PackedRows;
use crate::graph::{Node, NodeKind};
use crate::memory;
use crate::predict::corpus::{largest, largest_of};
use crate::state::State;
use crate::text::clauses;
use crate::vectors::TextHash;

/// How many runs vote, and how fast the weight falls with the similarity.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// Past runs that vote, the nearest first.
    pub runs: u32,
    /// The weight of a vote is its similarity to this power.
    pub power: i32,
}

/// For a whole intent, sharp: only the most similar intents have weight.
pub const NEAR: Reach = Reach { runs: 50, power: 12 };
/// For a whole intent, smooth: similar intents have similar weights.
pub const WIDE: Reach = Reach { runs: 20, power: 4 };
/// For one clause, which is less distinct than a whole intent.
pub const CLAUSE: Reach = Reach { runs: 20, power: 8 };

/// Weight of a failed run relative to a successful one: some of its calls were right, but not all.
const FAILED_RUN: f32 = 0.5;

/// One past intent with its voting weights.
#[derive(Clone, Debug)]
struct VotingIntent {
    remembered: Arc<memory::PastIntent>,
    /// Mean weight of its runs, from [`FAILED_RUN`] (all failed) to 1 (all succeeded).
    trust: f32,
    /// By node, the weighted share of the runs that used it.
    shares: Arc<[(Node, f32)]>,
}

impl VotingIntent {
    /// A successful run is remembered with its capability, whose members are its calls; so the capabilities tell which uses of a tool
    /// belong to successful runs.
    #[expect(clippy::cast_precision_loss, reason = "shares; the last digits do not matter")]
    fn new(remembered: &Arc<memory::PastIntent>, state: &State) -> Self {
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

/// A row whose vector is not known yet.
#[derive(Clone, Copy, Debug)]
struct MissingVector {
    row: usize,
    hash: TextHash,
}

/// The past intents of the memory, in its order, with the vectors of the intents and their clauses.
#[derive(Clone, Debug, Default)]
pub struct IntentIndex {
    /// Number in the memory of the first entry; when the memory forgets that entry, the index is rebuilt.
    first: Option<u64>,
    entries: Vec<VotingIntent>,
    intent_rows: PackedRows,
    /// The clauses of all intents; an intent of one clause is its own clause.
    clause_rows: PackedRows,
    /// The entry each clause belongs to.
    owners: Vec<u32>,
    intents_missing: Vec<MissingVector>,
    clauses_missing: Vec<MissingVector>,
}

/// A past intent near a question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    pub entry: usize,
    pub similarity: f32,
    /// Weight of its vote. The weights sum to the similarity of the nearest neighbour, so a memory without similar intents votes weakly.
    pub weight: f32,
}

impl IntentIndex {
    /// Brings the index up to `state`: new entries, changed entries, and vectors that have become known.
    pub(super) fn update(&mut self, state: &State, dim: usize, model_changed: bool) {
        let first = state.memory.iter().next().map(|(number, _)| number);
        if model_changed || self.first != first {
            *self = Self { first, intent_rows: PackedRows::new(dim), clause_rows: PackedRows::new(dim), ..Self::default() };
        }
        for (at, (_, entry)) in state.memory.iter().enumerate() {
            match self.entries.get_mut(at) {
                Some(known) => {
                    if !Arc::ptr_eq(&known.remembered, entry) {
                        *known = VotingIntent::new(entry, state);
                    }
                }
                None => self.add(entry, state),
            }
        }
        fill_missing(&mut self.intent_rows, &mut self.intents_missing, state);
        fill_missing(&mut self.clause_rows, &mut self.clauses_missing, state);
    }

    fn add(&mut self, entry: &Arc<memory::PastIntent>, state: &State) {
        let owner = u32::try_from(self.entries.len()).expect("the memory is bounded");
        self.intents_missing.push(MissingVector { row: self.intent_rows.len(), hash: entry.hash });
        self.intent_rows.push_empty();
        let parts = clauses(&entry.intent);
        let hashes = if parts.is_empty() { vec![entry.hash] } else { parts.into_iter().map(TextHash::compute).collect() };
        for hash in hashes {
            self.clauses_missing.push(MissingVector { row: self.clause_rows.len(), hash });
            self.clause_rows.push_empty();
            self.owners.push(owner);
        }
        self.entries.push(VotingIntent::new(entry, state));
    }

    /// The neighbours of a vector for each of `reaches`, nearest first, without the entry `except`.
    pub fn nearest<const N: usize>(&self, vector: &[f32], reaches: [Reach; N], except: Option<usize>) -> [Vec<Neighbour>; N] {
        let products = &self.intent_rows.products(&[vector])[0];
        let farthest = reaches.iter().map(|reach| reach.runs).max().unwrap_or_default();
        let rows = nearest_rows(products, farthest, |row| row, except);
        reaches.map(|reach| self.neighbours(products, &rows, |row| row, reach))
    }

    /// For each vector, the past intents with the nearest clauses; an intent with several near clauses appears several times.
    pub fn nearest_by_clause(&self, vectors: &[&[f32]], reach: Reach, except: Option<usize>) -> Vec<Vec<Neighbour>> {
        let owner = |row: usize| self.owners[row] as usize;
        let products = self.clause_rows.products(vectors);
        let near = products.iter().map(|products| {
            let rows = nearest_rows(products, reach.runs, owner, except);
            self.neighbours(products, &rows, owner, reach)
        });
        near.collect()
    }

    /// The neighbours among `rows`, which are the nearest ones, nearest first, at least as many as the runs that vote.
    fn neighbours(&self, products: &[f32], rows: &[u32], entry_of: impl Fn(usize) -> usize, reach: Reach) -> Vec<Neighbour> {
        let mut left = reach.runs;
        let mut neighbours = Vec::with_capacity(rows.len().min(reach.runs as usize));
        for row in rows.iter().map(|row| *row as usize) {
            let (entry, similarity) = (entry_of(row), products[row]);
            let VotingIntent { remembered, trust, .. } = &self.entries[entry];
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

    /// The share of the votes for every slot.
    pub fn votes(&self, neighbours: &[Neighbour], documents: &Documents) -> Vec<f32> {
        let mut votes = vec![0.0; documents.len()];
        for neighbour in neighbours {
            for (node, share) in self.shares(neighbour.entry) {
                if let Some(slot) = documents.counted_slot(*node) {
                    votes[slot] += neighbour.weight * share;
                }
            }
        }
        votes
    }

    pub fn entry(&self, entry: usize) -> &memory::PastIntent {
        &self.entries[entry].remembered
    }

    /// The nodes used with an entry, each with the share of the runs that used it; failed runs count less.
    pub fn shares(&self, entry: usize) -> &[(Node, f32)] {
        &self.entries[entry].shares
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// The rows with the largest products, at most `count`, the largest first, without those of the entry `except`.
fn nearest_rows(products: &[f32], count: u32, entry_of: impl Fn(usize) -> usize, except: Option<usize>) -> Vec<u32> {
    match except {
        None => largest(products, count as usize),
        Some(except) => largest_of(products, count as usize, |row| entry_of(row as usize) != except),
    }
}

/// Copies vectors that have become known into their rows and drops those rows from `missing`.
fn fill_missing(rows: &mut PackedRows, missing: &mut Vec<MissingVector>, state: &State) {
    missing.retain(|missing| match state.vectors.get(missing.hash) {
        Some(vector) => {
            rows.set(missing.row, Some(vector));
            false
        }
        None => true,
    });
}
