//! Actors panic and appends fail under load; whoever sends again under the same ids ends with every event once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all, ready};
use pml::clock::Clock;
use pml::core::event::{NewRecord, Record};
use pml::core::id::{RecordId, Seq};
use pml::failpoint;
use pml::log::faulty::{Fault, FaultyLog};
use pml::log::{AppendError, Appended, EventLog, MemoryLog, ReadError, SharedLog};
use pml::publisher::{PublishError, Verdict};
use serde_json::json;
use tokio::sync::{Semaphore, oneshot, watch};

use crate::embedded::Embedded;
use crate::run::{finished, started, step, whole};
use crate::server::PATIENCE;

const AGENTS: usize = 4;
const RUNS: usize = 40;
const PANICS: usize = 4;

/// Publishes many runs in halves, sends again what nobody answered for, and returns the ids.
async fn publish_runs(pml: &Embedded) -> BTreeSet<RecordId> {
    let agent = async |agent: usize| {
        let mut ids = Vec::new();
        for run in 0..RUNS {
            let facts = pml.facts(&whole(&format!("e-{agent}-{run}")));
            for half in facts.chunks(2) {
                let (verdicts, _) = pml.insist(half).await;
                assert!(!verdicts.iter().any(|verdict| matches!(verdict, Verdict::Refused(_))), "{verdicts:?}");
            }
            ids.extend(facts.iter().map(|fact| fact.id));
        }
        ids
    };
    join_all((0..AGENTS).map(agent)).await.concat().into_iter().collect()
}

/// Lets `point` panic again and again while agents publish.
async fn check_panics(point: &'static str, passes_between: u32) {
    let pml = Embedded::start(Clock::system(), &[]).await;
    let panics = async {
        for _ in 0..PANICS {
            failpoint::arm(point, passes_between);
            while failpoint::is_armed(point) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    let published = async { tokio::time::timeout(2 * PATIENCE, publish_runs(&pml)).await.expect("publishing goes on") };
    let (published, panicked) = tokio::join!(published, tokio::time::timeout(2 * PATIENCE, panics));
    panicked.unwrap_or_else(|_| panic!("'{point}' was not passed often enough to panic {PANICS} times"));
    pml.check(&published).await;
    pml.stop().await;
}

#[actix_rt::test]
async fn the_execution_actor_may_panic_and_nothing_is_lost_or_doubled() {
    check_panics("execution.publish", 25).await;
}

#[actix_rt::test]
async fn the_trace_actor_may_panic_and_nothing_is_lost_or_doubled() {
    check_panics("trace.record", 60).await;
}

#[actix_rt::test]
async fn the_fold_may_panic_and_nothing_is_lost_or_doubled() {
    check_panics("graph_sync.record", 60).await;
}

/// One append goes wrong in this way; the publisher does not know, asks again, and learns what became of each event.
async fn check_fault(fault: Fault, expected: &str) {
    let log = FaultyLog::new(Arc::new(MemoryLog::new(Clock::system())), std::iter::once(fault));
    let pml = Embedded::start_on(Arc::new(log), &[]).await;
    let facts = pml.facts(&whole("e1"));
    assert_eq!(pml.runtime.publisher.publish(facts.clone()).await, Err(PublishError::Unknown), "{fault:?}");
    let (verdicts, _) = pml.insist(&facts).await;
    let word = |verdict: &Verdict| match verdict {
        Verdict::Accepted { .. } => 'a',
        Verdict::Duplicate { .. } => 'd',
        Verdict::Refused(refusal) => panic!("{refusal}"),
    };
    assert_eq!(verdicts.iter().map(word).collect::<String>(), expected, "{fault:?}");
    pml.check(&facts.iter().map(|fact| fact.id).collect()).await;
    pml.stop().await;
}

#[actix_rt::test]
async fn an_append_that_failed_is_an_unknown_outcome_until_it_is_sent_again() {
    check_fault(Fault::Before, "aaaa").await;
    check_fault(Fault::Within, "ddaa").await;
    check_fault(Fault::After, "dddd").await;
}

#[actix_rt::test]
async fn appends_that_fail_under_load_lose_and_double_nothing() {
    let rarely = [Fault::Before, Fault::After, Fault::Within].into_iter().cycle().take(9);
    let plan = rarely.flat_map(|fault| std::iter::repeat_n(Fault::None, 10).chain([fault]));
    let log = FaultyLog::new(Arc::new(MemoryLog::new(Clock::system())), plan);
    let pml = Embedded::start_on(Arc::new(log), &[]).await;
    let published = tokio::time::timeout(2 * PATIENCE, publish_runs(&pml)).await.expect("publishing goes on");
    pml.check(&published).await;
    pml.stop().await;
}

/// A read of the log fails while the execution actor holds an event back. The actor is replaced; nobody would answer for what it held.
#[actix_rt::test]
async fn an_event_that_is_held_back_is_answered_when_a_read_of_the_log_fails() {
    let (called, mut calls) = watch::channel(0);
    let counts = std::iter::from_fn(move || {
        called.send_modify(|called| *called += 1);
        Some(Fault::None)
    });
    let log = Arc::new(FaultyLog::new(Arc::new(MemoryLog::new(Clock::system())), counts));
    let pml = Embedded::start_on(Arc::clone(&log) as _, &[("EXECUTION__REORDER_WAIT_MS", "60000")]).await;
    let facts = pml.facts(&json!([started("e1"), step("e1", "s1", "fs:read", &[]), finished("e1")]));
    let before = *calls.borrow();
    let held = pml.runtime.publisher.publish(facts[1..2].to_vec());
    let fail = async {
        // The actor has decided on it: what it decides on together is one append, of nothing here.
        calls.wait_for(|called| *called > before).await.unwrap();
        log.fail_reads(true);
    };
    let (answer, ()) = tokio::join!(tokio::time::timeout(PATIENCE, held), fail);
    assert_eq!(answer.expect("it is answered before it has waited"), Err(PublishError::Unknown));
    log.fail_reads(false);
    pml.insist(&facts).await;
    pml.check(&facts.iter().map(|fact| fact.id).collect()).await;
    pml.stop().await;
}

/// A log whose writer takes an append from its queue only when it is told to, as one behind a slow disk does. An append that was
/// called is written, whether or not anybody still waits for it.
struct SlowLog {
    inner: SharedLog,
    /// How many appends were called.
    called: watch::Sender<usize>,
    /// How many may be written.
    writes: Arc<Semaphore>,
    /// Whether a caller waits for the write, or is told at once that nobody knows.
    patient: bool,
}

impl EventLog for SlowLog {
    fn append(&self, facts: Vec<Arc<NewRecord>>) -> BoxFuture<'static, Result<Vec<Appended>, AppendError>> {
        let (inner, writes) = (Arc::clone(&self.inner), Arc::clone(&self.writes));
        self.called.send_modify(|called| *called += 1);
        let (done, answer) = oneshot::channel();
        let unknown = !self.patient && writes.available_permits() == 0;
        actix_rt::spawn(async move {
            writes.acquire().await.expect("never closed").forget();
            // Nobody waits for it any more: it is written all the same.
            drop(done.send(inner.append(facts).await));
        });
        if unknown {
            return ready(Err(AppendError::Indeterminate("still under way".into()))).boxed();
        }
        async { answer.await.expect("the writer lives as long as its thread") }.boxed()
    }

    fn read(&self, after: Seq, limit: usize) -> BoxFuture<'static, Result<Vec<Record>, ReadError>> {
        self.inner.read(after, limit)
    }

    fn find(&self, id: RecordId) -> BoxFuture<'static, Result<Option<Seq>, ReadError>> {
        self.inner.find(id)
    }

    fn tail(&self) -> watch::Receiver<Seq> {
        self.inner.tail()
    }
}

/// The start of an execution is waiting for the disk when the actor panics. Its next life does not find it in the log, takes the
/// start again and is told that it is a repeat. That does not mean that the execution is an old one: it is open.
#[actix_rt::test]
async fn a_start_written_after_the_actor_that_sent_it_panicked_opens_its_execution() {
    let writes = Arc::new(Semaphore::new(0));
    let (called, mut calls) = watch::channel(0);
    let log = SlowLog { inner: Arc::new(MemoryLog::new(Clock::system())), called, writes: Arc::clone(&writes), patient: true };
    let pml = Embedded::start_on(Arc::new(log), &[("EXECUTION__REORDER_WAIT_MS", "300")]).await;
    let facts = pml.facts(&json!([started("e1"), step("e1", "s1", "fs:read", &[]), finished("e1")]));
    let publish = |at: usize| pml.runtime.publisher.publish(vec![facts[at].clone()]);

    let panic = async {
        calls.wait_for(|called| *called == 1).await.unwrap();
        failpoint::arm("execution.publish", 1);
        publish(0).await
    };
    assert_eq!(tokio::join!(publish(0), panic), (Err(PublishError::Unknown), Err(PublishError::Unknown)));
    let write = async {
        calls.wait_for(|called| *called == 2).await.unwrap();
        writes.add_permits(1);
        pml.runtime.views.at_least(Seq(1)).await.unwrap();
        // The fold has heard of it; time for the others to hear of it too, before the repeat is answered.
        tokio::time::sleep(Duration::from_millis(100)).await;
        writes.add_permits(100);
    };
    let ((verdicts, _), ()) = tokio::join!(pml.insist(&facts[..1]), write);
    assert_eq!(verdicts, [Verdict::Duplicate { seq: Seq(1) }]);
    for (at, seq) in [(1, 2), (2, 3)] {
        assert_eq!(publish(at).await, Ok(vec![Verdict::Accepted { seq: Seq(seq) }]));
    }
    pml.check(&facts.iter().map(|fact| fact.id).collect()).await;
    pml.stop().await;
}

/// The trace actor never learns that its closings are under way, so that several of its lives close the same execution.
#[actix_rt::test]
async fn an_execution_closed_by_several_lives_of_the_trace_actor_is_closed_once() {
    let writes = Arc::new(Semaphore::new(1));
    let (called, mut calls) = watch::channel(0);
    let log = SlowLog { inner: Arc::new(MemoryLog::new(Clock::system())), called, writes: Arc::clone(&writes), patient: false };
    let pml = Embedded::start_on(Arc::new(log), &[]).await;
    let run = whole("e1");
    pml.accept(&run).await;
    calls.wait_for(|called| *called == 4).await.unwrap();
    writes.add_permits(100);
    let ids = run.as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap().parse().unwrap());
    pml.check(&ids.collect()).await;
    pml.stop().await;
}

#[actix_rt::test]
async fn the_same_events_sent_many_times_at_once_are_written_once_and_never_refused() {
    let pml = Embedded::start(Clock::system(), &[]).await;
    let facts = pml.facts(&whole("twins"));
    let copies = (0..64).map(|_| pml.runtime.publisher.publish(facts.clone()));
    let answers = futures_util::future::join_all(copies).await;
    let mut accepted = 0;
    for verdict in answers.into_iter().flat_map(Result::unwrap) {
        match verdict {
            Verdict::Accepted { .. } => accepted += 1,
            Verdict::Duplicate { .. } => {}
            Verdict::Refused(refusal) => panic!("{refusal}"),
        }
    }
    assert_eq!(accepted, facts.len());
    pml.check(&facts.iter().map(|fact| fact.id).collect()).await;
}

#[actix_rt::test]
async fn what_the_process_before_wrote_late_is_known_to_the_one_that_took_over() {
    let log: SharedLog = Arc::new(MemoryLog::new(Clock::system()));
    let pml = Embedded::start_on(Arc::clone(&log), &[]).await;
    pml.accept(&whole("own")).await;
    // It lost the lease while this was on its way.
    let late = pml.facts(&json!([started("late")])).into_iter().map(Arc::new).collect();
    log.append(late).await.unwrap();
    pml.accept(&json!([step("late", "s1", "fs:read", &[]), finished("late")])).await;
    pml.stop().await;
}
