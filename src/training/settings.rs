//! The settings of a recorded run, from the names and values in its records.

use std::str::FromStr;

use crate::core::event::{ModelPart, ModelTrained};
use crate::core::train::{Switch, Switches, TrainSettings};

/// The settings with which the parts of one run were trained. Settings that were not recorded are those of this program.
pub(crate) fn recorded_settings(run: &[ModelTrained]) -> TrainSettings {
    let parts = run.iter().map(|event| event.version.part()).filter(|part| *part != ModelPart::Ranker);
    let mut settings = TrainSettings { parts: parts.collect(), ..TrainSettings::default() };
    for event in run {
        for (name, value) in &event.settings {
            set(&mut settings, event.version.part(), name, value);
        }
    }
    settings
}

/// Sets one setting. A name or value that this program does not know changes nothing: the comparison of the runs shows it.
fn set(settings: &mut TrainSettings, part: ModelPart, name: &str, value: &str) {
    let TrainSettings { head, encoder, shgat, .. } = settings;
    match (part, name) {
        (ModelPart::Head, "learning_rate") => put(&mut head.learning_rate, value),
        (ModelPart::Head, "decay") => put(&mut head.decay, value),
        (ModelPart::Head, "dropout") => put(&mut head.dropout, value),
        (ModelPart::Head, "batch") => put(&mut head.batch, value),
        (ModelPart::Head, "epochs_max") => put(&mut head.epochs_max, value),
        (ModelPart::Head, "patience") => put(&mut head.patience, value),
        (ModelPart::Head, "binary_share") => put(&mut head.binary_share, value),
        (ModelPart::Head, "failed_weight") => put(&mut head.failed_weight, value),
        (ModelPart::Encoder, "units") => put(&mut encoder.units, value),
        (ModelPart::Encoder, "learning_rate") => put(&mut encoder.learning_rate, value),
        (ModelPart::Encoder, "decay") => put(&mut encoder.decay, value),
        (ModelPart::Encoder, "dropout") => put(&mut encoder.dropout, value),
        (ModelPart::Encoder, "batch") => put(&mut encoder.batch, value),
        (ModelPart::Encoder, "epochs_max") => put(&mut encoder.epochs_max, value),
        (ModelPart::Encoder, "patience") => put(&mut encoder.patience, value),
        (ModelPart::Encoder, "gradient_max") => put(&mut encoder.gradient_max, value),
        (ModelPart::Encoder, "failed_weight") => put(&mut encoder.failed_weight, value),
        (ModelPart::Shgat, "learning_rate") => put(&mut shgat.learning_rate, value),
        (ModelPart::Shgat, "decay") => put(&mut shgat.decay, value),
        (ModelPart::Shgat, "batch") => put(&mut shgat.batch, value),
        (ModelPart::Shgat, "epochs_max") => put(&mut shgat.epochs, value),
        (ModelPart::Shgat, "patience") => put(&mut shgat.patience, value),
        (ModelPart::Shgat, "failure_weight") => put(&mut shgat.failure_weight, value),
        (ModelPart::Shgat, "calibration") => put(&mut shgat.calibration, value),
        (ModelPart::Shgat, "without") => switch_off(&mut shgat.switches, value),
        _ => {}
    }
}

/// Switches off what a recorded run did without.
fn switch_off(switches: &mut Switches, names: &str) {
    for switch in names.split(' ').filter_map(|name| name.parse::<Switch>().ok()) {
        switch.turn_off(switches);
    }
}

fn put<T: FromStr>(place: &mut T, value: &str) {
    if let Ok(value) = value.parse() {
        *place = value;
    }
}
