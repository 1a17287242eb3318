//! The mix of hybrid search (ALGORITHMS 2): score = alpha * semantic + (1 - alpha) * graph. Alpha is larger the fewer edges the graph
//! has. O(1). From S0 and S3 2.1.

/// Alpha without context: there is no tool to be related to.
pub const ALPHA_NO_CONTEXT: f64 = 1.0;
pub const ALPHA_POOR: f64 = 0.8;
pub const ALPHA_RICH: f64 = 0.6;
pub const ALPHA_MIN: f64 = 0.5;
/// Edges below which a graph is poor, and above which it is rich.
pub const EDGES_POOR: usize = 10;
pub const EDGES_RICH: usize = 50;

/// The weight of the semantic score, from [`ALPHA_MIN`] to 1.
pub fn alpha(has_context: bool, edges: usize, density: f64) -> f64 {
    if !has_context {
        ALPHA_NO_CONTEXT
    } else if edges < EDGES_POOR {
        ALPHA_POOR
    } else if edges <= EDGES_RICH {
        let fraction = super::adjacency::as_f64(edges - EDGES_POOR) / super::adjacency::as_f64(EDGES_RICH - EDGES_POOR);
        ALPHA_POOR + fraction * (ALPHA_RICH - ALPHA_POOR)
    } else {
        (1.0 - 2.0 * density).clamp(ALPHA_MIN, ALPHA_RICH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(has_context: bool, edges: usize, density: f64, expected: f64) {
        let alpha = alpha(has_context, edges, density);
        assert!((alpha - expected).abs() < 1e-12, "{has_context} {edges} {density}: {alpha}");
    }

    #[test]
    fn the_graph_counts_more_the_more_it_knows() {
        check(false, 1_000, 0.5, 1.0);
        check(true, 0, 0.0, 0.8);
        check(true, 9, 0.9, 0.8);
        check(true, 10, 0.1, 0.8);
        check(true, 30, 0.1, 0.7);
        check(true, 50, 0.1, 0.6);
        check(true, 51, 0.01, 0.6);
        check(true, 51, 0.22, 0.56);
        check(true, 51, 0.4, 0.5);
    }
}
