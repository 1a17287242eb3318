//! The pair index of DR-DSP: for every ordered pair of nodes, the hyperedges that lead from one to the other, cheapest first.
//!
//! A row holds the entries of one node, sorted by the other node, cost and origin. So the entries of a pair stand side by side and
//! the first one gives its reduced cost. Rows are shared between clones until they change.

use std::sync::Arc;

use imbl::Vector;

use crate::graph::Node;
use crate::paths::hyperedge::Origin;

/// One hyperedge between the node of a row and another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PairEntry {
    pub other: Node,
    pub cost: u64,
    pub origin: Origin,
}

/// The entries of every node, by node.
#[derive(Clone, Debug, Default)]
pub struct PairRows {
    rows: Vector<Arc<Vec<PairEntry>>>,
}

impl PairRows {
    /// All entries of a node. O(log nodes).
    pub fn row(&self, node: Node) -> &[PairEntry] {
        self.rows.get(node.to_bits() as usize).map_or(&[], |row| row.as_slice())
    }

    /// The cheapest entry for each other node, in node order.
    pub fn cheapest(&self, node: Node) -> impl Iterator<Item = &PairEntry> {
        let row = self.row(node);
        let is_first = |at: usize| at == 0 || row[at - 1].other != row[at].other;
        row.iter().enumerate().filter(move |(at, _)| is_first(*at)).map(|(_, entry)| entry)
    }

    /// The reduced cost of a pair; `None` if no hyperedge joins it.
    pub fn reduced(&self, node: Node, other: Node) -> Option<u64> {
        let row = self.row(node);
        let first = row.partition_point(|entry| entry.other < other);
        row.get(first).filter(|entry| entry.other == other).map(|entry| entry.cost)
    }

    /// Adds an entry. O(entries of the node).
    pub fn insert(&mut self, node: Node, entry: PairEntry) {
        let index = node.to_bits() as usize;
        if index >= self.rows.len() {
            let empty: Arc<Vec<PairEntry>> = Arc::default();
            self.rows.extend(std::iter::repeat_n(empty, index + 1 - self.rows.len()));
        }
        let row = Arc::make_mut(&mut self.rows[index]);
        let at = row.partition_point(|other| *other < entry);
        row.insert(at, entry);
    }

    /// Removes an entry, which must be there. O(entries of the node).
    pub fn remove(&mut self, node: Node, entry: PairEntry) {
        let row = Arc::make_mut(self.rows.get_mut(node.to_bits() as usize).expect("the entry was inserted"));
        let at = row.binary_search(&entry).expect("the entry was inserted");
        row.remove(at);
    }
}
