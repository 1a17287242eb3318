//! Past intents near a question, and what succeeded with them: nearest neighbours, each weighing its similarity to a power.

use std::sync::Arc;

use super::documents::Documents;
use super::rows::Rows;
use crate::core::memory::Remembered;
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
    entries: Vec<Arc<Remembered>>,
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
                    if !Arc::ptr_eq(known, entry) {
                        *known = Arc::clone(entry);
                    }
                }
                None => self.add(entry),
            }
        }
        fill(&mut self.intents, &mut self.intents_lacking, state);
        fill(&mut self.clauses, &mut self.clauses_lacking, state);
    }

    fn add(&mut self, entry: &Arc<Remembered>) {
        let owner = u32::try_from(self.entries.len()).expect("the memory is bounded");
        self.intents_lacking.push(Lacking { row: self.intents.len(), hash: entry.hash });
        self.intents.push_empty();
        let parts = clauses(&entry.intent);
        let hashes = if parts.is_empty() { vec![entry.hash] } else { parts.into_iter().map(TextHash::of).collect() };
        for hash in hashes {
            self.clauses_lacking.push(Lacking { row: self.clauses.len(), hash });
            self.clauses.push_empty();
            self.owners.push(owner);
        }
        self.entries.push(Arc::clone(entry));
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
            let runs = self.entries[entry].runs.min(left);
            if runs == 0 {
                break;
            }
            left -= runs;
            #[expect(clippy::cast_precision_loss, reason = "at most `reach.runs`")]
            let weight = similarity.powi(reach.power) * runs as f32;
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
            let entry = &self.entries[neighbour.entry];
            for (node, times) in &entry.used {
                if let Some(slot) = documents.slot(*node) {
                    #[expect(clippy::cast_precision_loss, reason = "a share; the last digits do not matter")]
                    let share = *times as f32 / entry.runs as f32;
                    votes[slot] += neighbour.weight * share;
                }
            }
        }
        votes
    }

    pub fn entry(&self, entry: usize) -> &Remembered {
        &self.entries[entry]
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
