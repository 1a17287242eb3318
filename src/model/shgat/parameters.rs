//! The parameters of the network, in groups, in one array.
//!
//! What is stored is the distance of a parameter from its starting point: matrices start at the identity, gates near keeping. So weight
//! decay draws the network back to "leave the vectors as they are", and a level without training behaves like one without learning.
//! No parameter belongs to a tool or a capability: the same parameters serve any hypergraph, and only a new level adds some.

use std::ops::Range;

use ndarray::{Array2, ArrayView2};

use super::real::Real;
use super::weights::Weights;
use crate::random::Random;

/// The standard deviation of the noise on a level's matrices at the start, before division by the root of the dimension.
const NOISE: f32 = 0.01;
/// Makes the noise of every level another sequence.
const LEVEL_SEED: u64 = 0x5348_4741_544c_564c;

/// The sizes that parameters are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The length of a vector.
    pub dim: usize,
    /// The number of attention heads, a divisor of `dim`.
    pub heads: usize,
}

impl Shape {
    /// The shape for vectors of length `dim`, with as many heads of at most `heads` as divide it.
    pub fn new(dim: usize, heads: usize) -> Self {
        let heads = (1..=heads.min(dim)).rev().find(|heads| dim.is_multiple_of(*heads)).unwrap_or(1);
        Self { dim, heads }
    }

    const fn level_len(self) -> usize {
        2 * (self.dim * self.dim + self.dim + 2)
    }

    const fn global_len(self) -> usize {
        self.dim * self.dim + 3 + 3 + 1 + 2
    }

    /// The number of parameters with `levels` levels.
    pub const fn len(self, levels: usize) -> usize {
        self.global_len() + levels * self.level_len()
    }
}

/// A part of the parameters with one meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The projection of the intent, `dim` x `dim`, the identity at the start.
    Projection,
    /// The logarithms of the factors of the three scoring heads.
    Features,
    /// The logits of the shares of the three scoring heads.
    Fusion,
    /// What is added to every logit, so that its sigmoid is a probability.
    Offset,
    /// The slope and offset of the gate of what tools receive.
    ToolGate,
    /// What projects the members of the capabilities of a level, `dim` x `dim`.
    UpMatrix(usize),
    /// The attention of the capabilities of a level to their members.
    UpAttention(usize),
    /// The slope and offset of the gate that keeps a capability's own vector.
    UpGate(usize),
    /// What projects the capabilities of a level for their members, `dim` x `dim`.
    DownMatrix(usize),
    /// The attention of members to the capabilities of a level.
    DownAttention(usize),
    /// The slope and offset of the gate of what the capabilities of a level receive.
    DownGate(usize),
}

impl Group {
    /// Whether the group is a few numbers that act on everything, not a matrix or a vector.
    pub const fn is_scalar(self) -> bool {
        matches!(self, Self::Features | Self::Fusion | Self::Offset | Self::ToolGate | Self::UpGate(_) | Self::DownGate(_))
    }
}

/// `Parameters` holds what training changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters<R = f32> {
    shape: Shape,
    pub(crate) values: Vec<R>,
}

impl<R: Real> Parameters<R> {
    /// Untrained parameters for a hypergraph with `levels` levels.
    pub fn new(shape: Shape, levels: usize) -> Self {
        let mut parameters = Self { shape, values: vec![R::ZERO; shape.global_len()] };
        parameters.grow(levels);
        parameters
    }

    /// Parameters with these values, if their number suits the shape.
    pub(crate) fn from_values(shape: Shape, values: Vec<R>) -> Option<Self> {
        let above = values.len().checked_sub(shape.global_len())?;
        above.is_multiple_of(shape.level_len()).then_some(Self { shape, values })
    }

    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// The number of levels that have parameters.
    pub const fn levels(&self) -> usize {
        (self.values.len() - self.shape.global_len()) / self.shape.level_len()
    }

    /// Adds untrained parameters for levels that have none yet; the others stay.
    pub fn grow(&mut self, levels: usize) {
        let spread = NOISE / libm::sqrtf(f32::from(u16::try_from(self.shape.dim).unwrap_or(u16::MAX)));
        for level in self.levels()..levels {
            let mut random = Random::new(LEVEL_SEED ^ level as u64);
            self.values.resize(self.values.len() + self.shape.level_len(), R::ZERO);
            for group in [Group::UpMatrix(level), Group::DownMatrix(level)] {
                let range = self.range(group);
                for value in &mut self.values[range] {
                    *value = R::from_f64(f64::from(spread * random.normal()));
                }
            }
        }
    }

    /// All groups, in the order in which they are stored.
    pub fn groups(&self) -> Vec<Group> {
        let mut groups = vec![Group::Projection, Group::Features, Group::Fusion, Group::Offset, Group::ToolGate];
        for level in 0..self.levels() {
            groups.extend([
                Group::UpMatrix(level),
                Group::UpAttention(level),
                Group::UpGate(level),
                Group::DownMatrix(level),
                Group::DownAttention(level),
                Group::DownGate(level),
            ]);
        }
        groups
    }

    /// Where a group is stored.
    pub fn range(&self, group: Group) -> Range<usize> {
        let dim = self.shape.dim;
        let square = dim * dim;
        let half = square + dim + 2;
        let level_start = |level: usize| self.shape.global_len() + level * self.shape.level_len();
        let (start, len) = match group {
            Group::Projection => (0, square),
            Group::Features => (square, 3),
            Group::Fusion => (square + 3, 3),
            Group::Offset => (square + 6, 1),
            Group::ToolGate => (square + 7, 2),
            Group::UpMatrix(level) => (level_start(level), square),
            Group::UpAttention(level) => (level_start(level) + square, dim),
            Group::UpGate(level) => (level_start(level) + square + dim, 2),
            Group::DownMatrix(level) => (level_start(level) + half, square),
            Group::DownAttention(level) => (level_start(level) + half + square, dim),
            Group::DownGate(level) => (level_start(level) + half + square + dim, 2),
        };
        start..start + len
    }

    /// The values of a group: distances from its starting point.
    pub fn group(&self, group: Group) -> &[R] {
        &self.values[self.range(group)]
    }

    /// The weights that the parameters stand for.
    pub(crate) fn weights(&self) -> Weights<R> {
        Weights::new(self)
    }

    /// The identity plus the stored distance.
    pub(crate) fn matrix(&self, group: Group) -> Array2<R> {
        let dim = self.shape.dim;
        let stored = ArrayView2::from_shape((dim, dim), self.group(group)).expect("a group of dim x dim");
        let mut matrix = stored.to_owned();
        for at in 0..dim {
            matrix[[at, at]] += R::ONE;
        }
        matrix
    }
}

impl Parameters<f32> {
    /// Whether every value is a number.
    pub fn is_finite(&self) -> bool {
        self.values.iter().all(|value| value.is_finite())
    }

    /// The same parameters in double precision.
    #[cfg(test)]
    pub(crate) fn to_f64(&self) -> Parameters<f64> {
        Parameters { shape: self.shape, values: self.values.iter().map(|value| f64::from(*value)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_cover_the_values_once_and_in_order() {
        let parameters = Parameters::<f32>::new(Shape::new(12, 4), 3);
        let mut end = 0;
        for group in parameters.groups() {
            let range = parameters.range(group);
            assert_eq!(range.start, end, "{group:?}");
            end = range.end;
        }
        assert_eq!((end, parameters.levels()), (parameters.values.len(), 3));
        assert_eq!((Shape::new(12, 5).heads, Shape::new(7, 4).heads, Shape::new(384, 8).heads), (4, 1, 8));
    }

    #[test]
    fn growth_keeps_trained_values_and_equals_a_larger_start() {
        let shape = Shape::new(8, 2);
        let mut grown = Parameters::<f32>::new(shape, 1);
        grown.values[5] = 0.25;
        grown.grow(3);
        let mut large = Parameters::<f32>::new(shape, 3);
        large.values[5] = 0.25;
        assert_eq!(grown, large);
        grown.grow(2);
        assert_eq!(grown, large);
    }
}
