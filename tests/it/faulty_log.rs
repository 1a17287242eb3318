use std::sync::Arc;

use pml::clock::Clock;
use pml::log::faulty::{Fault, FaultyLog, seeded};
use pml::log::{AppendError, EventLog, MemoryLog, SharedLog, contract};
use tempfile::TempDir;

use crate::log_contract::redb;

const SEEDS: std::ops::Range<u64> = 0..50;

fn memory() -> SharedLog {
    Arc::new(MemoryLog::new(Clock::system()))
}

#[expect(clippy::print_stdout, reason = "the test harness shows it when the test fails")]
async fn check(seed: u64, log: SharedLog) {
    println!("seed {seed}");
    contract::a_caller_that_reads_back_writes_every_fact_once_and_in_order(Arc::new(FaultyLog::new(log, seeded(seed)))).await;
}

#[tokio::test]
async fn a_caller_that_follows_the_rule_survives_every_seed_in_memory() {
    for seed in SEEDS {
        check(seed, memory()).await;
    }
}

#[tokio::test]
async fn a_caller_that_follows_the_rule_survives_every_seed_on_redb() {
    for seed in SEEDS {
        let home = TempDir::new().unwrap();
        check(seed, Arc::new(redb(home.path()))).await;
    }
}

#[tokio::test]
async fn each_fault_writes_what_it_says() {
    let log = FaultyLog::new(memory(), [Fault::Before, Fault::Within, Fault::After].into_iter());
    let append = |numbers: [u64; 3]| log.append(numbers.map(contract::fact).into());
    assert!(matches!(append([1, 2, 3]).await, Err(AppendError::Determinate(_))));
    assert!(matches!(append([4, 5, 6]).await, Err(AppendError::Indeterminate(_))));
    assert!(matches!(append([7, 8, 9]).await, Err(AppendError::Indeterminate(_))));
    assert!(append([10, 11, 12]).await.is_ok(), "the plan has ended");
    let records = log.read(pml::core::id::Seq::ZERO, 100).await.unwrap();
    let written: Vec<_> = records.into_iter().map(|record| record.fact).collect();
    assert_eq!(written, [4, 7, 8, 9, 10, 11, 12].map(contract::fact));
}

#[test]
fn the_same_seed_gives_the_same_plan_and_every_fault() {
    for seed in SEEDS {
        let plan: Vec<_> = seeded(seed).take(100).collect();
        assert_eq!(plan, seeded(seed).take(100).collect::<Vec<_>>());
        for fault in [Fault::None, Fault::Before, Fault::Within, Fault::After] {
            assert!(plan.contains(&fault), "seed {seed} has no {fault:?}");
        }
    }
}
