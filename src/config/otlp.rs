//! Settings of the spans that come by OTLP.

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::validate::require_positive;
use crate::readers::traces::TraceLimits;

/// Limits of the traces that are gathered until their root has ended.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Otlp {
    pub linger_ms: u64,
    pub timeout_ms: u64,
    pub traces_max: usize,
    pub spans_max: usize,
    pub bytes_max: usize,
}

impl Otlp {
    /// The limits, with milliseconds as time.
    pub fn limits(&self) -> TraceLimits {
        TraceLimits {
            linger: self.linger_ms,
            timeout: self.timeout_ms,
            traces_max: self.traces_max,
            spans_max: self.spans_max,
            bytes_max: self.bytes_max,
            remembered_max: self.traces_max,
        }
    }

    /// Returns the first setting that cannot work, by its key.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let positive = [
            ("otlp.timeout_ms", self.timeout_ms),
            ("otlp.traces_max", self.traces_max as u64),
            ("otlp.spans_max", self.spans_max as u64),
            ("otlp.bytes_max", self.bytes_max as u64),
        ];
        require_positive(positive)
    }
}
