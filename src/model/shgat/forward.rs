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
use super::plan::{Down, Plan, Up};
use super::product::times;
use super::real::{Real, add_scaled};
use super::weights::{Gate, Weights};

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
    pub(crate) down: Vec<Attended<R>>,
    /// The rows projected on the way down.
    pub(crate) projected: Array2<R>,
    pub(crate) tools: Option<Attended<R>>,
}

/// What the backward function needs of one level of the way up.
#[derive(Debug)]
pub(crate) struct UpTape<R> {
    pub(crate) sources: Array2<R>,
    pub(crate) projected: Array2<R>,
    pub(crate) attended: Attended<R>,
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
    let mut enriched = Enriched::start(vectors);
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
    copy_rows(&vectors.capabilities, &plan.up_rows, &mut enriched.up);
    for up in &plan.up {
        let kept = run_up(up, vectors, weights, &mut enriched.up, threads);
        if let Some(tape) = &mut tape {
            tape.up.push(kept);
        }
    }
    copy_rows(&enriched.up, &plan.capability_rows, &mut enriched.capabilities);
    copy_rows(&vectors.tools, &plan.tool_rows, &mut enriched.tools);
    let dim = vectors.tools.ncols();
    let mut projected = Array2::from_elem((plan.down_row_count, dim), R::ZERO);
    let mut saliences = Array2::from_elem((plan.down_row_count, weights.heads), R::ZERO);
    for down in &plan.down {
        let attended = attend(&down.links, &projected, &saliences);
        let gate = weights.levels[down.level].down_gate;
        add_messages(down.links.iter(), &attended, gate, &mut enriched.capabilities);
        project_down(down, weights, &enriched.capabilities, (&mut projected, &mut saliences), threads);
        if let Some(tape) = &mut tape {
            tape.down.push(attended);
        }
    }
    let attended = attend(&plan.tools, &projected, &saliences);
    add_messages(plan.tools.iter(), &attended, weights.tool_gate, &mut enriched.tools);
    if let Some(tape) = tape {
        tape.projected = projected;
        tape.tools = Some(attended);
    }
}

fn run_up<R: Real>(
    up: &Up,
    vectors: &Vectors<R>,
    weights: &Weights<R>,
    capabilities: &mut Array2<R>,
    threads: usize,
) -> UpTape<R> {
    let level = &weights.levels[up.level];
    let sources = gather(&[(&vectors.tools, &up.tools), (capabilities, &up.capabilities)]);
    let projected = times(sources.view(), level.up.view(), threads);
    let saliences = salience(&projected, &level.up_attention, weights.heads);
    let attended = attend(&up.links, &projected, &saliences);
    for ((target, _, members), message) in up.links.iter().zip(attended.messages.rows()) {
        let keep = level.up_gate.open(members.len());
        for (value, message) in capabilities.row_mut(target).iter_mut().zip(message) {
            *value = (R::ONE - keep) * *message + keep * *value;
        }
    }
    UpTape { sources, projected, attended }
}

fn project_down<R: Real>(
    down: &Down,
    weights: &Weights<R>,
    capabilities: &Array2<R>,
    (projected, saliences): (&mut Array2<R>, &mut Array2<R>),
    threads: usize,
) {
    let level = &weights.levels[down.level];
    let sources = gather(&[(capabilities, &down.sources)]);
    let product = times(sources.view(), level.down.view(), threads);
    let rows = Slice::from(down.first_row..down.first_row + down.sources.len());
    saliences.slice_axis_mut(Axis(0), rows).assign(&salience(&product, &level.down_attention, weights.heads));
    projected.slice_axis_mut(Axis(0), rows).assign(&product);
}

fn add_messages<'a, R: Real>(
    links: impl Iterator<Item = (usize, usize, &'a [u32])>,
    attended: &Attended<R>,
    gate: Gate<R>,
    to: &mut Array2<R>,
) {
    for ((target, _, parents), message) in links.zip(attended.messages.rows()) {
        let message = message.to_slice().expect("a row of a new array");
        let mut row = to.row_mut(target);
        add_scaled(row.as_slice_mut().expect("rows in order"), gate.open(parents.len()), message);
    }
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
