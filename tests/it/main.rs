//! What pml promises to the outside, in one binary: formats that do not drift, ports that keep their contracts, and a fold that
//! depends on nothing but the records.

#![expect(clippy::unwrap_used, reason = "a panic in a builder fails the test that used it, which is what it is for")]

mod bus_contract;
mod dead_letters;
mod faulty_log;
mod fold;
mod given;
mod golden;
mod learning;
mod log_contract;
