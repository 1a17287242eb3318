//! Injected disk faults: a storage backend with real I/O that returns errors on demand, and forgets on demand what was not synced.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, StorageBackend};

/// The faults of a disk. Clones control the same disk.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

#[derive(Debug, Default)]
struct Plan {
    /// The error, and how many operations still succeed before it.
    error: Option<(io::ErrorKind, u64)>,
    failed: u64,
    /// The writes since the last sync, while the power may fail.
    unsynced: Option<Vec<Write>>,
}

/// A write that a loss of power may undo.
#[derive(Debug)]
struct Write {
    offset: u64,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Faults {
    /// A disk whose power may fail. Its syncs are not passed on: what is durable is known here.
    pub fn with_power() -> Self {
        let faults = Self::default();
        faults.plan().unsynced = Some(Vec::new());
        faults
    }

    /// Takes the power away: every later write fails and changes nothing, until [`Self::restore_power`].
    pub fn cut_power(&self) {
        self.fail(io::ErrorKind::NotConnected, 0);
    }

    /// Gives the power back, after the file was closed. Of each write since the last sync, as much is kept as `kept` says, given its
    /// length: all, none, or a beginning of whole sectors.
    pub fn restore_power(&self, path: &Path, mut kept: impl FnMut(usize) -> usize) -> io::Result<()> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let writes = self.plan().unsynced.replace(Vec::new()).unwrap_or_default();
        for write in writes.iter().rev() {
            file.write_all_at(&write.old, write.offset)?;
        }
        for write in &writes {
            file.write_all_at(&write.new[..kept(write.new.len()).min(write.new.len())], write.offset)?;
        }
        self.heal();
        Ok(())
    }

    /// Lets `good` more writes, growths and syncs succeed; all later ones fail.
    pub fn fail(&self, error: io::ErrorKind, good: u64) {
        self.plan().error = Some((error, good));
    }

    /// Ends the faults.
    pub fn heal(&self) {
        self.plan().error = None;
    }

    /// Returns how many operations failed.
    pub fn failed(&self) -> u64 {
        self.plan().failed
    }

    fn plan(&self) -> std::sync::MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self) -> io::Result<()> {
        let mut plan = self.plan();
        match &mut plan.error {
            None => Ok(()),
            Some((error, 0)) => {
                let error = *error;
                plan.failed += 1;
                Err(error.into())
            }
            Some((_, good)) => {
                *good -= 1;
                Ok(())
            }
        }
    }

    pub(super) fn open(&self, builder: &Builder, path: &Path) -> Result<Database, DatabaseError> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        builder.create_with_backend(Disk::new(file?, self.clone())?)
    }
}

#[derive(Debug)]
struct Disk {
    file: FileBackend,
    faults: Faults,
}

impl Disk {
    fn new(file: File, faults: Faults) -> Result<Self, DatabaseError> {
        Ok(Self { file: FileBackend::new(file)?, faults })
    }
}

impl Disk {
    /// Keeps what `len` bytes at `offset` were before they are overwritten or cut off.
    fn remember(&self, offset: u64, new: &[u8], len: u64) -> io::Result<()> {
        if len == 0 || self.faults.plan().unsynced.is_none() {
            return Ok(());
        }
        let present = self.file.len()?.saturating_sub(offset).min(len);
        let mut old = vec![0; usize::try_from(present).map_err(io::Error::other)?];
        self.file.read(offset, &mut old)?;
        if let Some(unsynced) = &mut self.faults.plan().unsynced {
            unsynced.push(Write { offset, old, new: new.to_vec() });
        }
        Ok(())
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.check()?;
        self.remember(len, &[], self.file.len()?.saturating_sub(len))?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.check()?;
        if let Some(unsynced) = &mut self.faults.plan().unsynced {
            unsynced.clear();
            return Ok(());
        }
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.faults.check()?;
        self.remember(offset, data, data.len() as u64)?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}
