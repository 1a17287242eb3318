//! The free space on the file system of the log.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::monotonic;

/// How long a measurement is reused: a burst writes some tens of megabytes in this time.
const REUSED_FOR: Duration = Duration::from_millis(100);

/// Measures the free space of a directory's file system.
pub(super) struct Space {
    directory: PathBuf,
    /// Fewer free bytes are a shortage; zero turns the check off.
    pub(super) free_bytes_min: u64,
    measured: Mutex<Option<(Instant, u64)>>,
}

impl Space {
    pub(super) fn new(directory: PathBuf, free_bytes_min: u64) -> Self {
        Self { directory, free_bytes_min, measured: Mutex::new(None) }
    }

    /// Returns the free bytes if they are too few.
    pub(super) fn shortage(&self) -> Option<u64> {
        if self.free_bytes_min == 0 {
            return None;
        }
        let now = monotonic();
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        let free = match *measured {
            Some((at, free)) if now.duration_since(at) < REUSED_FOR => free,
            _ => {
                // If the file system gives no number, a shortage shows as an error of a later write.
                let free = free_bytes(&self.directory).unwrap_or(u64::MAX);
                *measured = Some((now, free));
                free
            }
        };
        (free < self.free_bytes_min).then_some(free)
    }
}

#[cfg(unix)]
fn free_bytes(directory: &std::path::Path) -> Option<u64> {
    // The space available to ordinary users, without the reserve for the administrator.
    let stats = rustix::fs::statvfs(directory).ok()?;
    Some(stats.f_bavail.saturating_mul(stats.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_directory: &std::path::Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_has_less_than_everything_and_more_than_nothing() {
        let here = std::env::temp_dir();
        assert!(Space::new(here.clone(), u64::MAX).shortage().is_some_and(|free| free > 0));
        assert_eq!(Space::new(here.clone(), 1).shortage(), None);
        assert_eq!(Space::new(here, 0).shortage(), None);
    }
}
