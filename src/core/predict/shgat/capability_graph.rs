//! The hypergraph that SHGAT sees: what some of the remembered intents say about tools and capabilities.
//!
//! The vector of a capability is the mean of the vectors of the intents that succeeded with it, and of its own text if it was declared.
//! The intents of a capability that was merged into another count for that one; a retired one has no row.
//! Capabilities with the same members are one hyperedge: they differ in order and data flow, which SHGAT does not look at. To train or
//! to measure, the graph is built without the intents that are asked about, or a capability would be found by its own question.

use std::collections::{BTreeMap, BTreeSet};

use ndarray::Array2;
use pml_model::shgat::{CapabilityFeatures, Features, Hypergraph, HypergraphError, Node as Row, ToolFeatures, Vectors};

use super::bytes::rounded;
use crate::capability::Status;
use crate::graph::adjacency::Adjacency;
use crate::graph::membership::Membership;
use crate::graph::pagerank::pagerank;
use crate::graph::{Node, NodeKind};
use crate::memory::PastIntent;
use crate::state::State;
use crate::vectors::TextHash;

/// Hyperedges, at most: those with the most uses. Bounds the time of a training and the size of the stored model.
pub(crate) const CAPABILITIES_MAX: usize = 2_048;
/// The share of the memory after which the recency of a use has fallen to 1 / e.
const RECENT: f32 = 0.25;

/// `CapabilityGraph` holds the structure, the vectors and the features.
#[derive(Clone, Debug)]
pub(crate) struct CapabilityGraph {
    pub(crate) graph: Hypergraph,
    pub(crate) vectors: Vectors,
    pub(crate) features: Features,
    /// By row: the positions of the capabilities with these members, and then of those that were merged into them.
    pub(crate) positions: Vec<Vec<u32>>,
}

/// What the counted intents say about one node.
#[derive(Clone, Debug, Default)]
struct Uses {
    count: f32,
    /// The newest intent that used it.
    last: Option<u64>,
}

impl Uses {
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^24")]
    fn add(&mut self, count: u32, number: u64) {
        self.count += count as f32;
        self.last = self.last.max(Some(number));
    }
}

/// What was counted over the intents.
struct Counted {
    tools: Vec<Uses>,
    capabilities: BTreeMap<u32, (Uses, Vec<f32>)>,
    /// How often one tool was called after another.
    calls: BTreeMap<(u32, u32), f64>,
    numbers: std::ops::Range<u64>,
}

impl CapabilityGraph {
    /// Builds the graph from the intents whose number `counted` accepts. `tools` holds the vectors of the tools, by position.
    pub(crate) fn new(state: &State, tools: &Array2<f32>, counted: &dyn Fn(u64) -> bool) -> Result<Self, HypergraphError> {
        let mut all = Counted::new(state, counted);
        add_declared(state, &mut all);
        let kept = most_used(state, &all.capabilities);
        let (mut graph, mut rows) = (Hypergraph::new(tools.nrows()), BTreeMap::new());
        let mut by_members: BTreeMap<Vec<Row>, usize> = BTreeMap::new();
        let (mut positions, mut uses, mut sums): (Vec<Vec<u32>>, Vec<Uses>, Vec<Vec<f32>>) = <_>::default();
        for position in kept {
            let members: Vec<Row> = members(state, position, &rows).into_iter().collect();
            if members.is_empty() {
                continue;
            }
            let row = match by_members.get(&members) {
                Some(row) => *row,
                None => graph.add_capability(&members)?.0,
            };
            if row == positions.len() {
                by_members.insert(members, row);
                positions.push(Vec::new());
                uses.push(Uses::default());
                sums.push(vec![0.0; tools.ncols()]);
            }
            rows.insert(position, row);
            positions[row].push(position);
            let (own, sum) = &all.capabilities[&position];
            uses[row].count += own.count;
            uses[row].last = uses[row].last.max(own.last);
            add(&mut sums[row], sum);
        }
        for (position, capability) in (0..).zip(state.capabilities.rows()) {
            let row =
                state.capabilities.offered(position).filter(|_| !capability.is_offered()).and_then(|into| rows.get(&into));
            if let Some(row) = row {
                positions[*row].push(position);
            }
        }
        let features = features(&all, &graph, &uses);
        let capabilities = sums.into_iter().flat_map(unit).collect();
        let capabilities =
            Array2::from_shape_vec((positions.len(), tools.ncols()), capabilities).expect("rows of the same length");
        Ok(Self { graph, vectors: Vectors { tools: tools.clone(), capabilities }, features, positions })
    }

    /// The nodes of a run with these calls: its tools and the capabilities called, and the hyperedge over exactly these.
    pub(crate) fn path(&self, by_members: &BTreeMap<Vec<Row>, usize>, calls: &[Node]) -> Vec<Row> {
        let row_of = |position: u32| self.positions.iter().position(|positions| positions.contains(&position));
        let row = |call: &Node| match call.kind() {
            NodeKind::Tool(position) => Some(Row::Tool(position as usize)),
            NodeKind::Capability(position) => row_of(position).map(Row::Capability),
        };
        let called: BTreeSet<Row> = calls.iter().filter_map(row).collect();
        let called: Vec<Row> = called.into_iter().collect();
        let whole = by_members.get(&called).map(|row| Row::Capability(*row));
        called.into_iter().chain(whole).collect()
    }

    /// The hyperedges by their members.
    pub(crate) fn by_members(&self) -> BTreeMap<Vec<Row>, usize> {
        (0..self.graph.capabilities()).map(|row| (self.graph.members(row).collect(), row)).collect()
    }
}

impl Counted {
    fn new(state: &State, counted: &dyn Fn(u64) -> bool) -> Self {
        let mut all = Self {
            tools: vec![Uses::default(); state.tools.len()],
            capabilities: BTreeMap::new(),
            calls: BTreeMap::new(),
            numbers: state.memory.numbers(),
        };
        for (number, entry) in state.memory.iter().filter(|(number, _)| counted(*number)) {
            all.add_uses(state, number, entry);
            for sequence in &entry.sequences {
                for pair in sequence.calls.windows(2) {
                    if let (NodeKind::Tool(from), NodeKind::Tool(to)) = (pair[0].kind(), pair[1].kind()) {
                        *all.calls.entry((from, to)).or_default() += f64::from(sequence.times);
                    }
                }
            }
        }
        all
    }

    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^24")]
    fn add_uses(&mut self, state: &State, number: u64, entry: &PastIntent) {
        let vector = state.vectors.get(entry.hash);
        for (node, count) in &entry.used {
            match node.kind() {
                NodeKind::Tool(position) => self.tools[position as usize].add(*count, number),
                NodeKind::Capability(position) => {
                    let Some((vector, position)) = vector.zip(state.capabilities.offered(position)) else { continue };
                    let (uses, sum) =
                        self.capabilities.entry(position).or_insert_with(|| (Uses::default(), vec![0.0; vector.len()]));
                    uses.add(*count, number);
                    for (sum, value) in sum.iter_mut().zip(vector.iter()) {
                        *sum += *count as f32 * value;
                    }
                }
            }
        }
    }
}

/// Adds the vectors of the texts of declared capabilities, once each.
fn add_declared(state: &State, all: &mut Counted) {
    for (position, capability) in (0..).zip(state.capabilities.rows()) {
        if capability.status != Status::Approved || !capability.is_offered() {
            continue;
        }
        let text = capability.text().map(|text| TextHash::compute(&text));
        let Some(vector) = text.and_then(|hash| state.vectors.get(hash)) else { continue };
        let (_, sum) = all.capabilities.entry(position).or_insert_with(|| (Uses::default(), vec![0.0; vector.len()]));
        add(sum, vector);
    }
}

/// The positions of the capabilities with the most uses, members before what contains them.
fn most_used(state: &State, capabilities: &BTreeMap<u32, (Uses, Vec<f32>)>) -> Vec<u32> {
    let mut kept: Vec<u32> = capabilities.keys().copied().collect();
    kept.sort_by(|a, b| capabilities[b].0.count.total_cmp(&capabilities[a].0.count).then(a.cmp(b)));
    kept.truncate(CAPABILITIES_MAX);
    kept.sort_by_key(|position| (state.capabilities.at(*position).level, *position));
    kept
}

/// The members of a capability as rows. A member capability without a row counts as its own members.
fn members(state: &State, position: u32, rows: &BTreeMap<u32, usize>) -> BTreeSet<Row> {
    let (mut members, mut seen) = (BTreeSet::new(), BTreeSet::from([position]));
    let mut waiting: Vec<Node> = state.capabilities.at(position).members.clone();
    while let Some(node) = waiting.pop() {
        match node.kind() {
            NodeKind::Tool(tool) => {
                members.insert(Row::Tool(tool as usize));
            }
            NodeKind::Capability(member) => match rows.get(&member) {
                Some(row) => {
                    members.insert(Row::Capability(*row));
                }
                None if seen.insert(member) => waiting.extend_from_slice(&state.capabilities.at(member).members),
                None => {}
            },
        }
    }
    members
}

/// The measures of all nodes: those of tools on the graph of calls, those of capabilities on the hypergraph.
fn features(all: &Counted, graph: &Hypergraph, uses: &[Uses]) -> Features {
    let tools = graph.tools();
    let node = |row: Row| match row {
        Row::Tool(tool) => tool,
        Row::Capability(row) => tools + row,
    };
    let members = |row: usize| graph.members(row).map(move |member| (tools + row, node(member)));
    let membership = Membership::new(tools, uses.len(), (0..uses.len()).flat_map(members));
    let related = membership.adamic_adar();
    let recencies: Vec<f32> = all.tools.iter().chain(uses).map(|uses| recency(uses.last, &all.numbers)).collect();
    let heat = membership.heat(&recencies.iter().copied().map(f64::from).collect::<Vec<_>>());
    let counts: Vec<f64> = uses.iter().map(|uses| f64::from(uses.count)).collect();
    let edges: Vec<(u32, u32, f64)> = all.calls.iter().map(|((from, to), times)| (*from, *to, *times)).collect();
    let calls = Adjacency::from_weights(u32::try_from(tools).expect("positions are 32 bits"), &edges);
    let (tool_ranks, tools_related) = (shares(&pagerank(&calls, None).ranks), shares(&related[..tools]));
    let (ranks, capabilities_related) = (shares(&membership.page_ranks(&counts)[tools..]), shares(&related[tools..]));
    let heat = shares(&heat[tools..]);
    let most = all.tools.iter().map(|uses| uses.count).fold(1.0, f32::max);
    let tool = |at: usize| ToolFeatures {
        page_rank: tool_ranks[at],
        adamic_adar: tools_related[at],
        cooccurrence: rounded(all.tools[at].count / most),
        recency: recencies[at],
    };
    let capability = |at: usize| CapabilityFeatures {
        hypergraph_page_rank: ranks[at],
        adamic_adar: capabilities_related[at],
        recency: recencies[tools + at],
        heat: heat[at],
    };
    Features { tools: (0..tools).map(tool).collect(), capabilities: (0..uses.len()).map(capability).collect() }
}

/// Values as shares of the largest, rounded as they are stored.
fn shares(values: &[f64]) -> Vec<f32> {
    let largest = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    values.iter().map(|value| rounded(single(value / largest))).collect()
}

/// e^-age, with the age counted in remembered intents and [`RECENT`] of them as the unit.
#[expect(clippy::cast_precision_loss, reason = "the memory is bounded")]
fn recency(last: Option<u64>, numbers: &std::ops::Range<u64>) -> f32 {
    let Some(last) = last else { return 0.0 };
    let (age, kept) = ((numbers.end - last) as f32, (numbers.end - numbers.start) as f32);
    rounded(libm::expf(-age / (RECENT * kept)))
}

#[expect(clippy::cast_possible_truncation, reason = "a share of 1")]
fn single(share: f64) -> f32 {
    share as f32
}

fn add(sum: &mut [f32], vector: &[f32]) {
    for (sum, value) in sum.iter_mut().zip(vector) {
        *sum += value;
    }
}

/// A vector of length one, rounded as it is stored.
fn unit(sum: Vec<f32>) -> impl Iterator<Item = f32> {
    let length = libm::sqrtf(sum.iter().map(|value| value * value).sum::<f32>()).max(f32::MIN_POSITIVE);
    sum.into_iter().map(move |value| rounded(value / length))
}
