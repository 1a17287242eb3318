//! The backward function: the gradient by the parameters of message passing, from that by the enriched vectors.
//!
//! It walks the steps of the forward function in reverse. The vectors before message passing are given, not learnt, so no gradient by
//! them is computed.

use ndarray::{Array2, ArrayView2, Axis, Slice};

use super::attention::{Attended, attend_backward, salience_backward};
use super::forward::{Enriched, Tape, UpTape, Vectors, gather};
use super::parameters::{Group, Parameters};
use super::plan::{Down, Links, Plan, Up};
use super::product::{times_transposed, transposed_times};
use super::real::{Real, dot};
use super::weights::{Gate, Weights};

/// Gradients by the enriched vectors.
#[derive(Clone, Debug)]
pub(crate) struct ByVector<R> {
    pub(crate) tools: Array2<R>,
    pub(crate) capabilities: Array2<R>,
}

/// What the backward function reads: one forward pass and its inputs.
pub(crate) struct Pass<'a, R> {
    pub(crate) plan: &'a Plan,
    pub(crate) vectors: &'a Vectors<R>,
    pub(crate) parameters: &'a Parameters<R>,
    pub(crate) enriched: &'a Enriched<R>,
    pub(crate) tape: &'a Tape<R>,
    pub(crate) threads: usize,
}

/// Gradients by the projected rows of a step and by their salience.
type ByRow<R> = (Array2<R>, Array2<R>);

impl<R: Real> Pass<'_, R> {
    /// Adds the gradient by the parameters to `gradient`, which has their order.
    pub(crate) fn backward(&self, by: ByVector<R>, gradient: &mut [R]) {
        let weights = self.parameters.weights();
        let mut by_row = zeros(&self.tape.projected, weights.heads);
        self.receive(
            &self.plan.tools,
            self.tape.tools.as_ref(),
            (weights.tool_gate, Group::ToolGate),
            &by.tools,
            &mut by_row,
            gradient,
        );
        let mut by_capability = by.capabilities;
        for (down, attended) in self.plan.down.iter().zip(&self.tape.down).rev() {
            self.project_down(down, &weights, &mut by_row, &mut by_capability, gradient);
            let gate = (weights.levels[down.level].down_gate, Group::DownGate(down.level));
            self.receive(&down.links, attended.as_ref(), gate, &by_capability, &mut by_row, gradient);
        }
        for (up, tape) in self.plan.up.iter().zip(&self.tape.up).rev() {
            self.up(up, tape, &weights, &mut by_capability, gradient);
        }
    }

    /// `E_final = E + g * message`, for the nodes of some links.
    fn receive(
        &self,
        links: &Links,
        attended: Option<&Attended<R>>,
        (gate, group): (Gate<R>, Group),
        by_node: &Array2<R>,
        by_row: &mut ByRow<R>,
        gradient: &mut [R],
    ) {
        let attended = taped(attended);
        let mut by_message = Array2::from_elem(attended.messages.raw_dim(), R::ZERO);
        for (index, (target, _, parents)) in links.iter().enumerate() {
            let open = gate.open(parents.len());
            let by_node = by_node.row(target);
            let by_gate = row_dot(by_node.to_slice(), attended.messages.row(index).to_slice());
            self.by_gate(group, by_gate * open * (R::ONE - open), parents.len(), gradient);
            for (to, by_node) in by_message.row_mut(index).iter_mut().zip(by_node) {
                *to = open * *by_node;
            }
        }
        attend_backward(links, attended, &self.tape.projected, &by_message, (&mut by_row.0, &mut by_row.1));
    }

    fn project_down(
        &self,
        down: &Down,
        weights: &Weights<R>,
        by_row: &mut ByRow<R>,
        by_capability: &mut Array2<R>,
        gradient: &mut [R],
    ) {
        let level = &weights.levels[down.level];
        let rows = Slice::from(down.first_row..down.first_row + down.sources.len());
        let projected = self.tape.projected.slice_axis(Axis(0), rows).to_owned();
        let mut by_projected = by_row.0.slice_axis(Axis(0), rows).to_owned();
        let by_salience = by_row.1.slice_axis(Axis(0), rows).to_owned();
        let attention = self.parameters.range(Group::DownAttention(down.level));
        salience_backward(&projected, &level.down_attention, &by_salience, &mut by_projected, &mut gradient[attention]);
        let sources = gather(&[(&self.enriched.capabilities, &down.sources)]);
        self.by_matrix(Group::DownMatrix(down.level), sources.view(), &by_projected, gradient);
        let by_source = times_transposed(by_projected.view(), level.down.view(), self.threads);
        add_rows(&down.sources, by_source.view(), by_capability);
    }

    /// `E_up = (1 - g) * message + g * E`, for the capabilities of a level.
    fn up(&self, up: &Up, tape: &UpTape<R>, weights: &Weights<R>, by_capability: &mut Array2<R>, gradient: &mut [R]) {
        let level = &weights.levels[up.level];
        let attended = taped(tape.attended.as_ref());
        let mut by_message = Array2::from_elem(attended.messages.raw_dim(), R::ZERO);
        for (index, (target, _, members)) in up.links.iter().enumerate() {
            let keep = level.up_gate.open(members.len());
            let (by_node, own) = (by_capability.row(target), self.vectors.capabilities.row(target));
            let message = attended.messages.row(index);
            let by_gate = row_dot(by_node.to_slice(), own.to_slice()) - row_dot(by_node.to_slice(), message.to_slice());
            self.by_gate(Group::UpGate(up.level), by_gate * keep * (R::ONE - keep), members.len(), gradient);
            for (to, by_node) in by_message.row_mut(index).iter_mut().zip(by_node) {
                *to = (R::ONE - keep) * *by_node;
            }
        }
        let (mut by_projected, mut by_salience) = zeros(&tape.projected, weights.heads);
        attend_backward(&up.links, attended, &tape.projected, &by_message, (&mut by_projected, &mut by_salience));
        let attention = self.parameters.range(Group::UpAttention(up.level));
        salience_backward(&tape.projected, &level.up_attention, &by_salience, &mut by_projected, &mut gradient[attention]);
        let sources = gather(&[(&self.vectors.tools, &up.tools), (&self.enriched.up, &up.capabilities)]);
        self.by_matrix(Group::UpMatrix(up.level), sources.view(), &by_projected, gradient);
        if !up.capabilities.is_empty() {
            let by_members = by_projected.slice_axis(Axis(0), Slice::from(up.tools.len()..));
            let by_source = times_transposed(by_members, level.up.view(), self.threads);
            add_rows(&up.capabilities, by_source.view(), by_capability);
        }
    }

    fn by_gate(&self, group: Group, by_logit: R, neighbours: usize, gradient: &mut [R]) {
        let start = self.parameters.range(group).start;
        gradient[start] += by_logit * Gate::<R>::size(neighbours);
        gradient[start + 1] += by_logit;
    }

    fn by_matrix(&self, group: Group, sources: ArrayView2<R>, by_projected: &Array2<R>, gradient: &mut [R]) {
        let by_matrix = transposed_times(sources, by_projected.view(), self.threads);
        for (to, value) in gradient[self.parameters.range(group)].iter_mut().zip(&by_matrix) {
            *to += *value;
        }
    }
}

fn taped<R>(attended: Option<&Attended<R>>) -> &Attended<R> {
    attended.expect("a pass that was run with a tape")
}

fn zeros<R: Real>(projected: &Array2<R>, heads: usize) -> ByRow<R> {
    (Array2::from_elem(projected.raw_dim(), R::ZERO), Array2::from_elem((projected.nrows(), heads), R::ZERO))
}

fn row_dot<R: Real>(left: Option<&[R]>, right: Option<&[R]>) -> R {
    dot(left.expect("rows in order"), right.expect("rows in order"))
}

fn add_rows<R: Real>(rows: &[u32], values: ArrayView2<R>, to: &mut Array2<R>) {
    for (row, values) in rows.iter().zip(values.rows()) {
        for (to, value) in to.row_mut(*row as usize).iter_mut().zip(values) {
            *to += *value;
        }
    }
}
