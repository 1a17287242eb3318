//! The NATS gateway: `intake` consumes events from the work queue, `service` answers questions (`pml.<ws>.q.<question>`).

mod intake;
mod service;

pub(crate) use intake::{IntakeParts, run as run_intake};
pub(crate) use service::Service;
