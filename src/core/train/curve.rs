//! The curve of a training as it is recorded: its epochs, few enough for a record, rounded.

use pml_model::{Progress, Stage};

use crate::event::{CurvePoint, CurveStage};

/// Points of one stage that are recorded, at most; of longer ones every so many, with the first and the last.
const STAGE_POINTS_MAX: usize = 32;
/// Numbers are rounded to one part in this many.
const ROUNDED_TO: f64 = 10_000.0;

/// The epochs of a part so far, without those of cross-fitting.
#[derive(Default)]
pub(super) struct Curve {
    validation: Vec<CurvePoint>,
    fit: Vec<CurvePoint>,
}

impl Curve {
    /// Adds an epoch. Of several steps of one epoch (SHGAT tells every batch) the last one stays. A number that is not finite has no
    /// place in JSON and is left out.
    pub(super) fn add(&mut self, progress: &Progress) {
        let (stage, points) = match progress.stage {
            Stage::Validation => (CurveStage::Validation, &mut self.validation),
            Stage::Fit => (CurveStage::Fit, &mut self.fit),
            Stage::CrossFit { .. } => return,
        };
        let Some(loss) = rounded(progress.loss) else { return };
        let epoch = u32::try_from(progress.epoch).unwrap_or(u32::MAX);
        points.pop_if(|last| last.epoch == epoch);
        points.push(CurvePoint { stage, epoch, loss, validation: progress.validation.and_then(rounded) });
    }

    /// What is recorded of it.
    pub(super) fn into_points(self) -> Vec<CurvePoint> {
        thinned(self.validation).into_iter().chain(thinned(self.fit)).collect()
    }
}

/// At most [`STAGE_POINTS_MAX`] of the points, evenly spaced, with the first and the last.
fn thinned(points: Vec<CurvePoint>) -> Vec<CurvePoint> {
    let last = points.len().saturating_sub(1);
    if last < STAGE_POINTS_MAX {
        return points;
    }
    (0..STAGE_POINTS_MAX).map(|at| points[at * last / (STAGE_POINTS_MAX - 1)].clone()).collect()
}

fn rounded(number: f32) -> Option<f64> {
    number.is_finite().then(|| libm::round(f64::from(number) * ROUNDED_TO) / ROUNDED_TO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(epochs: usize) -> Curve {
        let mut curve = Curve::default();
        for epoch in 1..=epochs {
            for (stage, validation) in
                [(Stage::Validation, Some(0.123_456)), (Stage::Fit, None), (Stage::CrossFit { part: 0 }, None)]
            {
                // Two batches of one epoch.
                for loss in [9.0, 1.0 / f32::from(u16::try_from(epoch).unwrap())] {
                    curve.add(&Progress { stage, epoch, epochs_max: epochs, loss, validation });
                }
            }
        }
        curve
    }

    #[test]
    fn every_epoch_is_one_rounded_point_without_those_of_cross_fitting() {
        let mut short = curve(3);
        short.add(&Progress { stage: Stage::Fit, epoch: 4, epochs_max: 4, loss: f32::NAN, validation: None });
        let points = short.into_points();
        let of_stage = |stage| points.iter().filter(|point| point.stage == stage).map(|point| point.loss).collect::<Vec<_>>();
        assert_eq!(of_stage(CurveStage::Validation), [1.0, 0.5, 0.3333]);
        assert_eq!(of_stage(CurveStage::Fit), [1.0, 0.5, 0.3333]);
        assert_eq!((points[0].validation, points[3].validation), (Some(0.1235), None));
    }

    #[test]
    fn a_long_training_is_thinned_to_its_first_its_last_and_some_between() {
        let points = curve(1_000).into_points();
        assert_eq!(points.len(), 2 * STAGE_POINTS_MAX);
        let epochs: Vec<u32> = points[..STAGE_POINTS_MAX].iter().map(|point| point.epoch).collect();
        assert!(epochs.first() == Some(&1) && epochs.last() == Some(&1_000) && epochs.is_sorted(), "{epochs:?}");
        assert_eq!(curve(STAGE_POINTS_MAX).into_points().len(), 2 * STAGE_POINTS_MAX);
    }
}
