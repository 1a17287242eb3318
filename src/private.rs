//! Files and directories that only their owner may read, whatever the umask: the log, snapshots, archives and backups hold what agents
//! did, word by word.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Makes a directory, and those above it that are missing, for the owner alone. One that is there is left as it is.
pub fn create_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn writing() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes an empty file for the owner alone, also in the place of another.
pub fn create_file(path: &Path) -> io::Result<File> {
    let file = writing().create(true).truncate(true).open(path)?;
    tighten(path)?;
    Ok(file)
}

/// Makes a file for the owner alone if there is none.
pub fn create_file_if_missing(path: &Path) -> io::Result<()> {
    match writing().create_new(true).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Takes a file or directory away from everybody but its owner.
#[cfg(unix)]
pub fn tighten(path: &Path) -> io::Result<()> {
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
pub fn tighten(_path: &Path) -> io::Result<()> {
    Ok(())
}
