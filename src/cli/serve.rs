//! `pml serve`: runs the server until it is stopped.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::output::Output;
use super::{CommandError, Outcome};
use crate::clock::Clock;
use crate::config::{self, Config, Secret};
use crate::role::{Role, Roles};
use crate::runtime::Runtime;

#[derive(Args)]
pub(super) struct Arguments {
    /// Address to listen on [default: http.listen]
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Data directory [default: `data_dir`]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Keep the log on these NATS servers, separated by commas [default: nats.servers]
    #[arg(long, env = "PML_NATS", hide_env_values = true, value_name = "URL", value_delimiter = ',')]
    nats: Vec<String>,
    /// Roles of this process on NATS: execution, trace, graph-sync, embedding, prediction, trainer, query, upstream [default: all]
    #[arg(long, value_name = "ROLE", value_delimiter = ',')]
    roles: Vec<Role>,
}

pub(super) async fn run(arguments: Arguments, mut config: Config, output: &Output) -> Outcome {
    if let Some(data) = arguments.data {
        config.data_dir = data;
    }
    if let Some(listen) = arguments.listen {
        config.set_listen(listen)?;
    }
    if !arguments.nats.is_empty() {
        config.nats.servers = arguments.nats.into_iter().map(Secret::new).collect();
    }
    let on_nats = !config.nats.servers.is_empty();
    let roles = if arguments.roles.is_empty() { Roles::all() } else { arguments.roles.into_iter().collect() };
    let runtime = if on_nats {
        Runtime::start_on_nats(&config, Clock::system(), roles).await?
    } else if roles == Roles::all() {
        Runtime::start(&config, Clock::system()).await?
    } else {
        return Err(anyhow::anyhow!("--roles needs --nats: an embedded pml is one process").into());
    };
    let signals = StopSignals::catch()?;
    let (server, address) = listen(&runtime, &config.http)?;
    let applied = runtime.views.current().applied();
    if on_nats {
        output.say(format!("pml listens on http://{address} with the log on NATS ({applied} records): {}", runtime.roles));
        output.json(&json!({"listen": address.to_string(), "roles": runtime.roles.names(), "records": applied.0}));
    } else {
        let directory = config.data_dir.display();
        output.say(format!("pml listens on http://{address} with the log in {directory} ({applied} records)"));
        output.json(&json!({"listen": address.to_string(), "data_dir": config.data_dir, "records": applied.0}));
    }
    let ended = until_stopped(server, &runtime, signals).await;
    output.say("stopping");
    runtime.stop().await;
    ended.map(|()| 0)
}

/// Binds the configured address.
pub(super) fn listen(runtime: &Runtime, settings: &config::Http) -> anyhow::Result<(actix_web::dev::Server, SocketAddr)> {
    let address = settings.listen;
    runtime.serve_http(settings).with_context(|| {
        format!(
            "cannot listen on {address}; stop what uses port {}, or choose another with --listen or http.listen",
            address.port()
        )
    })
}

/// The signals that end a server. They are caught from the moment this exists, so it must exist before anybody is told of the server.
pub(super) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    pub(super) fn catch() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for one of them.
    pub(super) async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Serves until Ctrl-C, SIGTERM or damage of the log; then finishes the requests under way.
pub(super) async fn until_stopped(
    server: actix_web::dev::Server,
    runtime: &Runtime,
    mut signals: StopSignals,
) -> Result<(), CommandError> {
    let handle = server.handle();
    let serving = actix_rt::spawn(server);
    let damage = tokio::select! {
        () = signals.received() => None,
        damage = runtime.damaged() => Some(damage),
    };
    // Connections that are kept alive would keep an orderly stop waiting, so the requests under way are waited for instead.
    runtime.end_requests().await;
    handle.stop(false).await;
    serving.await??;
    damage.map_or(Ok(()), |damage| Err(damage.into()))
}
