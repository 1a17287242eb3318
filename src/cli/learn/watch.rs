//! `pml learn --watch`: follows files that grow, and those that are added.
//!
//! A reader that has begun a file is kept, so that only what is new is read; when there are too many, the one that was quiet for longest
//! is dropped, and its file is read from the beginning when it grows. Reading twice changes nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::input::Input;
use super::places::{self, Found};
use super::{LEFT_AFTER_MS, Learner};
use crate::cli::output::Output;
use crate::clock::Uptime;

/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(1);
/// Most files whose readers are kept.
const FOLLOWED_MAX: usize = 64;

/// The files whose readers are kept from the start, of those in the order of their last change.
pub(super) fn newest(found: &[Found]) -> &[Found] {
    &found[found.len().saturating_sub(FOLLOWED_MAX)..]
}

/// A file that is followed.
struct Followed {
    input: Input,
    grown: Uptime,
}

/// Follows the files below the roots until Ctrl-C. `known` are those that were found before; the newest of them have not been read.
pub(super) async fn follow(learner: &mut Learner, roots: &[PathBuf], known: Vec<Found>, output: &Output) -> anyhow::Result<()> {
    let mut followed: BTreeMap<PathBuf, Followed> = BTreeMap::new();
    for file in newest(&known) {
        read_new(learner, &mut followed, file).await?;
    }
    let mut lens: BTreeMap<PathBuf, u64> = known.into_iter().map(|file| (file.path, file.len)).collect();
    output.note("watching; Ctrl-C ends");
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        tokio::select! {
            signal = &mut interrupted => {
                signal?;
                return Ok(());
            }
            () = tokio::time::sleep(EVERY) => {}
        }
        for file in places::files(roots)? {
            if lens.insert(file.path.clone(), file.len) != Some(file.len) {
                read_new(learner, &mut followed, &file).await?;
            }
        }
        end_quiet(learner, &mut followed).await?;
        if let Some(target) = &mut learner.target {
            target.sync().await?;
        }
    }
}

/// Reads what a file has more than before.
async fn read_new(learner: &mut Learner, followed: &mut BTreeMap<PathBuf, Followed>, file: &Found) -> anyhow::Result<()> {
    let path = file.path.as_path();
    let now = learner.clock.uptime();
    let is_cut = |file: &mut Followed| file.input.was_cut().unwrap_or(true);
    if followed.get_mut(path).is_some_and(is_cut) {
        followed.remove(path);
    }
    if !followed.contains_key(path) {
        // A file that is not recognised yet may be when it has grown.
        let Ok(Some(input)) = Input::open(path, &learner.options) else { return Ok(()) };
        if followed.len() >= FOLLOWED_MAX {
            let quietest = followed.iter().min_by_key(|(_, file)| file.grown).map(|(path, _)| path.clone());
            quietest.map(|path| followed.remove(&path));
        }
        learner.tally.add_file(input.format(), file.len);
        followed.insert(path.to_owned(), Followed { input, grown: now });
    }
    let Some(file) = followed.get_mut(path) else { return Ok(()) };
    file.grown = now;
    learner.read_on(&mut file.input, |_| {}).await
}

/// Ends the files that were quiet for so long that their last run has ended.
async fn end_quiet(learner: &mut Learner, followed: &mut BTreeMap<PathBuf, Followed>) -> anyhow::Result<()> {
    let now = learner.clock.uptime();
    let is_quiet = |file: &Followed| now.millis_since(file.grown) > LEFT_AFTER_MS;
    let quiet: Vec<PathBuf> = followed.iter().filter(|(_, file)| is_quiet(file)).map(|(path, _)| path.clone()).collect();
    for path in quiet {
        if let Some(file) = followed.remove(&path) {
            let (runs, counts) = file.input.finish();
            learner.take(runs).await?;
            learner.tally.add_counts(&counts);
        }
    }
    Ok(())
}
