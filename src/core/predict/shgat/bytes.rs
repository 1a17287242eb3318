//! The stored form of a trained SHGAT: its parameters, and the hypergraph that it was trained for.
//!
//! ```text
//! format u8 | switches u8 | parameters: length u32, bytes | tools u32, 4 features each
//! | hyperedges u32, each: positions, member tools, member rows (length u32, u32 ...) | 4 features | vector
//! | traces u32, each: position of its record u64, priority
//! ```
//!
//! Features, vectors and priorities take two bytes per value: the upper half of an f32. They are rounded before training ([`rounded`]), so that
//! what is served has the bits of what was trained.

use ndarray::Array2;
use pml_model::shgat::{
    CapabilityFeatures, Features, Hypergraph, Node as Row, Parameters, Priorities, Switches, ToolFeatures, Vectors,
};

use super::super::reader::Reader;
use super::ShgatModel;
use super::capability_graph::CapabilityGraph;

/// The first byte. Another layout gets the next number.
const FORMAT: u8 = 3;
/// Layouts that are still read: with 3 features of a tool and 2 of a capability; and also without the traces.
const FORMAT_FEW_FEATURES: u8 = 2;
const FORMAT_WITHOUT_TRACES: u8 = 1;

/// The nearest value whose lower half is 0.
pub(crate) fn rounded(value: f32) -> f32 {
    f32::from_bits(value.to_bits().saturating_add(0x8000) & 0xffff_0000)
}

impl ShgatModel {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let CapabilityGraph { graph, vectors, features, positions } = &self.graph;
        let mut bytes = vec![FORMAT, switch_bits(self.switches)];
        let parameters = self.parameters.to_bytes();
        push_number(&mut bytes, parameters.len());
        bytes.extend_from_slice(&parameters);
        push_number(&mut bytes, features.tools.len());
        for tool in &features.tools {
            push_values(&mut bytes, [tool.page_rank, tool.adamic_adar, tool.cooccurrence, tool.recency]);
        }
        push_number(&mut bytes, graph.capabilities());
        for (row, positions) in positions.iter().enumerate() {
            for list in [&positions[..], graph.member_tools(row), graph.member_capabilities(row)] {
                push_number(&mut bytes, list.len());
                bytes.extend(list.iter().flat_map(|value| value.to_le_bytes()));
            }
            let own = &features.capabilities[row];
            push_values(&mut bytes, [own.hypergraph_page_rank, own.adamic_adar, own.recency, own.heat]);
            push_values(&mut bytes, vectors.capabilities.row(row).iter().copied());
        }
        push_number(&mut bytes, self.priorities.iter().count());
        for (trace, priority) in self.priorities.iter() {
            bytes.extend_from_slice(&u64::try_from(trace).expect("a position has 64 bits").to_le_bytes());
            push_values(&mut bytes, [priority]);
        }
        bytes
    }

    /// Reads the stored form; `None` if it is damaged.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<2>()?;
        let mut reader = Reader(rest);
        let length = reader.number()?;
        let mut parameters = Parameters::from_bytes(reader.take(length)?).ok()?;
        let dim = parameters.shape().dim;
        let has_all_features = head[0] == FORMAT;
        let tools = reader.number()?;
        let tools: Vec<ToolFeatures> = (0..tools).map(|_| reader.tool(has_all_features)).collect::<Option<_>>()?;
        let (mut graph, mut positions) = (Hypergraph::new(tools.len()), Vec::new());
        let (mut capabilities, mut vectors) = (Vec::new(), Vec::new());
        for _ in 0..reader.number()? {
            positions.push(reader.list()?);
            let members = reader.list()?.into_iter().map(|tool| Row::Tool(tool as usize));
            let members: Vec<Row> =
                members.chain(reader.list()?.into_iter().map(|row| Row::Capability(row as usize))).collect();
            graph.add_capability(&members).ok()?;
            capabilities.push(reader.capability(has_all_features)?);
            for _ in 0..dim {
                vectors.extend(reader.values::<1>()?);
            }
        }
        parameters.grow(graph.level_count());
        let capabilities_matrix = Array2::from_shape_vec((positions.len(), dim), vectors).ok()?;
        let vectors = Vectors { tools: Array2::zeros((0, dim)), capabilities: capabilities_matrix };
        let features = Features { tools, capabilities };
        let graph = CapabilityGraph { graph, vectors, features, positions };
        let priorities = match head[0] {
            FORMAT | FORMAT_FEW_FEATURES => reader.priorities()?,
            FORMAT_WITHOUT_TRACES => Priorities::default(),
            _ => return None,
        };
        reader.0.is_empty().then_some(Self { parameters, switches: switches(head[1]), graph, priorities })
    }
}

fn switch_bits(switches: Switches) -> u8 {
    let Switches { message_passing, semantic, structure, temporal, priorities } = switches;
    [message_passing, semantic, structure, temporal, priorities].iter().rev().fold(0, |bits, on| bits << 1 | u8::from(*on))
}

const fn switches(bits: u8) -> Switches {
    Switches {
        message_passing: bits & 1 != 0,
        semantic: bits & 2 != 0,
        structure: bits & 4 != 0,
        temporal: bits & 8 != 0,
        priorities: bits & 16 != 0,
    }
}

fn push_number(bytes: &mut Vec<u8>, number: usize) {
    bytes.extend_from_slice(&u32::try_from(number).expect("counts are bounded").to_le_bytes());
}

fn push_values(bytes: &mut Vec<u8>, values: impl IntoIterator<Item = f32>) {
    for value in values {
        bytes.extend_from_slice(&value.to_le_bytes()[2..]);
    }
}

impl Reader<'_> {
    fn number(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.array()?)).ok()
    }

    fn list(&mut self) -> Option<Vec<u32>> {
        let length = self.number()?;
        let (values, _) = self.take(length.checked_mul(4)?)?.as_chunks::<4>();
        Some(values.iter().map(|value| u32::from_le_bytes(*value)).collect())
    }

    fn tool(&mut self, has_all_features: bool) -> Option<ToolFeatures> {
        if has_all_features {
            let [page_rank, adamic_adar, cooccurrence, recency] = self.values()?;
            return Some(ToolFeatures { page_rank, adamic_adar, cooccurrence, recency });
        }
        let [page_rank, cooccurrence, recency] = self.values()?;
        Some(ToolFeatures { page_rank, cooccurrence, recency, ..ToolFeatures::default() })
    }

    fn capability(&mut self, has_all_features: bool) -> Option<CapabilityFeatures> {
        if has_all_features {
            let [hypergraph_page_rank, adamic_adar, recency, heat] = self.values()?;
            return Some(CapabilityFeatures { hypergraph_page_rank, adamic_adar, recency, heat });
        }
        let [hypergraph_page_rank, recency] = self.values()?;
        Some(CapabilityFeatures { hypergraph_page_rank, recency, ..CapabilityFeatures::default() })
    }

    fn priorities(&mut self) -> Option<Priorities> {
        let traces = self.number()?;
        let mut trace = || {
            let position = u64::from_le_bytes(self.array()?);
            let [priority] = self.values()?;
            Some((u128::from(position), priority))
        };
        (0..traces).map(|_| trace()).collect()
    }

    fn values<const N: usize>(&mut self) -> Option<[f32; N]> {
        let (values, _) = self.take(2 * N)?.as_chunks::<2>();
        let value = |at: usize| f32::from_le_bytes([0, 0, values[at][0], values[at][1]]);
        let values: [f32; N] = std::array::from_fn(value);
        values.iter().all(|value| value.is_finite()).then_some(values)
    }
}
