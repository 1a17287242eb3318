//! Snapshots of a running system: taken from the newest view, one at a time, on a thread that may block, so that neither the fold
//! nor those who ask wait for them.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::Mutex;

use super::{About, Listed, Manifest, Origin, SnapshotError, Store, config_hash, create, list, prune};
use crate::actors::graph_sync::Views;
use crate::bus::{SharedBus, Subjects};
use crate::clock::Clock;
use crate::config::Config;
use crate::log::SharedLog;

/// What `notify.<what>` says about a snapshot.
const NOTICE: &str = "snapshot_taken";

pub struct Keeper {
    store: Store,
    log: SharedLog,
    views: Views,
    bus: SharedBus,
    subjects: Subjects,
    clock: Clock,
    config_hash: String,
    /// Snapshots kept; the oldest go first.
    keep: usize,
    /// Held by whoever takes one.
    turn: Mutex<()>,
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
            turn: Mutex::default(),
        }
    }

    /// Takes a snapshot of everything that is in the log by now, removes those that are too many, and tells subscribers.
    pub async fn take(&self) -> Result<Manifest, SnapshotError> {
        let _turn = self.turn.lock().await;
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

    /// By position.
    pub async fn list(&self) -> Result<Vec<Listed>, SnapshotError> {
        list(&self.store).await
    }
}
