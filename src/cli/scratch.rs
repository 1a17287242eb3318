//! Temporary directory of a command.

use std::path::{Path, PathBuf};

use crate::clock::Clock;

/// `Scratch` is a temporary directory that is removed when it is dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(purpose: &str) -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("pml-{purpose}-{}", Clock::system().fresh_id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "cannot remove a temporary directory");
        }
    }
}
