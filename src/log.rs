//! The event log: an append-only sequence of records. All other state is a fold of it.
//!
//! The port is [`EventLog`]. Its adapters are `memory` (for tests and benches), `redb` (embedded, one file) and `jetstream` (on NATS).
//! `contract` holds the tests that every adapter must pass, also when wrapped in `faulty`, which injects errors before or after the write.

mod condition;
mod dead;
mod error;
mod foreign;
mod jetstream;
mod memory;
mod recent;
mod redb;

#[cfg(feature = "testing")]
pub mod contract;
#[cfg(feature = "testing")]
pub mod faulty;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use crate::core::event::{NewRecord, Record};
use crate::core::id::{RecordId, Seq};
pub use condition::Condition;
pub use dead::{DeadLetter, DeadLetters, DeadPage, NewDeadLetter};
pub use error::{AppendError, Damage, OpenError, ReadError};
pub use foreign::ForeignMessages;
pub use jetstream::{JetStreamLog, StreamDeadLetters, StreamOptions};
#[cfg(feature = "testing")]
pub use jetstream::{read_message, use_id_index, write_id_index};
pub use memory::MemoryLog;
pub(crate) use recent::RECORDS_MAX as RECENT_RECORDS_MAX;
#[cfg(feature = "testing")]
pub use redb::{Faults, fuzzing};
pub use redb::{RedbLog, RedbOptions, scan};

/// The result of appending one fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The new position of the fact, or that of the record with the same id.
    pub seq: Seq,
    /// True if the log already held this id; nothing was written then.
    pub duplicate: bool,
}

/// An ordered, durable, append-only log.
///
/// ```text
///   1   2   3   5   6        positions: strictly increasing, holes are legal
///   r   r   r   r   r   .
///                   ^ tail   the last readable position
/// ```
///
/// - The order of appends is the order in which `append` is **called**, not the order in which the futures are first polled. Facts of
///   one call keep their order. Each fact becomes a record of its own: no adapter needs transactions over several.
/// - When `append` returns `Ok`, every fact of the call MUST survive a crash of the process (durable adapters), MUST be visible to
///   `read`, and `tail` MUST have reached it.
/// - A fact whose id the log holds MUST NOT be written again; the result is the position of the first one, marked duplicate. This
///   applies within one call too.
/// - `Err(Busy | Closed | Full | Determinate | Damaged)` MUST mean that nothing of the call was written. `Err(Indeterminate)` means that
///   any part may have been written: the caller reads back (`find`) before it tries again.
/// - `read` MUST return the records after a position, in order, at most `limit`, fewer only at the tail. It MUST NOT block a writer.
/// - Dropping the future of an `append` MUST NOT undo it.
pub trait EventLog: Send + Sync + 'static {
    fn append(&self, facts: Vec<Arc<NewRecord>>) -> BoxFuture<'static, Result<Vec<Appended>, AppendError>>;

    fn read(&self, after: Seq, limit: usize) -> BoxFuture<'static, Result<Vec<Record>, ReadError>>;

    /// Returns the position of the record with this id.
    fn find(&self, id: RecordId) -> BoxFuture<'static, Result<Option<Seq>, ReadError>>;

    /// Returns a receiver of the tail, which also allows waiting for it to move.
    fn tail(&self) -> watch::Receiver<Seq>;

    /// Returns the messages that this process has skipped so far because they are not records.
    fn foreign(&self) -> ForeignMessages {
        ForeignMessages::default()
    }

    /// Returns whether appends can be expected to work. MUST be cheap: it is called for every request.
    fn condition(&self) -> Condition {
        Condition::Good
    }
}

/// Records that were removed from a log because they are kept elsewhere.
pub trait OlderRecords: std::fmt::Debug + Send + Sync + 'static {
    /// Returns the records after `after`, in order, at most `limit`, none after `to`, fewer only if `to` is reached. Blocks.
    fn read(&self, after: Seq, to: Seq, limit: usize) -> Result<Vec<Record>, ReadError>;
}

/// A log whose oldest records can be removed once they are kept elsewhere. `read` returns them all the same, from the [`OlderRecords`] that
/// it was opened with, and `find` and `append` still know their ids.
pub trait TrimmedLog: EventLog {
    /// Returns the position up to which records were removed.
    fn trimmed_to(&self) -> Seq;

    /// Removes records up to `to`, which MUST be before the tail. Returns the position up to which records are removed then; it may be
    /// before `to`, so that appends need not wait long. After a crash, records are either all there or all removed up to that position.
    fn trim(&self, to: Seq) -> BoxFuture<'static, Result<Seq, AppendError>>;
}

/// A log shared by actors and gateways.
pub type SharedLog = Arc<dyn EventLog>;

/// Pause before an append that found the log's queue full is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Appends `facts`, waiting while the log's queue is full. Returns every other error.
pub(crate) async fn append_patiently(log: &SharedLog, facts: Vec<Arc<NewRecord>>) -> Result<Vec<Appended>, AppendError> {
    loop {
        match log.append(facts.clone()).await {
            Err(AppendError::Busy) => tokio::time::sleep(BUSY_PAUSE).await,
            outcome => return outcome,
        }
    }
}
