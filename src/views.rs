//! The newest derived values, shared between the actor that makes them and everybody who reads them.
//!
//! A writer publishes an immutable value; readers take the newest one without waiting for the writer, and may wait for one that
//! is recent enough. Three values are shared like this: the state ([`Views`]), the search index and the graph measures.

use std::sync::Arc;

use tokio::sync::watch;

use crate::core::graph::measures::Measures;
use crate::core::id::Seq;
use crate::core::rank::Index;
use crate::core::state::State;

/// A value computed from the log up to a position.
pub trait AsOf {
    /// The last record the value knows.
    fn as_of(&self) -> Seq;
}

/// The writer's side of a shared value.
pub type Publish<T> = watch::Sender<Arc<T>>;

/// The readers' side of a shared value: the newest one, without waiting.
pub struct Latest<T>(watch::Receiver<Arc<T>>);

/// The newest views of the state.
pub type Views = Latest<State>;

// Derived, `Clone` would ask for `T: Clone`.
impl<T> Clone for Latest<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Latest<T> {
    /// Both sides of a value that starts as `first`.
    pub(crate) fn channel(first: T) -> (Publish<T>, Self) {
        let (sender, receiver) = watch::channel(Arc::new(first));
        (sender, Self(receiver))
    }

    /// A value that never changes.
    pub(crate) fn fixed(value: Arc<T>) -> Self {
        Self(watch::channel(value).1)
    }

    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.0.borrow())
    }

    /// The first value that is `ready`; `None` if the writer ended before there was one.
    pub async fn when(&self, ready: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let mut receiver = self.0.clone();
        let value = receiver.wait_for(|value| ready(value)).await.ok()?;
        Some(Arc::clone(&value))
    }
}

impl<T: AsOf> Latest<T> {
    /// The first value that knows everything up to `seq`; `None` if the writer ended before there was one.
    pub async fn at_least(&self, seq: Seq) -> Option<Arc<T>> {
        self.when(|value| value.as_of() >= seq).await
    }
}

impl Latest<Index> {
    /// The first index that knows everything up to `seq`, with all vectors and fitted weights; `None` if indexing ended before.
    pub async fn complete(&self, seq: Seq) -> Option<Arc<Index>> {
        self.when(|index| {
            let (have, wanted) = index.state().vectors.coverage();
            index.applied() >= seq && have == wanted && index.is_calibrated()
        })
        .await
    }
}

impl AsOf for State {
    fn as_of(&self) -> Seq {
        self.applied()
    }
}

impl AsOf for Index {
    fn as_of(&self) -> Seq {
        self.applied()
    }
}

impl AsOf for Measures {
    fn as_of(&self) -> Seq {
        self.applied()
    }
}
