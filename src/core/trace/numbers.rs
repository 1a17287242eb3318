//! An index from the hashes of keys to the numbers of entries, by open addressing with linear probing. A lookup reads one or two
//! neighbouring slots, where a tree of a hundred thousand keys reads memory at each of its levels.
//!
//! Clones share the slots; the first change of a chunk after a clone copies that chunk. The order of the slots depends on the history
//! of insertions, so nothing may depend on it.

use std::sync::Arc;

use crate::hash::mix;

/// Slots of a chunk, as a power of two.
const CHUNK_BITS: u32 = 9;
const CHUNK_SLOTS: usize = 1 << CHUNK_BITS;
/// Most slots, as a power of two: the tag of a slot has as many bits.
const SLOTS_BITS_MAX: u32 = 32;

/// A slot: the number of an entry, or none, and the upper half of the mixed hash of its key, which also says where it belongs.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    tag: u32,
    number: Option<Number>,
}

/// The number of an entry: its place in the order of insertions, modulo 2^32 - 1, and one more.
pub(super) type Number = std::num::NonZeroU32;

/// At most half of the slots are taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    chunks: Arc<Vec<Arc<[Slot; CHUNK_SLOTS]>>>,
    len: usize,
}

impl Numbers {
    /// The number of the entry with this hash that `is_it` accepts.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(Number) -> bool) -> Option<Number> {
        let tag = tag(hash);
        let mut taken = self.probe(tag).map(|at| self.slot(at)).map_while(|slot| Some((slot.tag, slot.number?)));
        taken.find_map(|(other, number)| (other == tag && is_it(number)).then_some(number))
    }

    /// Adds an entry that is not in the index.
    pub(super) fn insert(&mut self, hash: u64, number: Number) {
        if 2 * (self.len + 1) > self.slots() {
            self.grow();
        }
        self.place(Slot { tag: tag(hash), number: Some(number) });
        self.len += 1;
    }

    /// Removes the entry with this hash and number.
    pub(super) fn remove(&mut self, hash: u64, number: Number) {
        let found = self
            .probe(tag(hash))
            .take_while(|at| self.slot(*at).number.is_some())
            .find(|at| self.slot(*at).number == Some(number));
        let Some(mut free) = found else { return };
        self.len -= 1;
        // Entries after the free slot move up, unless that would put them before the place where a lookup begins.
        let mut at = free;
        loop {
            at = (at + 1) & (self.slots() - 1);
            let slot = self.slot(at);
            if slot.number.is_none() {
                break;
            }
            let home = self.home(slot.tag);
            if at.wrapping_sub(home) & (self.slots() - 1) >= at.wrapping_sub(free) & (self.slots() - 1) {
                *self.slot_mut(free) = slot;
                free = at;
            }
        }
        *self.slot_mut(free) = Slot::default();
    }

    fn slots(&self) -> usize {
        self.chunks.len() << CHUNK_BITS
    }

    /// Where a lookup of this tag begins.
    fn home(&self, tag: u32) -> usize {
        let bits = self.slots().trailing_zeros();
        debug_assert!(bits <= SLOTS_BITS_MAX, "more slots than tags");
        (tag >> (SLOTS_BITS_MAX - bits)) as usize
    }

    /// The slots in which an entry with this tag may be, in order; none if there are no slots.
    fn probe(&self, tag: u32) -> impl Iterator<Item = usize> + use<> {
        let slots = self.slots();
        let home = if slots == 0 { 0 } else { self.home(tag) };
        (0..slots).map(move |step| (home + step) & (slots - 1))
    }

    fn slot(&self, at: usize) -> Slot {
        self.chunks[at >> CHUNK_BITS][at & (CHUNK_SLOTS - 1)]
    }

    fn slot_mut(&mut self, at: usize) -> &mut Slot {
        let chunk = &mut Arc::make_mut(&mut self.chunks)[at >> CHUNK_BITS];
        &mut Arc::make_mut(chunk)[at & (CHUNK_SLOTS - 1)]
    }

    fn place(&mut self, slot: Slot) {
        let free = self.probe(slot.tag).find(|at| self.slot(*at).number.is_none());
        *self.slot_mut(free.expect("half of the slots are free")) = slot;
    }

    /// Doubles the slots.
    fn grow(&mut self) {
        let empty = Arc::new([Slot::default(); CHUNK_SLOTS]);
        let chunks = vec![empty; (2 * self.chunks.len()).max(1)];
        let before = std::mem::replace(&mut self.chunks, Arc::new(chunks));
        for slot in before.iter().flat_map(|chunk| chunk.iter()).filter(|slot| slot.number.is_some()) {
            self.place(*slot);
        }
    }
}

fn tag(hash: u64) -> u32 {
    u32::try_from(mix(hash) >> 32).expect("the upper half")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn number(number: u32) -> Number {
        Number::new(number).unwrap()
    }

    /// Checks that the index holds exactly `model`, in which keys are their own hashes.
    fn check(index: &Numbers, model: &BTreeMap<u64, Number>, keys: u64) {
        assert_eq!(index.len, model.len());
        for key in 0..keys {
            let is_it = |number: Number| model.get(&key) == Some(&number);
            assert_eq!(index.find(key, is_it), model.get(&key).copied(), "{key}");
        }
    }

    #[test]
    fn it_holds_what_was_inserted_and_not_removed() {
        const KEYS: u64 = 3_000;
        let (mut index, mut model) = (Numbers::default(), BTreeMap::new());
        check(&index, &model, 3);
        let mut random = 7_u64;
        for step in 1..20_000_u32 {
            random = mix(random.wrapping_add(u64::from(step)));
            let key = random % KEYS;
            if let Some(known) = model.remove(&key) {
                index.remove(key, known);
            } else {
                index.insert(key, number(step));
                model.insert(key, number(step));
            }
            if step % 1_999 == 0 {
                check(&index, &model, KEYS);
            }
        }
        check(&index, &model, KEYS);
    }

    #[test]
    fn entries_with_the_same_hash_are_told_apart_by_their_numbers() {
        let mut index = Numbers::default();
        (1..=300).for_each(|entry| index.insert(9, number(entry)));
        (1..=300).step_by(2).for_each(|entry| index.remove(9, number(entry)));
        for entry in 1..=300 {
            let expected = (entry % 2 == 0).then(|| number(entry));
            assert_eq!(index.find(9, |found| found == number(entry)), expected);
        }
    }

    #[test]
    fn a_clone_stays_as_it_was() {
        let mut index = Numbers::default();
        (1..=100_u32).for_each(|entry| index.insert(u64::from(entry), number(entry)));
        let before = index.clone();
        (1..=50_u32).for_each(|entry| index.remove(u64::from(entry), number(entry)));
        assert_eq!((index.len, before.len), (50, 100));
        assert_eq!(before.find(1, |_| true), Some(number(1)));
        assert_eq!(index.find(1, |found| found == number(1)), None);
    }
}
