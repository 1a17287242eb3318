//! What the structure and temporal heads know of a node. Tools and capabilities are measured by different algorithms, so their features
//! are different types. All values lie between 0 and 1; others are moved there, and what is not a number counts as 0.

use super::real::Real;

/// The measures of a tool on the tool graph.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ToolFeatures {
    pub page_rank: f32,
    pub adamic_adar: f32,
    /// How often the tool is used, as a share of the most used one.
    pub cooccurrence: f32,
    /// e^-age of the last use, in days.
    pub recency: f32,
}

/// The measures of a capability on the hypergraph.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CapabilityFeatures {
    pub hypergraph_page_rank: f32,
    pub adamic_adar: f32,
    /// e^-age of the last use, in days.
    pub recency: f32,
    /// How much of the heat of recent use has reached the capability.
    pub heat: f32,
}

/// The measures of all nodes, by row. A node beyond the end has none: all its values are 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Features {
    pub tools: Vec<ToolFeatures>,
    pub capabilities: Vec<CapabilityFeatures>,
}

/// The values of the structure and the temporal head of every row of one kind.
#[derive(Clone, Debug)]
pub(crate) struct HeadValues<R> {
    pub(crate) structure: Vec<R>,
    pub(crate) temporal: Vec<R>,
}

impl Features {
    pub(crate) fn of_tools<R: Real>(&self, count: usize) -> HeadValues<R> {
        HeadValues::new(count, |row| {
            let of = self.tools.get(row).copied().unwrap_or_default();
            [(of.page_rank, of.adamic_adar), (of.cooccurrence, of.recency)]
        })
    }

    pub(crate) fn of_capabilities<R: Real>(&self, count: usize) -> HeadValues<R> {
        HeadValues::new(count, |row| {
            let of = self.capabilities.get(row).copied().unwrap_or_default();
            [(of.hypergraph_page_rank, of.adamic_adar), (of.recency, of.heat)]
        })
    }
}

impl<R: Real> HeadValues<R> {
    fn new(count: usize, of: impl Fn(usize) -> [(f32, f32); 2]) -> Self {
        let share = |value: f32| if value.is_finite() { f64::from(value.clamp(0.0, 1.0)) } else { 0.0 };
        let sum = |(left, right): (f32, f32)| R::from_f64(share(left) + share(right));
        let values = |head: usize| (0..count).map(|row| sum(of(row)[head])).collect();
        Self { structure: values(0), temporal: values(1) }
    }

    pub(crate) fn select(&self, rows: &[u32]) -> Self {
        let select = |values: &[R]| rows.iter().map(|row| values[*row as usize]).collect();
        Self { structure: select(&self.structure), temporal: select(&self.temporal) }
    }
}
