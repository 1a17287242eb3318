//! The upstream actor keeps the MCP servers connected. The work is in `upstream::hub`.

use std::sync::Arc;

use tokio::sync::watch;

use super::ActorFailure;
use crate::upstream::Hub;

/// What the actor is built on.
#[derive(Clone)]
pub(crate) struct UpstreamParts {
    pub(crate) hub: Arc<Hub>,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Keeps the servers connected until the stop signal.
pub(crate) async fn run(parts: UpstreamParts) -> Result<(), ActorFailure> {
    parts.hub.run(parts.stop).await;
    Ok(())
}
