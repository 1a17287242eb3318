//! `pml key`: creates an API key and the configuration that makes a server accept it.

use clap::Args;
use serde_json::json;

use super::output::Output;
use crate::gateway::http::{hash_key, new_key};

#[derive(Args)]
pub(super) struct Arguments {
    /// Name of the key's owner
    #[arg(long, default_value = "agent")]
    name: String,
    /// Scopes of the key
    #[arg(long, value_delimiter = ',', default_value = "publish,query", value_parser = ["publish", "query", "execute", "approve", "admin"])]
    scopes: Vec<String>,
}

pub(super) fn run(arguments: Arguments, output: &Output) -> u8 {
    let key = new_key();
    let hash = hash_key(&key);
    let Arguments { name, scopes } = arguments;
    output.json(&json!({"key": key, "name": name, "hash": hash, "scopes": scopes}));
    output.say(format!("key (shown once, give it to the agent):\n\n  {key}\n\nadd to the configuration file of the server:\n"));
    output.say(format!("  [[http.keys]]\n  name = {name:?}\n  hash = {hash:?}\n  scopes = {scopes:?}"));
    output.say("\nor, for a server without a file, set in its environment:\n");
    output.say(format!("  PML__HTTP__KEYS='[{{name = {name:?}, hash = {hash:?}, scopes = {scopes:?}}}]'"));
    0
}
