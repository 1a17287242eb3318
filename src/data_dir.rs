//! The data directory: opening its log and restricting its permissions.

use std::fs::DirEntry;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use crate::archive::{ArchiveStore, ArchivedRecords};
use crate::clock::Clock;
use crate::config::Config;
use crate::files::Place;
use crate::log::{Damage, OpenError, RedbLog, RedbOptions, StreamOptions};
use crate::private;
use crate::snapshot::Store;

/// The configuration file that `pml fork` writes beside the log.
pub(crate) const CONFIG_FILE: &str = "pml.toml";
/// The directory of the archive, unless `log.archive` names another place.
const ARCHIVE_DIRECTORY: &str = "archive";
/// What a file of redb begins with.
const MAGIC: &[u8; 9] = b"redb\x1a\x0a\xa9\x0d\x0a";
/// The directory of the journals of runs.
pub(crate) const RUNS_DIRECTORY: &str = "runs";

/// The archive that records of the log of `directory` are moved to.
pub fn archive_store(config: &Config, directory: &Path) -> ArchiveStore {
    let own = directory.join(ARCHIVE_DIRECTORY);
    match config.log.archive.as_str() {
        "" => ArchiveStore::from(own.as_path()),
        place => {
            let place = Place::at(place, config.snapshots.object_store_options());
            ArchiveStore::at(place.expect("the place is checked when the configuration is read"), &own)
        }
    }
}

/// The settings of the log on NATS. A process that stays keeps its index of ids in the data directory.
pub fn stream_options(config: &Config, stays: bool) -> StreamOptions {
    StreamOptions {
        directory: stays.then(|| config.data_dir.clone()),
        older: Some(Arc::new(ArchivedRecords::new(archive_store(config, &config.data_dir)))),
        queue_appends_max: config.log.queue_appends_max,
    }
}

/// Opens the embedded log of `directory` with the configured sizes.
pub fn open_log(config: &Config, directory: &Path, clock: Clock) -> Result<RedbLog, OpenError> {
    let options = RedbOptions {
        group_records_max: config.log.group_records_max,
        queue_appends_max: config.log.queue_appends_max,
        dead_letters_max: config.dead.letters_max,
        dead_bytes_max: config.dead.bytes_max,
        free_bytes_min: config.log.free_bytes_min,
        older: Some(Arc::new(ArchivedRecords::new(archive_store(config, directory)))),
    };
    check_not_vanished(directory)?;
    check_is_log(&directory.join(RedbLog::FILE_NAME))?;
    let log = RedbLog::open(directory, options, clock)?;
    restrict_permissions(directory);
    Ok(log)
}

/// Fails if the log is missing or empty although the directory holds what only a log leaves behind: the log was lost, and a new one must not
/// take its place. Snapshots kept elsewhere are no evidence, because several logs may share an object store. Archives and journals are
/// evidence beside an empty file only: a process on NATS has them without a log, and a log that is being rebuilt has them before it.
fn check_not_vanished(directory: &Path) -> Result<(), OpenError> {
    let path = directory.join(RedbLog::FILE_NAME);
    let len = std::fs::metadata(&path).ok().map(|file| file.len());
    if len.is_some_and(|len| len > 0) {
        return Ok(());
    }
    let entries = |name: &str| std::fs::read_dir(directory.join(name)).into_iter().flatten().filter_map(Result::ok);
    let has_snapshots = entries(Store::DIRECTORY).any(|entry| Store::is_snapshot(&entry.file_name()));
    let is_left = |name: &&str| len.is_some() && entries(name).next().is_some();
    let evidence =
        if has_snapshots { Some(Store::DIRECTORY) } else { [ARCHIVE_DIRECTORY, RUNS_DIRECTORY].into_iter().find(is_left) };
    match evidence {
        Some(name) => {
            let source = Damage::File { problem: "its records are gone".to_owned() };
            Err(OpenError::Vanished { path, evidence: directory.join(name), source })
        }
        None => Ok(()),
    }
}

/// Fails if the file is no database of records at all, which the database would report like a failing disk. A file of zeros is one whose
/// creation was interrupted.
fn check_is_log(path: &Path) -> Result<(), OpenError> {
    let mut begin = [0; MAGIC.len()];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    if read.is_ok() && begin != *MAGIC && begin != [0; MAGIC.len()] {
        let source = Damage::File { problem: "it does not begin like a log".to_owned() };
        return Err(OpenError::Damaged { path: path.to_owned(), source });
    }
    Ok(())
}

/// Restricts files of older versions, which other users may be able to read, to their owner. The directory itself is left unchanged if
/// it holds other files too.
fn restrict_permissions(directory: &Path) {
    let ours = [RedbLog::FILE_NAME, Store::DIRECTORY, CONFIG_FILE, RUNS_DIRECTORY, ARCHIVE_DIRECTORY];
    let is_ours =
        |entry: std::io::Result<DirEntry>| entry.is_ok_and(|entry| ours.iter().any(|name| entry.file_name() == *name));
    let mut paths = vec![directory.join(RedbLog::FILE_NAME)];
    paths.extend(Some(directory.join(Store::DIRECTORY)).filter(|path| path.exists()));
    if std::fs::read_dir(directory).is_ok_and(|mut entries| entries.all(is_ours)) {
        paths.push(directory.to_owned());
    }
    for path in paths {
        if let Err(error) = private::restrict_to_owner(&path) {
            tracing::warn!(%error, path = %path.display(), "other users may be able to read this");
        }
    }
}
