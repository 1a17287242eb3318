//! What pml promises to the outside, in one binary: formats that do not drift, ports that keep their contracts, a fold that
//! depends on nothing but the records, and the real program, called, fed with nonsense and killed.

#![expect(clippy::unwrap_used, reason = "a panic in a builder fails the test that used it, which is what it is for")]

mod embedded;
mod run;
mod server;

mod analysis;
mod archive;
mod backup;
mod bad_input;
mod bus_contract;
mod cli;
mod closing;
mod crash;
mod dead_letters;
mod discover;
mod disk;
mod embed;
mod embedding;
mod emit;
mod eval;
mod execute;
mod execute_intent;
mod faulty_log;
mod fold;
mod fold_version;
mod given;
mod golden;
mod history;
mod http;
mod http_limits;
mod http_read;
mod learning;
mod log_contract;
mod log_damage;
mod log_faults;
mod mcp;
mod mcp_clients;
mod mcp_pass_through;
mod nats_kill;
mod nats_lease;
mod nats_log;
mod nats_ports;
mod nats_serve;
mod nats_server;
mod outside;
mod predict;
mod prediction_clients;
mod predictions;
mod real_servers;
mod related;
mod runs_on_nats;
mod scopes;
mod score;
mod secrets;
mod snapshot;
mod snapshot_files;
mod snapshot_serve;
mod suggest;
mod supervision;
mod trainer;
mod training;
mod upstream_http;
mod upstreams;
