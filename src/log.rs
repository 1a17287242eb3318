//! The append-only history: the one truth, of which everything else is a fold.
//!
//! The port is [`EventLog`]; `memory` is the double used by tests and benches, `redb` the embedded log, `jetstream`
//! the log on NATS. `contract` holds the suite every adapter must pass, also behind `faulty`, which fails before or after the write.

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
pub use foreign::Foreign;
pub use jetstream::{JetStreamLog, StreamDeadLetters};
pub use memory::MemoryLog;
#[cfg(feature = "testing")]
pub use redb::Faults;
pub use redb::{RedbLog, RedbOptions, scan};

/// What became of one fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Where it stands: its own new position, or that of the record with the same id.
    pub seq: Seq,
    /// The log already held this id; nothing was written.
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
/// - `append` takes its place in the order when it is **called**, not when its future is first polled. Facts of one call keep their
///   order. Each fact is a record of its own: no adapter needs transactions over several.
/// - When `append` returns `Ok`, every fact of the call MUST survive a crash of the process (durable adapters), MUST be visible to
///   `read`, and `tail` MUST have reached it.
/// - A fact whose id the log holds MUST NOT be written again; the answer is the position of the first one, marked duplicate. This
///   holds within one call too.
/// - `Err(Busy | Closed | Full | Determinate | Damaged)` means that nothing of the call was written. `Err(Indeterminate)` means that any part may
///   have been: the caller reads back (`find`) before it tries again.
/// - `read` returns records after a position, in order, at most `limit`, fewer only at the tail. It MUST NOT block a writer.
/// - Dropping the future of an `append` does not undo it.
pub trait EventLog: Send + Sync + 'static {
    fn append(&self, facts: Vec<Arc<NewRecord>>) -> BoxFuture<'static, Result<Vec<Appended>, AppendError>>;

    fn read(&self, after: Seq, limit: usize) -> BoxFuture<'static, Result<Vec<Record>, ReadError>>;

    /// The position of the record with this id.
    fn find(&self, id: RecordId) -> BoxFuture<'static, Result<Option<Seq>, ReadError>>;

    /// The tail, and a way to wait for it to move.
    fn tail(&self) -> watch::Receiver<Seq>;

    /// What this process has found in the log so far that is no record and was skipped.
    fn foreign(&self) -> Foreign {
        Foreign::default()
    }

    /// Whether appends can be expected to work. Cheap: asked for every request.
    fn condition(&self) -> Condition {
        Condition::Good
    }
}

pub type SharedLog = Arc<dyn EventLog>;

/// Pause before an append that found the log's queue full is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Appends `facts`, waiting while the log's queue is full. Any other error is the caller's.
pub(crate) async fn append_patiently(log: &SharedLog, facts: Vec<Arc<NewRecord>>) -> Result<Vec<Appended>, AppendError> {
    loop {
        match log.append(facts.clone()).await {
            Err(AppendError::Busy) => tokio::time::sleep(BUSY_PAUSE).await,
            outcome => return outcome,
        }
    }
}
