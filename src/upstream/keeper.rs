//! The keeper of one server: connects, records what it lists, waits until the connection ends or the list changes, connects again.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::FusedFuture;
use tokio::sync::watch;

use super::catalogue::Comparison;
use super::connection::{self, Connected, Handshake, Listener};
use super::hub::Hub;
use super::server::{Live, Server, ServerState};
use super::servers_file::ServerEntry;

/// The first pause before another attempt to connect; each is twice the one before.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
/// A connection that lasted as long as this was good: the pauses begin anew.
const LONG_MS: u64 = 10_000;
/// Shortest time between two lists, for servers that say all the time that their tools changed.
const LIST_PAUSE: Duration = Duration::from_millis(200);
/// How long a connection may take to close.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Keeps the connection to one server.
pub(super) struct Keeper {
    pub(super) hub: Arc<Hub>,
    pub(super) server: Arc<Server>,
    pub(super) stop: watch::Receiver<bool>,
}

impl Keeper {
    pub(super) async fn run(mut self) {
        let Some(entry) = self.server.enabled().cloned() else { return };
        let (mut handshake, mut pause) = (Handshake::Initialize, PAUSE_FIRST);
        let pause_max = Duration::from_millis(self.hub.parts.settings.reconnect_ms_max);
        loop {
            let began = self.hub.parts.clock.uptime();
            self.server.set_state(ServerState::Connecting);
            let Some(mut problem) = self.serve(&entry, &mut handshake).await else {
                return self.server.set_state(ServerState::Failed { problem: "it was stopped".to_owned() });
            };
            if self.hub.parts.clock.uptime().millis_since(began) >= LONG_MS {
                pause = PAUSE_FIRST;
            }
            self.hub.parts.limits.redactor.clean(&mut problem);
            tracing::warn!(server = self.server.name, problem, pause_ms = pause.as_millis(), "a server is not connected");
            self.server.set_state(ServerState::Failed { problem });
            self.hub.changed();
            tokio::select! {
                _ = self.stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(pause_max);
        }
    }

    /// Connects and serves until the connection ends. Returns why it ended; `None` after a stop.
    async fn serve(&mut self, entry: &ServerEntry, handshake: &mut Handshake) -> Option<String> {
        let settings = &self.hub.parts.settings;
        let limit = Duration::from_millis(settings.connect_timeout_ms);
        let stderr = self.server.stderr.clone();
        let connecting = connection::connect(&entry.target, *handshake, settings, &stderr);
        let connected = tokio::select! {
            _ = self.stop.wait_for(|stop| *stop) => return None,
            connected = connecting => connected,
        };
        match connected {
            Ok(connected) => self.keep(entry, connected, limit).await,
            Err(error) => {
                if error.refused {
                    // A server may know only one of the two ways to begin.
                    *handshake = match handshake {
                        Handshake::Initialize => Handshake::Discover,
                        Handshake::Discover => Handshake::Initialize,
                    };
                }
                Some(error.problem)
            }
        }
    }

    /// Lists the tools, now and whenever they change, until the connection ends.
    async fn keep(&mut self, entry: &ServerEntry, connected: Connected, limit: Duration) -> Option<String> {
        let (peer, listener): (_, Listener) = (connected.peer().clone(), connected.service().clone());
        let close = connected.cancellation_token();
        let mut ended = pin!(connected.waiting().fuse());
        let problem = loop {
            let listed = tokio::select! {
                _ = self.stop.wait_for(|stop| *stop) => break None,
                _ = &mut ended => break Some("the connection ended before the tools were listed".to_owned()),
                listed = connection::list_tools(&peer, self.hub.parts.settings.tools_max, limit) => listed,
            };
            match listed {
                Ok(listed) => self.take_over(entry, listed, &peer).await,
                Err(problem) => break Some(problem),
            }
            let changed = async {
                tokio::time::sleep(LIST_PAUSE).await;
                listener.tools_changed().await;
            };
            tokio::select! {
                _ = self.stop.wait_for(|stop| *stop) => break None,
                _ = &mut ended => break Some("the connection ended".to_owned()),
                () = self.server.lost.notified() => break Some("a call lost the connection".to_owned()),
                () = changed => {}
            }
        };
        self.server.set_state(ServerState::Connecting);
        close.cancel();
        if !ended.is_terminated() {
            // A connection that does not close in time is dropped, which kills the child.
            drop(tokio::time::timeout(CLOSE_WAIT, ended).await);
        }
        problem
    }

    /// Records what the server lists, then opens it for calls.
    async fn take_over(&self, entry: &ServerEntry, listed: connection::Listed, peer: &rmcp::service::Peer<rmcp::RoleClient>) {
        let parts = &self.hub.parts;
        let mut changes = Comparison {
            state: &parts.views.current(),
            server: &self.server.name,
            disabled_tools: &entry.disabled_tools,
            limits: &parts.limits,
            clock: &parts.clock,
        }
        .with(listed);
        let skipped = std::mem::take(&mut changes.skipped);
        self.hub.record(changes).await;
        let info = peer.peer_info();
        let implementation = info.as_ref().and_then(|info| info.server_info.as_ref());
        self.server.live.send_replace(Live {
            state: ServerState::Ready,
            peer: Some(peer.clone()),
            implementation: implementation.map(|server| shown(&format!("{} {}", server.name, server.version))),
            protocol: info.map(|info| info.protocol_version.to_string()),
            skipped,
        });
        self.hub.changed();
    }
}

/// What a server says about itself, cut to a line.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(100).collect()
}
