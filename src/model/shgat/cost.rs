//! How many multiplications the matrix products of a pass have, to compare its time with that of one plain product.

use super::hypergraph::Hypergraph;
use super::plan::Plan;

/// The work on one hypergraph, in rows that are multiplied with a matrix of `dim` x `dim`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    dim: usize,
    candidates: usize,
    /// Rows projected by a forward pass.
    projected: usize,
    /// Rows whose own gradient a backward pass needs: capabilities, since the vectors of tools are given.
    returned: usize,
}

impl Cost {
    pub fn new(graph: &Hypergraph, dim: usize) -> Self {
        let plan = Plan::full(graph);
        let members: usize = plan.up.iter().map(|up| up.tools.len() + up.capabilities.len()).sum();
        let capabilities: usize = plan.up.iter().map(|up| up.capabilities.len()).sum();
        Self {
            dim,
            candidates: graph.tools() + graph.capabilities(),
            projected: members + plan.down_row_count,
            returned: capabilities + plan.down_row_count,
        }
    }

    /// The multiplications of a forward pass.
    pub const fn forward(self) -> usize {
        self.projected * self.dim * self.dim
    }

    /// The multiplications of scoring one intent from enriched vectors.
    pub const fn score(self) -> usize {
        (self.candidates + self.dim) * self.dim
    }

    /// The multiplications of a batch of traces that are compared with all candidates: forward, backward, and the logits with their
    /// gradients by intents and by candidates.
    pub const fn batch(self, traces: usize) -> usize {
        let passes = (2 * self.projected + self.returned) * self.dim * self.dim;
        let logits = 3 * traces * self.candidates * self.dim;
        passes + logits + 2 * traces * self.dim * self.dim
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shgat::hypergraph::Node::{Capability, Tool};

    #[test]
    fn every_member_is_projected_up_and_every_parent_down() {
        let mut graph = Hypergraph::new(4);
        graph.add_capability(&[Tool(0), Tool(1)]).unwrap();
        graph.add_capability(&[Tool(2), Capability(0)]).unwrap();
        // Up: two tools, then one tool and one capability. Down: both capabilities.
        let cost = Cost::new(&graph, 10);
        assert_eq!(cost.forward(), (4 + 2) * 100);
        assert_eq!(cost.score(), (6 + 10) * 10);
        assert_eq!(cost.batch(5), (2 * 6 + 3) * 100 + 3 * 5 * 6 * 10 + 2 * 5 * 100);
    }
}
