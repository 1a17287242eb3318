//! The leases of one process, by role.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::config;
use crate::lease::LeaseState;
use crate::nats::{Lease, Nats, NatsError};
use crate::role::{Role, Roles};

/// Roles that only one process of a workspace may perform at a time.
const LEASED_ROLES: [Role; 3] = [Role::Execution, Role::Trainer, Role::Upstream];

/// The leases that this process holds or waits for. An embedded process has none: it shares its roles with nobody.
#[derive(Default)]
pub(super) struct Leases(BTreeMap<Role, Lease>);

impl Leases {
    /// Seeks the lease of each of `roles` that needs one.
    pub(super) async fn request(nats: &Nats, settings: &config::Nats, roles: &Roles, clock: &Clock) -> Result<Self, NatsError> {
        let holder = format!("{}-{}", std::process::id(), clock.fresh_id());
        let length = Duration::from_millis(settings.lease_ms);
        let mut leases = BTreeMap::new();
        for role in LEASED_ROLES.into_iter().filter(|role| roles.contains(*role)) {
            leases.insert(role, Lease::request(nats, role.name(), holder.clone(), length).await?);
        }
        Ok(Self(leases))
    }

    /// Whether this process may perform `role`. A role without a lease may always be performed.
    pub(super) fn state(&self, role: Role) -> watch::Receiver<LeaseState> {
        self.0.get(&role).map_or_else(LeaseState::always, Lease::state)
    }

    /// Every role with its lease; `None` for those that are not among `roles`.
    pub(super) fn by_role(&self, roles: &Roles) -> Vec<(Role, Option<watch::Receiver<LeaseState>>)> {
        Role::ALL.into_iter().map(|role| (role, roles.contains(role).then(|| self.state(role)))).collect()
    }

    /// Releases all leases, so that waiting processes take over at once.
    pub(super) async fn release(self) {
        for lease in self.0.into_values() {
            lease.release().await;
        }
    }
}
