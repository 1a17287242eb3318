//! The fitted weights of the ranker, as a trained part: what the trainer found best for this state, by the name of the signal.

use super::signals::{SIGNALS, Signal, StepKind};
use crate::event::ModelVersion;
use crate::rank::blend::{self, DiscoverSignal, Weights};

/// The first byte of the stored form. Another layout gets the next number.
const FORMAT: u8 = 1;

/// The weights of the signals of predict and discover.
#[derive(Clone, Debug, PartialEq)]
pub struct RankerWeights {
    /// The versions whose signals it weighs. It serves only while they do.
    pub requires: Vec<ModelVersion>,
    /// For the first step of a run, in the order of [`Signal::ALL`].
    pub first: [f64; SIGNALS],
    /// For all later steps.
    pub later: [f64; SIGNALS],
    pub discover: Weights,
}

impl RankerWeights {
    /// The weights for a kind of step.
    pub fn weights(&self, kind: StepKind) -> &[f64; SIGNALS] {
        match kind {
            StepKind::First => &self.first,
            StepKind::Later => &self.later,
        }
    }

    /// The stored form: a format byte, the required versions, then named weights in four tables. Signals go by name, so that a program
    /// with other signals can read it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        push_count(&mut bytes, self.requires.len());
        for version in &self.requires {
            push_text(&mut bytes, version.as_str());
        }
        for table in [&self.first, &self.later] {
            push_table(&mut bytes, Signal::ALL.iter().map(|signal| signal.name()).zip(table.iter().copied()));
        }
        for table in [&self.discover.fresh, &self.discover.known] {
            push_table(&mut bytes, DiscoverSignal::ALL.iter().map(|signal| signal.name()).zip(table.iter().copied()));
        }
        bytes
    }

    /// Reads the stored form; `None` if it is damaged or has a signal that this program does not know.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (format, rest) = bytes.split_first()?;
        let mut reader = Reader(rest);
        let versions = reader.count()?;
        let requires = (0..versions).map(|_| reader.text()?.parse().ok()).collect::<Option<_>>()?;
        let mut next = || {
            let mut table = [0.0; SIGNALS];
            for (name, weight) in reader.table()? {
                table[Signal::ALL.iter().position(|signal| signal.name() == name)?] = weight;
            }
            Some(table)
        };
        let (first, later) = (next()?, next()?);
        let mut discover = || {
            let mut table = [0.0; blend::SIGNALS];
            for (name, weight) in reader.table()? {
                table[DiscoverSignal::ALL.iter().position(|signal| signal.name() == name)?] = weight;
            }
            Some(table)
        };
        let discover = Weights { fresh: discover()?, known: discover()? };
        (*format == FORMAT && reader.0.is_empty()).then_some(Self { requires, first, later, discover })
    }
}

fn push_count(bytes: &mut Vec<u8>, count: usize) {
    bytes.push(u8::try_from(count).expect("there are few versions and signals"));
}

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    push_count(bytes, text.len());
    bytes.extend_from_slice(text.as_bytes());
}

fn push_table<'a>(bytes: &mut Vec<u8>, rows: impl ExactSizeIterator<Item = (&'a str, f64)>) {
    push_count(bytes, rows.len());
    for (name, weight) in rows {
        push_text(bytes, name);
        bytes.extend_from_slice(&weight.to_le_bytes());
    }
}

/// Reads the stored form from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn count(&mut self) -> Option<usize> {
        self.take(1).map(|byte| usize::from(byte[0]))
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.count()?;
        std::str::from_utf8(self.take(length)?).ok()
    }

    fn table(&mut self) -> Option<Vec<(&'a str, f64)>> {
        let rows = self.count()?;
        let mut row = || {
            let name = self.text()?;
            let weight = f64::from_le_bytes(self.take(8)?.try_into().ok()?);
            weight.is_finite().then_some((name, weight))
        };
        (0..rows).map(|_| row()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ModelPart;

    #[test]
    fn bytes_convert_back_and_damage_is_noticed() {
        let mut weights = RankerWeights {
            requires: vec![ModelVersion::new(ModelPart::Head, "3fa2b1c4d5e6ab55")],
            first: Signal::ALL.map(|signal| signal.prior(StepKind::First)),
            later: Signal::ALL.map(|signal| signal.prior(StepKind::Later)),
            discover: Weights::default(),
        };
        weights.later[3] = -0.25;
        let bytes = weights.to_bytes();
        assert_eq!(RankerWeights::from_bytes(&bytes), Some(weights));
        for length in 0..bytes.len() {
            assert_eq!(RankerWeights::from_bytes(&bytes[..length]), None, "{length}");
        }
        let mut unknown = bytes.clone();
        let at = unknown.windows(10).position(|window| window == b"transition").unwrap();
        unknown[at] = b'x';
        assert_eq!(RankerWeights::from_bytes(&unknown), None);
    }
}
