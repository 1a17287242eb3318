//! The sandbox as a process, and reading compared with running.

#![expect(clippy::unwrap_used, reason = "a panic fails the test, which is what it is for")]

mod escapes;
mod flow;
mod process;
mod running;
