//! Whether a log takes appends.

/// What a log says about itself. Reading works in all of these as far as the storage lets it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Condition {
    #[error("takes events")]
    Good,
    /// Events from outside are refused, so that what pml itself has to write still finds room.
    #[error("{free_bytes} bytes are left on its file system, fewer than {free_bytes_min} (log.free_bytes_min)")]
    Low { free_bytes: u64, free_bytes_min: u64 },
    /// Nothing is written until the storage works again.
    #[error("{error}; make room or repair the disk: it is tried again every few seconds, and events are taken when it works")]
    Failing { error: String },
}
