//! Files and directories that only their owner may read, whatever the umask. The log, snapshots, archives and backups hold the
//! inputs and outputs of agents.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
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
