//! What reading a program gives: its calls, the relations between them, the literals it passes, and what could not be resolved.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use pml_core::event::{DeclaredStructure, StructureEdge, StructureNode};
use pml_core::graph::edge::EdgeKind;
use pml_core::id::{self, CapabilityId, StepId, ToolId};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// A place in the source, both counted from 1; columns are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

impl Position {
    /// The place of the byte `offset` of `source`.
    pub fn of(source: &str, offset: usize) -> Self {
        let mut end = offset.min(source.len());
        while !source.is_char_boundary(end) {
            end -= 1;
        }
        let before = &source[..end];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1);
        Self { line: count(before.matches('\n').count()), column: count(before[line_start..].chars().count()) }
    }

    /// The byte of `source` at this place; the end of the line if the line is shorter.
    pub fn offset(self, source: &str) -> usize {
        let line_start: usize = source.split_inclusive('\n').take((self.line as usize).saturating_sub(1)).map(str::len).sum();
        let line = source[line_start..].split('\n').next().unwrap_or_default();
        line_start + line.char_indices().nth((self.column as usize).saturating_sub(1)).map_or(line.len(), |(at, _)| at)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// What a call site calls.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Callee {
    /// `tools.server.name(...)`.
    Tool(ToolId),
    /// `capabilities.name(...)`, by name or id.
    Capability(String),
    /// A tool whose name is known only when the program runs; the reading marks it as unresolved.
    Computed,
}

impl fmt::Display for Callee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(tool) => tool.fmt(f),
            Self::Capability(name) => write!(f, "capability:{name}"),
            Self::Computed => f.write_str("?"),
        }
    }
}

/// How often one call of the structure may happen in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Repetition {
    Once,
    /// In the body of a loop or a recursive function.
    Loop,
    /// In a function that a method like `map` calls for every element: the calls do not wait for each other.
    Parallel,
}

/// A value that the source writes down for an argument.
#[derive(Clone, Debug, PartialEq)]
pub struct LiteralArgument {
    /// JSON pointer into the call's arguments: `/path`.
    pub path: String,
    pub value: Json,
    /// Where the literal stands in the source, in bytes. One literal may feed several arguments.
    pub span: Range<usize>,
}

/// One call of a tool or capability. A helper function that is called twice makes its calls twice.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub callee: Callee,
    pub position: Position,
    /// The call expression in the source, in bytes.
    pub span: Range<usize>,
    pub repetition: Repetition,
    /// Stands in a branch, so a run may leave it out.
    pub is_optional: bool,
    /// The names of the arguments that it passes; `None` if only a run can tell them all.
    pub names: Option<BTreeSet<String>>,
    pub literals: Vec<LiteralArgument>,
    /// Which fields of `args` may feed which argument; the field is empty where `args` is passed as a whole.
    pub inputs: BTreeMap<String, BTreeSet<String>>,
}

/// A relation between two calls, by their positions in [`Reading::calls`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    /// `Provides`: a result may become part of an argument. `Conditional`: a result decides whether the call happens, or the call
    /// follows in a branch. `Sequence`: the call follows, without data flow.
    pub kind: EdgeKind,
    /// For `Provides`, the arguments that the result may reach, as JSON pointers.
    pub arguments: BTreeSet<String>,
}

/// Something that only a run can tell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unresolved {
    pub position: Position,
    pub reason: Reason,
}

/// Why a part of a program has no structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    ComputedTool,
    ToolsAsValue,
    CodeFromText,
    Import,
    InvalidToolName,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ComputedTool => "the name of the tool is computed",
            Self::ToolsAsValue => "tools or capabilities are used as a value",
            Self::CodeFromText => "code is made from text",
            Self::Import => "a module is imported",
            Self::InvalidToolName => "this cannot be the name of a tool",
        })
    }
}

/// A program, read without running it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// In the order in which a run comes to them.
    pub calls: Vec<Call>,
    pub edges: Vec<Edge>,
    /// The fields of `args` that the program uses, whether or not they reach a call.
    pub parameters: BTreeSet<String>,
    pub unresolved: Vec<Unresolved>,
    /// The program without its types; every character keeps its line and column.
    pub javascript: String,
}

impl Reading {
    /// The tools that the program calls, sorted.
    pub fn tools(&self) -> BTreeSet<&ToolId> {
        self.calls.iter().filter_map(|call| if let Callee::Tool(tool) = &call.callee { Some(tool) } else { None }).collect()
    }

    /// The capabilities that the program contains, as written in it.
    pub fn capabilities(&self) -> BTreeSet<&str> {
        self.calls
            .iter()
            .filter_map(|call| if let Callee::Capability(name) = &call.callee { Some(name.as_str()) } else { None })
            .collect()
    }

    /// The innermost call whose expression contains the byte `offset`.
    pub fn call_at(&self, offset: usize) -> Option<usize> {
        let around = self.calls.iter().enumerate().filter(|(_, call)| call.span.contains(&offset));
        around.min_by_key(|(_, call)| call.span.len()).map(|(at, _)| at)
    }

    /// The structure of `capability.declared`. `resolve` gives the id of a capability by its name. A call without a known callee is
    /// left out with its edges. What the program contains follows from its nodes that are capabilities.
    pub fn declared(&self, resolve: impl Fn(&str) -> Option<CapabilityId>) -> DeclaredStructure {
        let callee = |call: &Call| match &call.callee {
            Callee::Tool(tool) => Some(id::Callee::Tool(tool.clone())),
            Callee::Capability(name) => name.parse().ok().or_else(|| resolve(name)).map(id::Callee::Capability),
            Callee::Computed => None,
        };
        let step = |at: usize| format!("c{}", at + 1).parse::<StepId>().expect("a letter and digits are a step id");
        let nodes: BTreeMap<usize, StructureNode> = (self.calls.iter().enumerate())
            .filter_map(|(at, call)| Some((at, StructureNode { id: step(at), callee: callee(call)? })))
            .collect();
        let known = |edge: &&Edge| nodes.contains_key(&edge.from) && nodes.contains_key(&edge.to);
        let edge = |edge: &Edge| StructureEdge { from: step(edge.from), to: step(edge.to), kind: edge.kind };
        let edges = self.edges.iter().filter(known).map(edge).collect();
        DeclaredStructure { nodes: nodes.into_values().collect(), edges }
    }
}
