//! Events that the server refused for good, set aside for a person to look at: a line each, with the status and the reason.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};

use crate::private;

/// Most bytes that are set aside. Beyond them the file begins anew, since the latest refusals say most about what is wrong.
const LEN_MAX: usize = 16 << 20;

pub(in crate::cli) struct Refused(PathBuf);

impl Refused {
    pub(super) fn new(directory: &Path) -> Self {
        Self(directory.join("refused.ndjson"))
    }

    pub(in crate::cli) fn path(&self) -> &Path {
        &self.0
    }

    /// Sets an event aside; of one that is larger than the limit only the reason. Called by the one process that delivers.
    pub(super) fn add(&self, event: &[u8], status: u16, reason: &str) -> anyhow::Result<()> {
        // What is no JSON is kept as text: a line may have been cut by a crash.
        let content =
            serde_json::from_slice(event).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(event).into_owned()));
        let mut line = json!({"status": status, "error": reason, "event": content}).to_string() + "\n";
        if line.len() > LEN_MAX {
            line = json!({"status": status, "error": reason, "event": null}).to_string() + "\n";
        }
        let len = fs::metadata(&self.0).map_or(0, |metadata| metadata.len());
        let write = || -> std::io::Result<()> {
            if len + line.len() as u64 > LEN_MAX as u64 {
                private::create_file(&self.0)?;
            }
            private::create_file_if_missing(&self.0)?;
            OpenOptions::new().append(true).open(&self.0)?.write_all(line.as_bytes())
        };
        write().with_context(|| format!("cannot write {}", self.0.display()))
    }

    /// How many events are set aside, and why the last was; `None` if there are none.
    pub(in crate::cli) fn summary(&self) -> Option<(usize, String)> {
        let text = fs::read(&self.0).ok()?;
        let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        let last: Value = serde_json::from_slice(lines.last()?).unwrap_or_default();
        Some((lines.len(), format!("{}: {}", last["status"], last["error"].as_str().unwrap_or("no reason given"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_aside_is_bounded_and_the_latest_is_there() {
        let home = tempfile::TempDir::new().unwrap();
        let refused = Refused::new(home.path());
        assert_eq!(refused.summary(), None);
        let large = format!("\"{}\"", "a".repeat(LEN_MAX / 2));
        refused.add(large.as_bytes(), 413, "too large").unwrap();
        refused.add(b"{cut", 400, "no JSON").unwrap();
        assert_eq!(refused.summary(), Some((2, "400: no JSON".to_owned())));
        refused.add(large.as_bytes(), 413, "too large").unwrap();
        assert_eq!(refused.summary(), Some((1, "413: too large".to_owned())), "begun anew");
        refused.add("b".repeat(LEN_MAX).as_bytes(), 413, "far too large").unwrap();
        assert_eq!(refused.summary(), Some((2, "413: far too large".to_owned())));
        assert!(fs::metadata(refused.path()).unwrap().len() <= LEN_MAX as u64);
    }
}
