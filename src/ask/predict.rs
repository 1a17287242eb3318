//! What comes next.

use std::sync::Arc;

use super::{AskError, Asker};
use crate::core::event::NewRecord;
use crate::core::id::{ExecutionId, SessionId};
use crate::core::live::Moment;

/// A prediction for a live execution: what its subscribers are told, and the record that they were.
pub struct Foreseen {
    pub execution: ExecutionId,
    pub session: Option<SessionId>,
    /// JSON.
    pub message: Arc<[u8]>,
    pub impression: NewRecord,
}

impl Asker {
    pub fn foresee(&self, moment: &Moment, ranked_max: usize) -> Result<Foreseen, AskError> {
        Err(AskError::invalid("stub", format!("{moment:?} {ranked_max}")))
    }
}
