//! What this process knows of the stream: how far it has read, the last records, and the position of every id.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::message::{Arrival, Content, Encoded};
use super::scan::Scans;
use crate::clock::Clock;
use crate::core::event::Record;
use crate::core::event::codec::Corrupt;
use crate::core::id::{RecordId, Seq};
use crate::log::recent::Recent;
use crate::log::{Foreign, ReadError};

/// How far the follower goes ahead of its readers while it learns what was there before; half of what `recent` keeps of that.
const AHEAD_RECORDS: u64 = 16_384;
/// After this long without an append of its own a process listens again to what others write.
const QUIET: Duration = Duration::from_millis(50);

pub(super) struct Known {
    recent: Recent,
    ids: Mutex<Ids>,
    /// The last position that holds a record: stored, though perhaps still on its way to this process.
    tail: watch::Sender<Seq>,
    /// The last position up to which everything has come: by the follower, or because this process wrote it. Changes while `ids` is
    /// held.
    followed: watch::Sender<Seq>,
    /// How far the follower may go.
    wanted: watch::Sender<Seq>,
    /// The end of the stream when this log was opened: once the follower is there, every id of the past is known.
    past: Seq,
    clock: Clock,
}

#[expect(clippy::disallowed_types, reason = "every record looks its id up several times; nothing walks through the maps")]
type ById<V> = std::collections::HashMap<RecordId, V>;

#[derive(Default)]
struct Ids {
    positions: ById<Seq>,
    /// Facts on their way to the server, so that nobody decodes what this process has just encoded. Members leave when they are
    /// acknowledged or come back by the stream, or when their append has failed or was a duplicate.
    under_way: ById<Encoded>,
    /// Records that are stored after something that has yet to come.
    ahead: BTreeMap<Seq, (Record, usize)>,
    /// The first record that cannot be read. The follower stops before it.
    damage: Option<(Seq, Corrupt)>,
    foreign: Foreign,
}

impl Known {
    /// `tail` is the last position that holds a record, `past` the last one that holds a message.
    pub(super) fn new(tail: Seq, past: Seq, clock: Clock) -> Self {
        let wanted = if past == Seq::ZERO { Seq(u64::MAX) } else { Seq::ZERO };
        Self {
            recent: Recent::default(),
            ids: Mutex::default(),
            tail: watch::Sender::new(tail),
            followed: watch::Sender::new(Seq::ZERO),
            wanted: watch::Sender::new(wanted),
            past,
            clock,
        }
    }

    fn ids(&self) -> MutexGuard<'_, Ids> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tail(&self) -> watch::Receiver<Seq> {
        self.tail.subscribe()
    }

    pub(super) fn followed(&self) -> Seq {
        *self.followed.borrow()
    }

    /// Something is stored at `seq`, though it may not have come back yet.
    pub(super) fn stored_up_to(&self, seq: Seq) {
        advance(&self.tail, seq);
    }

    fn want(&self, seq: Seq) {
        advance(&self.wanted, seq);
    }

    /// Waits until the follower may go on.
    pub(super) async fn is_wanted(&self) {
        let followed = self.followed();
        // The sender is ours: waiting cannot fail.
        drop(self.wanted.subscribe().wait_for(|wanted| *wanted > followed).await);
    }

    /// Takes what the stream delivered, in order. Answers whether some of it was written by somebody else.
    pub(super) fn arrive(&self, mut arrivals: Vec<Arrival>) -> Result<bool, ReadError> {
        let mut ours = Vec::with_capacity(arrivals.len());
        let mut delivered = arrivals.last().map_or(Seq::ZERO, |arrival| arrival.seq);
        {
            let mut ids = self.ids();
            let followed = self.followed();
            arrivals.retain(|arrival| arrival.seq > followed && !ids.ahead.contains_key(&arrival.seq));
            ours.extend(arrivals.iter().map(|arrival| arrival.id.and_then(|id| ids.under_way.remove(&id))));
        }
        let mut records = Vec::with_capacity(arrivals.len());
        let (mut foreign, mut by_others, mut failure) = (Foreign::default(), false, None);
        let mut before = Seq::ZERO;
        for (arrival, ours) in arrivals.iter().zip(ours) {
            by_others |= ours.as_ref().is_none_or(|sent| sent.payload != arrival.payload);
            match arrival.read(ours) {
                Ok(Content::Record(record)) => records.push((record, arrival.payload.len())),
                Ok(Content::Foreign(why)) => {
                    tracing::warn!(seq = %arrival.seq, subject = %arrival.subject, why, "skipping a foreign message in the log");
                    foreign.note(arrival.seq, &arrival.subject, why);
                }
                Err(error) => {
                    failure = Some(error);
                    delivered = before;
                    break;
                }
            }
            before = arrival.seq;
        }
        let mut ids = self.ids();
        for (record, _) in &records {
            ids.positions.entry(record.fact.id).or_insert(record.seq);
        }
        ids.foreign.extend(foreign);
        self.go_on(&mut ids, delivered, records);
        failure.map_or(Ok(by_others), Err)
    }

    /// Adds what the stream delivered, up to the position `delivered`, with what this process stored between and right after.
    fn go_on(&self, ids: &mut Ids, delivered: Seq, records: Vec<(Record, usize)>) {
        let before = self.followed();
        // Some may have been acknowledged, and added, in the meantime.
        let new = records.into_iter().filter(|(record, _)| record.seq > before);
        ids.ahead.extend(new.map(|(record, size)| (record.seq, (record, size))));
        // Where no record is there was somebody else's message.
        let (mut last, mut next) = (before.max(delivered), Vec::new());
        while let Some(entry) = ids.ahead.first_entry().filter(|entry| *entry.key() <= last.next()) {
            let (seq, record) = entry.remove_entry();
            last = last.max(seq);
            next.push(record);
        }
        let last_record = next.last().map_or(Seq::ZERO, |(record, _): &(Record, usize)| record.seq);
        if last > before {
            self.recent.extend(next, &self.clock);
            self.followed.send_replace(last);
            advance(&self.tail, last_record);
            if last >= self.past {
                self.want(Seq(u64::MAX));
            }
        }
    }

    /// What was skipped so far.
    pub(super) fn foreign(&self) -> Foreign {
        self.ids().foreign.clone()
    }

    /// Facts that were sent and of which nobody will ever know what became. Should they be stored after all, they come by the stream.
    pub(super) fn give_up<'a>(&self, facts: impl Iterator<Item = &'a Encoded>) {
        let mut ids = self.ids();
        for fact in facts {
            ids.under_way.remove(&fact.id());
        }
    }

    /// Remembers where the stream cannot be read, and wakes those who wait for it.
    pub(super) fn damaged(&self, seq: Seq, source: Corrupt) {
        self.ids().damage = Some((seq, source));
        self.followed.send_modify(|_| ());
    }

    pub(super) fn find(&self, id: RecordId) -> Option<Seq> {
        self.ids().positions.get(&id).copied()
    }

    pub(super) fn find_all<'a>(&self, facts: impl Iterator<Item = &'a Encoded>) -> Vec<Option<Seq>> {
        let ids = self.ids();
        facts.map(|fact| ids.positions.get(&fact.id()).copied()).collect()
    }

    /// Facts that are about to be sent.
    pub(super) fn sending<'a>(&self, facts: impl Iterator<Item = &'a Encoded>) {
        let mut ids = self.ids();
        for fact in facts {
            ids.under_way.entry(fact.id()).or_insert_with(|| fact.clone());
        }
    }

    /// What became of facts that were sent: their positions, or `None` if they are not stored or were already. What is stored need not
    /// come back by the stream to be read.
    pub(super) fn sent<'a>(&self, outcomes: impl Iterator<Item = (&'a Encoded, Option<Seq>)>) {
        let mut ids = self.ids();
        let (followed, mut last) = (self.followed(), Seq::ZERO);
        for (fact, seq) in outcomes {
            ids.under_way.remove(&fact.id());
            let Some(seq) = seq else { continue };
            ids.positions.entry(fact.id()).or_insert(seq);
            if seq > followed {
                let record = Record { seq, recorded_at: fact.recorded_at, fact: Arc::clone(&fact.fact) };
                ids.ahead.insert(seq, (record, fact.payload.len()));
            }
            last = last.max(seq);
        }
        self.go_on(&mut ids, followed, Vec::new());
        self.stored_up_to(last);
        if !ids.ahead.is_empty() {
            // The follower is to bring what lies between.
            self.followed.send_modify(|_| ());
        }
    }

    /// Waits while all that is stored was written by this process: until a position is missing, or nothing was written for a while.
    pub(super) async fn is_needed(&self) {
        let mut followed = self.followed.subscribe();
        loop {
            followed.borrow_and_update();
            if !self.ids().ahead.is_empty() || tokio::time::timeout(QUIET, followed.changed()).await.is_err() {
                return;
            }
        }
    }

    /// Waits until everything up to `seq` has come.
    pub(super) async fn follow_to(&self, seq: Seq) -> Result<(), ReadError> {
        self.want(Seq(u64::MAX));
        self.reach(seq).await
    }

    /// Whether every id that was there when the log was opened is known.
    pub(super) fn has_learnt_all(&self) -> bool {
        self.followed() >= self.past
    }

    /// Waits until every id that was there when the log was opened is known.
    pub(super) async fn learn_all(&self) -> Result<(), ReadError> {
        if self.has_learnt_all() {
            return Ok(());
        }
        self.follow_to(self.past).await
    }

    async fn reach(&self, seq: Seq) -> Result<(), ReadError> {
        let mut followed = self.followed.subscribe();
        loop {
            if *followed.borrow_and_update() >= seq {
                return Ok(());
            }
            if let Some((at, source)) = self.ids().damage.clone() {
                return Err(ReadError::Corrupt { seq: at, source });
            }
            // The sender is ours: waiting cannot fail.
            drop(followed.changed().await);
        }
    }

    /// The answer to a read, if it needs no waiting.
    pub(super) fn read_now(&self, after: Seq, limit: usize) -> Option<Vec<Record>> {
        let end = *self.tail.borrow();
        if limit == 0 || after >= end {
            return Some(Vec::new());
        }
        let records = self.recent.read(after, limit)?;
        let last = records.last()?.seq;
        self.want(Seq(last.0.saturating_add(AHEAD_RECORDS)));
        (records.len() == limit || last >= end).then_some(records)
    }

    /// The records after `after` up to the present tail, at most `limit`.
    pub(super) async fn read(&self, scans: &Scans, after: Seq, limit: usize) -> Result<Vec<Record>, ReadError> {
        let end = *self.tail.borrow();
        let mut records: Vec<Record> = Vec::new();
        let mut position = after;
        while records.len() < limit && position < end {
            let left = limit - records.len();
            self.want(Seq(position.0.saturating_add(AHEAD_RECORDS)));
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
                // A reader that starts far ahead, from a snapshot, does not wait until the follower has read all that lies before.
                _ if position.0 > self.followed().0.saturating_add(AHEAD_RECORDS) => {
                    let (page, reached) = scans.read(position, left, end).await?;
                    position = reached;
                    records.extend(page);
                }
                // Nothing is stored between here and the end, or it has yet to come.
                _ if self.followed() >= end => break,
                _ => self.reach(self.followed().max(position).next()).await?,
            }
        }
        Ok(records)
    }
}

fn advance(position: &watch::Sender<Seq>, to: Seq) {
    position.send_if_modified(|position| std::mem::replace(position, to.max(*position)) < to);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::{Event, NewRecord, ToolRemoved};
    use crate::core::time::Timestamp;

    fn encoded(number: u128) -> Encoded {
        let at = Timestamp::from_micros(0);
        let event = Event::ToolRemoved(ToolRemoved { tool: "fs:read".parse().unwrap() });
        let id = RecordId::from_parts(at, number);
        Encoded::new(Arc::new(NewRecord { id, time: at, source: "test".into(), causation: None, event }), at)
    }

    fn arrival(seq: u64, fact: &Encoded, subject: &str) -> Arrival {
        Arrival::new(Seq(seq), subject.into(), Some(&fact.headers()), fact.payload.clone())
    }

    fn known() -> Known {
        Known::new(Seq::ZERO, Seq::ZERO, Clock::system())
    }

    const HERE: &str = "pml.a.log.tool.removed";

    #[test]
    fn a_foreign_message_leaves_a_hole_that_nobody_waits_for() {
        let (known, facts) = (known(), [1, 2, 3].map(encoded));
        known.arrive(vec![arrival(1, &facts[0], HERE)]).unwrap();
        known.sent([(&facts[2], Some(Seq(3)))].into_iter());
        assert_eq!((known.followed(), known.read_now(Seq(1), 10)), (Seq(1), None), "what lies between has yet to come");
        known.arrive(vec![arrival(2, &facts[1], "pml.a.log.tool.registered")]).unwrap();
        assert_eq!((known.followed(), *known.tail().borrow()), (Seq(3), Seq(3)));
        let read = known.read_now(Seq::ZERO, 10).unwrap();
        assert_eq!(read.iter().map(|record| record.seq.0).collect::<Vec<_>>(), [1, 3]);
        assert_eq!((known.find(facts[1].id()), known.foreign().count), (None, 1));
        known.arrive(vec![arrival(4, &facts[1], "pml.a.log.hello")]).unwrap();
        assert_eq!((known.followed(), *known.tail().borrow()), (Seq(4), Seq(3)), "the tail is a record");
    }

    #[test]
    fn facts_whose_append_was_given_up_are_not_kept() {
        let (known, facts) = (known(), [1, 2].map(encoded));
        known.sending(facts.iter());
        known.give_up(facts[..1].iter());
        assert_eq!(known.ids().under_way.len(), 1);
        known.arrive(vec![arrival(1, &facts[0], HERE), arrival(2, &facts[1], HERE)]).unwrap();
        assert_eq!((known.ids().under_way.len(), known.followed()), (0, Seq(2)), "and come by the stream all the same");
    }
}
