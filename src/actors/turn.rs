//! Doing something only while it is this process's turn: of several processes with a role that only one may have, the others wait.

use std::pin::pin;

use tokio::sync::watch;

use super::Failure;

/// Where a process stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is its turn.
    Held,
    /// Another one does it, or nobody knows yet; as what it is known, if it is.
    Waiting(Option<String>),
}

impl Turn {
    /// For a process that shares with nobody.
    pub(crate) fn always() -> watch::Receiver<Self> {
        watch::channel(Self::Held).1
    }

    pub fn is_held(&self) -> bool {
        *self == Self::Held
    }
}

/// Lives `life` from when the turn comes until it goes, again and again; ends with `stop`, or when a life ends by itself. A life is
/// given what tells it to end.
pub(crate) async fn in_turn<F, R>(
    mut turn: watch::Receiver<Turn>,
    mut stop: watch::Receiver<bool>,
    life: F,
) -> Result<(), Failure>
where
    F: Fn(watch::Receiver<bool>) -> R,
    R: Future<Output = Result<(), Failure>>,
{
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
            () = until(&mut turn, Turn::is_held) => {}
        }
        let (end, ending) = watch::channel(false);
        let mut living = pin!(life(ending));
        tokio::select! {
            ended = &mut living => return ended,
            _ = stop.wait_for(|stop| *stop) => {}
            () = until(&mut turn, |turn| !turn.is_held()) => {}
        }
        end.send_replace(true);
        living.await?;
    }
}

async fn until(turn: &mut watch::Receiver<Turn>, reached: impl FnMut(&Turn) -> bool) {
    if turn.wait_for(reached).await.is_err() {
        // Nobody is left to say otherwise: it stays as it is.
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_life_begins_with_the_turn_and_ends_with_it() {
        let (turns, turn) = watch::channel(Turn::Waiting(None));
        let (stops, stop) = watch::channel(false);
        let (told, mut lives) = tokio::sync::mpsc::unbounded_channel();
        let task = tokio::spawn(in_turn(turn, stop, move |mut end| {
            let told = told.clone();
            async move {
                told.send("begins").unwrap();
                end.wait_for(|end| *end).await.unwrap();
                told.send("ends").unwrap();
                Ok(())
            }
        }));
        assert!(lives.try_recv().is_err());
        for _ in 0..2 {
            turns.send_replace(Turn::Held);
            assert_eq!(lives.recv().await, Some("begins"));
            turns.send_replace(Turn::Waiting(Some("another".to_owned())));
            assert_eq!(lives.recv().await, Some("ends"));
        }
        turns.send_replace(Turn::Held);
        assert_eq!(lives.recv().await, Some("begins"));
        stops.send_replace(true);
        assert_eq!(lives.recv().await, Some("ends"));
        assert!(task.await.unwrap().is_ok());
    }
}
