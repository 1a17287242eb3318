//! The fitted weights of the ranker, as a trained part: what the trainer found best for this state, by the name of the signal.

use super::reader::Reader;
use super::signals::{SIGNALS, Signal, StepKind};
use crate::event::ModelVersion;
use crate::rank::blend::{DiscoverSignal, Weights};
use crate::suggest::{NamedTable, PlanWeights};

/// The first byte of the stored form. Another layout gets the next number.
const FORMAT: u8 = 2;
/// The layout before plans had weights.
const FORMAT_WITHOUT_PLAN: u8 = 1;

/// The weights of the signals of predict and discover, none where those found without the trainer answer as well; and of plans.
#[derive(Clone, Debug, PartialEq)]
pub struct RankerWeights {
    /// The versions whose signals it weighs. It serves only while they do.
    pub requires: Vec<ModelVersion>,
    pub next: Option<NextWeights>,
    pub discover: Option<Weights>,
    pub plan: Option<PlanWeights>,
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
    /// The stored form: a format byte, the required versions, then for predict, for discover (2 or 0) and for plans the number of tables
    /// and tables of named weights. Signals go by name, so that a program with other signals can read it.
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
        let plan = self.plan.map(PlanWeights::to_tables).unwrap_or_default();
        push_count(&mut bytes, plan.len());
        for table in &plan {
            push_table(&mut bytes, table.iter().map(|(name, weight)| (name.as_str(), *weight)));
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
        let plan = if *format == FORMAT_WITHOUT_PLAN { None } else { reader.plan()? };
        let weights = Self {
            requires,
            plan,
            next: next.as_chunks::<2>().0.first().map(|[first, later]| NextWeights { first: *first, later: *later }),
            discover: discover.as_chunks::<2>().0.first().map(|[fresh, known]| Weights { fresh: *fresh, known: *known }),
        };
        ([FORMAT_WITHOUT_PLAN, FORMAT].contains(format) && reader.0.is_empty()).then_some(weights)
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

impl<'a> Reader<'a> {
    fn count(&mut self) -> Option<usize> {
        self.array().map(|[byte]| usize::from(byte))
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

    /// The weights of plans, if there are any; the outer `None` if they are damaged.
    #[expect(clippy::option_option, reason = "damaged or not there")]
    fn plan(&mut self) -> Option<Option<PlanWeights>> {
        let tables = (0..self.count()?).map(|_| self.rows()).collect::<Option<Vec<NamedTable>>>()?;
        if tables.is_empty() { Some(None) } else { PlanWeights::from_tables(&tables).map(Some) }
    }

    fn rows(&mut self) -> Option<NamedTable> {
        (0..self.count()?).map(|_| Some((self.text()?.to_owned(), self.weight()?))).collect()
    }

    fn weight(&mut self) -> Option<f64> {
        self.array().map(f64::from_le_bytes).filter(|weight| weight.is_finite())
    }

    fn table<const N: usize>(&mut self, position: &impl Fn(&str) -> Option<usize>) -> Option<[f64; N]> {
        let mut table = [0.0; N];
        for _ in 0..self.count()? {
            let (name, weight) = (self.text()?, self.weight()?);
            table[position(name)?] = weight;
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
        let weights = RankerWeights { requires, next, discover: Some(Weights::default()), plan: Some(PlanWeights::default()) };
        let only = |weights: &RankerWeights| RankerWeights { next: None, ..weights.clone() };
        assert_eq!(RankerWeights::from_bytes(&only(&weights).to_bytes()), Some(only(&weights)));
        let bytes = weights.to_bytes();
        assert_eq!(RankerWeights::from_bytes(&bytes), Some(weights.clone()));
        for length in 0..bytes.len() {
            assert_eq!(RankerWeights::from_bytes(&bytes[..length]), None, "{length}");
        }
        let mut without_plan = RankerWeights { plan: None, ..only(&weights) }.to_bytes();
        assert_eq!(without_plan.pop(), Some(0));
        without_plan[0] = FORMAT_WITHOUT_PLAN;
        assert_eq!(RankerWeights::from_bytes(&without_plan), Some(RankerWeights { plan: None, ..only(&weights) }));
        let mut unknown = bytes;
        let at = unknown.windows(10).position(|window| window == b"transition").unwrap();
        unknown[at] = b'x';
        assert_eq!(RankerWeights::from_bytes(&unknown), None);
    }
}
