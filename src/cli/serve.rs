//! `pml serve`: the server, until it is told to stop.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::output::Output;
use super::{Failure, Outcome};
use crate::clock::Clock;
use crate::config::Config;
use crate::gateway;
use crate::runtime::Runtime;

#[derive(Args)]
pub(super) struct Arguments {
    /// Address to listen on [default: http.listen]
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Data directory [default: `data_dir`]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

pub(super) async fn run(arguments: Arguments, mut config: Config, output: &Output) -> Outcome {
    if let Some(data) = arguments.data {
        config.data_dir = data;
    }
    if let Some(listen) = arguments.listen {
        config.set_listen(listen)?;
    }
    let runtime = Runtime::start(&config, Clock::system()).await?;
    let (server, address) = gateway::serve(&runtime, &config.http)?;
    let applied = runtime.views.current().applied();
    output.say(format!("pml listens on http://{address} with the log in {} ({applied} records)", config.data_dir.display()));
    output.json(&json!({"listen": address.to_string(), "data_dir": config.data_dir, "records": applied.0}));
    until_stopped(server).await?;
    output.say("stopping");
    runtime.stop().await;
    Ok(0)
}

/// Serves until Ctrl-C or SIGTERM, then answers what is under way and ends.
pub(super) async fn until_stopped(server: actix_web::dev::Server) -> Result<(), Failure> {
    let handle = server.handle();
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let serving = actix_rt::spawn(server);
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    // Event streams never end by themselves; they are cut after the server's own timeout.
    handle.stop(true).await;
    serving.await??;
    Ok(())
}
