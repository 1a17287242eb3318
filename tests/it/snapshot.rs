//! A state from a snapshot and the rest of the log is the state from the whole log, bit for bit, wherever the snapshot was taken.

use std::sync::Arc;

use pml::clock::Clock;
use pml::config::AppendMode;
use pml::core::event::{Event, Record};
use pml::core::id::Seq;
use pml::core::state::State;
use pml::core::time::Timestamp;
use pml::log::{EventLog, MemoryLog};
use pml::snapshot::{self, About, Origin, Store};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;

use crate::fold::{folded, history};
use crate::log_contract::redb;
use crate::nats_log;
use crate::nats_server::NatsServer;

fn about(log: Origin) -> About {
    About { log, config_hash: "none".to_owned(), taken_at: Timestamp::from_micros(0) }
}

pub(crate) fn restored(state: &State) -> State {
    let origin = Origin { first_id: "first".to_owned(), last_id: "last".to_owned() };
    let taken = snapshot::encode_state(state, &about(origin), || ());
    assert_eq!(taken.manifest.digest, state.digest().to_string());
    snapshot::restore(&taken.into_fetched()).unwrap()
}

fn apply(state: &mut State, records: &[Record]) {
    for record in records {
        state.apply(record);
    }
}

/// Also what the digest leaves out, because it follows from ids: what traces say.
fn check_same(state: &State, expected: &State, records: &[Record]) {
    assert_eq!(state.digest(), expected.digest());
    let mut traces = 0;
    for record in records {
        if let Event::TraceCompleted(trace) = record.event() {
            assert_eq!(state.executions.trace(&trace.execution), expected.executions.trace(&trace.execution));
            traces += 1;
        }
    }
    assert_eq!(state.executions.traces_len(), expected.executions.traces_len());
    assert!(state.executions.traces_len() <= traces);
    let coverage = (state.vectors.coverage(), state.vectors.lacking("new", 100).len());
    assert_eq!(coverage, (expected.vectors.coverage(), expected.vectors.lacking("new", 100).len()));
}

proptest! {
    // A case folds its history up to nine times.
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_state_goes_through_snapshots_at_any_place_unchanged(records in history(), cuts in vec(any::<Index>(), 1..4)) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(records.len() + 1)).collect();
        cuts.sort_unstable();
        let mut state = State::default();
        let mut from = 0;
        for cut in cuts {
            apply(&mut state, &records[from..cut]);
            state = restored(&state);
            check_same(&state, &folded(&records[..cut]), &records[..cut]);
            from = cut;
        }
        apply(&mut state, &records[from..]);
        check_same(&state, &folded(&records), &records);
        check_same(&restored(&state), &folded(&records), &records);
    }
}

/// Histories and where to cut them, the same in every run.
fn cases(count: usize) -> Vec<(Vec<Record>, usize)> {
    let mut runner = TestRunner::deterministic();
    let tree = |runner: &mut TestRunner| (history(), any::<Index>()).new_tree(runner).unwrap().current();
    let cut = |(records, cut): (Vec<Record>, Index)| {
        let cut = 1 + cut.index(records.len());
        (records, cut)
    };
    (0..count).map(|_| cut(tree(&mut runner))).collect()
}

/// Writes the history into an empty log, a snapshot of its beginning into a directory, and starts from both.
async fn check_log(log: &dyn EventLog, (records, cut): (Vec<Record>, usize)) {
    let facts = records.iter().map(|record| Arc::clone(&record.fact)).collect();
    log.append(facts).await.unwrap();
    let kept = log.read(Seq::ZERO, usize::MAX).await.unwrap();
    assert_eq!(kept.len(), records.len());
    let home = TempDir::new().unwrap();
    let store = Store::Directory(home.path().join("snapshots"));
    let begun = Arc::new(folded(&kept[..cut]));
    let origin = Origin::of(log, begun.applied()).await.unwrap().unwrap();
    let manifest = snapshot::create(&store, Arc::clone(&begun), about(origin), || ()).await.unwrap();
    assert_eq!(manifest.seq(), begun.applied());
    let tail = *log.tail().borrow();
    let mut state = snapshot::newest_at_or_before(&store, log, tail).await.unwrap().unwrap();
    assert_eq!(state.digest(), begun.digest());
    let rest = log.read(state.applied(), usize::MAX).await.unwrap();
    apply(&mut state, &rest);
    check_same(&state, &folded(&kept), &kept);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_and_tail_equal_a_full_replay_in_memory_and_on_redb() {
    for case in cases(24) {
        check_log(&MemoryLog::new(Clock::system()), case.clone()).await;
        let home = TempDir::new().unwrap();
        check_log(&redb(home.path()), case).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_and_tail_equal_a_full_replay_on_jetstream() {
    for case in cases(4) {
        let server = NatsServer::start();
        check_log(nats_log::open(&server, AppendMode::Atomic).await.as_ref(), case).await;
    }
}
