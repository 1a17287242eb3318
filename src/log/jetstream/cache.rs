//! This process's cache of the stream: how far it has read, the newest records, and the position of every id.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

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
    /// The end of the stream when this log was opened: once the follower has reached it, the ids of all earlier records are known.
    end_at_open: Seq,
    clock: Clock,
}

#[expect(clippy::disallowed_types, reason = "several lookups per record; nothing iterates over the maps")]
type ById<V> = std::collections::HashMap<RecordId, V>;

#[derive(Default)]
struct CacheState {
    positions: ById<Seq>,
    /// Facts that were sent, so that this process need not decode what it has just encoded. Removed when they are acknowledged or
    /// delivered by the stream, or when their append has failed or was a duplicate.
    in_flight: ById<EncodedMessage>,
    /// Records at positions after one that has not been delivered yet.
    ahead: BTreeMap<Seq, (Record, usize)>,
    /// The first record that cannot be read. The follower stops before it.
    damage: Option<(Seq, Corrupt)>,
    foreign: ForeignMessages,
}

impl StreamCache {
    /// `tail` is the last position that holds a record, `end_at_open` the last one that holds a message.
    pub(super) fn new(tail: Seq, end_at_open: Seq, clock: Clock) -> Self {
        let follow_limit = if end_at_open == Seq::ZERO { Seq(u64::MAX) } else { Seq::ZERO };
        Self {
            recent: RecentRecords::default(),
            state: Mutex::default(),
            tail: watch::Sender::new(tail),
            followed: watch::Sender::new(Seq::ZERO),
            follow_limit: watch::Sender::new(follow_limit),
            end_at_open,
            clock,
        }
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
            let mut state = self.lock();
            let followed = self.followed();
            messages.retain(|message| message.seq > followed && !state.ahead.contains_key(&message.seq));
            ours.extend(messages.iter().map(|message| message.id.and_then(|id| state.in_flight.remove(&id))));
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

    /// Returns the position of the record with this id, as far as this process knows.
    pub(super) fn find(&self, id: RecordId) -> Option<Seq> {
        self.lock().positions.get(&id).copied()
    }

    /// Returns the positions of the facts that are known to be stored.
    pub(super) fn find_all<'a>(&self, facts: impl Iterator<Item = &'a EncodedMessage>) -> Vec<Option<Seq>> {
        let state = self.lock();
        facts.map(|fact| state.positions.get(&fact.id()).copied()).collect()
    }

    /// Adds facts that are about to be sent.
    pub(super) fn add_in_flight<'a>(&self, facts: impl Iterator<Item = &'a EncodedMessage>) {
        let mut state = self.lock();
        for fact in facts {
            state.in_flight.entry(fact.id()).or_insert_with(|| fact.clone());
        }
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

    /// Waits until every message up to `seq` is followed, without a limit for the follower.
    pub(super) async fn follow_to(&self, seq: Seq) -> Result<(), ReadError> {
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
mod tests {
    use super::*;
    use crate::core::event::{Event, NewRecord, ToolRemoved};
    use crate::core::time::Timestamp;

    fn encoded(number: u128) -> EncodedMessage {
        let at = Timestamp::from_micros(0);
        let event = Event::ToolRemoved(ToolRemoved { tool: "fs:read".parse().unwrap() });
        let id = RecordId::from_parts(at, number);
        EncodedMessage::new(
            Arc::new(NewRecord { id, time: at, source: "test".into(), causation: None, envelope: None, event }),
            at,
        )
    }

    fn message(seq: u64, fact: &EncodedMessage, subject: &str) -> StreamMessage {
        StreamMessage::new(Seq(seq), subject.into(), Some(&fact.headers()), fact.payload.clone())
    }

    fn cache() -> StreamCache {
        StreamCache::new(Seq::ZERO, Seq::ZERO, Clock::system())
    }

    const HERE: &str = "pml.a.log.tool.removed";

    #[test]
    fn a_foreign_message_leaves_a_hole_that_no_reader_waits_for() {
        let (cache, facts) = (cache(), [1, 2, 3].map(encoded));
        cache.add_delivered(vec![message(1, &facts[0], HERE)]).unwrap();
        cache.add_outcomes([(&facts[2], Some(Seq(3)))].into_iter());
        assert_eq!((cache.followed(), cache.try_read(Seq(1), 10)), (Seq(1), None), "position 2 has not been delivered");
        cache.add_delivered(vec![message(2, &facts[1], "pml.a.log.tool.registered")]).unwrap();
        assert_eq!((cache.followed(), *cache.tail().borrow()), (Seq(3), Seq(3)));
        let read = cache.try_read(Seq::ZERO, 10).unwrap();
        assert_eq!(read.iter().map(|record| record.seq.0).collect::<Vec<_>>(), [1, 3]);
        assert_eq!((cache.find(facts[1].id()), cache.foreign().count), (None, 1));
        cache.add_delivered(vec![message(4, &facts[1], "pml.a.log.hello")]).unwrap();
        assert_eq!((cache.followed(), *cache.tail().borrow()), (Seq(4), Seq(3)), "the tail is a record");
    }

    #[test]
    fn facts_whose_append_failed_are_not_kept_in_flight() {
        let (cache, facts) = (cache(), [1, 2].map(encoded));
        cache.add_in_flight(facts.iter());
        cache.forget_in_flight(facts[..1].iter());
        assert_eq!(cache.lock().in_flight.len(), 1);
        cache.add_delivered(vec![message(1, &facts[0], HERE), message(2, &facts[1], HERE)]).unwrap();
        assert_eq!(
            (cache.lock().in_flight.len(), cache.followed()),
            (0, Seq(2)),
            "and are delivered by the stream all the same"
        );
    }
}
