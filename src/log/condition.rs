//! The condition of a log: whether it accepts appends.

/// The condition of a log. Reading works in all of them as far as the storage allows it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Condition {
    #[error("takes events")]
    Good,
    /// Events from outside are refused, so that there is room for the records that pml itself writes.
    #[error("{free_bytes} bytes are left on its file system, fewer than {free_bytes_min} (log.free_bytes_min)")]
    Low { free_bytes: u64, free_bytes_min: u64 },
    /// Nothing is written until the storage works again.
    #[error("{error}; make room or repair the disk: it is tried again every few seconds, and events are taken when it works")]
    Failing { error: String },
}
