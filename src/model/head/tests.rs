use std::ops::ControlFlow;

use super::batch::Batch;
use super::loss::loss;
use super::*;
use crate::columns::{ALL_TOOLS_MAX, Columns};
use crate::random::Random;
use crate::training_set::Run;

const DIM: usize = 12;

/// Tools and intents with random vectors: the intent of a run is near the tools it calls, after a fixed turn of the space that the
/// head has to learn.
fn turned_set(tools: usize, runs: usize, seed: u64) -> TrainingSet {
    let mut random = Random::new(seed);
    let mut rows = |count: usize| {
        let mut rows = Array2::from_shape_fn((count, DIM), |_| random.normal());
        for mut row in rows.rows_mut() {
            let length = row.dot(&row).sqrt();
            row /= length;
        }
        rows
    };
    let (vectors, noise) = (rows(tools), rows(runs * 3));
    let turned = |tool: usize, column: usize| vectors[[tool, (column + 5) % DIM]];
    let mut texts = Array2::zeros((runs * 3, DIM));
    let mut list = Vec::new();
    for run in 0..runs {
        let called = [random.below(tools), random.below(tools)];
        for column in 0..DIM {
            let (first, second) = (turned(called[0], column), turned(called[1], column));
            for (row, value) in [first + second, first, second].into_iter().enumerate() {
                texts[[run * 3 + row, column]] = value + 0.3 * noise[[run * 3 + row, column]];
            }
        }
        let clauses = if run % 3 == 0 { vec![] } else { vec![run * 3 + 1, run * 3 + 2] };
        let succeeded = run % 5 != 4;
        list.push(Run { intent: run * 3, clauses, calls: called.to_vec(), ended: true, succeeded });
    }
    TrainingSet { tools: vectors, texts, runs: list }
}

fn random_parameters(own: usize, seed: u64) -> Parameters<f64> {
    let mut random = Random::new(seed);
    let mut parameters = Parameters::start(DIM, own);
    for group in parameters.groups_mut() {
        for value in group {
            *value += f64::from(random.normal()) * 0.1;
        }
    }
    parameters
}

fn go_on(_: crate::Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Compares every group's gradient with central differences, by the largest difference relative to the largest gradient of the group
/// and, for numbers that are not near zero, each by itself.
fn check_gradient(columns: &Columns<f64>, batch: &Batch<f64>, own: usize) {
    const STEP: f64 = 1e-5;
    let mut parameters = random_parameters(own, 11);
    let (mut gradient, mut unused) = (Parameters::zeros(DIM, own), Parameters::zeros(DIM, own));
    loss(&parameters, batch, columns, 0.5, &mut gradient);
    for group in 0..6 {
        let largest = gradient.groups()[group].iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        assert!(largest > 1e-5, "group {group} has no gradient");
        for index in 0..gradient.groups()[group].len() {
            let mut at = |shift: f64| {
                parameters.groups_mut()[group][index] += shift;
                let value = loss(&parameters, batch, columns, 0.5, &mut unused);
                parameters.groups_mut()[group][index] -= shift;
                value
            };
            let numeric = (at(STEP) - at(-STEP)) / (2.0 * STEP);
            let analytic = gradient.groups()[group][index];
            let scale = numeric.abs().max(analytic.abs()).max(largest * 1e-3);
            assert!((numeric - analytic).abs() / scale < 1e-4, "group {group} at {index}: {numeric} {analytic}");
        }
    }
}

#[test]
fn every_gradient_equals_finite_differences() {
    let set = turned_set(9, 14, 1);
    let runs: Vec<usize> = (0..14).collect();
    let own = OwnRows(vec![0, 2, 3, 7]);
    let columns = Columns::all(&set, &own);
    let batch = Batch::new(&set, &runs, &columns, &HeadSettings::default());
    check_gradient(&columns.widen(), &batch.widen(), 4);
}

#[test]
fn every_gradient_of_a_sampled_softmax_equals_finite_differences() {
    let set = turned_set(9, 14, 1);
    let runs: Vec<usize> = (0..14).collect();
    let own = OwnRows(vec![0, 2, 3, 7]);
    let mut columns = Columns::all(&set, &own);
    for (column, correction) in columns.corrections.iter_mut().enumerate() {
        *correction = if column % 3 == 0 { f32::NEG_INFINITY } else { 0.7 };
    }
    let batch = Batch::new(&set, &runs, &columns, &HeadSettings::default());
    check_gradient(&columns.widen(), &batch.widen(), 4);
}

#[test]
fn flipping_the_outcome_flips_the_sign_of_the_gradient() {
    let mut set = turned_set(9, 1, 2);
    let own = OwnRows(vec![0, 4]);
    let columns = Columns::all(&set, &own);
    let settings = HeadSettings::default();
    let mut gradient_of = |succeeded: bool| {
        set.runs[0].succeeded = succeeded;
        let batch = Batch::new(&set, &[0], &columns, &settings).widen();
        let mut gradient = Parameters::zeros(DIM, 2);
        loss(&random_parameters(2, 3), &batch, &columns.widen(), 0.5, &mut gradient);
        gradient
    };
    let (succeeded, failed) = (gradient_of(true), gradient_of(false));
    for (succeeded, failed) in succeeded.groups().into_iter().flatten().zip(failed.groups().into_iter().flatten()) {
        assert!(succeeded * failed <= 0.0 && failed.abs() <= succeeded.abs(), "{succeeded} {failed}");
    }
    assert!(failed.intent.iter().any(|value| *value != 0.0));
}

#[test]
fn the_logit_of_training_is_the_logit_that_is_served() {
    let set = turned_set(30, 60, 4);
    let (head, _) = IntentHead::train(&set, &HeadSettings::default(), 1, &mut go_on).unwrap();
    let columns = Columns::all(&set, &head.own);
    let runs: Vec<usize> = (0..60).collect();
    let batch = Batch::new(&set, &runs, &columns, &HeadSettings::default());
    let tools = forward::tool_side(&head.parameters, columns.tools.view(), &columns.own);
    let intents = forward::intent_side(&head.parameters, &batch.wholes, &batch.pieces);
    let trained = forward::score(&head.parameters, &intents, &batch.spans, &tools.rows, &columns.own);
    let rows = head.tool_rows(set.tools.view());
    for (run, trained) in set.runs.iter().zip(trained.logits.rows()) {
        let text = |row: usize| set.texts.row(row).to_slice().unwrap();
        let clauses: Vec<&[f32]> = run.clauses.iter().map(|row| text(*row)).collect();
        let served = head.logits(text(run.intent), &clauses, &rows);
        assert_eq!(served.best_clauses.len(), if clauses.is_empty() { 0 } else { 30 });
        for (trained, served) in trained.iter().zip(&served.logits) {
            assert!((trained - served).abs() < 1e-4, "{trained} {served}");
        }
    }
}

#[test]
fn a_turn_of_the_space_is_learned() {
    let set = turned_set(30, 400, 5);
    let mut epochs = 0;
    let settings = HeadSettings { learning_rate: 1e-2, batch: 32, ..HeadSettings::default() };
    let (_, report) = IntentHead::train(&set, &settings, 1, &mut |_| {
        epochs += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    let (before, after) = (report.validation_before.unwrap(), report.validation.unwrap());
    assert!(before < 0.4 && after > 0.8, "{before} {after}");
    assert!((report.examples, report.skipped) == (400, 0) && epochs > report.epochs);
}

#[test]
fn few_runs_leave_the_cosine_of_the_embeddings() {
    let mut set = turned_set(6, 8, 6);
    set.runs[1].calls.clear();
    set.texts.row_mut(6).fill(0.0);
    let (head, report) = IntentHead::train(&set, &HeadSettings::default(), 1, &mut go_on).unwrap();
    assert_eq!((report.examples, report.skipped, report.epochs, report.validation), (6, 2, 0, None));
    let rows = head.tool_rows(set.tools.view());
    let own_vector = set.tools.row(3).to_slice().unwrap().to_vec();
    let scores = head.logits(&own_vector, &[], &rows);
    let best = (0..6).max_by(|left, right| scores.logits[*left].total_cmp(&scores.logits[*right]));
    assert_eq!(best, Some(3));
    let (_, empty) = IntentHead::train(&TrainingSet::default(), &HeadSettings::default(), 1, &mut go_on).unwrap();
    assert_eq!(empty, Report::default());
}

#[test]
fn training_is_repeatable_and_can_be_stopped() {
    let set = turned_set(20, 80, 7);
    let settings = HeadSettings { epochs_max: 3, ..HeadSettings::default() };
    let train = || IntentHead::train(&set, &settings, 9, &mut go_on).unwrap();
    assert_eq!(train(), train());
    let stopped = IntentHead::train(&set, &settings, 9, &mut |_| ControlFlow::Break(()));
    assert_eq!(stopped.unwrap_err(), TrainError::Stopped);
}

#[test]
fn bytes_come_back_and_damaged_bytes_are_refused() {
    let set = turned_set(20, 80, 8);
    let (head, _) = IntentHead::train(&set, &HeadSettings::default(), 1, &mut go_on).unwrap();
    let bytes = head.to_bytes();
    let read = IntentHead::from_bytes(&bytes).unwrap();
    assert_eq!(read, head);
    assert_eq!(read.to_bytes(), bytes);
    for len in 0..bytes.len() {
        assert!(IntentHead::from_bytes(&bytes[..len]).is_err(), "{len}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(IntentHead::from_bytes(&longer), Err(DecodeError::Damaged));
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(IntentHead::from_bytes(&damaged).is_err(), "{at}");
    }
}

#[test]
fn ten_thousand_tools_fit_into_eight_megabytes() {
    let parameters = Parameters::start(384, 10_000);
    let head = IntentHead { parameters, own: OwnRows((0..10_000).collect()) };
    assert!(head.to_bytes().len() < 5_000_000);
}

#[test]
fn a_cross_fitted_score_comes_from_a_head_that_did_not_see_the_run() {
    let set = turned_set(20, 80, 9);
    let settings = HeadSettings { epochs_max: 4, ..HeadSettings::default() };
    let scores_of = |set: &TrainingSet| {
        let mut scores = vec![None; set.runs.len()];
        IntentHead::cross_fit(set, &settings, (4, 4), 1, &mut go_on, &mut |run, scored| {
            assert!(scores[run].replace(scored.clone()).is_none());
        })
        .unwrap();
        scores
    };
    let before = scores_of(&set);
    assert!(before.iter().all(Option::is_some));
    let mut other = set;
    other.runs[17].calls[1] = (other.runs[17].calls[1] + 1) % 20;
    let after = scores_of(&other);
    assert_eq!(before[17], after[17]);
    assert_ne!(before, after);
}

#[test]
fn the_gradient_of_samples_is_on_average_that_of_all_tools() {
    let set = turned_set(300, 20, 10);
    let runs: Vec<usize> = (0..20).collect();
    let own = OwnRows::count(&set, &runs);
    let parameters = Parameters::start(DIM, own.len());
    let gradient_of = |columns: &Columns<f32>| {
        let mut gradient = Parameters::zeros(DIM, own.len());
        let batch = Batch::new(&set, &runs, columns, &HeadSettings::default());
        loss(&parameters, &batch, columns, 0.5, &mut gradient);
        gradient.intent
    };
    let exact = gradient_of(&Columns::all(&set, &own));
    let mut random = Random::new(1);
    let mut mean = Array2::zeros(exact.raw_dim());
    for _ in 0..100 {
        mean += &(gradient_of(&Columns::sample(&set, &runs, &own, 100, &mut random)) / 100.0);
    }
    let product = |left: &Array2<f32>, right: &Array2<f32>| (left * right).sum();
    let cosine = product(&exact, &mean) / (product(&exact, &exact) * product(&mean, &mean)).sqrt();
    // The logarithm of an estimated sum is a little biased, so not exactly 1.
    assert!(cosine > 0.97, "{cosine}");
}

#[test]
fn above_the_limit_of_tools_a_sample_is_trained_on() {
    let mut set = turned_set(30, 60, 10);
    let others = Array2::from_elem((ALL_TOOLS_MAX, DIM), 0.01);
    set.tools = ndarray::concatenate(ndarray::Axis(0), &[set.tools.view(), others.view()]).unwrap();
    let settings = HeadSettings { epochs_max: 2, learning_rate: 1e-2, ..HeadSettings::default() };
    let (head, report) = IntentHead::train(&set, &settings, 1, &mut go_on).unwrap();
    assert!(report.validation > report.validation_before, "{report:?}");
    assert_eq!(head.tool_rows(set.tools.view()).nrows(), ALL_TOOLS_MAX + 30);
}
