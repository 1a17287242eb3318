//! Looking up ids, first in memory and then in the index, and moving them from there to the index.

use std::sync::{Arc, PoisonError};

use super::StreamCache;
use crate::core::id::{RecordId, Seq};
use crate::log::ReadError;

/// Ids written to the index at once, and how many may wait for it before the follower waits.
const INDEXED_AT_ONCE: usize = 8_192;
const UNINDEXED_MAX: usize = 4 * INDEXED_AT_ONCE;

impl StreamCache {
    /// Returns the position of the record with this id, as far as this process knows.
    pub(in crate::log::jetstream) fn find(&self, id: RecordId) -> Result<Option<Seq>, ReadError> {
        Ok(self.find_all(&[id])?[0])
    }

    /// Returns whether a record with this id is known to be stored.
    pub(in crate::log::jetstream) fn knows(&self, id: RecordId) -> bool {
        self.find(id).is_ok_and(|position| position.is_some())
    }

    /// Returns the positions of the ids that are known to be stored. First those in memory, then the index: ids move only that way.
    pub(in crate::log::jetstream) fn find_all(&self, ids: &[RecordId]) -> Result<Vec<Option<Seq>>, ReadError> {
        let mut found: Vec<Option<Seq>> = {
            let state = self.lock();
            ids.iter().map(|id| state.position(*id)).collect()
        };
        let missing: Vec<usize> = (0..ids.len()).filter(|at| found[*at].is_none()).collect();
        if !missing.is_empty() {
            let indexed = self.ids.find(missing.iter().map(|at| ids[*at]))?;
            missing.into_iter().zip(indexed).for_each(|(at, seq)| found[at] = seq);
        }
        Ok(found)
    }

    /// Whether enough ids wait to be written to the index.
    pub(in crate::log::jetstream) fn has_ids_to_index(&self) -> bool {
        self.lock().positions.len() >= INDEXED_AT_ONCE
    }

    /// Writes the ids in memory to the index. Blocks.
    pub(in crate::log::jetstream) fn index_ids(&self) -> Result<(), ReadError> {
        let _turn = self.indexing_turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (ids, complete_to) = {
            let mut state = self.lock();
            state.indexing = Arc::new(std::mem::take(&mut state.positions));
            (Arc::clone(&state.indexing), self.followed())
        };
        let entries: Vec<(RecordId, Seq)> = ids.iter().map(|(id, seq)| (*id, *seq)).collect();
        let added = self.ids.add(&entries, complete_to);
        let mut state = self.lock();
        state.indexing = Arc::default();
        if let Err(error) = &added {
            // They stay known, and are written with the next ones.
            for (id, seq) in entries {
                state.positions.entry(id).or_insert(seq);
            }
            state.index_error = Some(error.to_string());
        } else {
            state.index_error = None;
        }
        self.indexed.send_modify(|batches| *batches += 1);
        added
    }

    /// Writes the ids in memory to the index and makes all of it durable. Blocks.
    pub(in crate::log::jetstream) fn close_index(&self) -> Result<(), ReadError> {
        self.index_ids()?;
        self.ids.sync()
    }

    /// Waits while too many ids wait for the index.
    pub(in crate::log::jetstream) async fn wait_for_index(&self) -> Result<(), ReadError> {
        let mut indexed = self.indexed.subscribe();
        loop {
            indexed.borrow_and_update();
            {
                let state = self.lock();
                if state.positions.len() <= UNINDEXED_MAX {
                    return Ok(());
                }
                if let Some(error) = &state.index_error {
                    return Err(ReadError::Storage(error.clone().into()));
                }
            }
            // `self` owns the sender, so waiting cannot fail.
            drop(indexed.changed().await);
        }
    }
}
