//! The messages between the processes: a length of four bytes, the lowest first, and a JSON document.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::limits::{Limits, RunError};
use crate::structure::Position;

pub(super) const LENGTH_BYTES: usize = 4;

/// What the child is told.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToChild {
    Run { launch: Launch, limits: Limits },
    Answer(Answer),
}

/// A program to be run. The same launch with the same results of calls gives the same run: the clock of the program stands still, and
/// its random numbers follow from the seed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Launch {
    /// The `javascript` of a reading.
    pub javascript: String,
    /// The value of `args`.
    pub arguments: Box<RawValue>,
    /// What `Date.now()` gives: milliseconds since 1970.
    pub clock_ms: i64,
    /// The seed of `Math.random()`.
    pub seed: u32,
}

/// The end of a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer {
    pub id: u64,
    /// The result, or the text of the error.
    pub result: Result<Box<RawValue>, String>,
}

/// What the child says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToParent {
    Call(CallRequest),
    Done(Outcome),
}

/// A call that the program asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallRequest {
    /// Counted from 1 in one run.
    pub id: u64,
    /// `server:name`, or `capability:name`.
    pub callee: String,
    pub arguments: Box<RawValue>,
    /// How often a failed call is repeated, and how long it may take, as the program asks for it.
    pub retries: u32,
    pub timeout_ms: Option<u64>,
    /// Where the program calls it, if it is known.
    pub position: Option<Position>,
}

/// How a run ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub result: Result<Box<RawValue>, RunError>,
    /// What the program wrote to the console, also if it failed.
    pub console: String,
}

impl Outcome {
    pub(super) const fn failed(error: RunError) -> Self {
        Self { result: Err(error), console: String::new() }
    }
}

pub(super) fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut bytes, message)?;
    let length = u32::try_from(bytes.len() - LENGTH_BYTES).map_err(io::Error::other)?;
    bytes[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

pub(super) fn write(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    to.write_all(&frame(message)?)
}

pub(super) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut length = [0; LENGTH_BYTES];
    from.read_exact(&mut length)?;
    let mut body = Vec::new();
    let length = u32::from_le_bytes(length);
    // Grows as the bytes come, whatever the length says.
    if from.take(length.into()).read_to_end(&mut body)? < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&body)?)
}
