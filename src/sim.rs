//! The simulator: processes of pml under generated work and injected faults, from a seed, in simulated time.
//!
//! ```text
//!  agents --publish--> process 1..3: publisher, actors (execution, trace, graph_sync), trainer, --ports--> stream (one for all)
//!                          ^                   tiering                                                     leases, archive
//!                          +-- faults: crash at a port call, panic, lost answers, partitions, clocks, ... (from the seed)
//! ```
//!
//! The actors, the publisher, the supervisor and the fold are the product's own. The log, the dead letters, the bus and the leases are
//! models behind the product's ports (`stream`, `ports`, `lease`); `tests/sim/log_model.rs` holds the real adapters to the same model.
//! Everything runs on one thread with tokio's clock paused, so that time passes only when nothing else can happen, and the same seed
//! gives the same run. A crash cuts a process off its ports at one of its calls: whatever it does afterwards has no effect.
//!
//! After a run every invariant is checked (`check`). A failing run is repeated with fewer faults, as long as it fails.

mod agents;
mod check;
mod executor;
mod faults;
mod lease;
mod life;
mod panics;
mod ports;
mod process;
mod scenario;
mod stream;
mod tiering;
mod trainer;
mod world;

pub use faults::{CALLS, Fault, FaultKind, POINTS, Place};
pub use scenario::{Bug, Coverage, Outcome, Scenario};
pub use stream::ModelLog;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a scenario. Returns its digest and what it covered, or the invariant that was violated. A panic that was not injected, such as that
/// of an assertion of the product, is a violation too, also where a supervisor would go on.
pub fn run(scenario: &Scenario) -> Result<Outcome, String> {
    panics::listen();
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        let runner = actix_rt::System::with_tokio_rt(|| {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_time().start_paused(true).build().expect("a runtime without I/O can be built")
        });
        runner.block_on(world::simulate(scenario))
    }));
    crate::failpoint::decide_here(None);
    let panicked = panics::heard().into_iter().find(|text| !text.starts_with(crate::failpoint::PANIC));
    match (panicked, attempt) {
        (Some(text), _) => Err(format!("panic: {text}")),
        (None, Ok(outcome)) => outcome,
        (None, Err(_)) => Err("panic at a failpoint outside of the actors".to_owned()),
    }
}

/// The scenario with the fewest faults that still violates an invariant, found by leaving faults out one by one.
pub fn shrink(failing: &Scenario) -> Scenario {
    let mut smallest = failing.clone();
    let mut at = 0;
    while at < smallest.faults.len() {
        let mut fewer = smallest.clone();
        fewer.faults.remove(at);
        if run(&fewer).is_err() {
            smallest = fewer;
        } else {
            at += 1;
        }
    }
    smallest
}
