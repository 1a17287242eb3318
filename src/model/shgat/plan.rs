//! The order of a forward pass: which rows are projected and which rows receive from which, level by level.
//!
//! A plan covers all nodes or the neighbourhood of a change. Both are run by the same code and give a row the same bits, because a row
//! depends on its own neighbours in their fixed order only.

use std::collections::BTreeSet;

use super::hypergraph::{Changes, Hypergraph, Node, number};

/// Receiving rows, each with the projected rows it receives from, in a fixed order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    targets: Vec<u32>,
    offsets: Vec<usize>,
    sources: Vec<u32>,
}

impl Links {
    fn push(&mut self, target: u32, sources: impl Iterator<Item = u32>) {
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        self.targets.push(target);
        self.sources.extend(sources);
        self.offsets.push(self.sources.len());
    }

    pub(crate) const fn len(&self) -> usize {
        self.targets.len()
    }

    pub(crate) const fn entries(&self) -> usize {
        self.sources.len()
    }

    /// Every receiving row with the position of its first link and the projected rows it receives from.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, usize, &[u32])> {
        self.targets.iter().enumerate().map(|(index, target)| {
            let (start, end) = (self.offsets[index], self.offsets[index + 1]);
            (*target as usize, start, &self.sources[start..end])
        })
    }
}

/// One level of the way up: capabilities receive from their members.
#[derive(Clone, Debug)]
pub(crate) struct Up {
    pub(crate) level: usize,
    /// The members to project: tools, then capabilities.
    pub(crate) tools: Vec<u32>,
    pub(crate) capabilities: Vec<u32>,
    pub(crate) links: Links,
}

/// One level of the way down: capabilities receive from their parents, and are projected for their members.
#[derive(Clone, Debug)]
pub(crate) struct Down {
    pub(crate) level: usize,
    pub(crate) links: Links,
    /// The capabilities of the level to project, into the rows from `first_row`.
    pub(crate) sources: Vec<u32>,
    pub(crate) first_row: usize,
}

/// `Plan` holds the steps of a forward pass.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The capabilities that begin the way up with their own vector.
    pub(crate) up_rows: Vec<u32>,
    /// The lowest level first.
    pub(crate) up: Vec<Up>,
    /// The capabilities and tools that begin the way down with what they have.
    pub(crate) capability_rows: Vec<u32>,
    pub(crate) tool_rows: Vec<u32>,
    /// The highest level first.
    pub(crate) down: Vec<Down>,
    pub(crate) tools: Links,
    /// The number of rows projected on the way down.
    pub(crate) down_row_count: usize,
}

impl Plan {
    /// A plan for all nodes.
    pub(crate) fn full(graph: &Hypergraph) -> Self {
        let capabilities: Vec<u32> = (0..number(graph.capabilities())).collect();
        Self::new(graph, capabilities.clone(), capabilities, (0..number(graph.tools())).collect())
    }

    /// A plan for the nodes that a change reaches: upwards what contains a changed node, downwards what that contains.
    pub(crate) fn around(graph: &Hypergraph, changes: &Changes) -> Self {
        let mut above = changes.capabilities.clone();
        let mut waiting: Vec<Node> = changes.tools.iter().map(|tool| Node::Tool(*tool)).collect();
        waiting.extend(above.iter().map(|capability| Node::Capability(*capability)));
        while let Some(node) = waiting.pop() {
            for parent in graph.parents(node) {
                if above.insert(*parent as usize) {
                    waiting.push(Node::Capability(*parent as usize));
                }
            }
        }
        let mut below: BTreeSet<Node> = changes.children.clone();
        below.extend(above.iter().map(|capability| Node::Capability(*capability)));
        below.extend(changes.tools.iter().map(|tool| Node::Tool(*tool)));
        let mut waiting: Vec<Node> = below.iter().copied().collect();
        while let Some(node) = waiting.pop() {
            if let Node::Capability(capability) = node {
                waiting.extend(graph.members(capability).filter(|member| below.insert(*member)));
            }
        }
        let tools = below.iter().filter_map(|node| if let Node::Tool(tool) = node { Some(number(*tool)) } else { None });
        let capabilities =
            below.iter().filter_map(|node| if let Node::Capability(row) = node { Some(number(*row)) } else { None });
        Self::new(graph, above.iter().map(|row| number(*row)).collect(), capabilities.collect(), tools.collect())
    }

    fn new(graph: &Hypergraph, up_rows: Vec<u32>, capability_rows: Vec<u32>, tool_rows: Vec<u32>) -> Self {
        let up = by_level(graph, &up_rows).into_iter().enumerate().filter(|(_, rows)| !rows.is_empty());
        let up = up.map(|(level, rows)| up_step(graph, level, &rows)).collect();

        let mut parents = vec![false; graph.capabilities()];
        let tool_nodes = tool_rows.iter().map(|row| Node::Tool(*row as usize));
        let nodes = tool_nodes.chain(capability_rows.iter().map(|row| Node::Capability(*row as usize)));
        nodes.for_each(|node| graph.parents(node).iter().for_each(|parent| parents[*parent as usize] = true));
        let sources: Vec<u32> = (0..number(graph.capabilities())).filter(|row| parents[*row as usize]).collect();

        let mut rows = vec![0; graph.capabilities()];
        let mut down_row_count = 0;
        let (sources, receiving) = (by_level(graph, &sources), by_level(graph, &capability_rows));
        let mut down = Vec::new();
        for (level, (sources, receiving)) in sources.into_iter().zip(receiving).enumerate().rev() {
            let first_row = down_row_count;
            for source in &sources {
                rows[*source as usize] = number(down_row_count);
                down_row_count += 1;
            }
            let links = receiving_links(graph, receiving.into_iter().map(|row| Node::Capability(row as usize)), &rows);
            down.push(Down { level, links, sources, first_row });
        }
        let tools = receiving_links(graph, tool_rows.iter().map(|row| Node::Tool(*row as usize)), &rows);
        Self { up_rows, up, capability_rows, tool_rows, down, tools, down_row_count }
    }
}

fn by_level(graph: &Hypergraph, rows: &[u32]) -> Vec<Vec<u32>> {
    let mut levels = vec![Vec::new(); graph.level_count()];
    for row in rows {
        levels[graph.level(*row as usize)].push(*row);
    }
    levels
}

/// The links from parents, for the nodes that have any.
fn receiving_links(graph: &Hypergraph, nodes: impl Iterator<Item = Node>, rows: &[u32]) -> Links {
    let mut links = Links::default();
    for node in nodes {
        let parents = graph.parents(node);
        if !parents.is_empty() {
            let (Node::Tool(row) | Node::Capability(row)) = node;
            links.push(number(row), parents.iter().map(|parent| rows[*parent as usize]));
        }
    }
    links
}

/// The members of some capabilities of one level, and the links to them.
fn up_step(graph: &Hypergraph, level: usize, rows: &[u32]) -> Up {
    let tools = distinct(graph.tools(), rows.iter().map(|row| graph.member_tools(*row as usize)));
    let capabilities = distinct(graph.capabilities(), rows.iter().map(|row| graph.member_capabilities(*row as usize)));
    let tool_places = places(graph.tools(), &tools, 0);
    let capability_places = places(graph.capabilities(), &capabilities, tools.len());
    let mut links = Links::default();
    for row in rows.iter().filter(|row| graph.member_count(**row as usize) > 0) {
        let tools = graph.member_tools(*row as usize).iter().map(|tool| tool_places[*tool as usize]);
        let members = graph.member_capabilities(*row as usize).iter();
        links.push(*row, tools.chain(members.map(|member| capability_places[*member as usize])));
    }
    Up { level, tools, capabilities, links }
}

fn distinct<'a>(nodes: usize, lists: impl Iterator<Item = &'a [u32]>) -> Vec<u32> {
    let mut named = vec![false; nodes];
    lists.flatten().for_each(|node| named[*node as usize] = true);
    (0..number(nodes)).filter(|node| named[*node as usize]).collect()
}

fn places(nodes: usize, listed: &[u32], first: usize) -> Vec<u32> {
    let mut places = vec![0; nodes];
    for (place, node) in listed.iter().enumerate() {
        places[*node as usize] = number(first + place);
    }
    places
}
