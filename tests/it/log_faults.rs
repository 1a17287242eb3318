//! The disk fails under the log: what was acknowledged stays, nothing is doubled, and writing goes on when the disk works again.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use pml::clock::{Clock, monotonic};
use pml::core::id::Seq;
use pml::log::contract::fact;
use pml::log::{AppendError, Condition, EventLog, Faults, RedbLog, RedbOptions};
use pml::publisher::PublishError;
use tempfile::TempDir;

use crate::embedded::Embedded;
use crate::log_contract::{options, redb};
use crate::run::whole;
use crate::server::PATIENCE;

fn open(home: &TempDir, faults: &Faults) -> RedbLog {
    RedbLog::open_with_faults(home.path(), options(), Clock::system(), faults.clone()).unwrap()
}

/// Waits until the log is in a condition.
async fn until(log: &dyn EventLog, what: &str, is: impl Fn(&Condition) -> bool) {
    let reached = async {
        while !is(&log.condition()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.unwrap_or_else(|_| panic!("{what}: {:?}", log.condition()));
}

/// Lets the disk fail after `good` more writes while facts are appended, heals it, and looks at everything.
async fn check(error: ErrorKind, good: u64) {
    let (home, faults) = (TempDir::new().unwrap(), Faults::default());
    let log = open(&home, &faults);
    let mut acknowledged: Vec<u64> = (0..20).collect();
    log.append(acknowledged.iter().copied().map(fact).collect()).await.unwrap();
    faults.fail(error, good);
    let mut unknown = Vec::new();
    let mut number = 20;
    while faults.failed() == 0 {
        match log.append(vec![fact(number)]).await {
            Ok(_) => acknowledged.push(number),
            Err(AppendError::Indeterminate(_)) => unknown.push(number),
            Err(AppendError::Determinate(_)) => {}
            Err(other) => panic!("after {good} writes: {other}"),
        }
        number += 1;
    }
    until(&log, "the error is told", |condition| matches!(condition, Condition::Failing { .. })).await;
    let refused = log.append(vec![fact(1_000)]).await;
    assert!(matches!(refused, Err(AppendError::Determinate(_))), "{refused:?}");
    faults.heal();
    until(&log, "the log is written again", |condition| *condition == Condition::Good).await;
    assert_eq!(log.find(fact(1_000).id).await.unwrap(), None, "determinate means that nothing was written");
    let again: Vec<u64> = unknown.iter().copied().chain([1_000]).collect();
    log.append(again.iter().copied().map(fact).collect()).await.unwrap();
    acknowledged.extend(again);
    drop(log);

    let log = redb(home.path());
    let records = log.read(Seq::ZERO, usize::MAX).await.unwrap();
    let mut expected: Vec<_> = acknowledged.into_iter().map(fact).collect();
    expected.sort_by_key(|fact| fact.id);
    let mut found: Vec<_> = records.into_iter().map(|record| record.fact).collect();
    found.sort_by_key(|fact| fact.id);
    assert_eq!(found, expected, "{error} after {good} writes");
    assert_eq!(log.verify().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_log_whose_disk_was_full_is_written_again_with_nothing_lost_or_doubled() {
    for good in 0..24 {
        check(ErrorKind::StorageFull, good).await;
    }
}

#[tokio::test]
async fn a_log_whose_disk_failed_is_written_again() {
    for good in [0, 1, 2, 5] {
        check(ErrorKind::Other, good).await;
    }
}

#[tokio::test]
async fn what_is_in_the_log_can_be_read_while_the_disk_is_full() {
    let (home, faults) = (TempDir::new().unwrap(), Faults::default());
    drop(redb(home.path()).append((0..50).map(fact).collect()).await.unwrap());
    let log = open(&home, &faults);
    faults.fail(ErrorKind::StorageFull, 0);
    assert!(log.append(vec![fact(50)]).await.is_err());
    until(&log, "the error is told", |condition| matches!(condition, Condition::Failing { .. })).await;
    faults.heal();
    until(&log, "the log is written again", |condition| *condition == Condition::Good).await;
    assert_eq!(log.read(Seq::ZERO, 100).await.unwrap().len(), 50);
}

#[actix_rt::test]
#[expect(clippy::print_stdout, reason = "shown with --nocapture: how long recovery takes")]
async fn events_are_refused_while_the_disk_is_full_and_taken_soon_after() {
    let (home, faults) = (TempDir::new().unwrap(), Faults::default());
    let log = Arc::new(open(&home, &faults));
    let pml = Embedded::start_on(Arc::clone(&log) as _, &[]).await;
    let facts = pml.facts(&whole("e1"));
    faults.fail(ErrorKind::StorageFull, 0);
    assert_eq!(pml.runtime.publisher.publish(facts.clone()).await, Err(PublishError::Unknown));
    until(&*log, "the error is told", |condition| matches!(condition, Condition::Failing { .. })).await;
    let refused = async {
        while pml.runtime.publisher.publish(facts.clone()).await != Err(PublishError::Failing) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.expect("refused at once, with the reason");
    faults.heal();
    let healed = monotonic();
    tokio::time::timeout(PATIENCE, pml.insist(&facts)).await.expect("events are taken again");
    println!("events were taken {} ms after the disk had room again", healed.elapsed().as_millis());
    pml.check(&facts.iter().map(|fact| fact.id).collect()).await;
    pml.stop().await;
}

#[tokio::test]
async fn a_log_on_a_file_system_that_is_almost_full_says_so_and_takes_what_pml_itself_writes() {
    let home = TempDir::new().unwrap();
    let low = RedbOptions { free_bytes_min: u64::MAX, ..options() };
    let log = RedbLog::open(home.path(), low, Clock::system()).unwrap();
    assert!(matches!(log.condition(), Condition::Low { free_bytes_min: u64::MAX, .. }), "{:?}", log.condition());
    log.append(vec![fact(1)]).await.unwrap();
}
