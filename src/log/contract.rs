//! The contract tests of the log: one function per promise of the port. Each takes an empty log; those that end in `reopening` take
//! a function that opens the same log again and are for durable adapters only.
//!
//! Positions may have holes, so no check assumes that positions are consecutive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::{AppendError, Appended, SharedLog};
use crate::core::event::{Event, ExecutionStarted, NewRecord, Record};
use crate::core::id::{RecordId, Seq};
use crate::core::invariant::positions_increase;
use crate::core::time::Timestamp;

/// How long a check waits before it fails.
const PATIENCE: Duration = Duration::from_secs(10);
const APPENDERS: u64 = 64;
/// Attempts per append, more than any bounded sequence of faults needs.
const ATTEMPTS_MAX: usize = 1_000;

/// Returns fact number `number`; equal numbers give equal facts.
pub fn fact(number: u64) -> Arc<NewRecord> {
    let time = Timestamp::from_micros(1_700_000_000_000_000).plus_millis(number);
    Arc::new(NewRecord {
        id: RecordId::from_parts(time, number.into()),
        time,
        source: "/contract".into(),
        causation: number.checked_sub(1).map(|before| RecordId::from_parts(time, before.into())),
        envelope: None,
        event: Event::ExecutionStarted(ExecutionStarted {
            execution: format!("e{number}").parse().expect("a plain id"),
            intent: format!("do thing {number}"),
            session: None,
            agent: None,
            parent: None,
        }),
    })
}

pub async fn positions_strictly_increase(log: SharedLog) {
    assert_eq!(*log.tail().borrow(), Seq::ZERO, "the check starts with an empty log");
    let mut seqs = Vec::new();
    for number in 0..10 {
        seqs.extend(append(&log, &[number * 2, number * 2 + 1]).await);
    }
    assert_eq!(positions_increase(Seq::ZERO, seqs), Ok(()));
}

pub async fn calls_keep_their_order_whatever_is_polled_first(log: SharedLog) {
    let first = log.append(vec![fact(1)]);
    let second = log.append(vec![fact(2)]);
    let third = log.append(vec![fact(3)]);
    let third = third.await.expect("the log takes facts")[0].seq;
    let second = second.await.expect("the log takes facts")[0].seq;
    let first = first.await.expect("the log takes facts")[0].seq;
    assert_eq!(positions_increase(Seq::ZERO, [first, second, third]), Ok(()));
    assert_eq!(facts(&read_all(&log).await), [1, 2, 3].map(fact));
}

pub async fn facts_of_one_call_keep_their_order(log: SharedLog) {
    // The order of neither the ids nor the times.
    let numbers = [5, 3, 9, 1, 7];
    let seqs = append(&log, &numbers).await;
    let records = read_all(&log).await;
    assert_eq!(facts(&records), numbers.map(fact));
    assert_eq!(records.iter().map(|record| record.seq).collect::<Vec<_>>(), seqs);
}

pub async fn calls_of_any_size_that_wait_together_are_answered_each_for_itself(log: SharedLog) {
    let mut next: u64 = 0;
    let mut calls: Vec<Vec<u64>> = Vec::new();
    for size in [1, 0, 999, 1_001, 2_500, 0, 3, 400, 1_000] {
        // Each call begins with two facts of earlier calls: the last one, and one from half-way.
        let repeated =
            [next, next / 2].into_iter().filter_map(|number| number.checked_sub(1)).take(if size > 1 { 2 } else { 0 });
        calls.push(repeated.chain(next..next + size).collect());
        next += size;
    }
    let answers = join_all(calls.iter().map(|numbers| log.append(numbers.iter().copied().map(fact).collect()))).await;
    let mut positions: BTreeMap<u64, Seq> = BTreeMap::new();
    for (numbers, answer) in calls.iter().zip(answers) {
        let answer = answer.expect("the log takes facts");
        assert_eq!(answer.len(), numbers.len());
        for (number, Appended { seq, duplicate }) in numbers.iter().zip(answer) {
            assert_eq!(duplicate, positions.contains_key(number), "fact {number}");
            assert_eq!(*positions.entry(*number).or_insert(seq), seq, "fact {number}");
        }
    }
    assert_eq!(positions_increase(Seq::ZERO, positions.into_values()), Ok(()));
    assert!(facts(&read_all(&log).await).into_iter().eq((0..next).map(fact)), "each once, in order");
}

pub async fn a_repeated_id_is_answered_with_its_first_position(log: SharedLog) {
    let first = append(&log, &[1, 2]).await;
    let mut other = NewRecord::clone(&fact(2));
    other.source = "/somebody/else".into();
    let again = log.append(vec![fact(3), Arc::new(other), fact(1)]).await.expect("a duplicate is no error");
    assert_eq!(again[1], Appended { seq: first[1], duplicate: true });
    assert_eq!(again[2], Appended { seq: first[0], duplicate: true });
    assert!(!again[0].duplicate);
    assert_eq!(facts(&read_all(&log).await), [1, 2, 3].map(fact), "the first one stands");
}

pub async fn an_id_repeated_within_one_call_is_written_once(log: SharedLog) {
    let answer = log.append([1, 2, 1, 1].map(fact).into()).await.expect("a duplicate is no error");
    assert_eq!(answer.iter().map(|one| one.duplicate).collect::<Vec<_>>(), [false, false, true, true]);
    assert_eq!([answer[2].seq, answer[3].seq], [answer[0].seq; 2]);
    assert_eq!(facts(&read_all(&log).await), [1, 2].map(fact));
}

pub async fn an_id_repeated_in_calls_that_wait_together_is_written_once(log: SharedLog) {
    let calls: Vec<_> = (0..20).map(|_| log.append(vec![fact(1)])).collect();
    let answers: Vec<_> = join_all(calls).await.into_iter().map(|answer| answer.expect("a duplicate is no error")[0]).collect();
    assert!(!answers[0].duplicate && answers[1..].iter().all(|one| one.duplicate), "{answers:?}");
    assert!(answers.iter().all(|one| one.seq == answers[0].seq), "{answers:?}");
    assert_eq!(facts(&read_all(&log).await), [fact(1)]);
}

pub async fn an_append_of_nothing_changes_nothing(log: SharedLog) {
    let before = append(&log, &[1]).await[0];
    assert_eq!(append(&log, &[]).await, []);
    assert_eq!(*log.tail().borrow(), before);
    assert_eq!(facts(&read_all(&log).await), [fact(1)]);
}

pub async fn what_was_appended_is_readable_at_once_and_the_tail_has_reached_it(log: SharedLog) {
    for number in 0..20 {
        let seq = append(&log, &[number]).await[0];
        assert!(*log.tail().borrow() >= seq);
        let read = read(&log, Seq(seq.0 - 1), 1).await;
        assert_eq!((read[0].seq, &read[0].fact), (seq, &fact(number)));
        assert_eq!(log.find(fact(number).id).await.expect("the log answers"), Some(seq));
    }
}

pub async fn reading_goes_page_by_page(log: SharedLog) {
    let numbers: Vec<_> = (0..25).collect();
    append(&log, &numbers).await;
    let all = read(&log, Seq::ZERO, usize::MAX).await;
    assert_eq!(facts(&all), numbers.iter().copied().map(fact).collect::<Vec<_>>());
    let mut paged = Vec::new();
    let mut sizes = Vec::new();
    loop {
        let page = read(&log, paged.last().map_or(Seq::ZERO, |record: &Record| record.seq), 10).await;
        sizes.push(page.len());
        paged.extend(page);
        if sizes.last() == Some(&0) {
            break;
        }
    }
    assert_eq!(sizes, [10, 10, 5, 0], "fewer than the limit only at the tail");
    assert_eq!(paged, all);
}

pub async fn reading_nothing_or_beyond_the_tail_gives_nothing(log: SharedLog) {
    assert_eq!(read(&log, Seq::ZERO, 10).await, []);
    assert_eq!(read(&log, Seq(7), 10).await, []);
    let tail = append(&log, &[1, 2]).await[1];
    for after in [tail, tail.next(), Seq(tail.0 + 1_000), Seq(u64::MAX - 1), Seq(u64::MAX)] {
        assert_eq!(read(&log, after, 10).await, [], "after {after}");
    }
    assert_eq!(read(&log, Seq::ZERO, 0).await, []);
}

pub async fn find_returns_the_positions_of_known_ids_only(log: SharedLog) {
    assert_eq!(log.find(fact(1).id).await.expect("the log answers"), None);
    let seqs = append(&log, &[1, 2]).await;
    for (number, expected) in [(1, Some(seqs[0])), (2, Some(seqs[1])), (3, None)] {
        assert_eq!(log.find(fact(number).id).await.expect("the log answers"), expected, "{number}");
    }
}

pub async fn dropping_the_future_does_not_undo_the_append(log: SharedLog) {
    drop(log.append(vec![fact(1)]));
    append(&log, &[2]).await;
    assert_eq!(facts(&read_all(&log).await), [1, 2].map(fact));
}

pub async fn concurrent_appenders_each_keep_their_order(log: SharedLog) {
    let numbers = |appender: u64| -> Vec<u64> { (appender * 100..appender * 100 + 12).collect() };
    let tasks = (0..APPENDERS).map(|appender| {
        let log = Arc::clone(&log);
        tokio::spawn(async move {
            let mut seqs = Vec::new();
            for call in numbers(appender).chunks(3) {
                seqs.extend(append(&log, call).await);
            }
            seqs
        })
    });
    let answers = join_all(tasks.collect::<Vec<_>>()).await;
    let records: BTreeMap<_, _> = read_all(&log).await.into_iter().map(|record| (record.seq, record)).collect();
    let mut distinct = BTreeSet::new();
    for (appender, answer) in (0..APPENDERS).zip(answers) {
        let seqs = answer.expect("the appender ended well");
        assert_eq!(positions_increase(Seq::ZERO, seqs.iter().copied()), Ok(()));
        let found: Vec<_> = seqs.iter().map(|seq| Arc::clone(&records[seq].fact)).collect();
        assert_eq!(found, numbers(appender).into_iter().map(fact).collect::<Vec<_>>());
        distinct.extend(seqs);
    }
    assert!(distinct.iter().eq(records.keys()), "the log holds what was answered and nothing else");
}

pub async fn waiters_for_the_tail_are_woken(log: SharedLog) {
    let mut tail = log.tail();
    let waiter = tokio::spawn(async move {
        tail.wait_for(|&tail| tail > Seq::ZERO).await.map(|reached| *reached).expect("the log is there")
    });
    tokio::task::yield_now().await;
    let seq = append(&log, &[1]).await[0];
    let reached = tokio::time::timeout(PATIENCE, waiter).await.expect("woken in time").expect("the waiter ended well");
    assert!(reached >= seq);
    let mut late = log.tail();
    assert!(*late.borrow_and_update() >= seq, "a new watcher starts at the tail");
    log.append(vec![fact(1)]).await.expect("a duplicate is no error");
    assert!(!late.has_changed().expect("the log is there"), "a duplicate moves nothing");
}

/// Checks the rule for callers: after `Determinate` try again, after `Indeterminate` read back and append what is missing. Meant for a
/// log behind `faulty`; a log without faults passes trivially.
pub async fn a_caller_that_reads_back_writes_every_fact_once_and_in_order(log: SharedLog) {
    let numbers: Vec<_> = (0..24).collect();
    for (call, numbers) in numbers.chunk_by(|_, next| ![1, 3, 6, 10, 11, 15, 20].contains(next)).enumerate() {
        let mut missing: Vec<_> = numbers.iter().copied().map(fact).collect();
        let mut attempts = 0;
        while !missing.is_empty() {
            attempts += 1;
            assert!(attempts < ATTEMPTS_MAX, "call {call} never succeeds");
            match log.append(missing.clone()).await {
                Ok(_) => missing.clear(),
                Err(AppendError::Busy | AppendError::Determinate(_)) => {
                    let first = log.find(missing[0].id).await.expect("the log answers");
                    assert_eq!(first, None, "determinate means that nothing was written");
                }
                Err(AppendError::Indeterminate(_)) => {
                    let found = join_all(missing.iter().map(|fact| log.find(fact.id))).await;
                    let unwritten = found.into_iter().map(|seq| seq.expect("the log answers").is_none());
                    missing = missing.into_iter().zip(unwritten).filter(|(_, unwritten)| *unwritten).map(|(f, _)| f).collect();
                }
                Err(error @ (AppendError::Closed | AppendError::Full { .. } | AppendError::Damaged(_))) => panic!("{error}"),
            }
        }
    }
    assert_eq!(facts(&read_all(&log).await), numbers.into_iter().map(fact).collect::<Vec<_>>());
}

pub async fn everything_is_there_after_reopening(open: impl AsyncFn() -> SharedLog) {
    let log = open().await;
    let seqs = append(&log, &[1, 2, 3]).await;
    let before = read_all(&log).await;
    drop(log);
    let log = open().await;
    assert_eq!(*log.tail().borrow(), seqs[2], "the tail is known at once");
    assert_eq!(read_all(&log).await, before);
    assert_eq!(log.find(fact(2).id).await.expect("the log answers"), Some(seqs[1]));
    let new = append(&log, &[4]).await[0];
    assert!(new > seqs[2], "positions go on where they were");
    // The records from before and after reopening follow each other without a gap.
    assert_eq!(facts(&read_all(&log).await), [1, 2, 3, 4].map(fact));
    assert_eq!(facts(&read(&log, seqs[1], 10).await), [3, 4].map(fact));
}

pub async fn a_repeated_id_is_known_after_reopening(open: impl AsyncFn() -> SharedLog) {
    let seq = append(&open().await, &[1]).await[0];
    let log = open().await;
    let again = log.append([2, 1].map(fact).into()).await.expect("a duplicate is no error");
    assert_eq!(again[1], Appended { seq, duplicate: true });
    assert_eq!(facts(&read_all(&log).await), [1, 2].map(fact));
}

pub async fn an_append_nobody_waits_for_is_there_after_reopening(open: impl AsyncFn() -> SharedLog) {
    let log = open().await;
    drop(log.append(vec![fact(1)]));
    drop(log);
    assert_eq!(facts(&read_all(&open().await).await), [fact(1)]);
}

/// Appends and returns the positions; none may be a duplicate.
async fn append(log: &SharedLog, numbers: &[u64]) -> Vec<Seq> {
    let appended = log.append(numbers.iter().copied().map(fact).collect()).await.expect("the log takes facts");
    assert_eq!(appended.len(), numbers.len(), "one answer per fact");
    assert!(appended.iter().all(|one| !one.duplicate), "{appended:?}");
    appended.into_iter().map(|one| one.seq).collect()
}

async fn read(log: &SharedLog, after: Seq, limit: usize) -> Vec<Record> {
    log.read(after, limit).await.expect("the log can be read")
}

async fn read_all(log: &SharedLog) -> Vec<Record> {
    read(log, Seq::ZERO, usize::MAX).await
}

fn facts(records: &[Record]) -> Vec<Arc<NewRecord>> {
    records.iter().map(|record| Arc::clone(&record.fact)).collect()
}
