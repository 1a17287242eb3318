//! The fitted weights of the ranker, as a trained part: what the trainer found best for this state, by the name of the signal.

use super::signals::{SIGNALS, Signal, StepKind};
use crate::event::ModelVersion;
use crate::rank::blend::{DiscoverSignal, Weights};

/// The first byte of the stored form. Another layout gets the next number.
const FORMAT: u8 = 1;

/// The weights of the signals of predict and discover; none where those found without the trainer answer as well.
#[derive(Clone, Debug, PartialEq)]
pub struct RankerWeights {
    /// The versions whose signals it weighs. It serves only while they do.
    pub requires: Vec<ModelVersion>,
    pub next: Option<NextWeights>,
    pub discover: Option<Weights>,
}

/// The weights of predict, in the order of [`Signal::ALL`].
#[derive(Clone, Debug, PartialEq)]
pub struct NextWeights {
    /// For the first step of a run.
    pub first: [f64; SIGNALS],
    /// For all later steps.
    pub later: [f64; SIGNALS],
}

impl NextWeights {
    pub fn of(&self, kind: StepKind) -> &[f64; SIGNALS] {
        match kind {
            StepKind::First => &self.first,
            StepKind::Later => &self.later,
        }
    }
}

impl RankerWeights {
    /// The stored form: a format byte, the required versions, then for predict and for discover the number of tables (2 or 0) and
    /// tables of named weights. Signals go by name, so that a program with other signals can read it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        push_count(&mut bytes, self.requires.len());
        for version in &self.requires {
            push_text(&mut bytes, version.as_str());
        }
        let next = self.next.iter().flat_map(|next| [&next.first, &next.later]).collect::<Vec<_>>();
        push_count(&mut bytes, next.len());
        for table in next {
            push_table(&mut bytes, Signal::ALL.iter().map(|signal| signal.name()).zip(table.iter().copied()));
        }
        let discover = self.discover.iter().flat_map(|weights| [&weights.fresh, &weights.known]).collect::<Vec<_>>();
        push_count(&mut bytes, discover.len());
        for table in discover {
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
        let next = reader.tables(|name| Signal::ALL.iter().position(|signal| signal.name() == name))?;
        let discover = reader.tables(|name| DiscoverSignal::ALL.iter().position(|signal| signal.name() == name))?;
        let weights = Self {
            requires,
            next: next.as_chunks::<2>().0.first().map(|[first, later]| NextWeights { first: *first, later: *later }),
            discover: discover.as_chunks::<2>().0.first().map(|[fresh, known]| Weights { fresh: *fresh, known: *known }),
        };
        (*format == FORMAT && reader.0.is_empty()).then_some(weights)
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

    /// Two tables or none. `position` gives the place of a signal.
    fn tables<const N: usize>(&mut self, position: impl Fn(&str) -> Option<usize>) -> Option<Vec<[f64; N]>> {
        let tables = self.count().filter(|tables| [0, 2].contains(tables))?;
        (0..tables).map(|_| self.table(&position)).collect()
    }

    fn table<const N: usize>(&mut self, position: &impl Fn(&str) -> Option<usize>) -> Option<[f64; N]> {
        let mut table = [0.0; N];
        for _ in 0..self.count()? {
            let name = self.text()?;
            let weight = f64::from_le_bytes(self.take(8)?.try_into().ok()?);
            table[position(name)?] = Some(weight).filter(|weight| weight.is_finite())?;
        }
        Some(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ModelPart;

    #[test]
    fn bytes_convert_back_and_damage_is_noticed() {
        let [first, later] = StepKind::ALL.map(|kind| Signal::ALL.map(|signal| signal.prior(kind)));
        let requires = vec![ModelVersion::new(ModelPart::Head, "3fa2b1c4d5e6ab55")];
        let next = Some(NextWeights { first, later });
        let weights = RankerWeights { requires, next, discover: Some(Weights::default()) };
        let only = |weights: &RankerWeights| RankerWeights { next: None, ..weights.clone() };
        assert_eq!(RankerWeights::from_bytes(&only(&weights).to_bytes()), Some(only(&weights)));
        let bytes = weights.to_bytes();
        assert_eq!(RankerWeights::from_bytes(&bytes), Some(weights));
        for length in 0..bytes.len() {
            assert_eq!(RankerWeights::from_bytes(&bytes[..length]), None, "{length}");
        }
        let mut unknown = bytes;
        let at = unknown.windows(10).position(|window| window == b"transition").unwrap();
        unknown[at] = b'x';
        assert_eq!(RankerWeights::from_bytes(&unknown), None);
    }
}
