//! Every decoder that reads bytes from outside, and the fold, under generated input: no panic, bounded memory, bounded time.
//!
//! `cargo test` gives each target a fixed share. More, and other inputs:
//!
//!     PML_FUZZ_SECONDS=60 PML_FUZZ_SEED=7 cargo test --features testing --test fuzz -- --nocapture
//!
//! `PML_FUZZ_TARGET=stored` runs one target. A failing input is printed in hexadecimal; add it to `tests/fuzz/corpus/TARGET/` as a file.

#![expect(clippy::unwrap_used, reason = "a panic in a builder fails the test that used it, which is what it is for")]

mod fold;
mod samples;
mod targets;

use std::sync::Mutex;
use std::time::Duration;

use pml_fuzzer::{Meter, Report, Share, run};

#[global_allocator]
static METER: Meter = Meter;

/// The counters of the allocator belong to the process, so tests run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A number from the environment.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}: '{text}' is no number")))
}

fn seed() -> u64 {
    setting("PML_FUZZ_SEED").unwrap_or(1)
}

#[test]
#[expect(clippy::print_stdout, reason = "shown with --nocapture: what was read, and how")]
fn every_decoder_withstands_generated_input() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let wanted = std::env::var("PML_FUZZ_TARGET").ok();
    let mut inputs = 0;
    for (name, inputs_in_ci, open) in targets::all() {
        if wanted.as_deref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let share = setting("PML_FUZZ_SECONDS").map(|seconds| Share::Time(Duration::from_secs(seconds)));
        let mut target = open();
        target.samples.extend(samples::corpus(name));
        let Report { inputs: read, accepted, answers, peak, longest } =
            run(&mut target, seed(), share.unwrap_or(Share::Inputs(inputs_in_ci)));
        println!(
            "{name:>16}: {read:>9} inputs, {accepted:>9} accepted, {answers:>3} answers, at most {peak} bytes and {longest:?}"
        );
        assert!(accepted > 0, "{name}: not even a sample was accepted");
        inputs += read;
    }
    println!("seed {}: {inputs} inputs in all", seed());
}
