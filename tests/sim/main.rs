//! Trouble on purpose: logs beside a model of them, and whole processes in a simulator, from seeds.
//!
//!     PML_SIM_SEEDS=20000 cargo test --features testing --test sim -- --nocapture
//!     PML_SIM_SEED=4711 cargo test --features testing --test sim one_seed -- --nocapture

#![expect(clippy::unwrap_used, reason = "a panic in a builder fails the test that used it, which is what it is for")]

#[path = "../it/faulty_proxy.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod faulty_proxy;
mod log_model;
#[path = "../it/nats_server.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod nats_server;
mod server;
mod simulator;

/// A number from the environment.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}: '{text}' is no number")))
}
