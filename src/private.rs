//! Files and directories that only their owner may read, whatever the umask. The log, snapshots, archives and backups hold the
//! inputs and outputs of agents.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::Path;

/// Creates a directory, and its missing parents, for the owner only. An existing directory is left unchanged.
pub fn create_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Options to create and write a file for the owner only.
fn owner_only_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates an empty file for the owner only, or empties an existing one.
pub fn create_file(path: &Path) -> io::Result<File> {
    let file = owner_only_options().create(true).truncate(true).open(path)?;
    restrict_to_owner(path)?;
    Ok(file)
}

/// Creates a file for the owner only, unless it exists.
pub fn create_file_if_missing(path: &Path) -> io::Result<()> {
    match owner_only_options().create_new(true).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Writes a file for the owner only, whole or not at all, in the place of one that may exist.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension("part");
    create_file(&unfinished)?.write_all(content)?;
    std::fs::rename(&unfinished, path)
}

/// A file that one process holds at a time.
pub struct Lock(File);

impl Lock {
    /// Creates and locks a file; waits while another holder has it.
    pub fn wait(path: &Path) -> io::Result<Self> {
        let file = create_file(path)?;
        file.lock()?;
        Ok(Self(file))
    }

    /// Creates and locks a file; `None` if another holder has it.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        let file = create_file(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Closing the file is not enough: a child process that is being started has a copy of the descriptor until it runs its program.
impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "cannot release a lock");
        }
    }
}

/// Removes the permissions of everybody but the owner from a file or directory.
#[cfg(unix)]
pub fn restrict_to_owner(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut permissions = std::fs::metadata(path)?.permissions();
    let owner_only = permissions.mode() & !0o077;
    if permissions.mode() == owner_only {
        return Ok(());
    }
    permissions.set_mode(owner_only);
    std::fs::set_permissions(path, permissions)
}

#[cfg(not(unix))]
pub fn restrict_to_owner(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_released_while_a_copy_of_its_descriptor_is_open() {
        let home = tempfile::TempDir::new().unwrap();
        let path = home.path().join("lock");
        let lock = Lock::take(&path).unwrap().unwrap();
        assert!(Lock::take(&path).unwrap().is_none());
        let _copy_of_a_child = lock.0.try_clone().unwrap();
        drop(lock);
        assert!(Lock::take(&path).unwrap().is_some());
    }
}
