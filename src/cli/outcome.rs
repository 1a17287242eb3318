//! The result of a command: an exit code or an error.

use super::remote::Unreachable;
use crate::config::ConfigError;
use crate::core::event::codec::Corrupt;
use crate::log::{Damage, ReadError};
use crate::nats::NatsError;
use crate::runtime::StartError;

/// An error with the exit code that belongs to its kind.
pub(super) struct CommandError {
    pub(super) code: u8,
    pub(super) error: anyhow::Error,
}

impl<E: Into<anyhow::Error>> From<E> for CommandError {
    fn from(error: E) -> Self {
        let error = error.into();
        let code = if error.is::<ConfigError>() {
            2
        } else if error.is::<Unreachable>() || error.chain().any(is_nats_away) {
            4
        } else if error.chain().any(is_damage) {
            5
        } else {
            1
        };
        Self { code, error }
    }
}

fn is_damage(cause: &(dyn std::error::Error + 'static)) -> bool {
    // A damaged archive is told by the error of the read only.
    cause.is::<Damage>() || cause.is::<Corrupt>() || cause.downcast_ref().is_some_and(ReadError::is_damage)
}

fn is_nats_away(cause: &(dyn std::error::Error + 'static)) -> bool {
    // A start error stands for its cause and is not followed by it.
    let started = matches!(cause.downcast_ref(), Some(StartError::Nats(NatsError::Connect { .. })));
    started || matches!(cause.downcast_ref(), Some(NatsError::Connect { .. }))
}

/// The result of a command. `Ok` carries the exit code of one that ran to its end: 0, or 3 or 5 after it printed its report.
pub(super) type Outcome = Result<u8, CommandError>;
