//! `Keeper` takes the snapshots of a running system from the newest view, one at a time, on a thread that may block, so that neither
//! the fold nor questions wait for them.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::Mutex;

use super::{About, ListedSnapshot, Manifest, Origin, SnapshotError, Store, config_hash, create, list, prune};
use crate::bus::SharedBus;
use crate::clock::Clock;
use crate::config::Config;
use crate::log::SharedLog;
use crate::subject::Subjects;
use crate::views::Views;

/// The `<what>` of the notice `notify.<what>` that is published after a snapshot.
const NOTICE: &str = "snapshot_taken";

/// Takes, lists and removes the snapshots of a running system.
pub struct Keeper {
    store: Store,
    log: SharedLog,
    views: Views,
    bus: SharedBus,
    subjects: Subjects,
    clock: Clock,
    config_hash: String,
    /// Snapshots kept; the oldest are removed first.
    keep: usize,
    /// Held while a snapshot is taken.
    taking: Mutex<()>,
}

impl Keeper {
    pub(crate) fn new(
        config: &Config,
        store: Store,
        (log, views): (&SharedLog, &Views),
        (bus, subjects): (&SharedBus, &Subjects),
        clock: &Clock,
    ) -> Self {
        Self {
            store,
            log: Arc::clone(log),
            views: views.clone(),
            bus: Arc::clone(bus),
            subjects: subjects.clone(),
            clock: clock.clone(),
            config_hash: config_hash(config),
            keep: config.snapshots.keep,
            taking: Mutex::default(),
        }
    }

    /// Takes a snapshot of everything now in the log, removes the oldest beyond `keep`, and publishes a notice.
    pub async fn take_snapshot(&self) -> Result<Manifest, SnapshotError> {
        let _taking = self.taking.lock().await;
        let tail = *self.log.tail().borrow();
        let state = self.views.at_least(tail).await.ok_or(SnapshotError::Interrupted)?;
        let origin = Origin::of(self.log.as_ref(), state.applied()).await?.ok_or(SnapshotError::Empty)?;
        let about = About { log: origin, config_hash: self.config_hash.clone(), taken_at: self.clock.now() };
        let manifest = create(&self.store, state, about, || ()).await?;
        prune(&self.store, self.keep).await?;
        let notice = json!({
            "seq": manifest.seq, "digest": manifest.digest, "place": self.store.to_string(), "rows": manifest.rows(),
            "bytes": manifest.bytes(), "based_on_seq": manifest.seq,
        });
        let sent = self.bus.publish(self.subjects.notify(NOTICE), notice.to_string().into_bytes().into()).await;
        if let Err(error) = sent {
            tracing::debug!(%error, "notice not published");
        }
        Ok(manifest)
    }

    /// All snapshots, sorted by position.
    pub async fn list(&self) -> Result<Vec<ListedSnapshot>, SnapshotError> {
        list(&self.store).await
    }
}
