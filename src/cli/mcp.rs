//! `pml mcp`: serves the Model Context Protocol on standard input and output, for clients that start their servers themselves.

mod bridge;

use std::path::PathBuf;

use clap::Args;

use super::Outcome;
use crate::clock::Clock;
use crate::config::Config;
use crate::gateway::mcp::{Caller, McpServer};
use crate::log::OpenError;
use crate::runtime::{Runtime, StartError};
use bridge::Bridge;

#[derive(Args)]
pub(super) struct Arguments {
    /// Serve from a running server at this address instead of a data directory
    #[arg(long, env = "PML_URL", conflicts_with = "data")]
    url: Option<String>,
    /// API key for that server
    #[arg(long, env = "PML_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Data directory [default: `data_dir`]; if a server has it open, that server is used
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

pub(super) async fn run(arguments: Arguments, mut config: Config) -> Outcome {
    if let Some(url) = &arguments.url {
        Bridge::connect(url, arguments.key)?.run()?;
        return Ok(0);
    }
    if let Some(data) = arguments.data {
        config.data_dir = data;
    }
    match Runtime::start(&config, Clock::system()).await {
        Ok(runtime) => serve(runtime).await,
        // A server has the log. It need not be the one at the configured address, but then the error says what to do.
        Err(StartError::Log(in_use @ OpenError::InUse { .. })) => {
            let server = Bridge::connect(&format!("http://{}", config.http.listen), arguments.key);
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
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let serving = async {
        match rmcp::serve_server(server, rmcp::transport::io::stdio_pipes()).await {
            Ok(running) => drop(running.waiting().await),
            // A client that goes before it has said anything is no error of ours.
            Err(error) => tracing::warn!(%error, "no MCP client has connected"),
        }
    };
    let ended = tokio::select! {
        () = serving => Ok(0),
        interrupted = tokio::signal::ctrl_c() => interrupted.map(|()| 0).map_err(Into::into),
        _ = terminate.recv() => Ok(0),
        damage = runtime.damaged() => Err(damage.into()),
    };
    runtime.stop().await;
    ended
}
