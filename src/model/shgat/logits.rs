//! Logits of many intents against many candidates, forward and backward: the one formula of training and serving.
//!
//! `logit = s_0 f_0 cos(P intent, enriched) + s_1 f_1 structure + s_2 f_2 temporal`, with s = softmax of the fusion logits. The score of
//! a node is `sigmoid(logit + offset)`; the softmax over candidates does not need the offset.

use ndarray::{Array1, Array2, ArrayView2};

use super::features::HeadValues;
use super::parameters::{Group, Parameters};
use super::product::{times, times_transposed, transposed_times};
use super::real::{Real, dot};
use super::weights::ScoreWeights;

/// Rows of length one, and what they were divided by. A row of zeros stays so.
#[derive(Clone, Debug)]
pub(crate) struct Units<R> {
    pub(crate) rows: Array2<R>,
    lengths: Vec<R>,
}

impl<R: Real> Units<R> {
    pub(crate) fn new(mut rows: Array2<R>) -> Self {
        let lengths =
            rows.rows_mut().into_iter().map(|mut row| normalise(row.as_slice_mut().expect("rows in order"))).collect();
        Self { rows, lengths }
    }

    /// The gradient by the rows before they were divided, from that after.
    fn backward(&self, mut by_unit: Array2<R>) -> Array2<R> {
        for ((mut by, unit), length) in by_unit.rows_mut().into_iter().zip(self.rows.rows()).zip(&self.lengths) {
            let (by, unit) = (by.as_slice_mut().expect("rows in order"), unit.to_slice().expect("rows in order"));
            let along = dot(by, unit);
            for (by, unit) in by.iter_mut().zip(unit) {
                *by = if *length > R::ZERO { (*by - along * *unit) / *length } else { R::ZERO };
            }
        }
        by_unit
    }
}

/// Divides a row by its length and returns the length.
pub(crate) fn normalise<R: Real>(row: &mut [R]) -> R {
    let length = dot(row, row).sqrt();
    if length > R::ZERO {
        let factor = R::ONE / length;
        for value in row {
            *value *= factor;
        }
    }
    length
}

/// Intents, projected and of length one.
#[derive(Debug)]
pub(crate) struct Queries<R> {
    intents: Array2<R>,
    units: Units<R>,
    /// The gradient by the units, gathered over the kinds of candidates.
    by_unit: Array2<R>,
}

impl<R: Real> Queries<R> {
    pub(crate) fn new(intents: Array2<R>, weights: &ScoreWeights<R>, threads: usize) -> Self {
        let units = Units::new(times(intents.view(), weights.projection.view(), threads));
        let by_unit = Array2::from_elem(intents.raw_dim(), R::ZERO);
        Self { intents, units, by_unit }
    }

    /// Adds the gradient by the projection.
    pub(crate) fn backward(self, parameters: &Parameters<R>, gradient: &mut [R], threads: usize) {
        let by_projected = self.units.backward(self.by_unit);
        let by_projection = transposed_times(self.intents.view(), by_projected.view(), threads);
        for (to, value) in gradient[parameters.range(Group::Projection)].iter_mut().zip(&by_projection) {
            *to += *value;
        }
    }
}

/// Candidates of one kind: enriched vectors of length one and the values of the other heads.
#[derive(Debug)]
pub(crate) struct Candidates<R> {
    units: Units<R>,
    heads: HeadValues<R>,
}

/// The logits of some intents (rows) against some candidates (columns).
#[derive(Debug)]
pub(crate) struct Logits<R> {
    pub(crate) values: Array2<R>,
    cosines: Array2<R>,
}

impl<R: Real> Candidates<R> {
    pub(crate) fn new(enriched: Array2<R>, heads: HeadValues<R>) -> Self {
        Self { units: Units::new(enriched), heads }
    }

    pub(crate) fn logits(&self, queries: &Queries<R>, weights: &ScoreWeights<R>, threads: usize) -> Logits<R> {
        let cosines = times_transposed(queries.units.rows.view(), self.units.rows.view(), threads);
        let fixed = fixed_logits(&self.heads, weights);
        let semantic = weights.factor(0);
        let mut values = cosines.clone();
        for mut row in values.rows_mut() {
            for (value, fixed) in row.iter_mut().zip(&fixed) {
                *value = semantic * *value + *fixed;
            }
        }
        Logits { values, cosines }
    }

    /// From the gradient by the logits: adds those by the weights of the heads and by the queries, and returns that by the candidates'
    /// enriched vectors.
    pub(crate) fn backward(
        &self,
        logits: &Logits<R>,
        by_logit: ArrayView2<R>,
        (weights, by_factor): (&ScoreWeights<R>, &mut [R; 3]),
        queries: &mut Queries<R>,
        threads: usize,
    ) -> Array2<R> {
        let mut by_candidate = Array1::from_elem(by_logit.ncols(), R::ZERO);
        for (row, cosines) in by_logit.rows().into_iter().zip(logits.cosines.rows()) {
            let (row, cosines) = (row.to_slice().expect("rows in order"), cosines.to_slice().expect("rows in order"));
            by_factor[0] += dot(row, cosines);
            by_candidate.iter_mut().zip(row).for_each(|(to, value)| *to += *value);
        }
        let by_candidate = by_candidate.as_slice().expect("a new array");
        by_factor[1] += dot(by_candidate, &self.heads.structure);
        by_factor[2] += dot(by_candidate, &self.heads.temporal);
        let semantic = weights.factor(0);
        let by_query = times(by_logit, self.units.rows.view(), threads);
        queries.by_unit.zip_mut_with(&by_query, |to, value| *to += semantic * *value);
        let mut by_unit = transposed_times(by_logit, queries.units.rows.view(), threads);
        by_unit.map_inplace(|value| *value *= semantic);
        self.units.backward(by_unit)
    }
}

/// The part of the logits that does not depend on the intent.
pub(crate) fn fixed_logits<R: Real>(heads: &HeadValues<R>, weights: &ScoreWeights<R>) -> Vec<R> {
    let (structure, temporal) = (weights.factor(1), weights.factor(2));
    heads.structure.iter().zip(&heads.temporal).map(|(first, second)| structure * *first + temporal * *second).collect()
}
