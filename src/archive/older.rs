//! The archive as the older part of a log: reads go on page by page, and no record is used before its file was checked as a whole.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Archive, ArchiveError, ArchiveStore, EventFile, FileRecords, io};
use crate::core::event::Record;
use crate::core::id::Seq;
use crate::log::{OlderRecords, ReadError};

/// Most readers that are remembered between two pages; the one that is idle longest is dropped.
const CURSORS_MAX: usize = 8;

/// The records that tiering has moved to an archive.
#[derive(Debug)]
pub struct ArchivedRecords {
    store: ArchiveStore,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The files, as of the last time that they did not reach far enough.
    archive: Option<Arc<Archive>>,
    /// The first positions of the files that were read and found whole.
    checked: BTreeSet<Seq>,
    idle: Vec<Cursor>,
}

/// A reader between two pages.
#[derive(Debug)]
struct Cursor {
    /// The last position it has returned.
    position: Seq,
    files: VecDeque<EventFile>,
    current: Option<FileRecords>,
    ready: VecDeque<Record>,
}

impl ArchivedRecords {
    pub fn new(store: impl Into<ArchiveStore>) -> Self {
        Self { store: store.into(), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files, which reach at least to `to`.
    fn archive(&self, to: Seq) -> Result<Arc<Archive>, ArchiveError> {
        let reaches = |archive: &Arc<Archive>| archive.last().is_some_and(|(last, _)| last >= to);
        if let Some(archive) = self.lock().archive.as_ref().filter(|archive| reaches(archive)) {
            return Ok(Arc::clone(archive));
        }
        let archive = match Archive::open(&self.store) {
            // A directory that is gone holds no files: waiting for it, as for a store that does not answer, would not end.
            Err(ArchiveError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Archive::default(),
            archive => archive?,
        };
        let archive = Arc::new(archive);
        if !reaches(&archive) {
            let last = archive.last().map_or(Seq::ZERO, |(last, _)| last);
            let problem =
                format!("ends at {last}, but the log has moved its records up to {to} here; set log.archive to where they are");
            return Err(ArchiveError::Damaged { path: self.store.to_string().into(), problem });
        }
        self.lock().archive = Some(Arc::clone(&archive));
        Ok(archive)
    }

    fn cursor(&self, after: Seq, to: Seq) -> Result<Cursor, ArchiveError> {
        {
            let mut state = self.lock();
            if let Some(at) = state.idle.iter().position(|cursor| cursor.position == after && cursor.reaches(to)) {
                return Ok(state.idle.remove(at));
            }
        }
        let files = self.archive(to)?.files.iter().filter(|file| file.last > after).cloned().collect();
        Ok(Cursor { position: after, files, current: None, ready: VecDeque::new() })
    }

    /// Opens a file. It is read as a whole first, unless this was done before.
    fn open_checked(&self, file: &EventFile) -> Result<File, ArchiveError> {
        let opened = file.open()?;
        if !self.lock().checked.contains(&file.first) {
            let again = opened.try_clone().map_err(io(&file.path()));
            FileRecords::new(file.clone(), again, file.last).try_for_each(|batch| batch.map(drop))?;
            self.lock().checked.insert(file.first);
        }
        Ok(opened)
    }

    /// Fetches more records of a cursor; `false` at the end of the archive.
    fn fetch(&self, cursor: &mut Cursor) -> Result<bool, ArchiveError> {
        loop {
            if let Some(batch) = cursor.current.as_mut().and_then(Iterator::next) {
                cursor.ready.extend(batch?);
                return Ok(true);
            }
            let Some(file) = cursor.files.pop_front() else { return Ok(false) };
            let opened = self.open_checked(&file)?;
            cursor.current = Some(FileRecords::new(file, Ok(opened), cursor.position));
        }
    }

    fn read_page(&self, after: Seq, to: Seq, limit: usize) -> Result<Vec<Record>, ArchiveError> {
        let mut cursor = self.cursor(after, to)?;
        let mut records = Vec::new();
        while records.len() < limit {
            match cursor.ready.front().map(|record| record.seq) {
                Some(next) if next > to => break,
                Some(_) => records.extend(cursor.ready.pop_front()),
                None if !self.fetch(&mut cursor)? => break,
                None => {}
            }
        }
        cursor.position = records.last().map_or(after, |record| record.seq);
        let mut state = self.lock();
        if state.idle.len() == CURSORS_MAX {
            state.idle.remove(0);
        }
        state.idle.push(cursor);
        Ok(records)
    }
}

impl Cursor {
    /// Whether the files that were there when it began reach to `to`.
    fn reaches(&self, to: Seq) -> bool {
        let last = self.files.back().map(|file| file.last).or_else(|| self.current.as_ref().map(|current| current.file.last));
        last.is_some_and(|last| last >= to)
    }
}

impl OlderRecords for ArchivedRecords {
    fn read(&self, after: Seq, to: Seq, limit: usize) -> Result<Vec<Record>, ReadError> {
        self.read_page(after, to, limit).map_err(|error| match error {
            ArchiveError::Damaged { .. } => ReadError::Archive(error.into()),
            other => ReadError::Storage(other.into()),
        })
    }
}
