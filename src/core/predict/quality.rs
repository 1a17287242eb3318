//! The quality of served predictions over time: the minutes of the last hour, the half hours of the last day, and all of the time in
//! spans that become wider when there are too many.
//!
//! The time of a score is that of the event that scored the prediction, so the series are the same in every fold of a log. "Last" is
//! counted from the newest score.

use std::sync::Arc;

use imbl::OrdMap;

use super::metrics::{BINS, StepScore, bin, hit, log_loss};
use crate::digest::{DigestWriter, Digestible};
use crate::time::Timestamp;

/// Spans of the series over all of the time; their width doubles when there are more.
const ALL_SPANS_MAX: usize = 200;

/// The stretch of time that a series covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stretch {
    Hour,
    Day,
    All,
}

impl Stretch {
    pub const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::All];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::All => "all",
        }
    }

    /// The width of its first spans, in seconds, and how many spans are kept.
    const fn shape(self) -> (i64, usize) {
        match self {
            Self::Hour => (60, 60),
            Self::Day => (1_800, 48),
            Self::All => (3_600, ALL_SPANS_MAX),
        }
    }
}

/// Sums over the predictions of one span whose first probability lies in one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    pub n: u64,
    /// Predictions whose first outcome was right, and one of whose first three was.
    pub hits1: u64,
    pub hits3: u64,
    /// The sum of the first probabilities.
    pub p_sum: f64,
    pub log_loss_sum: f64,
}

impl Bin {
    /// Adds the sums of another bin.
    pub fn add(&mut self, other: Self) {
        self.n += other.n;
        self.hits1 += other.hits1;
        self.hits3 += other.hits3;
        self.p_sum += other.p_sum;
        self.log_loss_sum += other.log_loss_sum;
    }
}

/// The bins of one span, by the first probability.
pub type Span = [Bin; BINS];

/// One series: spans of equal width by the second at which they begin.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    width_s: i64,
    spans: OrdMap<i64, Arc<Span>>,
}

impl Series {
    fn new(stretch: Stretch) -> Self {
        Self { width_s: stretch.shape().0, spans: OrdMap::new() }
    }

    /// The width of a span in seconds.
    pub fn width_s(&self) -> i64 {
        self.width_s
    }

    /// The spans in which predictions were scored, the earliest first, by the second at which they begin.
    pub fn spans(&self) -> impl ExactSizeIterator<Item = (i64, &Span)> {
        self.spans.iter().map(|(start, span)| (*start, &**span))
    }

    fn add(&mut self, stretch: Stretch, second: i64, at: usize, bin: Bin) {
        let start = second.div_euclid(self.width_s) * self.width_s;
        Arc::make_mut(self.spans.entry(start).or_default())[at].add(bin);
        let (_, spans_max) = stretch.shape();
        if stretch == Stretch::All {
            while self.spans.len() > spans_max {
                self.widen();
            }
            return;
        }
        let newest = self.spans.get_max().map_or(start, |(newest, _)| *newest);
        let width = i64::try_from(spans_max).unwrap_or(i64::MAX).saturating_mul(self.width_s);
        while let Some((oldest, _)) = self.spans.get_min().filter(|(oldest, _)| *oldest <= newest.saturating_sub(width)) {
            let oldest = *oldest;
            self.spans.remove(&oldest);
        }
    }

    /// Doubles the width of the spans.
    fn widen(&mut self) {
        self.width_s *= 2;
        let narrow = std::mem::take(&mut self.spans);
        for (start, span) in narrow {
            let wide = Arc::make_mut(self.spans.entry(start.div_euclid(self.width_s) * self.width_s).or_default());
            wide.iter_mut().zip(span.iter()).for_each(|(sum, bin)| sum.add(*bin));
        }
    }
}

/// `Quality` holds one series for each stretch of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Quality([Series; 3]);

impl Default for Quality {
    fn default() -> Self {
        Self(Stretch::ALL.map(Series::new))
    }
}

/// One bin of a span as a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QualityRow {
    pub stretch: Stretch,
    pub width_s: i64,
    /// The second at which the span begins.
    pub start_s: i64,
    /// The position of the bin.
    pub bin: u8,
    pub sums: Bin,
}

impl Quality {
    /// Adds the score of one prediction, scored by an event of this time.
    pub fn add(&mut self, time: Timestamp, score: StepScore) {
        let sums = Bin {
            n: 1,
            hits1: u64::from(hit(score.rank, 1) > 0.0),
            hits3: u64::from(hit(score.rank, 3) > 0.0),
            p_sum: score.p_first,
            log_loss_sum: log_loss(score.p_right),
        };
        let (second, at) = (time.micros().div_euclid(1_000_000), bin(score.p_first));
        for (stretch, series) in Stretch::ALL.into_iter().zip(&mut self.0) {
            series.add(stretch, second, at, sums);
        }
    }

    pub fn series(&self, stretch: Stretch) -> &Series {
        &self.0[stretch as usize]
    }

    /// The bins that hold something, as rows.
    pub fn rows(&self) -> impl Iterator<Item = QualityRow> {
        Stretch::ALL.into_iter().zip(&self.0).flat_map(|(stretch, series)| {
            series.spans().flat_map(move |(start_s, span)| {
                let filled = (0_u8..).zip(span).filter(|(_, sums)| sums.n > 0);
                filled.map(move |(bin, sums)| QualityRow { stretch, width_s: series.width_s, start_s, bin, sums: *sums })
            })
        })
    }

    /// Restores what [`Self::rows`] gave. A row whose bin does not exist is left out.
    pub fn from_rows(rows: impl IntoIterator<Item = QualityRow>) -> Self {
        let mut quality = Self::default();
        for row in rows {
            let series = &mut quality.0[row.stretch as usize];
            series.width_s = row.width_s;
            if let Some(bin) = Arc::make_mut(series.spans.entry(row.start_s).or_default()).get_mut(usize::from(row.bin)) {
                *bin = row.sums;
            }
        }
        quality
    }
}

impl Digestible for Quality {
    fn digest(&self, writer: &mut DigestWriter) {
        for series in &self.0 {
            writer.i64(series.width_s).len(series.spans.len());
        }
        for QualityRow { start_s, bin, sums, .. } in self.rows() {
            writer.i64(start_s).u32(u32::from(bin)).u64(sums.n).u64(sums.hits1).u64(sums.hits3);
            writer.u64(sums.p_sum.to_bits()).u64(sums.log_loss_sum.to_bits());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn total(quality: &Quality, stretch: Stretch) -> u64 {
        quality.series(stretch).spans().flat_map(|(_, span)| span).map(|bin| bin.n).sum()
    }

    #[test]
    fn an_hour_and_a_day_forget_what_is_older_and_all_widens() {
        let mut quality = Quality::default();
        let score = StepScore { rank: Some(1), p_first: 0.85, p_right: 0.85 };
        let hours = 400;
        for hour in 0..hours {
            quality.add(at(hour * 3_600), score);
        }
        assert_eq!(total(&quality, Stretch::Hour), 1);
        assert_eq!(total(&quality, Stretch::Day), 24);
        assert_eq!(total(&quality, Stretch::All), hours.unsigned_abs());
        let all = quality.series(Stretch::All);
        assert_eq!((all.width_s(), all.spans().len()), (7_200, 200));
        // What comes late is counted where it belongs, or not at all.
        quality.add(at(0), score);
        assert_eq!(total(&quality, Stretch::Hour), 1);
        assert_eq!(total(&quality, Stretch::All), hours.unsigned_abs() + 1);
    }

    #[test]
    fn a_score_lies_in_the_bin_of_its_first_probability_and_rows_restore_everything() {
        let mut quality = Quality::default();
        quality.add(at(-1), StepScore { rank: Some(2), p_first: 0.85, p_right: 0.1 });
        quality.add(at(30), StepScore { rank: None, p_first: 1.0, p_right: 0.0 });
        let (start, span) = quality.series(Stretch::Hour).spans().next().unwrap();
        assert_eq!((start, span[8].n, span[8].hits1, span[8].hits3), (-60, 1, 0, 1));
        assert!((span[8].log_loss_sum - 10.0_f64.ln()).abs() < 1e-9);
        assert_eq!(Quality::from_rows(quality.rows()), quality);
    }
}
