//! Reading: the structure of a TypeScript program, without running it.
//!
//! A program is the body of an async function with three names: `tools` (`await tools.server.name({...})`), `capabilities`
//! (`await capabilities.name({...})`, by name or id) and `args` (the arguments of this run). It returns its result.

mod builtins;
mod calls;
mod expressions;
mod functions;
mod interpreter;
mod loops;
mod parse;
mod patterns;
mod statements;
mod strip;
mod value;

#[cfg(test)]
mod suite;

use oxc_allocator::Allocator;
use pml_core::graph::edge::EdgeKind;

use crate::structure::{Edge, Position, Reading};
use interpreter::{CALLS_MAX, Interpreter, Relation, Tie};

/// Longest program, in bytes.
pub const SOURCE_BYTES_MAX: usize = 64 * 1024;
/// Open brackets within each other, at most. Together with [`SOURCE_BYTES_MAX`] it bounds how deep the parser calls itself.
const BRACKETS_MAX: usize = 500;
/// Stack of the thread that reads: enough for the deepest program of [`SOURCE_BYTES_MAX`]. Memory is used as far as a program needs it.
const STACK_BYTES: usize = 512 * 1024 * 1024;

/// Why a program cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("{position}: {message}")]
    Syntax { position: Position, message: String },
    #[error("the program has {len} bytes, the limit is {SOURCE_BYTES_MAX}")]
    TooLong { len: usize },
    #[error("the program nests too deep, repeats too many helper functions or makes more than {CALLS_MAX} different calls")]
    TooComplex,
    #[error("no thread could be started to read the program")]
    Thread,
}

/// Reads a program.
pub fn read(source: &str) -> Result<Reading, ReadError> {
    if source.len() > SOURCE_BYTES_MAX {
        return Err(ReadError::TooLong { len: source.len() });
    }
    if bracket_depth(source) > BRACKETS_MAX {
        return Err(ReadError::TooComplex);
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("read".to_owned()).stack_size(STACK_BYTES);
        let reader = thread.spawn_scoped(scope, || read_here(source)).map_err(|_| ReadError::Thread)?;
        reader.join().unwrap_or(Err(ReadError::TooComplex))
    })
}

/// Reads on the thread at hand.
fn read_here(source: &str) -> Result<Reading, ReadError> {
    let allocator = Allocator::default();
    let program = parse::parse(&allocator, source)?;
    let javascript = strip::strip(source, &program)?;
    if javascript != source {
        parse::check_javascript(&javascript)?;
    }
    let mut interpreter = Interpreter::new(source);
    interpreter.declare_vars(&program.body);
    interpreter.block(&program.body);
    if interpreter.is_exhausted {
        return Err(ReadError::TooComplex);
    }
    let relations = interpreter.relations.into_iter();
    Ok(Reading {
        edges: relations.flat_map(|((from, to), relation)| edges(from, to, relation)).collect(),
        calls: interpreter.calls,
        parameters: interpreter.parameters,
        unresolved: interpreter.unresolved.into_iter().collect(),
        javascript,
    })
}

/// The edges between two calls: data flow and decisions, or else order.
fn edges(from: usize, to: usize, relation: Relation) -> Vec<Edge> {
    let edge = |kind| Edge { from, to, kind, arguments: std::collections::BTreeSet::new() };
    let provides = !relation.arguments.is_empty();
    let mut edges = Vec::new();
    if provides {
        edges.push(Edge { arguments: relation.arguments, ..edge(EdgeKind::Provides) });
    }
    let is = |tie| relation.ties.contains(&tie);
    if is(Tie::Decides) || (!provides && (is(Tie::DecidesHowOften) || is(Tie::PrecedesInBranch))) {
        edges.push(edge(EdgeKind::Conditional));
    } else if !provides && is(Tie::Precedes) {
        edges.push(edge(EdgeKind::Sequence));
    }
    edges
}

/// The deepest nesting of brackets, those in texts and comments included.
fn bracket_depth(source: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in source.bytes() {
        match byte {
            b'(' | b'[' | b'{' | b'`' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}
