//! Readers: what agents did, from the logs, exports and spans that people already have. Bytes in, runs out.
//!
//! Pure, like the core: no I/O, no clock, no threads. The caller reads files or requests and passes bytes on; [`Reader`] cuts them into
//! JSON pieces, reads each in the format that [`recognise`] found, and gives runs as soon as they end. What it holds is bounded, however
//! long the input is. A piece that is damaged, too long or of another kind is counted and skipped.
//!
//! Reading order: `run` (what comes out), `reader` (how it is driven), `pieces` and `format` (bytes to JSON of a known format),
//! `conversation` (requests, calls and results in the order of a session) with `intent`, `cues`, `tool`, `shell`, `outcome`; the formats
//! that use it (`claude_code`, `codex`, `messages`, `calls`); `span`, `convention` and `traces` (spans) with the formats that
//! use them (`otlp`, `jaeger`, `rows`, `langfuse`, `langsmith`); `events` (runs as events); `hook` (events of a session as they happen).
//! `skill` and `report` are functions of what was learnt: Agent Skills as text, and the arithmetic of what a prediction would have saved.

pub mod events;
pub mod format;
pub mod hook;
pub mod otlp;
pub mod pieces;
pub mod reader;
pub mod report;
pub mod run;
pub mod skill;
pub mod span;
pub mod traces;

mod calls;
mod claude_code;
mod codex;
mod content;
mod convention;
mod conversation;
mod cues;
mod intent;
mod jaeger;
mod json;
mod langfuse;
mod langsmith;
mod messages;
mod outcome;
mod protobuf;
mod rows;
mod shell;
mod time;
mod tool;
mod words;

#[cfg(test)]
mod damage;
#[cfg(test)]
mod frozen;

pub use format::{Format, recognise};
pub use reader::{Counts, Reader};
pub use run::{Basis, Ending, Options, Run, Step};
