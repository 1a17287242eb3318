//! `Staging` is a directory that is built under a temporary name beside its target and then renamed, so that the target is complete
//! or missing.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::private::{self, Lock};

const LOCK: &str = ".lock";

/// Why a directory cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    #[error("{0} is not empty; name a directory that does not exist yet")]
    NotEmpty(PathBuf),
    #[error("another pml is building {0}")]
    Busy(PathBuf),
    #[error("cannot write {path}")]
    Io {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> StagingError {
    move |source| StagingError::Io { path: path.to_owned(), source }
}

/// A temporary directory that is removed unless it is [committed](Self::commit). What a killed process left is removed by the next
/// one.
pub struct Staging {
    target: PathBuf,
    path: PathBuf,
    committed: bool,
    _lock: Lock,
}

impl Staging {
    /// Creates the temporary directory of `target`, which must be empty or missing.
    pub fn new(target: &Path) -> Result<Self, StagingError> {
        let target = std::path::absolute(target).map_err(io(target))?;
        check_empty(&target)?;
        let name = target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let parent = target.parent().unwrap_or(&target);
        let path = parent.join(format!(".{name}.part"));
        private::create_directory(&path).map_err(io(&path))?;
        let lock_path = path.join(LOCK);
        let Some(lock) = Lock::take(&lock_path).map_err(io(&lock_path))? else { return Err(StagingError::Busy(target)) };
        for entry in fs::read_dir(&path).map_err(io(&path))? {
            let left = entry.map_err(io(&path))?.path();
            if left != lock_path {
                remove(&left).map_err(io(&left))?;
            }
        }
        Ok(Self { target, path, committed: false, _lock: lock })
    }

    /// The temporary directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the directory to its target. The files in it must have been synced by the code that wrote them.
    pub fn commit(mut self) -> Result<(), StagingError> {
        check_empty(&self.target)?;
        let lock = self.path.join(LOCK);
        fs::remove_file(&lock).map_err(io(&lock))?;
        sync(&self.path)?;
        // An empty directory at the target is replaced; anything else makes the rename fail.
        fs::rename(&self.path, &self.target).map_err(io(&self.target))?;
        self.committed = true;
        sync(self.target.parent().unwrap_or(&self.target))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.committed
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove an unfinished directory");
        }
    }
}

fn check_empty(target: &Path) -> Result<(), StagingError> {
    match fs::read_dir(target).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(false) => Err(StagingError::NotEmpty(target.to_owned())),
        Err(error) => Err(io(target)(error)),
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

fn sync(directory: &Path) -> Result<(), StagingError> {
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(io(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_appears_whole_or_not_at_all() {
        let home = tempfile::TempDir::new().unwrap();
        let target = home.path().join("data");
        let names = || fs::read_dir(home.path()).unwrap().count();
        drop(Staging::new(&target).unwrap());
        assert_eq!(names(), 0, "given up");
        let staging = Staging::new(&target).unwrap();
        assert!(matches!(Staging::new(&target), Err(StagingError::Busy(_))));
        fs::write(staging.path().join("log"), "x").unwrap();
        assert!(!target.exists());
        staging.commit().unwrap();
        assert_eq!(fs::read_dir(&target).unwrap().count(), 1, "without the lock");
        assert_eq!(names(), 1);
        assert!(matches!(Staging::new(&target), Err(StagingError::NotEmpty(_))));
    }

    #[test]
    fn files_that_a_killed_process_left_are_removed() {
        let home = tempfile::TempDir::new().unwrap();
        let target = home.path().join("data");
        fs::create_dir_all(home.path().join(".data.part/half")).unwrap();
        Staging::new(&target).unwrap().commit().unwrap();
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    }
}
