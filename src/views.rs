//! The newest derived values, shared between the actor that computes them and their readers.
//!
//! A writer publishes immutable values; readers get the newest one without waiting for the writer, or wait for one that is recent
//! enough. Three values are shared like this: the state ([`Views`]), the search index and the graph measures.

use std::sync::{Arc, LazyLock};

use tokio::sync::watch;

use crate::core::graph::measures::Measures;
use crate::core::id::Seq;
use crate::core::rank::Index;
use crate::core::state::State;

/// A value computed from the log up to a position.
pub trait AsOf {
    /// The position of the last record that the value includes.
    fn as_of(&self) -> Seq;
}

/// The writer's end of a shared value.
pub type LatestSender<T> = watch::Sender<Arc<T>>;

/// The readers' end of a shared value.
pub struct Latest<T>(Source<T>);

/// Where readers find a value.
enum Source<T> {
    /// Its writer publishes it.
    Published(watch::Receiver<Arc<T>>),
    /// It never changes, and is computed by the first reader.
    Computed(Arc<LazyLock<Arc<T>, Compute<T>>>),
}

type Compute<T> = Box<dyn FnOnce() -> Arc<T> + Send>;

/// The readers' end of the state: each published state is a view.
pub type Views = Latest<State>;

// A derived `Clone` would require `T: Clone`.
impl<T> Clone for Latest<T> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Source::Published(receiver) => Source::Published(receiver.clone()),
            Source::Computed(value) => Source::Computed(Arc::clone(value)),
        })
    }
}

impl<T> Latest<T> {
    /// Both ends of a value that starts as `first`.
    pub(crate) fn channel(first: T) -> (LatestSender<T>, Self) {
        let (sender, receiver) = watch::channel(Arc::new(first));
        (sender, Self(Source::Published(receiver)))
    }

    /// A value that never changes.
    pub(crate) fn fixed(value: Arc<T>) -> Self {
        Self(Source::Published(watch::channel(value).1))
    }

    /// A value that never changes and is computed when somebody first reads it.
    pub(crate) fn computed(compute: impl FnOnce() -> Arc<T> + Send + 'static) -> Self {
        Self(Source::Computed(Arc::new(LazyLock::new(Box::new(compute)))))
    }

    /// The newest value.
    pub fn current(&self) -> Arc<T> {
        match &self.0 {
            Source::Published(receiver) => Arc::clone(&receiver.borrow()),
            Source::Computed(value) => Arc::clone(value),
        }
    }

    /// Waits for the first value that is `ready`; `None` if the writer ended before, or if the value never changes.
    pub async fn wait_until(&self, ready: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        match &self.0 {
            Source::Published(receiver) => {
                let mut receiver = receiver.clone();
                let value = receiver.wait_for(|value| ready(value)).await.ok()?;
                Some(Arc::clone(&value))
            }
            Source::Computed(value) => Some(&***value).filter(|value| ready(value)).cloned(),
        }
    }
}

impl<T: AsOf> Latest<T> {
    /// Waits for the first value that includes every record up to `seq`; `None` if the writer ended before.
    pub async fn at_least(&self, seq: Seq) -> Option<Arc<T>> {
        self.wait_until(|value| value.as_of() >= seq).await
    }
}

impl Latest<Index> {
    /// Waits for the first index that includes every record up to `seq`, all vectors and fitted weights; `None` if its writer ended
    /// before.
    pub async fn complete(&self, seq: Seq) -> Option<Arc<Index>> {
        self.wait_until(|index| {
            let (embedded, wanted) = index.state().vectors.coverage();
            index.applied() >= seq && embedded == wanted && index.is_calibrated()
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
