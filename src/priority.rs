//! The priority of threads whose work nobody waits for, or fewer than for that of others.

/// The niceness of such a thread: beside a busy thread of agents it gets about a tenth of a core. At 19 it would get a hundredth, and its
/// work would not be done on a busy machine.
const NICENESS: i32 = 10;

/// Lowers the priority of this thread. Only Linux gives each thread a niceness of its own; elsewhere it would be that of the process.
pub(crate) fn lower() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::debug!(%error, "a background thread keeps its priority");
    }
}
