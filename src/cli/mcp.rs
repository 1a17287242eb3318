//! `pml mcp`: serves the Model Context Protocol on standard input and output, for clients that start their servers themselves: from a
//! running server, or from a data directory (`data_dir` by default; if a server has it open, that server is used) or NATS in this process.

mod bridge;

use clap::Args;

use super::serve::StopSignals;
use super::{LogLocation, Outcome};
use crate::clock::Clock;
use crate::config::{Config, Secret};
use crate::gateway::mcp::{Caller, McpServer};
use crate::log::OpenError;
use crate::runtime::{Runtime, StartError};
use bridge::Bridge;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn run(arguments: Arguments, mut config: Config) -> Outcome {
    let LogLocation { url, key, data, nats } = arguments.location;
    if let Some(url) = &url {
        Bridge::connect(url, key)?.run()?;
        return Ok(0);
    }
    if let Some(data) = data {
        config.data_dir = data;
    }
    if let Some(servers) = nats {
        config.nats.servers = servers.split(',').map(Secret::new).collect();
    }
    match Runtime::start(&config, Clock::system()).await {
        Ok(runtime) => serve(runtime).await,
        // A server has the log. It need not be the one at the configured address, but then the error says what to do.
        Err(StartError::Log(in_use @ OpenError::InUse { .. })) => {
            let server = Bridge::connect(&format!("http://{}", config.http.listen), key);
            server.map_err(|_| in_use)?.run()?;
            Ok(0)
        }
        Err(error) => Err(error.into()),
    }
}

/// Serves until the client closes its side, a signal comes, or the log is damaged.
async fn serve(runtime: Runtime) -> Outcome {
    let session = format!("stdio {}", runtime.clock.fresh_id());
    let server = McpServer::new(runtime.mcp.clone(), Caller::local(&session));
    let mut signals = StopSignals::catch()?;
    let serving = async {
        match rmcp::serve_server(server, rmcp::transport::io::stdio_pipes()).await {
            Ok(running) => drop(running.waiting().await),
            // A client that goes before it has said anything is no error of ours.
            Err(error) => tracing::warn!(%error, "no MCP client has connected"),
        }
    };
    let ended = tokio::select! {
        () = serving => Ok(0),
        () = signals.received() => Ok(0),
        damage = runtime.damaged() => Err(damage.into()),
    };
    runtime.stop().await;
    ended
}
