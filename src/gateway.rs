//! The gateways, through which requests and events from outside reach this process. `http` serves HTTP; `nats` consumes events from
//! the work queue and answers questions over NATS; `mcp` serves the Model Context Protocol, over HTTP and standard input and output;
//! `otlp` gathers spans; `page` holds the files of the page for people.
//! All use the same publisher, views and questions.

pub mod http;
pub(crate) mod mcp;
pub(crate) mod nats;
pub(crate) mod otlp;
mod page;
