//! Tiering: the oldest records of a log move to an archive, and reading goes on as if nothing had happened.
//!
//! 1. The records that are due are written to the archive: files that are synced, then renamed or sent to the object store.
//! 2. What the archive holds beyond the beginning of the log is read back and compared with the log, record by record.
//! 3. What was compared is removed from the log, in one step of the log (`TrimmedLog::trim`).
//!
//! A crash between two steps, or within one, leaves records in both places or a hidden file. The next run begins with what the archive
//! holds, so it writes nothing twice, and removes nothing that it has not compared itself.

use super::{Archive, ArchiveError, ArchiveStore, ArchiveWriter};
use crate::core::event::Record;
use crate::core::id::{RecordId, Seq};
use crate::core::invariant::removed_records_are_archived;
use crate::core::time::Timestamp;
use crate::failpoint;
use crate::log::{AppendError, ReadError, TrimmedLog};

/// Records read from the log at once.
const PAGE_RECORDS: usize = 4_096;
/// Most records of a run, as many as one file holds. A run begins when this many are due, or an eighth of `hot_records`, or a whole day by
/// `hot_days`, so that files do not become small.
const RUN_RECORDS_MAX: u64 = 1 << 18;
const MICROS_PER_DAY: i64 = 24 * 60 * 60 * 1_000_000;

/// Which records stay in the log; zero sets no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotLimits {
    pub records: u64,
    pub days: u64,
}

impl HotLimits {
    pub fn is_off(self) -> bool {
        self == Self::default()
    }

    /// The fewest records beyond `records` that are worth a run.
    pub fn run_records(self) -> u64 {
        (self.records / 8).clamp(1, RUN_RECORDS_MAX)
    }
}

/// What a run has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TieredRecords {
    /// Records that were written to the archive.
    pub archived: u64,
    /// The position up to which the log was emptied.
    pub trimmed_to: Seq,
}

/// Why records cannot be moved. Nothing is lost: the log holds what was not compared.
#[derive(Debug, thiserror::Error)]
pub enum TieringError {
    #[error("cannot write the archive")]
    Archive(#[from] ArchiveError),
    #[error("cannot read the log")]
    Read(#[from] ReadError),
    #[error("cannot remove records from the log that the archive holds")]
    Trim(#[from] AppendError),
    #[error(
        "{archive} is not the archive of this log: record {seq} differs; move it away, or set log.archive to another place"
    )]
    Differs { archive: String, seq: Seq },
}

/// Moves records that are due at `now` from `log` to the archive in `store`, at most as many as one file holds. Returns `None` if too
/// few are due.
pub async fn tier(
    log: &dyn TrimmedLog,
    store: &ArchiveStore,
    limits: HotLimits,
    now: Timestamp,
) -> Result<Option<TieredRecords>, TieringError> {
    tier_in_pages(log, store, limits, now, PAGE_RECORDS).await
}

/// Does the same with pages of `page_records`.
pub async fn tier_in_pages(
    log: &dyn TrimmedLog,
    store: &ArchiveStore,
    limits: HotLimits,
    now: Timestamp,
    page_records: usize,
) -> Result<Option<TieredRecords>, TieringError> {
    let begin = log.trimmed_to();
    let due = due_position(log, limits, now).await?;
    if due <= begin {
        return Ok(None);
    }
    let due = due.min(Seq(begin.0.saturating_add(RUN_RECORDS_MAX)));
    let archived = write(log, store, due, page_records).await?;
    failpoint::pass("tiering.written");
    let compared = compare(log, store).await?;
    failpoint::pass("tiering.compared");
    let mut trimmed_to = begin;
    while trimmed_to < compared {
        let reached = log.trim(compared).await?;
        failpoint::pass("tiering.trimmed");
        if reached == trimmed_to {
            break;
        }
        trimmed_to = reached;
    }
    Ok((trimmed_to > begin).then_some(TieredRecords { archived, trimmed_to }))
}

/// The last position that is worth moving, by the number of records or by their age.
async fn due_position(log: &dyn TrimmedLog, limits: HotLimits, now: Timestamp) -> Result<Seq, ReadError> {
    let (tail, begin) = (*log.tail().borrow(), log.trimmed_to());
    let beyond = if limits.records == 0 { 0 } else { tail.0.saturating_sub(limits.records) };
    let mut due = if beyond.saturating_sub(begin.0) < limits.run_records() { begin } else { Seq(beyond) };
    if limits.days > 0 {
        due = older_position(log, due, oldest_kept(limits.days, now), begin).await?;
    }
    // The last record stays: the log knows its end by it.
    Ok(due.min(Seq(tail.0.saturating_sub(1))))
}

/// The beginning of the oldest day that stays, in UTC. A file holds records of one day, so a day moves as a whole: otherwise every look
/// at the log would write a file with the records of the last minute.
fn oldest_kept(days: u64, now: Timestamp) -> Timestamp {
    let age = i64::try_from(days).unwrap_or(i64::MAX).saturating_mul(MICROS_PER_DAY);
    let moment = now.plus_micros(age.saturating_neg());
    moment.plus_micros(-moment.micros().rem_euclid(MICROS_PER_DAY))
}

/// The last position from `position` on of records that were recorded before `oldest_kept`.
async fn older_position(log: &dyn TrimmedLog, mut position: Seq, oldest_kept: Timestamp, begin: Seq) -> Result<Seq, ReadError> {
    loop {
        let records = log.read(position, PAGE_RECORDS).await?;
        for record in &records {
            if record.recorded_at >= oldest_kept {
                return Ok(position);
            }
            position = record.seq;
        }
        // A run moves no more than this: what is due beyond it is looked for by the next one.
        if records.is_empty() || position.0 - begin.0 >= RUN_RECORDS_MAX {
            return Ok(position);
        }
    }
}

/// Writes the records up to `due` that the archive does not hold yet. Returns how many.
async fn write(log: &dyn TrimmedLog, store: &ArchiveStore, due: Seq, page_records: usize) -> Result<u64, TieringError> {
    let mut writer = ArchiveWriter::open(store)?;
    let mut position = match writer.last() {
        Some((seq, id)) => {
            check_same_log(log, store, seq, id).await?;
            seq
        }
        None => Seq::ZERO,
    };
    while position < due {
        let mut records = log.read(position, page_records).await?;
        records.retain(|record| record.seq <= due);
        let Some(last) = records.last() else { break };
        position = last.seq;
        for record in &records {
            writer.push(record)?;
        }
        failpoint::pass("tiering.page");
    }
    Ok(writer.finish()?.records)
}

/// Fails if the log does not hold this record, the last one of the archive.
async fn check_same_log(log: &dyn TrimmedLog, store: &ArchiveStore, seq: Seq, id: RecordId) -> Result<(), TieringError> {
    let found = log.read(Seq(seq.0 - 1), 1).await?;
    if found.first().is_some_and(|record| record.seq == seq && record.fact.id == id) {
        return Ok(());
    }
    Err(TieringError::Differs { archive: store.to_string(), seq })
}

/// Compares what the archive holds beyond the beginning of the log with the log. Returns the last position compared.
async fn compare(log: &dyn TrimmedLog, store: &ArchiveStore) -> Result<Seq, TieringError> {
    let archive = Archive::open(store)?;
    let mut compared = log.trimmed_to();
    for batch in archive.read(compared) {
        let archived: Vec<Record> = batch?;
        if archived.is_empty() {
            continue;
        }
        let kept = log.read(compared, archived.len()).await?;
        if let Some((record, _)) = archived.iter().zip(&kept).find(|(archived, kept)| archived != kept) {
            return Err(TieringError::Differs { archive: store.to_string(), seq: record.seq });
        }
        if kept.len() < archived.len() {
            return Err(TieringError::Differs { archive: store.to_string(), seq: archived[kept.len()].seq });
        }
        compared = archived.last().map_or(compared, |record| record.seq);
        // What was compared may be removed.
        debug_assert_eq!(removed_records_are_archived(compared, archive.last().map(|(last, _)| last)), Ok(()));
    }
    Ok(compared)
}
