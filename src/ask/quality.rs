//! `quality`: how well predictions did over the last hour, the last day and all of the time, and how far their probabilities can be
//! trusted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::catalogue::Refused;
use crate::core::predict::metrics::BINS;
use crate::core::predict::quality::{Bin, Span, Stretch};
use crate::core::state::State;
use crate::core::time::Timestamp;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QualityQuery {
    /// hour, day or all.
    over: Option<String>,
}

/// The answer to `quality`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct QualityAnswer {
    /// hour, day or all; the first two are counted back from the newest score.
    over: &'static str,
    /// The width of a span in seconds.
    span_s: i64,
    /// The spans in which predictions were scored, the earliest first.
    spans: Vec<SpanDto>,
    /// The predictions of all spans by the probability of their first outcome.
    calibration: Vec<CalibrationDto>,
    /// The last record folded into the state that answered.
    based_on_seq: u64,
}

/// Means over the predictions that were scored in one span of time.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "QualitySpan")]
struct SpanDto {
    /// When the span begins.
    start: String,
    n: u64,
    hit1: f64,
    hit3: f64,
    log_loss: f64,
    calibration_error: f64,
}

/// The predictions whose first probability lies between two bounds: how likely they said it was, and how often it came.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CalibrationBin")]
struct CalibrationDto {
    from: f64,
    to: f64,
    n: u64,
    stated: f64,
    observed: f64,
}

pub(crate) fn quality(state: &State, query: &QualityQuery) -> Result<QualityAnswer, Refused> {
    let name = query.over.as_deref().unwrap_or(Stretch::All.name());
    let stretch = Stretch::ALL.into_iter().find(|stretch| stretch.name() == name);
    let stretch = stretch.ok_or_else(|| Refused::invalid("over", format!("'{name}' is not hour, day or all")))?;
    let series = state.predictor.scores.quality().series(stretch);
    let mut sums = Span::default();
    for (_, span) in series.spans() {
        sums.iter_mut().zip(span).for_each(|(sum, bin)| sum.add(*bin));
    }
    Ok(QualityAnswer {
        over: stretch.name(),
        span_s: series.width_s(),
        spans: series.spans().map(|(start_s, span)| SpanDto::new(start_s, span)).collect(),
        calibration: (0_u32..).zip(&sums).filter(|(_, bin)| bin.n > 0).map(|(at, bin)| CalibrationDto::new(at, bin)).collect(),
        based_on_seq: state.applied().0,
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts of predictions stay far below 2^52")]
impl SpanDto {
    fn new(start_s: i64, span: &Span) -> Self {
        let mut sum = Bin::default();
        for bin in span {
            sum.add(*bin);
        }
        let n = sum.n.max(1) as f64;
        let off: f64 = span.iter().map(|bin| (bin.p_sum - bin.hits1 as f64).abs()).sum();
        Self {
            start: Timestamp::from_micros(start_s.saturating_mul(1_000_000)).to_string(),
            n: sum.n,
            hit1: sum.hits1 as f64 / n,
            hit3: sum.hits3 as f64 / n,
            log_loss: sum.log_loss_sum / n,
            calibration_error: off / n,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of predictions stay far below 2^52")]
impl CalibrationDto {
    fn new(at: u32, bin: &Bin) -> Self {
        let (n, bound) = (bin.n.max(1) as f64, |at: u32| f64::from(at) / BINS as f64);
        Self { from: bound(at), to: bound(at + 1), n: bin.n, stated: bin.p_sum / n, observed: bin.hits1 as f64 / n }
    }
}
