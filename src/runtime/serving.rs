//! Serving HTTP, and the messages of MCP clients, with the parts of the runtime.

use std::net::SocketAddr;
use std::sync::Arc;

use super::Runtime;
use crate::config;
use crate::gateway;
use crate::gateway::http::{Gateway, System};
use crate::role::Role;

impl Runtime {
    /// Serves HTTP on the configured address until the returned server is stopped. The address is the one bound, also for port 0.
    pub fn serve_http(&self, settings: &config::Http) -> std::io::Result<(actix_web::dev::Server, SocketAddr)> {
        gateway::http::serve(Gateway {
            publisher: self.publisher.clone(),
            views: self.views.clone(),
            asker: self.asker.clone(),
            log: Arc::clone(&self.log),
            dead: Arc::clone(&self.dead),
            snapshots: Arc::clone(&self.snapshots),
            bus: Arc::clone(&self.bus),
            subjects: self.subjects.clone(),
            trainer: self.trainer.clone(),
            upstreams: self.upstreams.clone(),
            runner: self.runner.clone(),
            mcp: self.mcp.clone(),
            spans: self.spans.clone(),
            metrics: Arc::clone(&self.metrics),
            clock: self.clock.clone(),
            takes_events: self.roles.contains(Role::Execution),
            settings: settings.clone(),
            system: System { settings: self.settings.clone(), roles: self.leases.by_role(&self.roles) },
            past: self.past.clone(),
            closing: self.closing.subscribe(),
        })
    }

    /// Answers one JSON-RPC message of an MCP client that has all scopes.
    #[cfg(feature = "testing")]
    pub async fn answer_mcp(&self, message: &[u8]) -> Option<serde_json::Value> {
        gateway::mcp::answer_message(&self.mcp, &gateway::mcp::Caller::local("fuzzer"), message).await
    }

    /// Ends the streamed answers, which have no end of their own, and waits a while for the other requests under way.
    pub async fn end_requests(&self) {
        self.closing.send_replace(true);
        gateway::http::wait_for_requests(&self.metrics).await;
    }
}
