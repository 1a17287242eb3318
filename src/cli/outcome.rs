//! How a command ends.

use super::remote::Unreachable;
use crate::config::ConfigError;
use crate::core::event::codec::Corrupt;
use crate::log::Damage;

/// A failure with the exit code it deserves.
pub(super) struct CommandError {
    pub(super) code: u8,
    pub(super) error: anyhow::Error,
}

impl<E: Into<anyhow::Error>> From<E> for CommandError {
    fn from(error: E) -> Self {
        let error = error.into();
        let code = if error.is::<ConfigError>() {
            2
        } else if error.is::<Unreachable>() {
            4
        } else if error.chain().any(|cause| cause.is::<Damage>() || cause.is::<Corrupt>()) {
            5
        } else {
            1
        };
        Self { code, error }
    }
}

/// `Ok` carries the exit code of a command that did its work: 0, or 3 or 5 with a report already printed.
pub(super) type Outcome = Result<u8, CommandError>;
