//! The hypergraph: capabilities over tools and other capabilities, with their levels.
//!
//! Nodes are numbers: tool `t` and capability `c` are rows of the vectors that go with the hypergraph. Membership is direct only, kept in
//! both directions, and acyclic. A capability that holds tools only (or nothing) has level 0, any other one level more than the highest
//! of its member capabilities. Members may lie any number of levels below.

use std::collections::BTreeSet;

use super::csr::Csr;

/// A tool or a capability, by its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    Tool(usize),
    Capability(usize),
}

/// Why a change of the hypergraph was refused. The hypergraph is then as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HypergraphError {
    /// A capability would contain itself: from it over its members back to it.
    Cycle { path: Vec<usize> },
    /// A member or capability that the hypergraph does not have.
    Unknown(Node),
}

impl std::fmt::Display for HypergraphError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cycle { path } => {
                let path: Vec<String> = path.iter().map(ToString::to_string).collect();
                write!(formatter, "capabilities contain each other: {}", path.join(" -> "))
            }
            Self::Unknown(Node::Tool(tool)) => write!(formatter, "there is no tool {tool}"),
            Self::Unknown(Node::Capability(capability)) => write!(formatter, "there is no capability {capability}"),
        }
    }
}

impl std::error::Error for HypergraphError {}

/// What changed since vectors were enriched: the nodes from which a recomputation starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Tools that are new or have another vector.
    pub tools: BTreeSet<usize>,
    /// Capabilities that are new or have another vector, other members or another level.
    pub capabilities: BTreeSet<usize>,
    /// Nodes that some capability began or ceased to contain.
    pub children: BTreeSet<Node>,
}

impl Changes {
    /// Adds other changes to these.
    pub fn merge(&mut self, other: Self) {
        self.tools.extend(other.tools);
        self.capabilities.extend(other.capabilities);
        self.children.extend(other.children);
    }
}

/// `Hypergraph` is the structure alone, without vectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hypergraph {
    member_tools: Csr,
    member_capabilities: Csr,
    /// The capabilities that contain each tool.
    tool_parents: Csr,
    /// The capabilities that contain each capability.
    capability_parents: Csr,
    levels: Vec<usize>,
    /// The capabilities of each level, ascending.
    by_level: Vec<BTreeSet<usize>>,
}

impl Hypergraph {
    /// Starts with `tools` tools and no capabilities.
    pub fn new(tools: usize) -> Self {
        let mut graph = Self::default();
        for _ in 0..tools {
            graph.tool_parents.push(&[]);
        }
        graph
    }

    /// The number of tools.
    pub const fn tools(&self) -> usize {
        self.tool_parents.rows()
    }

    /// The number of capabilities.
    pub const fn capabilities(&self) -> usize {
        self.levels.len()
    }

    /// The number of levels: one more than the highest, 0 without capabilities.
    pub fn level_count(&self) -> usize {
        self.by_level.len()
    }

    /// The level of a capability.
    pub fn level(&self, capability: usize) -> usize {
        self.levels[capability]
    }

    /// The capabilities of a level, ascending.
    pub fn at_level(&self, level: usize) -> impl Iterator<Item = usize> {
        self.by_level.get(level).into_iter().flatten().copied()
    }

    /// The level at which a tool enters the hierarchy: the lowest of the capabilities that contain it.
    pub fn tool_level(&self, tool: usize) -> Option<usize> {
        self.tool_parents.row(tool).iter().map(|parent| self.levels[*parent as usize]).min()
    }

    /// The tools that a capability contains directly, ascending.
    pub fn member_tools(&self, capability: usize) -> &[u32] {
        self.member_tools.row(capability)
    }

    /// The capabilities that a capability contains directly, ascending.
    pub fn member_capabilities(&self, capability: usize) -> &[u32] {
        self.member_capabilities.row(capability)
    }

    /// The number of direct members of a capability.
    pub fn member_count(&self, capability: usize) -> usize {
        self.member_tools(capability).len() + self.member_capabilities(capability).len()
    }

    /// The capabilities that contain a node directly, ascending.
    pub fn parents(&self, node: Node) -> &[u32] {
        match node {
            Node::Tool(tool) => self.tool_parents.row(tool),
            Node::Capability(capability) => self.capability_parents.row(capability),
        }
    }

    /// The number of memberships.
    pub const fn memberships(&self) -> usize {
        self.member_tools.entries() + self.member_capabilities.entries()
    }

    /// Whether the hypergraph has a node.
    pub const fn has(&self, node: Node) -> bool {
        match node {
            Node::Tool(tool) => tool < self.tools(),
            Node::Capability(capability) => capability < self.capabilities(),
        }
    }

    /// Adds a tool and returns its number.
    pub fn add_tool(&mut self) -> (usize, Changes) {
        self.tool_parents.push(&[]);
        let tool = self.tools() - 1;
        (tool, Changes { tools: BTreeSet::from([tool]), ..Changes::default() })
    }

    /// Adds a capability and returns its number. A member named twice counts once.
    pub fn add_capability(&mut self, members: &[Node]) -> Result<(usize, Changes), HypergraphError> {
        if let Some(unknown) = members.iter().find(|member| !self.has(**member)) {
            return Err(HypergraphError::Unknown(*unknown));
        }
        let capability = self.capabilities();
        self.member_tools.push(&[]);
        self.member_capabilities.push(&[]);
        self.capability_parents.push(&[]);
        self.levels.push(0);
        self.enter_level(capability, 0);
        let changes = self.set_members(capability, members)?;
        Ok((capability, changes))
    }

    /// Gives a capability other members. It and what contains it move to other levels if they must.
    pub fn set_members(&mut self, capability: usize, members: &[Node]) -> Result<Changes, HypergraphError> {
        if let Some(unknown) = std::iter::once(&Node::Capability(capability)).chain(members).find(|node| !self.has(**node)) {
            return Err(HypergraphError::Unknown(*unknown));
        }
        if let Some(path) = self.way_back(capability, members) {
            return Err(HypergraphError::Cycle { path });
        }
        let after: BTreeSet<Node> = members.iter().copied().collect();
        let before: BTreeSet<Node> = self.members(capability).collect();
        for gone in before.difference(&after) {
            self.parents_mut(*gone, |parents, row| parents.remove(row, number(capability)));
        }
        for come in after.difference(&before) {
            self.parents_mut(*come, |parents, row| parents.insert(row, number(capability)));
        }
        let (tools, capabilities) = by_kind(&after);
        self.member_tools.replace(capability, &tools);
        self.member_capabilities.replace(capability, &capabilities);
        let mut changes = Changes { children: before.symmetric_difference(&after).copied().collect(), ..Changes::default() };
        changes.capabilities.insert(capability);
        self.settle_levels(capability, &mut changes);
        Ok(changes)
    }

    /// The direct members of a capability: tools first, each kind ascending.
    pub fn members(&self, capability: usize) -> impl Iterator<Item = Node> {
        let tools = self.member_tools(capability).iter().map(|tool| Node::Tool(*tool as usize));
        tools.chain(self.member_capabilities(capability).iter().map(|member| Node::Capability(*member as usize)))
    }

    fn parents_mut(&mut self, node: Node, change: impl FnOnce(&mut Csr, usize)) {
        match node {
            Node::Tool(tool) => change(&mut self.tool_parents, tool),
            Node::Capability(capability) => change(&mut self.capability_parents, capability),
        }
    }

    /// A path from `capability` over `members` down to `capability`, if there is one.
    fn way_back(&self, capability: usize, members: &[Node]) -> Option<Vec<usize>> {
        let mut seen = BTreeSet::new();
        // A stack of paths' last nodes with the position of their predecessor.
        let mut visited: Vec<(usize, Option<usize>)> = Vec::new();
        let mut waiting: Vec<(usize, Option<usize>)> = Vec::new();
        for member in members {
            if let Node::Capability(member) = member {
                waiting.push((*member, None));
            }
        }
        while let Some((node, before)) = waiting.pop() {
            if node == capability {
                let mut path = vec![node];
                let mut at = before;
                while let Some(position) = at {
                    path.push(visited[position].0);
                    at = visited[position].1;
                }
                path.push(capability);
                path.reverse();
                return Some(path);
            }
            if seen.insert(node) {
                visited.push((node, before));
                let below = self.member_capabilities(node).iter();
                waiting.extend(below.map(|member| (*member as usize, Some(visited.len() - 1))));
            }
        }
        None
    }

    /// Moves a capability and whatever contains it to the levels that their members ask for. Ends because membership is acyclic.
    fn settle_levels(&mut self, capability: usize, changes: &mut Changes) {
        let mut waiting = BTreeSet::from([capability]);
        while let Some(capability) = waiting.pop_first() {
            let members = self.member_capabilities(capability).iter();
            let level = members.map(|member| self.levels[*member as usize] + 1).max().unwrap_or(0);
            if level != self.levels[capability] {
                self.by_level[self.levels[capability]].remove(&capability);
                self.enter_level(capability, level);
                changes.capabilities.insert(capability);
                waiting.extend(self.capability_parents.row(capability).iter().map(|parent| *parent as usize));
            }
        }
        while self.by_level.last().is_some_and(BTreeSet::is_empty) {
            self.by_level.pop();
        }
    }

    fn enter_level(&mut self, capability: usize, level: usize) {
        if self.by_level.len() <= level {
            self.by_level.resize_with(level + 1, BTreeSet::new);
        }
        self.by_level[level].insert(capability);
        self.levels[capability] = level;
    }
}

fn by_kind(nodes: &BTreeSet<Node>) -> (Vec<u32>, Vec<u32>) {
    let (mut tools, mut capabilities) = (Vec::new(), Vec::new());
    for node in nodes {
        match node {
            Node::Tool(tool) => tools.push(number(*tool)),
            Node::Capability(capability) => capabilities.push(number(*capability)),
        }
    }
    (tools, capabilities)
}

pub(crate) fn number(row: usize) -> u32 {
    u32::try_from(row).expect("fewer than 2^32 nodes")
}

#[cfg(test)]
mod tests;
