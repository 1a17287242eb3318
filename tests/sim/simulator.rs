//! Processes in the simulator: the same seed is the same run, no seed breaks an invariant, and planted bugs are found.

use std::sync::atomic::{AtomicU64, Ordering};

use pml::sim::{Bug, CALLS, Coverage, FaultKind, POINTS, Place, Scenario, run, shrink};

use crate::setting;

/// Seeds in CI.
const SEEDS: u64 = 150;
/// So many seeds meet every fault at every place.
const SEEDS_FOR_ALL: u64 = 10_000;
/// Within so many seeds a planted bug must be found.
const SEEDS_PER_BUG: u64 = 500;

/// Runs seeds on both cores and adds up what they covered. Panics with the first failing seed, shrunk to the fewest faults.
#[expect(clippy::print_stdout, reason = "shown when the test fails, and with --nocapture")]
fn run_seeds(first: u64, count: u64) -> Coverage {
    let next = AtomicU64::new(first);
    let worker = || {
        let (mut coverage, mut records, mut simulated) = (Coverage::default(), 0, std::time::Duration::ZERO);
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return (coverage, records, simulated);
            }
            match run(&Scenario::of(seed)) {
                Ok(outcome) => {
                    coverage.add(&outcome.coverage);
                    records += outcome.history.len();
                    simulated += outcome.simulated;
                }
                Err(problem) => {
                    let smallest = shrink(&Scenario::of(seed));
                    let repeat =
                        format!("PML_SIM_SEED={seed} cargo test --features testing --test sim one_seed -- --nocapture");
                    panic!("seed {seed}: {problem}\nwith these faults alone: {:#?}\nrepeat it with: {repeat}", smallest.faults);
                }
            }
        }
    };
    let workers: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let (mut total, mut records, mut simulated) = (Coverage::default(), 0, std::time::Duration::ZERO);
    for (coverage, some, time) in &workers {
        total.add(coverage);
        records += some;
        simulated += *time;
    }
    println!("{count} seeds from {first}: {records} records in {simulated:?} of simulated time");
    total
}

#[expect(clippy::print_stdout, reason = "shown with --nocapture: what was covered")]
fn print(coverage: &Coverage) {
    for (kind, count) in &coverage.faults {
        println!("  fault {kind:?}: {count}");
    }
    for ((site, call), [passed, before, after]) in &coverage.calls {
        println!("  {site}.{call}: {passed} calls, crashed before {before}, after {after}");
    }
    println!("  panics: {:?}", coverage.panics);
    println!("  records moved by tiering: {}", coverage.moved);
}

#[test]
fn no_seed_breaks_an_invariant_and_every_fault_is_met() {
    let count = setting("PML_SIM_SEEDS").unwrap_or(SEEDS);
    let coverage = run_seeds(setting("PML_SIM_FIRST").unwrap_or(0), count);
    print(&coverage);
    if count >= SEEDS_FOR_ALL {
        assert_eq!(coverage.missing(), [""; 0]);
    } else if count >= SEEDS {
        let missing = FaultKind::ALL.into_iter().find(|kind| !coverage.faults.contains_key(kind));
        assert_eq!(missing, None, "no run met it");
    }
}

/// One process crashes at every call of its ports, before and after the effect, and panics at every failpoint.
#[test]
fn a_process_crashes_at_every_call_and_panics_at_every_point() {
    /// Within so many seeds a place must be reached.
    const SEEDS_PER_PLACE: u64 = 10;
    let crash = |name, after| (FaultKind::Crash, Place { name: Some(name), nth: 1, after });
    let crashes = CALLS.into_iter().flat_map(|name| [crash(name, false), crash(name, true)]);
    let panics = POINTS.into_iter().map(|name| (FaultKind::Panic, Place { name: Some(name), nth: 1, after: false }));
    for (kind, place) in crashes.chain(panics) {
        let reached = (0..SEEDS_PER_PLACE).any(|seed| {
            let outcome = run(&Scenario::with_fault(seed, kind, place));
            let outcome = outcome.unwrap_or_else(|problem| panic!("seed {seed} with {kind:?} at {place:?}: {problem}"));
            outcome.coverage.faults.contains_key(&kind)
        });
        assert!(reached, "{SEEDS_PER_PLACE} seeds do not reach {kind:?} at {place:?}");
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "it is what the test is run for")]
fn one_seed() {
    let scenario = Scenario::of(setting("PML_SIM_SEED").unwrap_or(1));
    println!("{scenario:#?}");
    match run(&scenario) {
        Ok(outcome) => println!("{}\ndigest {}, {} records", outcome.history.join("\n"), outcome.digest, outcome.history.len()),
        Err(problem) => panic!("{problem}\nwith these faults alone: {:#?}", shrink(&scenario).faults),
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..18 {
        let (one, two) = (run(&Scenario::of(seed)).unwrap(), run(&Scenario::of(seed)).unwrap());
        assert_eq!(one.history, two.history, "seed {seed}");
        assert_eq!(one.digest, two.digest, "seed {seed}");
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "shown with --nocapture: which seed found which bug")]
fn every_planted_bug_is_found() {
    for bug in Bug::ALL {
        let fails = |seed: &u64| run(&Scenario { bug: Some(bug), ..Scenario::of(*seed) }).is_err();
        let found = (0..SEEDS_PER_BUG).find(fails);
        let Some(seed) = found else { panic!("{bug:?} was not found by {SEEDS_PER_BUG} seeds") };
        let smallest = shrink(&Scenario { bug: Some(bug), ..Scenario::of(seed) });
        let problem = run(&smallest).unwrap_err();
        println!("{bug:?}: seed {seed}, {} faults: {problem}", smallest.faults.len());
    }
}

/// Each of these finds a bug of pml that was mended. The work that a seed makes changes with the simulator, so each bug has a test of its own too.
#[test]
fn seeds_that_found_a_bug_stay_good() {
    // Events that were held back were never answered after a failed read of the log: also `tests/it/supervision.rs`.
    for seed in [10, 160] {
        run(&Scenario::of(seed)).unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
    }
}
