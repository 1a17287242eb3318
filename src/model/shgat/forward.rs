//! The forward function: vectors enriched by what contains them and what they contain.
//!
//! Up, the lowest level first: `E_up = (1 - g) * message from the members + g * E`, with g = sigmoid(p ln(n + 1) + q) for n members; a
//! capability without members keeps its vector. Down, the highest level first: `E_final = E_up + g * message from the parents`, with a
//! gate of its own, and the same for tools from their own vector. Training, evaluation and serving all run this function; only training
//! keeps the tape that the backward function needs.

use ndarray::{Array2, ArrayView2, Axis, Slice};

use super::attention::{Attended, attend, salience};
use super::hypergraph::{Changes, Hypergraph};
use super::parameters::Parameters;
use super::plan::{Plan, Up};
use super::product::multiply;
use super::real::{Real, add_scaled};
use super::weights::Weights;

/// The number of rows that are gathered and projected at a time.
const CHUNK_ROWS: usize = 512;

/// The vectors that nodes have before any message: rows of tools and of capabilities. Enriched vectors never take their place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vectors<R = f32> {
    pub tools: Array2<R>,
    pub capabilities: Array2<R>,
}

/// The vectors after message passing, and what a recomputation of a part of them needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Enriched<R = f32> {
    pub tools: Array2<R>,
    pub capabilities: Array2<R>,
    /// The capabilities after the way up.
    pub(crate) up: Array2<R>,
}

/// What the backward function needs of a forward pass.
#[derive(Debug, Default)]
pub(crate) struct Tape<R> {
    pub(crate) up: Vec<UpTape<R>>,
    pub(crate) down: Vec<Option<Attended<R>>>,
    /// The rows projected on the way down.
    pub(crate) projected: Array2<R>,
    pub(crate) tools: Option<Attended<R>>,
}

/// What the backward function needs of one level of the way up.
#[derive(Debug)]
pub(crate) struct UpTape<R> {
    pub(crate) projected: Array2<R>,
    pub(crate) attended: Option<Attended<R>>,
}

impl Enriched<f32> {
    /// Enriches all vectors on at most `threads` threads. `parameters` MUST have as many levels as the hypergraph.
    pub fn new(graph: &Hypergraph, vectors: &Vectors, parameters: &Parameters, threads: usize) -> Self {
        forward(&Plan::full(graph), vectors, parameters, threads, None)
    }

    /// The vectors without message passing: as they are.
    pub fn unchanged(vectors: &Vectors) -> Self {
        Self::start(vectors)
    }

    /// Recomputes what a change reaches. The result has the bits of [`Enriched::new`] on the changed hypergraph, if `self` has those of
    /// the one before and `changes` says all that changed in between.
    pub fn refresh(
        &mut self,
        graph: &Hypergraph,
        vectors: &Vectors,
        parameters: &Parameters,
        changes: &Changes,
        threads: usize,
    ) {
        for (to, from) in [(&mut self.tools, &vectors.tools), (&mut self.capabilities, &vectors.capabilities)] {
            extend(to, from);
        }
        extend(&mut self.up, &vectors.capabilities);
        run(&Plan::around(graph, changes), vectors, &parameters.weights(), self, threads, None);
    }
}

impl<R: Real> Enriched<R> {
    pub(crate) fn start(vectors: &Vectors<R>) -> Self {
        let (tools, capabilities) = (vectors.tools.clone(), vectors.capabilities.clone());
        Self { tools, up: capabilities.clone(), capabilities }
    }
}

/// Adds the rows that `from` has and `to` lacks.
fn extend<R: Real>(to: &mut Array2<R>, from: &Array2<R>) {
    let rows = to.nrows();
    to.append(Axis(0), from.slice_axis(Axis(0), Slice::from(rows..))).expect("rows of the same length");
}

/// Runs a full plan, keeping the tape if there is one.
pub(crate) fn forward<R: Real>(
    plan: &Plan,
    vectors: &Vectors<R>,
    parameters: &Parameters<R>,
    threads: usize,
    tape: Option<&mut Tape<R>>,
) -> Enriched<R> {
    let zeros = |like: &Array2<R>| Array2::from_elem(like.raw_dim(), R::ZERO);
    let (tools, capabilities) = (zeros(&vectors.tools), zeros(&vectors.capabilities));
    let mut enriched = Enriched { tools, up: capabilities.clone(), capabilities };
    run(plan, vectors, &parameters.weights(), &mut enriched, threads, tape);
    enriched
}

fn run<R: Real>(
    plan: &Plan,
    vectors: &Vectors<R>,
    weights: &Weights<R>,
    enriched: &mut Enriched<R>,
    threads: usize,
    mut tape: Option<&mut Tape<R>>,
) {
    let keep = tape.is_some();
    copy_rows(&vectors.capabilities, &plan.up_rows, &mut enriched.up);
    for up in &plan.up {
        let kept = run_up(up, vectors, weights, &mut enriched.up, threads, keep);
        if let Some(tape) = &mut tape {
            tape.up.push(kept);
        }
    }
    copy_rows(&enriched.up, &plan.capability_rows, &mut enriched.capabilities);
    copy_rows(&vectors.tools, &plan.tool_rows, &mut enriched.tools);
    let zeros = |columns| Array2::from_elem((plan.down_row_count, columns), R::ZERO);
    let (mut projected, mut saliences) = (zeros(vectors.tools.ncols()), zeros(weights.heads));
    for down in &plan.down {
        let level = &weights.levels[down.level];
        let to = &mut enriched.capabilities;
        let attended = attend(&down.links, (&projected, &saliences), keep, |target, parents, message| {
            add_scaled(row_mut(to, target), level.down_gate.open(parents), message);
        });
        let sources = [(&enriched.capabilities, &down.sources[..])];
        let (matrix, attention) = (&level.down, &level.down_attention);
        project(&sources, (matrix, attention), (&mut projected, &mut saliences), down.first_row, threads);
        if let Some(tape) = &mut tape {
            tape.down.push(attended);
        }
    }
    let to = &mut enriched.tools;
    let attended = attend(&plan.tools, (&projected, &saliences), keep, |target, parents, message| {
        add_scaled(row_mut(to, target), weights.tool_gate.open(parents), message);
    });
    if let Some(tape) = tape {
        tape.projected = projected;
        tape.tools = attended;
    }
}

fn run_up<R: Real>(
    up: &Up,
    vectors: &Vectors<R>,
    weights: &Weights<R>,
    capabilities: &mut Array2<R>,
    threads: usize,
    keep: bool,
) -> UpTape<R> {
    let level = &weights.levels[up.level];
    let zeros = |columns| Array2::from_elem((up.tools.len() + up.capabilities.len(), columns), R::ZERO);
    let (mut projected, mut saliences) = (zeros(capabilities.ncols()), zeros(weights.heads));
    let sources = [(&vectors.tools, &up.tools[..]), (&*capabilities, &up.capabilities[..])];
    project(&sources, (&level.up, &level.up_attention), (&mut projected, &mut saliences), 0, threads);
    let attended = attend(&up.links, (&projected, &saliences), keep, |target, members, message| {
        let kept = level.up_gate.open(members);
        for (value, message) in row_mut(capabilities, target).iter_mut().zip(message) {
            *value = (R::ONE - kept) * *message + kept * *value;
        }
    });
    UpTape { projected, attended }
}

/// Projects the named rows of some matrices into the rows from `first_row`, and writes their salience. Some rows at a time, so that they
/// are gathered and read again while the processor has them at hand.
fn project<R: Real>(
    sources: &[(&Array2<R>, &[u32])],
    (matrix, attention): (&Array2<R>, &[R]),
    (projected, saliences): (&mut Array2<R>, &mut Array2<R>),
    first_row: usize,
    threads: usize,
) {
    let mut row = first_row;
    for (source, rows) in sources {
        for rows in rows.chunks(CHUNK_ROWS * threads.max(1)) {
            let place = Slice::from(row..row + rows.len());
            let mut product = projected.slice_axis_mut(Axis(0), place);
            multiply(gather(&[(source, rows)]).view(), matrix.view(), product.view_mut(), threads);
            salience(product.view(), attention, saliences.slice_axis_mut(Axis(0), place));
            row += rows.len();
        }
    }
}

fn row_mut<R: Real>(matrix: &mut Array2<R>, row: usize) -> &mut [R] {
    let dim = matrix.ncols();
    &mut matrix.as_slice_mut().expect("a matrix in row order")[row * dim..(row + 1) * dim]
}

/// The named rows of some matrices, one below the other.
pub(crate) fn gather<R: Real>(parts: &[(&Array2<R>, &[u32])]) -> Array2<R> {
    let dim = parts[0].0.ncols();
    let count = parts.iter().map(|(_, rows)| rows.len()).sum();
    let mut values = Vec::with_capacity(count * dim);
    for (matrix, rows) in parts {
        for row in *rows {
            values.extend_from_slice(row_slice(&matrix.view(), *row as usize));
        }
    }
    Array2::from_shape_vec((count, dim), values).expect("rows of the same length")
}

fn row_slice<'a, R: Real>(matrix: &ArrayView2<'a, R>, row: usize) -> &'a [R] {
    let dim = matrix.ncols();
    &matrix.to_slice().expect("a matrix in row order")[row * dim..(row + 1) * dim]
}

fn copy_rows<R: Real>(from: &Array2<R>, rows: &[u32], to: &mut Array2<R>) {
    if rows.len() == from.nrows() {
        return to.assign(from);
    }
    for row in rows {
        to.row_mut(*row as usize).assign(&from.row(*row as usize));
    }
}

#[cfg(test)]
mod tests;
