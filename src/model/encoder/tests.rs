use std::ops::ControlFlow;

use super::batch::Batch;
use super::loss::loss;
use super::parameters::{GROUPS, Sizes};
use super::*;
use crate::columns::Columns;
use crate::random::Random;
use crate::training_set::Run;

const DIM: usize = 6;
const SIZES: Sizes = Sizes { dim: DIM, units: 5, own: 3 };

/// Runs of the tools 0, 1, 2, ... or of 0, 2, 4, ..., whichever the intent says, from a random start, and END after a few calls.
fn stepping_set(tools: usize, runs: usize, seed: u64) -> TrainingSet {
    let mut random = Random::new(seed);
    let vectors = Array2::from_shape_fn((tools, DIM), |_| random.normal() * 0.4);
    let mut texts = Array2::zeros((runs, DIM));
    let mut list = Vec::new();
    for run in 0..runs {
        let stride = 1 + run % 2;
        for column in 0..DIM {
            texts[[run, column]] = random.normal() * 0.2 + if column == stride { 1.0 } else { 0.0 };
        }
        let first = random.below(tools);
        let calls = (0..2 + run % 3).map(|step| (first + step * stride) % tools).collect();
        list.push(Run {
            intent: run,
            clauses: if run % 3 == 0 { vec![] } else { vec![run, run / 2] },
            calls,
            ended: run % 4 != 3,
            succeeded: run % 5 != 4,
        });
    }
    TrainingSet { tools: vectors, texts, runs: list }
}

fn random_parameters(seed: u64) -> Parameters<f64> {
    let mut random = Random::new(seed);
    let start = Parameters::start(SIZES, &mut random);
    let mut parameters = Parameters::zeros(SIZES);
    for (group, start) in parameters.groups_mut().into_iter().zip(start.groups()) {
        group.zip_mut_with(start, |value, start| *value = f64::from(*start + random.normal() * 0.2));
    }
    parameters
}

fn small_batch() -> (Columns<f32>, Batch<f32>) {
    let mut set = stepping_set(7, 9, 1);
    set.runs[3].calls = vec![2, 2, 5, 2];
    let columns = Columns::all(&set, &OwnRows(vec![0, 2, 5]));
    let mut batch = Batch::new(&set, &(0..9).collect::<Vec<_>>(), &columns, &EncoderSettings::default());
    batch.drop_out(0.2, SIZES.units, &mut Random::new(2));
    (columns, batch)
}

fn go_on(_: crate::Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn every_gradient_equals_finite_differences() {
    const STEP: f64 = 1e-5;
    let (columns, batch) = small_batch();
    let (columns, batch) = (columns.widen(), batch.widen());
    let mut parameters = random_parameters(3);
    let (mut gradient, mut unused) = (Parameters::zeros(SIZES), Parameters::zeros(SIZES));
    loss(&parameters, &batch, &columns, &mut gradient);
    for group in 0..GROUPS {
        let analytic: Vec<f64> = gradient.groups()[group].iter().copied().collect();
        let largest = analytic.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        assert!(largest > 1e-5, "group {group} has no gradient");
        for (index, analytic) in analytic.into_iter().enumerate() {
            let mut at = |shift: f64| {
                parameters.groups_mut()[group].as_slice_mut().unwrap()[index] += shift;
                let value = loss(&parameters, &batch, &columns, &mut unused);
                parameters.groups_mut()[group].as_slice_mut().unwrap()[index] -= shift;
                value
            };
            let numeric = (at(STEP) - at(-STEP)) / (2.0 * STEP);
            let scale = numeric.abs().max(analytic.abs()).max(largest * 1e-3);
            assert!((numeric - analytic).abs() / scale < 1e-4, "group {group} at {index}: {numeric} {analytic}");
        }
    }
}

#[test]
fn flipping_the_outcome_flips_the_gradient_of_the_end_and_weakens_that_of_the_calls() {
    let mut set = stepping_set(7, 1, 2);
    let columns = Columns::all(&set, &OwnRows(vec![0, 2, 5]));
    let mut gradient_of = |succeeded: bool, of_end: bool| {
        set.runs[0].succeeded = succeeded;
        let mut batch = Batch::new(&set, &[0], &columns, &EncoderSettings::default()).widen();
        for (target, weight) in batch.targets.iter().zip(&mut batch.weights) {
            *weight *= if (*target == 7) == of_end { 1.0 } else { 0.0 };
        }
        let mut gradient = Parameters::zeros(SIZES);
        loss(&random_parameters(3), &batch, &columns.widen(), &mut gradient);
        gradient
    };
    for (of_end, sign) in [(true, -1.0), (false, 1.0)] {
        let (succeeded, failed) = (gradient_of(true, of_end), gradient_of(false, of_end));
        for (succeeded, failed) in succeeded.groups().into_iter().flatten().zip(failed.groups().into_iter().flatten()) {
            assert!(sign * succeeded * failed >= 0.0 && failed.abs() <= succeeded.abs(), "{succeeded} {failed}");
        }
        assert!(failed.recurrent.iter().any(|value| *value != 0.0));
    }
}

#[test]
fn sequences_are_learned_and_served_as_they_were_trained() {
    let set = stepping_set(8, 300, 4);
    let settings = EncoderSettings { units: 24, learning_rate: 1e-2, ..EncoderSettings::default() };
    let (encoder, report) = Encoder::train(&set, &settings, 1, &mut go_on).unwrap();
    let (before, after) = (report.validation_before.unwrap(), report.validation.unwrap());
    assert!(before < 0.5 && after > 0.6, "{before} {after}");
    assert_eq!((report.examples, report.skipped), (300, 0));

    let columns = Columns::all(&set, &encoder.own);
    let tools = encoder.tool_rows(set.tools.view());
    for run in 0..20 {
        let batch = Batch::new(&set, &[run], &columns, &settings);
        let trained = forward::forward(&encoder.parameters, &batch, &tools.0).logits;
        let text = |row: usize| set.texts.row(row).to_slice().unwrap();
        let intent = text(run).to_vec();
        let clauses: Vec<&[f32]> = set.runs[run].clauses.iter().map(|row| text(*row)).collect();
        for (position, trained) in trained.rows().into_iter().enumerate() {
            let served = encoder.next_after(&intent, &clauses, &set.runs[run].calls[..position], &tools);
            let total: f32 = served.tools.iter().chain([&served.end]).map(|value| value.exp()).sum();
            assert!((total - 1.0).abs() < 1e-4, "{total}");
            let shift = trained[8] - served.end;
            let pairs = trained.iter().zip(&served.tools);
            assert!(pairs.into_iter().all(|(trained, served)| (trained - served - shift).abs() < 1e-4));
        }
    }
}

#[test]
fn few_runs_leave_the_cosine_of_the_embeddings() {
    let mut set = stepping_set(6, 8, 6);
    set.runs[1].calls.clear();
    let (encoder, report) = Encoder::train(&set, &EncoderSettings::default(), 1, &mut go_on).unwrap();
    assert_eq!((report.examples, report.skipped, report.epochs), (7, 1, 0));
    let tools = encoder.tool_rows(set.tools.view());
    let next = encoder.next_after(set.tools.row(3).to_slice().unwrap(), &[], &[], &tools);
    let best = (0..6).max_by(|left, right| next.tools[*left].total_cmp(&next.tools[*right]));
    assert_eq!(best, Some(3));
}

#[test]
fn training_is_repeatable_and_can_be_stopped() {
    let set = stepping_set(8, 60, 7);
    let settings = EncoderSettings { epochs_max: 2, units: 8, ..EncoderSettings::default() };
    let train = || Encoder::train(&set, &settings, 9, &mut go_on).unwrap();
    assert_eq!(train(), train());
    let stopped = Encoder::train(&set, &settings, 9, &mut |_| ControlFlow::Break(()));
    assert_eq!(stopped.unwrap_err(), TrainError::Stopped);
}

#[test]
fn bytes_come_back_and_damaged_bytes_are_refused() {
    let set = stepping_set(8, 60, 8);
    let settings = EncoderSettings { epochs_max: 2, units: 8, ..EncoderSettings::default() };
    let (encoder, _) = Encoder::train(&set, &settings, 1, &mut go_on).unwrap();
    let bytes = encoder.to_bytes();
    let read = Encoder::from_bytes(&bytes).unwrap();
    assert_eq!(read, encoder);
    assert_eq!(read.to_bytes(), bytes);
    for len in 0..bytes.len() {
        assert!(Encoder::from_bytes(&bytes[..len]).is_err(), "{len}");
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(Encoder::from_bytes(&damaged).is_err(), "{at}");
    }
}

#[test]
fn a_cross_fitted_prediction_comes_from_an_encoder_that_did_not_see_the_run() {
    let set = stepping_set(8, 40, 9);
    let settings = EncoderSettings { units: 8, ..EncoderSettings::default() };
    let predictions_of = |set: &TrainingSet| {
        let mut predictions: Vec<Vec<Next>> = vec![vec![]; set.runs.len()];
        Encoder::cross_fit(set, &settings, (4, 3), 1, &mut go_on, &mut |run, position, next| {
            assert_eq!(predictions[run].len(), position);
            predictions[run].push(next.clone());
        })
        .unwrap();
        predictions
    };
    let before = predictions_of(&set);
    assert!(before.iter().zip(&set.runs).all(|(predictions, run)| predictions.len() == run.calls.len() + 1));
    let mut other = set;
    *other.runs[17].calls.last_mut().unwrap() = 3;
    let after = predictions_of(&other);
    assert_eq!(before[17][..2], after[17][..2]);
    assert_ne!(before, after);
}
