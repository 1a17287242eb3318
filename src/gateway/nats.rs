//! The NATS gateway: `intake` consumes events from the work queue, `service` answers questions (`pml.<ws>.q.<question>`),
//! `runs` runs workflows (`pml.<ws>.run.<request>`).

mod intake;
mod runs;
mod service;
mod settlement;

pub(crate) use intake::{IntakeParts, run as run_intake};
pub(crate) use runs::{RunsParts, run as serve_runs};
pub(crate) use service::Service;
