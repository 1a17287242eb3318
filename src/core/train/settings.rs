//! The settings of a training run as the names and values of its records, and back: so that a recorded run can be repeated.

use pml_model::shgat::{Settings as ShgatSettings, Switches};
use pml_model::{EncoderSettings, HeadSettings};

use super::{Switch, TrainSettings};
use crate::event::{ModelPart, ModelTrained};

/// A value that is recorded as text.
trait Setting {
    fn text(&self) -> String;

    /// Takes the value of a text; one that cannot be read changes nothing.
    fn read(&mut self, text: &str);
}

macro_rules! number_setting {
    ($($number:ty),*) => {$(
        impl Setting for $number {
            fn text(&self) -> String {
                self.to_string()
            }

            fn read(&mut self, text: &str) {
                if let Ok(value) = text.parse() {
                    *self = value;
                }
            }
        }
    )*};
}

number_setting!(f32, usize, bool);

/// Recorded as the names of what is left out.
impl Setting for Switches {
    fn text(&self) -> String {
        Switch::names_off(self)
    }

    fn read(&mut self, text: &str) {
        for switch in text.split(' ').filter_map(|name| name.parse::<Switch>().ok()) {
            switch.turn_off(self);
        }
    }
}

/// A setting by its recorded name.
type Named<'a> = (&'static str, &'a mut dyn Setting);

impl TrainSettings {
    /// The settings with which the parts of one run were trained. What was not recorded, or has a name that this program does not
    /// know, is as this program has it: the comparison of the runs shows it.
    pub fn recorded(run: &[ModelTrained]) -> Self {
        let parts = run.iter().map(|event| event.version.part()).filter(|part| *part != ModelPart::Ranker);
        let mut settings = Self { parts: parts.collect(), ..Self::default() };
        for event in run {
            for (name, setting) in settings.of_part(event.version.part()) {
                if let Some((_, value)) = event.settings.iter().find(|(known, _)| known == name) {
                    setting.read(value);
                }
            }
        }
        settings
    }

    /// The settings of a part as they are recorded.
    pub(super) fn named(&self, part: ModelPart) -> Vec<(String, String)> {
        self.clone().of_part(part).into_iter().map(|(name, setting)| (name.to_owned(), setting.text())).collect()
    }

    /// Every setting of a part that changes what is trained.
    fn of_part(&mut self, part: ModelPart) -> Vec<Named<'_>> {
        match part {
            ModelPart::Head => head(&mut self.head),
            ModelPart::Encoder => encoder(&mut self.encoder),
            ModelPart::Shgat => shgat(&mut self.shgat),
            ModelPart::Ranker => vec![("hyperpaths", &mut self.hyperpaths)],
        }
    }
}

/// The settings of a part by their recorded names: those of the fields, or the ones given. Takes the settings apart, so that a new field
/// cannot be forgotten; `except` names the fields that are not recorded.
macro_rules! by_name {
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $recorded:literal) => { $recorded };
    ($settings:expr, $kind:ident { $($field:ident $(as $recorded:literal)?),* } $(except $ignored:ident)*) => {{
        let $kind { $($field,)* $($ignored: _,)* } = $settings;
        vec![$((by_name!(@name $field $($recorded)?), $field as &mut dyn Setting)),*]
    }};
}

fn head(settings: &mut HeadSettings) -> Vec<Named<'_>> {
    by_name!(settings, HeadSettings { learning_rate, decay, dropout, batch, epochs_max, patience, binary_share, failed_weight })
}

fn encoder(settings: &mut EncoderSettings) -> Vec<Named<'_>> {
    by_name!(
        settings,
        EncoderSettings {
            units,
            learning_rate,
            decay,
            dropout,
            batch,
            epochs_max,
            patience,
            gradient_max,
            failed_weight,
            failed_end_weight
        }
    )
}

fn shgat(settings: &mut ShgatSettings) -> Vec<Named<'_>> {
    // The seed is recorded by itself, and the number of threads changes no bit.
    by_name!(settings, ShgatSettings {
        epochs as "epochs_max", patience, batch, learning_rate, decay, failure_weight, calibration, candidates_max, candidates_drawn,
        switches as "without"
    } except seed except threads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ModelVersion;
    use crate::id::Seq;

    const PARTS: [ModelPart; 3] = [ModelPart::Head, ModelPart::Encoder, ModelPart::Shgat];

    /// Settings none of which is the default.
    fn others() -> TrainSettings {
        let mut settings = TrainSettings::default();
        for part in PARTS {
            for (name, setting) in settings.of_part(part) {
                let value = match setting.text().parse::<f32>() {
                    Ok(_) if name == "without" => unreachable!("names are no number"),
                    Ok(value) if value >= 1.0 => (value + 3.0).to_string(),
                    Ok(value) => (value * 1.5 + 0.013).to_string(),
                    Err(_) => "priorities temporal".to_owned(),
                };
                setting.read(&value);
            }
        }
        settings
    }

    fn event(part: ModelPart, settings: Vec<(String, String)>) -> ModelTrained {
        ModelTrained {
            version: ModelVersion::new(part, "3fa2b1c4d5e6ab55"),
            parent: None,
            seed: 1,
            through_seq: Seq(9),
            intents_end: 4,
            embedding_model: None,
            examples: 3,
            skipped: 0,
            settings,
            metrics: Vec::new(),
            digest: String::new(),
            size: 0,
            accepted: false,
            reason: String::new(),
            curve: Vec::new(),
        }
    }

    #[test]
    fn a_record_holds_every_setting() {
        let (others, usual) = (others(), TrainSettings::default());
        let run: Vec<ModelTrained> = PARTS.map(|part| event(part, others.named(part))).into();
        let read = TrainSettings::recorded(&run);
        for part in PARTS {
            assert_eq!(read.named(part), others.named(part), "{part}");
            let same = others.named(part).into_iter().zip(usual.named(part)).filter(|(other, usual)| other == usual);
            assert_eq!(same.count(), 0, "every setting was another");
        }
        assert_eq!(read.parts, PARTS);
        let without = TrainSettings { hyperpaths: false, ..usual };
        let ranker = [event(ModelPart::Ranker, without.named(ModelPart::Ranker))];
        assert!(!TrainSettings::recorded(&ranker).hyperpaths && read.hyperpaths);
    }

    #[test]
    fn a_record_with_fewer_settings_or_unknown_ones_is_read() {
        let pairs =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let run = [event(ModelPart::Head, pairs(&[("decay", "0.25"), ("colour", "red"), ("batch", "many")]))];
        let (read, usual) = (TrainSettings::recorded(&run), TrainSettings::default());
        assert_eq!((read.head.decay, read.head.batch), (0.25, usual.head.batch));
        assert_eq!(read.parts, [ModelPart::Head]);
    }
}
