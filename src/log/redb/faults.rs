//! Injected disk faults: a storage backend with real I/O that returns errors on demand.

use std::fs::{File, OpenOptions};
use std::io;
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
}

impl Faults {
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

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.check()?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.check()?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.faults.check()?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}
