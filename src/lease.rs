//! Leases: of several processes with a role that only one may have at a time, one holds the lease and the others wait.
//!
//! [`LeaseState`] is what a process knows about a lease; `nats::Lease` keeps one on NATS. An embedded process always holds every
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
    /// The lease of a process that shares its roles with nobody.
    pub(crate) fn always() -> watch::Receiver<Self> {
        watch::channel(Self::Held).1
    }

    pub fn is_held(&self) -> bool {
        *self == Self::Held
    }
}

/// Runs `work` whenever the lease is held, again and again, until `stop` or until the work ends by itself. The work is given a
/// signal that tells it to end when the lease is lost.
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
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
            () = until(&mut lease, LeaseState::is_held) => {}
        }
        let (end, ending) = watch::channel(false);
        let mut working = pin!(work(ending));
        tokio::select! {
            ended = &mut working => return ended,
            _ = stop.wait_for(|stop| *stop) => {}
            () = until(&mut lease, |lease| !lease.is_held()) => {}
        }
        end.send_replace(true);
        working.await?;
    }
}

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
