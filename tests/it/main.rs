//! What pml promises to the outside, in one binary: formats that do not drift, and a fold that depends on nothing but the records.

#![expect(clippy::unwrap_used, reason = "a panic in a builder fails the test that used it, which is what it is for")]

mod fold;
mod given;
mod golden;
mod learning;
