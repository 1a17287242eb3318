//! What a caller of the runtime may wait for.

use std::sync::Arc;
use std::time::Duration;

use super::Runtime;
use crate::core::state::State;

/// How long a start waits for the first index.
const INDEX_WAIT: Duration = Duration::from_secs(10);

impl Runtime {
    /// Waits for the first index, so that the first question finds what the log holds. One that never comes is no reason not to start.
    pub(super) async fn wait_indexed(&self) {
        let indexed = self.indexed.at_least(self.views.current().applied());
        if tokio::time::timeout(INDEX_WAIT, indexed).await.is_err() {
            tracing::warn!("the index is not ready yet; the first answers may lack results");
        }
    }

    /// Waits until every published event is folded, every finished execution is closed and every text has its vector, and returns that
    /// view. If the fold ends before, returns the last view.
    pub async fn settled(&self) -> Arc<State> {
        loop {
            let tail = *self.log.tail().borrow();
            let is_settled = |view: &State| {
                let (embedded, wanted) = view.vectors.coverage();
                view.applied() >= tail && embedded == wanted && view.executions.finished_len() == 0
            };
            let Some(view) = self.views.wait_until(is_settled).await else { return self.views.current() };
            if view.applied() >= *self.log.tail().borrow() {
                return view;
            }
        }
    }
}
