//! The journal of a run, for the fuzzer.

use super::journal;
use super::look_ahead;
use super::run::Run;

/// Reads a journal and restores its run.
pub fn read_journal(bytes: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let lines = journal::parse(text).ok_or_else(|| "it does not begin with a run".to_owned())?;
    drop(look_ahead::unfinished(&lines));
    Run::from_journal(lines).map(drop).ok_or_else(|| "it holds no run".to_owned())
}
