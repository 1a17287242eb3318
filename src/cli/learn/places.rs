//! Finds the files to learn from: the usual places of agents, or what the user names.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::Context;

use crate::core::time::Timestamp;

/// How deep directories are looked into.
const DEPTH_MAX: usize = 12;
/// Most files of one command.
const FILES_MAX: usize = 1_000_000;
/// Names of files in directories that may hold logs; a file that is named itself may have any name.
const ENDINGS: [&str; 4] = ["jsonl", "ndjson", "json", "log"];

/// A file with what is known without reading it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    /// First, so that histories are read in their order.
    pub(super) modified: Timestamp,
    pub(super) path: PathBuf,
    pub(super) len: u64,
}

/// The directories in which agents keep their sessions, whether they exist or not.
pub(super) fn usual() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = variable("HOME").unwrap_or_else(|| PathBuf::from("."));
    let claude = variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.join(".claude"));
    let codex = variable("CODEX_HOME").unwrap_or_else(|| home.join(".codex"));
    vec![claude.join("projects"), codex.join("sessions"), codex.join("archived_sessions")]
}

/// Returns the files below the roots, in the order in which they were last changed. A root that is missing has none.
pub(super) fn files(roots: &[PathBuf]) -> anyhow::Result<Vec<Found>> {
    let mut found = Vec::new();
    for root in roots {
        match unless_gone(std::fs::metadata(root), root)? {
            Some(metadata) if metadata.is_dir() => walk(root, DEPTH_MAX, &mut found)?,
            Some(metadata) => found.push(described(root.clone(), &metadata)),
            None => {}
        }
    }
    found.sort();
    found.dedup_by(|one, other| one.path == other.path);
    Ok(found)
}

/// Symbolic links are not followed: they may lead out of what was named, or in a circle. Agents remove old sessions at any moment, so
/// what has gone since its name was read is left out.
fn walk(directory: &Path, depth: usize, found: &mut Vec<Found>) -> anyhow::Result<()> {
    let Some(entries) = unless_gone(std::fs::read_dir(directory), directory)? else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, entry.path());
        if kind.is_dir() && depth > 0 {
            walk(&path, depth - 1, found)?;
        } else if kind.is_file() && path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known)) {
            anyhow::ensure!(found.len() < FILES_MAX, "more than {FILES_MAX} files; name a smaller directory");
            let metadata = unless_gone(entry.metadata(), &path)?;
            found.extend(metadata.map(|metadata| described(path, &metadata)));
        }
    }
    Ok(())
}

/// `None` if the file or directory is not there.
fn unless_gone<T>(read: std::io::Result<T>, path: &Path) -> anyhow::Result<Option<T>> {
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn described(path: PathBuf, metadata: &std::fs::Metadata) -> Found {
    let since_1970 = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let micros = i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX);
    Found { modified: Timestamp::from_micros(micros), path, len: metadata.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_below_directories_by_their_ending_and_by_name_whatever_it_is() {
        let home = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = home.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "{}").unwrap();
            path
        };
        let (session, export) = (file("a/b/session.jsonl"), file("a/export.json"));
        let (text, odd) = (file("a/readme.txt"), file("odd"));
        std::os::unix::fs::symlink(home.path(), home.path().join("a/loop")).unwrap();
        let names = |roots: &[PathBuf]| {
            let mut names: Vec<PathBuf> = files(roots).unwrap().into_iter().map(|found| found.path).collect();
            names.sort();
            names
        };
        assert_eq!(names(&[home.path().join("a")]), [session, export]);
        walk(&home.path().join("removed meanwhile"), 1, &mut Vec::new()).unwrap();
        assert_eq!(names(&[odd.clone(), text.clone(), home.path().join("missing")]), [text, odd]);
    }
}
