//! How much room the file system of the log has left.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::monotonic;

/// How long an answer of the file system is good for: a burst writes some tens of megabytes in this time.
const GOOD_FOR: Duration = Duration::from_millis(100);

pub(super) struct Space {
    directory: PathBuf,
    /// Fewer are too few; zero: never look.
    pub(super) free_bytes_min: u64,
    seen: Mutex<Option<(Instant, u64)>>,
}

impl Space {
    pub(super) fn new(directory: PathBuf, free_bytes_min: u64) -> Self {
        Self { directory, free_bytes_min, seen: Mutex::new(None) }
    }

    /// How many bytes are left, if they are too few.
    pub(super) fn shortage(&self) -> Option<u64> {
        if self.free_bytes_min == 0 {
            return None;
        }
        let now = monotonic();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let free = match *seen {
            Some((at, free)) if now.duration_since(at) < GOOD_FOR => free,
            _ => {
                // A file system that does not tell cannot be watched; writing to it says soon enough what is wrong.
                let free = free_bytes(&self.directory).unwrap_or(u64::MAX);
                *seen = Some((now, free));
                free
            }
        };
        (free < self.free_bytes_min).then_some(free)
    }
}

#[cfg(unix)]
fn free_bytes(directory: &std::path::Path) -> Option<u64> {
    // What an ordinary user may still take, not what is kept for the administrator.
    let about = rustix::fs::statvfs(directory).ok()?;
    Some(about.f_bavail.saturating_mul(about.f_frsize))
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
