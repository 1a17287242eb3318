//! The abstract interpreter: walks a program once along every path and keeps, for every value, the calls it may come from.
//!
//! It errs on one side. A value may be said to come from a call that it never comes from, but not the other way round: branches are joined,
//! loops are read until nothing changes, a variable that another function assigns keeps all its values, an unknown function may
//! hand any of its arguments on. Functions are read where they are called, so a helper that is called twice makes its calls twice.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use oxc_span::Span;

use super::functions::{Class, Closure, Frame};
use super::statements::LoopFrame;
use super::value::{CallId, ObjectId, Origin, Pointer, State, Value, Variable};
use crate::structure::{Call, Position, Reason, Repetition, Unresolved};

/// Expressions and statements read, at most; reading helpers of helpers or loops in loops again and again costs some each time.
const STEPS_MAX: usize = 400_000;
/// Nesting of expressions, statements and calls, at most.
const DEPTH_MAX: usize = 400;
/// Calls in one program, at most: the default of `limits.steps_max`.
pub(super) const CALLS_MAX: usize = 1000;

/// A scope of names.
pub(super) struct Scope<'a> {
    parent: Option<usize>,
    names: BTreeMap<&'a str, Variable>,
}

/// A condition under which the program is being read.
#[derive(Clone)]
pub(super) struct Condition {
    /// `None` for the test of a loop, which decides how often and not whether.
    pub(super) branch: Option<u32>,
    pub(super) deciders: BTreeSet<CallId>,
}

/// What one call is to another, besides data flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tie {
    Decides,
    DecidesHowOften,
    Precedes,
    PrecedesInBranch,
}

/// The relations between two calls, as they are found.
#[derive(Default)]
pub(super) struct Relation {
    /// The arguments that the result of the first may reach.
    pub(super) arguments: BTreeSet<String>,
    pub(super) ties: BTreeSet<Tie>,
}

pub(super) struct Interpreter<'a> {
    pub(super) source: &'a str,
    pub(super) state: State,
    pub(super) scopes: Vec<Scope<'a>>,
    pub(super) scope: usize,
    /// The calling context: a number per chain of call sites.
    pub(super) context: u32,
    interned: BTreeMap<(u32, u32, u32), u32>,
    /// The context that declared each variable, and whether another one assigns it.
    pub(super) owners: BTreeMap<Variable, (u32, bool)>,
    pub(super) closures: BTreeMap<u32, Closure<'a>>,
    pub(super) classes: BTreeMap<u32, Class<'a>>,
    /// Where the objects of the heap are made.
    pub(super) object_spans: BTreeMap<ObjectId, Range<usize>>,
    pub(super) frames: Vec<Frame>,
    pub(super) loops: Vec<LoopFrame>,
    /// Values assigned since the start of each open `try`, loop or switch, from which control may leave at any point.
    pub(super) assigned: Vec<BTreeMap<Variable, Value>>,
    /// Values thrown in each open `try`.
    pub(super) thrown: Vec<Value>,
    pub(super) conditions: Vec<Condition>,
    pub(super) repetition: Vec<Repetition>,
    pub(super) calls: Vec<Call>,
    pub(super) call_ids: BTreeMap<(u32, u32, String), CallId>,
    pub(super) branches: Vec<Vec<u32>>,
    pub(super) ancestors: Vec<BTreeSet<CallId>>,
    /// The calls that had ended last when each call was made, the last time it was read.
    pub(super) made_after: BTreeMap<CallId, BTreeSet<CallId>>,
    pub(super) relations: BTreeMap<(CallId, CallId), Relation>,
    pub(super) parameters: BTreeSet<String>,
    /// The fields of `args` in the order in which they were met.
    inputs: Vec<String>,
    pub(super) unresolved: BTreeSet<Unresolved>,
    pub(super) depth: usize,
    steps: usize,
    next_branch: u32,
    pub(super) is_exhausted: bool,
}

impl<'a> Interpreter<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        let mut new = Self {
            source,
            state: State::default(),
            scopes: vec![Scope { parent: None, names: BTreeMap::new() }],
            scope: 0,
            context: 0,
            interned: BTreeMap::new(),
            owners: BTreeMap::new(),
            closures: BTreeMap::new(),
            classes: BTreeMap::new(),
            object_spans: BTreeMap::new(),
            frames: vec![Frame::program()],
            loops: Vec::new(),
            assigned: Vec::new(),
            thrown: Vec::new(),
            conditions: Vec::new(),
            repetition: Vec::new(),
            calls: Vec::new(),
            call_ids: BTreeMap::new(),
            branches: Vec::new(),
            ancestors: Vec::new(),
            made_after: BTreeMap::new(),
            relations: BTreeMap::new(),
            parameters: BTreeSet::new(),
            inputs: Vec::new(),
            unresolved: BTreeSet::new(),
            depth: 0,
            steps: 0,
            next_branch: 0,
            is_exhausted: false,
        };
        for (at, (name, pointer)) in
            [("tools", Pointer::Tools), ("capabilities", Pointer::Capabilities), ("args", Pointer::Arguments)]
                .into_iter()
                .enumerate()
        {
            let variable = new.declare(name, u32::MAX - u32::try_from(at).expect("three names"));
            new.state.variables.insert(variable, Value::pointing(pointer));
        }
        new
    }

    /// Counts one step; false when the program is too large to go on.
    pub(super) fn step(&mut self) -> bool {
        self.steps += 1;
        if self.steps > STEPS_MAX || self.depth > DEPTH_MAX || self.calls.len() > CALLS_MAX {
            self.is_exhausted = true;
        }
        !self.is_exhausted
    }

    /// A number for a place in a context: the same each time it is asked for.
    pub(super) fn intern(&mut self, kind: u32, place: u32) -> u32 {
        let next = u32::try_from(self.interned.len()).unwrap_or(u32::MAX) + 1;
        *self.interned.entry((self.context, kind, place)).or_insert(next)
    }

    pub(super) fn open_scope(&mut self) -> usize {
        let outer = self.scope;
        self.scopes.push(Scope { parent: Some(outer), names: BTreeMap::new() });
        self.scope = self.scopes.len() - 1;
        outer
    }

    /// Declares a name in the scope at hand.
    pub(super) fn declare(&mut self, name: &'a str, place: u32) -> Variable {
        let variable = self.intern(0, place);
        self.owners.entry(variable).or_insert((self.context, false));
        let scope = self.scope;
        self.scopes[scope].names.insert(name, variable);
        variable
    }

    pub(super) fn lookup(&self, name: &str) -> Option<Variable> {
        let mut at = Some(self.scope);
        while let Some(scope) = at.map(|at| &self.scopes[at]) {
            if let Some(variable) = scope.names.get(name) {
                return Some(*variable);
            }
            at = scope.parent;
        }
        None
    }

    pub(super) fn read_name(&mut self, name: &str, span: Span) -> Value {
        let Some(variable) = self.lookup(name) else {
            if name == "eval" || name == "Function" {
                self.mark(span, Reason::CodeFromText);
            }
            return Value::pointing(Pointer::Global(name.to_owned()));
        };
        self.state.variables.get(&variable).cloned().unwrap_or_else(Value::unknown)
    }

    /// Sets a variable. Its old value is forgotten, unless another function assigns it too: then nobody knows who was last.
    pub(super) fn set(&mut self, variable: Variable, value: Value) {
        let context = self.context;
        let owner = self.owners.entry(variable).or_insert((context, false));
        owner.1 |= owner.0 != context;
        let keeps_old = owner.1 || self.frames.last().is_some_and(|frame| frame.is_recursive);
        for assigned in &mut self.assigned {
            assigned.entry(variable).or_default().join(&value);
        }
        if keeps_old {
            self.state.variables.entry(variable).or_default().join(&value);
        } else {
            self.state.variables.insert(variable, value);
        }
    }

    /// Reads something whose steps may be left at any point, and gives what it assigned on the way.
    pub(super) fn logged<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> (T, BTreeMap<Variable, Value>) {
        self.assigned.push(BTreeMap::new());
        let result = read(self);
        (result, self.assigned.pop().unwrap_or_default())
    }

    pub(super) fn join_assigned(&mut self, assigned: &BTreeMap<Variable, Value>) {
        for (variable, value) in assigned {
            self.state.variables.entry(*variable).or_default().join(value);
        }
    }

    pub(super) fn branch(&mut self, deciders: &BTreeSet<CallId>) -> Condition {
        self.next_branch += 1;
        Condition { branch: Some(self.next_branch), deciders: deciders.clone() }
    }

    pub(super) fn under<T>(&mut self, condition: Condition, read: impl FnOnce(&mut Self) -> T) -> T {
        self.conditions.push(condition);
        let result = read(self);
        self.conditions.pop();
        result
    }

    /// Reads two ways of which a run takes one, and joins what they leave behind.
    pub(super) fn either<T>(
        &mut self,
        deciders: &BTreeSet<CallId>,
        one: impl FnOnce(&mut Self) -> T,
        other: impl FnOnce(&mut Self) -> T,
    ) -> (T, T) {
        let before = self.state.clone();
        let condition = self.branch(deciders);
        let first = self.under(condition, one);
        let after = std::mem::replace(&mut self.state, before);
        let condition = self.branch(deciders);
        let second = self.under(condition, other);
        self.state.join(&after);
        self.reduce_frontier();
        (first, second)
    }

    /// Drops calls from the frontier that others in it came after.
    pub(super) fn reduce_frontier(&mut self) {
        let older: BTreeSet<CallId> = self.state.frontier.iter().flat_map(|id| self.ancestors[*id].iter().copied()).collect();
        self.state.frontier.retain(|id| !older.contains(id));
    }

    /// The value once it has been waited for.
    pub(super) fn awaited(&mut self, mut value: Value) -> Value {
        for id in value.objects().collect::<Vec<_>>() {
            if let Some(object) = self.state.heap.get(&id).filter(|object| object.is_promise) {
                value.join(&object.rest);
            }
        }
        let pending = std::mem::take(&mut value.pending);
        self.ended(&pending);
        value
    }

    /// Calls have ended: those that had ended before they were made are no longer the last ones.
    fn ended(&mut self, calls: &BTreeSet<CallId>) {
        let open: Vec<CallId> = calls.iter().copied().filter(|id| self.state.open.remove(id)).collect();
        for id in &open {
            let before = &self.made_after[id];
            self.state.frontier.retain(|last| !before.contains(last) && !self.ancestors[*id].contains(last));
        }
        self.state.frontier.extend(open);
    }

    /// What has ended since `outer` is open again for whoever called and has not waited.
    pub(super) fn reopen(&mut self, outer: BTreeSet<CallId>) -> BTreeSet<CallId> {
        let ended = std::mem::replace(&mut self.state.frontier, outer);
        let reopened: BTreeSet<CallId> = ended.difference(&self.state.frontier).copied().collect();
        for id in &reopened {
            self.made_after.entry(*id).or_default().extend(&self.state.frontier);
        }
        self.state.open.extend(&reopened);
        reopened
    }

    pub(super) fn mark(&mut self, span: Span, reason: Reason) {
        let position = Position::of(self.source, span.start as usize);
        self.unresolved.insert(Unresolved { position, reason });
    }

    pub(super) fn input(&mut self, field: &str) -> Value {
        self.parameters.insert(field.to_owned());
        let known = self.inputs.iter().position(|input| input == field);
        let at = known.unwrap_or_else(|| {
            self.inputs.push(field.to_owned());
            self.inputs.len() - 1
        });
        // Behind every place of the source.
        let place = u32::MAX / 2 + u32::try_from(at).unwrap_or(0);
        self.opaque([Origin::Input(field.to_owned())].into(), Span::new(place, 0))
    }
}

pub(super) fn range(span: Span) -> Range<usize> {
    span.start as usize..span.end as usize
}
