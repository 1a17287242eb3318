//! Notices that the lists of tools and resources have changed.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::service::{Peer, SubscriptionContext};
use tokio::sync::watch;

use super::Mcp;
use super::listing::CatalogueVersion;

/// Shortest time between two notices.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a task that waits for changes looks whether its session has ended.
const SESSION_CHECK: Duration = Duration::from_secs(30);

/// Digests of what clients see; a change is a notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    tools: u64,
    resources: u64,
}

/// The newest digests.
pub(super) struct CatalogueWatch(watch::Sender<Seen>);

impl CatalogueWatch {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Seen::default()))
    }
}

impl Mcp {
    fn seen(&self) -> (CatalogueVersion, Seen) {
        let listing = self.listing();
        let names = format!("{:?} {}", listing.summary.servers, listing.summary.capabilities);
        let resources = crate::core::hash::fnv1a(names.as_bytes());
        (listing.version, Seen { tools: listing.digest, resources })
    }

    /// Announces changes of the catalogue until the views end.
    pub(super) async fn watch_catalogue(&self) {
        let mut changes = self.parts().upstreams.changes();
        loop {
            let (version, seen) = self.seen();
            self.0.catalogue.0.send_if_modified(|known| std::mem::replace(known, seen) != seen);
            let is_newer = |state: &_| CatalogueVersion::of(state, self.parts()) != version;
            tokio::select! {
                view = self.parts().views.wait_until(is_newer) => if view.is_none() { return },
                counted = changes.changed() => if counted.is_err() { std::future::pending::<()>().await },
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Tells the client of a session about changes until the session ends.
    pub(super) async fn notify_session(&self, peer: Peer<RoleServer>) {
        let mut watched = self.0.catalogue.0.subscribe();
        let mut told = *watched.borrow_and_update();
        loop {
            let changed = tokio::time::timeout(SESSION_CHECK, watched.changed()).await;
            if peer.is_transport_closed() || changed.is_ok_and(|changed| changed.is_err()) {
                return;
            }
            let seen = *watched.borrow_and_update();
            let sent = async {
                if seen.tools != told.tools {
                    peer.notify_tool_list_changed().await?;
                }
                if seen.resources != told.resources {
                    peer.notify_resource_list_changed().await?;
                }
                Ok::<_, rmcp::ServiceError>(())
            };
            if sent.await.is_err() {
                return;
            }
            told = seen;
        }
    }

    /// Does the same for a subscription (`subscriptions/listen`).
    pub(super) async fn notify_subscription(&self, subscription: &SubscriptionContext) {
        let mut watched = self.0.catalogue.0.subscribe();
        let mut told = *watched.borrow_and_update();
        let wanted = subscription.accepted();
        let (tools, resources) = (wanted.tools_list_changed == Some(true), wanted.resources_list_changed == Some(true));
        while watched.changed().await.is_ok() {
            let seen = *watched.borrow_and_update();
            if tools && seen.tools != told.tools && subscription.sink().notify_tool_list_changed().await.is_err() {
                return;
            }
            if resources
                && seen.resources != told.resources
                && subscription.sink().notify_resource_list_changed().await.is_err()
            {
                return;
            }
            told = seen;
        }
    }
}
