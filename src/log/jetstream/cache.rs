//! This process's cache of the stream: how far it has read, the newest records, and the ids that are not in the index yet.

mod indexing;

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::ids::IdIndex;
use super::message::{Content, EncodedMessage, StreamMessage};
use super::scan::Scans;
use crate::clock::Clock;
use crate::core::event::Record;
use crate::core::event::codec::Corrupt;
use crate::core::id::{RecordId, Seq};
use crate::log::recent::RecentRecords;
use crate::log::{ForeignMessages, ReadError};

/// How far the follower reads ahead of its readers until it has reached `end_at_open`; half of the old records that `recent` keeps.
const AHEAD_RECORDS: u64 = 16_384;
/// After this long without an append of its own a process follows the stream again, for the records of others.
const QUIET: Duration = Duration::from_millis(50);

/// The cached part of the stream, shared by readers, writer and follower.
pub(super) struct StreamCache {
    recent: RecentRecords,
    state: Mutex<CacheState>,
    /// The last position that holds a record; the record itself may not have been delivered yet.
    tail: watch::Sender<Seq>,
    /// The last position up to which this process has every message, from the follower or because it wrote it. Changes only while
    /// `state` is locked.
    followed: watch::Sender<Seq>,
    /// The position up to which the follower may read.
    follow_limit: watch::Sender<Seq>,
    /// The last position that somebody waits for because the server says that the stream holds it.
    awaited: AtomicU64,
    /// The end of the stream when this log was opened: once the follower has reached it, the ids of all earlier records are known.
    end_at_open: Seq,
    ids: IdIndex,
    /// Held by who moves ids from memory to the index: batches must be written in order, because each says up to where it is complete.
    indexing_turn: Mutex<()>,
    /// Counts the batches of ids that were written to the index.
    indexed: watch::Sender<u64>,
    clock: Clock,
}

#[expect(clippy::disallowed_types, reason = "several lookups per record; what is read of a map in order is sorted")]
type ById<V> = std::collections::HashMap<RecordId, V>;

/// What this process knew of a fact before it was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownBefore {
    Nothing,
    /// An earlier append sent it, or the same append did, and its outcome is not known yet.
    InFlight,
    Stored(Seq),
}

#[derive(Default)]
struct CacheState {
    /// The positions of ids that are not in the index yet.
    positions: ById<Seq>,
    /// Those that are being written to it.
    indexing: Arc<ById<Seq>>,
    /// Why ids cannot be written to the index.
    index_error: Option<String>,
    /// Facts that were sent, so that this process need not decode what it has just encoded. Removed when they are acknowledged or
    /// delivered by the stream, or when their append has failed or was a duplicate.
    in_flight: ById<EncodedMessage>,
    /// Records at positions after one that has not been delivered yet.
    ahead: BTreeMap<Seq, (Record, usize)>,
    /// The first record that cannot be read. The follower stops before it.
    damage: Option<(Seq, Corrupt)>,
    foreign: ForeignMessages,
}

impl CacheState {
    /// The position of an id that is not in the index.
    fn position(&self, id: RecordId) -> Option<Seq> {
        self.positions.get(&id).or_else(|| self.indexing.get(&id)).copied()
    }
}

impl StreamCache {
    /// `tail` is the last position that holds a record, `end_at_open` the last one that holds a message. What the index covers is not
    /// followed again.
    pub(super) fn new(tail: Seq, end_at_open: Seq, ids: IdIndex, clock: Clock) -> Result<Self, ReadError> {
        let followed = ids.complete_to()?;
        let follow_limit = if followed >= end_at_open { Seq(u64::MAX) } else { Seq::ZERO };
        Ok(Self {
            recent: RecentRecords::default(),
            state: Mutex::default(),
            tail: watch::Sender::new(tail),
            followed: watch::Sender::new(followed),
            follow_limit: watch::Sender::new(follow_limit),
            awaited: AtomicU64::new(0),
            end_at_open,
            ids,
            indexing_turn: Mutex::default(),
            indexed: watch::Sender::new(0),
            clock,
        })
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tail(&self) -> watch::Receiver<Seq> {
        self.tail.subscribe()
    }

    pub(super) fn followed(&self) -> Seq {
        *self.followed.borrow()
    }

    /// Returns a receiver that is woken when more of the stream is followed.
    pub(super) fn follow_moves(&self) -> watch::Receiver<Seq> {
        self.followed.subscribe()
    }

    /// Moves the tail to `seq`, where a record is stored that may not have been delivered yet.
    pub(super) fn advance_tail(&self, seq: Seq) {
        raise(&self.tail, seq);
    }

    fn raise_follow_limit(&self, seq: Seq) {
        raise(&self.follow_limit, seq);
    }

    /// Waits until the follower may read on.
    pub(super) async fn wait_for_follow_limit(&self) {
        let followed = self.followed();
        // `self` owns the sender, so waiting cannot fail.
        drop(self.follow_limit.subscribe().wait_for(|limit| *limit > followed).await);
    }

    /// Adds messages that the stream delivered, in order. Returns whether some of them were written by another process.
    pub(super) fn add_delivered(&self, mut messages: Vec<StreamMessage>) -> Result<bool, ReadError> {
        let mut ours = Vec::with_capacity(messages.len());
        let mut delivered = messages.last().map_or(Seq::ZERO, |message| message.seq);
        {
            let state = self.lock();
            let followed = self.followed();
            messages.retain(|message| message.seq > followed && !state.ahead.contains_key(&message.seq));
            // They stay in flight until their positions are known: in between an append of the same fact would take it for new.
            ours.extend(messages.iter().map(|message| message.id.and_then(|id| state.in_flight.get(&id).cloned())));
        }
        let mut records = Vec::with_capacity(messages.len());
        let (mut foreign, mut by_others, mut failure) = (ForeignMessages::default(), false, None);
        let mut before = Seq::ZERO;
        for (message, ours) in messages.iter().zip(ours) {
            by_others |= ours.as_ref().is_none_or(|sent| sent.payload != message.payload);
            match message.decode(ours) {
                Ok(Content::Record(record)) => records.push((record, message.payload.len())),
                Ok(Content::Foreign(why)) => {
                    tracing::warn!(seq = %message.seq, subject = %message.subject, why, "skipping a foreign message in the log");
                    foreign.add(message.seq, &message.subject, why);
                }
                Err(error) => {
                    failure = Some(error);
                    delivered = before;
                    break;
                }
            }
            before = message.seq;
        }
        let mut state = self.lock();
        for id in messages.iter().filter_map(|message| message.id) {
            state.in_flight.remove(&id);
        }
        for (record, _) in &records {
            state.positions.entry(record.fact.id).or_insert(record.seq);
        }
        state.foreign.extend(foreign);
        self.advance(&mut state, delivered, records);
        failure.map_or(Ok(by_others), Err)
    }

    /// Adds the records that the stream delivered, up to the position `delivered`, and those that this process stored between them and
    /// right after them.
    fn advance(&self, state: &mut CacheState, delivered: Seq, records: Vec<(Record, usize)>) {
        let before = self.followed();
        // Some may have been acknowledged, and so added, meanwhile.
        let new = records.into_iter().filter(|(record, _)| record.seq > before);
        state.ahead.extend(new.map(|(record, size)| (record.seq, (record, size))));
        // Positions without a record hold foreign messages.
        let (mut last, mut next) = (before.max(delivered), Vec::new());
        while let Some(entry) = state.ahead.first_entry().filter(|entry| *entry.key() <= last.next()) {
            let (seq, record) = entry.remove_entry();
            last = last.max(seq);
            next.push(record);
        }
        let last_record = next.last().map_or(Seq::ZERO, |(record, _): &(Record, usize)| record.seq);
        if last > before {
            self.recent.extend(next, &self.clock);
            self.followed.send_replace(last);
            raise(&self.tail, last_record);
            if last >= self.end_at_open {
                self.raise_follow_limit(Seq(u64::MAX));
            }
        }
    }

    /// Follows `records` of the archive, which come next; none if the rest up to `trimmed_to` holds no records.
    pub(super) fn add_older(&self, records: &[Record], trimmed_to: Seq) {
        let mut state = self.lock();
        for record in records {
            state.positions.entry(record.fact.id).or_insert(record.seq);
        }
        let last = records.last().map_or(trimmed_to, |record| record.seq);
        state.ahead.retain(|seq, _| *seq > last);
        self.recent.clear();
        self.followed.send_replace(last);
        if last >= self.end_at_open {
            self.raise_follow_limit(Seq(u64::MAX));
        }
    }

    /// Returns the foreign messages skipped so far.
    pub(super) fn foreign(&self) -> ForeignMessages {
        self.lock().foreign.clone()
    }

    /// Forgets facts that were sent and whose outcome stays unknown. If they are stored after all, the stream delivers them.
    pub(super) fn forget_in_flight<'a>(&self, facts: impl Iterator<Item = &'a EncodedMessage>) {
        let mut state = self.lock();
        for fact in facts {
            state.in_flight.remove(&fact.id());
        }
    }

    /// Stores the position of a record that cannot be read, and wakes the readers that wait for it.
    pub(super) fn set_damage(&self, seq: Seq, source: Corrupt) {
        self.lock().damage = Some((seq, source));
        self.followed.send_modify(|_| ());
    }

    /// Adds facts that are about to be sent.
    pub(super) fn add_in_flight<'a>(&self, facts: impl Iterator<Item = &'a EncodedMessage>) {
        let mut state = self.lock();
        for fact in facts {
            state.in_flight.entry(fact.id()).or_insert_with(|| fact.clone());
        }
    }

    /// Adds the facts that are about to be sent and are not known to be stored. Returns what was known of each before.
    pub(super) fn add_unless_stored(&self, facts: &[EncodedMessage]) -> Result<Vec<KnownBefore>, ReadError> {
        let stored = self.find_all(&facts.iter().map(EncodedMessage::id).collect::<Vec<_>>())?;
        let mut state = self.lock();
        let known = facts.iter().zip(stored).map(|(fact, stored)| {
            if let Some(seq) = stored.or_else(|| state.position(fact.id())) {
                return KnownBefore::Stored(seq);
            }
            match state.in_flight.entry(fact.id()) {
                Entry::Occupied(_) => KnownBefore::InFlight,
                Entry::Vacant(place) => {
                    place.insert(fact.clone());
                    KnownBefore::Nothing
                }
            }
        });
        Ok(known.collect())
    }

    /// Adds the outcome of facts that were sent: their positions, or `None` if they were not stored or were duplicates. Stored facts can
    /// be read at once, without being delivered by the stream.
    pub(super) fn add_outcomes<'a>(&self, outcomes: impl Iterator<Item = (&'a EncodedMessage, Option<Seq>)>) {
        let mut state = self.lock();
        let (followed, mut last) = (self.followed(), Seq::ZERO);
        for (fact, seq) in outcomes {
            state.in_flight.remove(&fact.id());
            let Some(seq) = seq else { continue };
            state.positions.entry(fact.id()).or_insert(seq);
            if seq > followed {
                let record = Record { seq, recorded_at: fact.recorded_at, fact: Arc::clone(&fact.fact) };
                state.ahead.insert(seq, (record, fact.payload.len()));
            }
            last = last.max(seq);
        }
        self.advance(&mut state, followed, Vec::new());
        self.advance_tail(last);
        if !state.ahead.is_empty() {
            // Wakes the follower, which reads the positions between.
            self.followed.send_modify(|_| ());
        }
    }

    /// Waits while this process is the only writer: until a position is missing, or nothing was written for `QUIET`.
    pub(super) async fn wait_until_behind(&self) {
        let mut followed = self.followed.subscribe();
        loop {
            followed.borrow_and_update();
            if !self.lock().ahead.is_empty() || tokio::time::timeout(QUIET, followed.changed()).await.is_err() {
                return;
            }
        }
    }

    /// The last position that the stream is known to hold.
    pub(super) fn known_end(&self) -> Seq {
        Seq(self.awaited.load(Ordering::Relaxed)).max(*self.tail.borrow())
    }

    /// Waits until every message up to `seq`, which the stream holds, is followed, without a limit for the follower.
    pub(super) async fn follow_to(&self, seq: Seq) -> Result<(), ReadError> {
        self.awaited.fetch_max(seq.0, Ordering::Relaxed);
        self.raise_follow_limit(Seq(u64::MAX));
        self.wait_until_followed(seq).await
    }

    /// Returns whether the ids of all records from before the log was opened are known.
    pub(super) fn has_all_ids(&self) -> bool {
        self.followed() >= self.end_at_open
    }

    /// Waits until the ids of all records from before the log was opened are known.
    pub(super) async fn wait_for_all_ids(&self) -> Result<(), ReadError> {
        if self.has_all_ids() {
            return Ok(());
        }
        self.follow_to(self.end_at_open).await
    }

    async fn wait_until_followed(&self, seq: Seq) -> Result<(), ReadError> {
        let mut followed = self.followed.subscribe();
        loop {
            if *followed.borrow_and_update() >= seq {
                return Ok(());
            }
            if let Some((damaged, source)) = self.lock().damage.clone() {
                return Err(ReadError::Corrupt { seq: damaged, source });
            }
            // `self` owns the sender, so waiting cannot fail.
            drop(followed.changed().await);
        }
    }

    /// Returns the result of a read if the newest records contain it.
    pub(super) fn try_read(&self, after: Seq, limit: usize) -> Option<Vec<Record>> {
        let end = *self.tail.borrow();
        if limit == 0 || after >= end {
            return Some(Vec::new());
        }
        let records = self.recent.read(after, limit)?;
        let last = records.last()?.seq;
        self.raise_follow_limit(Seq(last.0.saturating_add(AHEAD_RECORDS)));
        (records.len() == limit || last >= end).then_some(records)
    }

    /// Returns the records after `after` up to the present tail, at most `limit`.
    pub(super) async fn read(&self, scans: &Scans, after: Seq, limit: usize) -> Result<Vec<Record>, ReadError> {
        let end = *self.tail.borrow();
        let mut records: Vec<Record> = Vec::new();
        let mut position = after;
        while records.len() < limit && position < end {
            let left = limit - records.len();
            self.raise_follow_limit(Seq(position.0.saturating_add(AHEAD_RECORDS)));
            match self.recent.read(position, left) {
                Some(page) if !page.is_empty() => {
                    position = page.last().map_or(position, |record| record.seq);
                    records.extend(page);
                }
                None if self.followed() > position => {
                    let (page, reached) = scans.read(position, left, self.followed()).await?;
                    position = reached;
                    records.extend(page);
                }
                // A reader that starts far ahead, from a snapshot, does not wait for the follower to read everything before.
                _ if position.0 > self.followed().0.saturating_add(AHEAD_RECORDS) => {
                    let (page, reached) = scans.read(position, left, end).await?;
                    position = reached;
                    records.extend(page);
                }
                // Either no record is between here and the end, or it has not been delivered yet.
                _ if self.followed() >= end => break,
                _ => self.wait_until_followed(self.followed().max(position).next()).await?,
            }
        }
        Ok(records)
    }
}

/// Sets the position to `to` unless it is already higher.
fn raise(position: &watch::Sender<Seq>, to: Seq) {
    position.send_if_modified(|position| std::mem::replace(position, to.max(*position)) < to);
}

#[cfg(test)]
mod tests;
