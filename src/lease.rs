//! Leases for roles that only one process may perform at a time: one process holds the lease, the others wait for it.
//!
//! [`LeaseState`] says whether this process holds a lease; `nats::Lease` keeps one on NATS. An embedded process always holds every
//! lease. [`while_leased`] runs work for as long as the lease is held.

use std::pin::pin;

use tokio::sync::watch;

/// Whether this process holds a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseState {
    Held,
    /// Another process holds it, under this name; `None` while the holder is not known.
    Waiting(Option<String>),
}

impl LeaseState {
    /// A lease that is always held, for a process that shares its role with no other.
    pub(crate) fn always() -> watch::Receiver<Self> {
        watch::channel(Self::Held).1
    }

    /// Whether this process holds the lease.
    pub fn is_held(&self) -> bool {
        *self == Self::Held
    }
}

/// Runs `work` whenever the lease is held, until `stop` or until the work ends by itself. The work gets a signal to end when the lease is
/// lost.
pub(crate) async fn while_leased<F, R, E>(
    mut lease: watch::Receiver<LeaseState>,
    mut stop: watch::Receiver<bool>,
    work: F,
) -> Result<(), E>
where
    F: Fn(watch::Receiver<bool>) -> R,
    R: Future<Output = Result<(), E>>,
{
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
            () = until(&mut lease, LeaseState::is_held) => {}
        }
        let (end, ending) = watch::channel(false);
        let mut working = pin!(work(ending));
        // A stop and a lost lease come first: no more work is done than was begun.
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => {}
            () = until(&mut lease, |lease| !lease.is_held()) => {}
            ended = &mut working => return ended,
        }
        end.send_replace(true);
        working.await?;
    }
}

/// Waits until the lease is in a state for which `reached` holds.
async fn until(lease: &mut watch::Receiver<LeaseState>, reached: impl FnMut(&LeaseState) -> bool) {
    if lease.wait_for(reached).await.is_err() {
        // The task that keeps the lease is gone, so its state never changes again.
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_runs_while_the_lease_is_held() {
        let (leases, lease) = watch::channel(LeaseState::Waiting(None));
        let (stops, stop) = watch::channel(false);
        let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
        let task = tokio::spawn(while_leased(lease, stop, move |mut end| {
            let sender = sender.clone();
            async move {
                sender.send("begins").unwrap();
                end.wait_for(|end| *end).await.unwrap();
                sender.send("ends").unwrap();
                Ok::<(), std::convert::Infallible>(())
            }
        }));
        assert!(events.try_recv().is_err());
        for _ in 0..2 {
            leases.send_replace(LeaseState::Held);
            assert_eq!(events.recv().await, Some("begins"));
            leases.send_replace(LeaseState::Waiting(Some("another".to_owned())));
            assert_eq!(events.recv().await, Some("ends"));
        }
        leases.send_replace(LeaseState::Held);
        assert_eq!(events.recv().await, Some("begins"));
        stops.send_replace(true);
        assert_eq!(events.recv().await, Some("ends"));
        assert!(task.await.unwrap().is_ok());
    }
}
