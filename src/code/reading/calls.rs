//! Calls of functions, tools and capabilities; the relations between them.

use std::collections::BTreeSet;

use oxc_ast::ast::{Argument, CallExpression, Expression, NewExpression};
use oxc_span::{GetSpan, Span};
use pml_core::id::ToolId;

use super::interpreter::{Interpreter, Tie, range};
use super::value::{CallId, Known, Object, Origin, Pointer, Value};
use crate::structure::{Call, Callee, LiteralArgument, Position, Reason, Repetition};

/// Depth to which arguments are taken apart; what lies deeper belongs to the path above it.
const PATH_DEPTH_MAX: usize = 6;

/// One argument, or a part of one.
struct Part {
    path: String,
    value: Value,
}

impl<'a> Interpreter<'a> {
    pub(super) fn call(&mut self, call: &'a CallExpression<'a>) -> Value {
        let Some(member) = call.callee.get_inner_expression().as_member_expression() else {
            if matches!(call.callee, Expression::Super(_)) {
                // What the constructor of the parent does with them stays in the object.
                let this = self.frames.last().map(|frame| frame.this.clone()).unwrap_or_default();
                for argument in self.arguments(&call.arguments) {
                    self.put(&this, None, &argument);
                }
                return Value::unknown();
            }
            let callee = self.expression(&call.callee);
            let arguments = self.arguments(&call.arguments);
            return self.call_value(&callee, None, &arguments, call.span);
        };
        let object = self.expression(member.object());
        let name = self.member_name(member);
        let callee = self.property(&object, name.as_deref(), member.span());
        let arguments = self.arguments(&call.arguments);
        let is_ours = |pointer: &Pointer| !matches!(pointer, Pointer::Object(_) | Pointer::Arguments);
        if callee.pointers.iter().any(is_ours) {
            return self.call_value(&callee, Some(&object), &arguments, call.span);
        }
        self.method(&object, name.as_deref(), &arguments, call.span)
    }

    /// The values of arguments; all that a spread may hold stands in the last one.
    fn arguments(&mut self, arguments: &'a [Argument<'a>]) -> Vec<Value> {
        let mut values = Vec::new();
        let mut spread_at: Option<(usize, Value)> = None;
        for argument in arguments {
            let value = match argument {
                Argument::SpreadElement(spread) => {
                    let value = self.expression(&spread.argument);
                    let elements = self.property(&value, None, spread.span);
                    spread_at.get_or_insert((values.len(), Value::unknown())).1.join(&elements);
                    continue;
                }
                argument => argument.as_expression().map_or_else(Value::unknown, |argument| self.expression(argument)),
            };
            match &mut spread_at {
                Some((_, spread)) => spread.join(&value),
                None => values.push(value),
            }
        }
        if let Some((_, spread)) = spread_at {
            // A function takes them by position; nobody knows how many there are.
            values.extend(std::iter::repeat_n(spread, 8));
        }
        values
    }

    pub(super) fn new_expression(&mut self, new: &'a NewExpression<'a>) -> Value {
        let callee = self.expression(&new.callee);
        let arguments = self.arguments(&new.arguments);
        if callee.pointers == [Pointer::Global("Promise".to_owned())].into() {
            return self.new_promise(&arguments, new.span);
        }
        let mut made = Value::default();
        for pointer in &callee.pointers {
            if let Pointer::Class(id) = pointer {
                let instance = self.instance(*id, &arguments, new.span);
                made.join(&instance);
            }
        }
        if made == Value::default() { self.unknown_call(&Value::unknown(), &arguments, new.span) } else { made }
    }

    /// A call of whatever a value may be.
    pub(super) fn call_value(&mut self, callee: &Value, this: Option<&Value>, arguments: &[Value], span: Span) -> Value {
        let can_be_called = |pointer: &&Pointer| !matches!(pointer, Pointer::Object(_) | Pointer::Arguments);
        let pointers: Vec<&Pointer> = callee.pointers.iter().filter(can_be_called).collect();
        match pointers[..] {
            [] => self.unknown_call(callee, arguments, span),
            [pointer] => self.call_pointer(pointer, this, arguments, span),
            _ => {
                // One of them is called; which one, nobody knows.
                let before = self.state.clone();
                let (mut after, mut result) = (None, Value::default());
                for pointer in pointers {
                    self.state = before.clone();
                    let condition = self.branch(&callee.calls());
                    let value = self.under(condition, |me| me.call_pointer(pointer, this, arguments, span));
                    result.join(&value);
                    let state = std::mem::take(&mut self.state);
                    match &mut after {
                        None => after = Some(state),
                        Some(after) => after.join(&state),
                    }
                }
                self.state = after.unwrap_or(before);
                self.reduce_frontier();
                result
            }
        }
    }

    fn call_pointer(&mut self, pointer: &Pointer, this: Option<&Value>, arguments: &[Value], span: Span) -> Value {
        match pointer {
            Pointer::Function(id) => self.call_closure(*id, this, arguments, span),
            Pointer::Tool(server, name) => {
                let tool = format!("{server}:{name}").parse::<ToolId>().ok();
                if tool.is_none() {
                    self.mark(span, Reason::InvalidToolName);
                }
                self.outside_call(tool.map_or(Callee::Computed, Callee::Tool), arguments, span)
            }
            Pointer::Capability(name) => self.outside_call(Callee::Capability(name.clone()), arguments, span),
            Pointer::ComputedTool => self.outside_call(Callee::Computed, arguments, span),
            Pointer::Tools | Pointer::Server(_) | Pointer::Capabilities => {
                self.mark(span, Reason::ToolsAsValue);
                Value::unknown()
            }
            Pointer::Resolver(promise) => {
                let value = arguments.first().cloned().unwrap_or_else(Value::unknown);
                self.put(&Value::pointing(Pointer::Object(*promise)), None, &value);
                Value::unknown()
            }
            Pointer::Global(name) => self.global_call(name, this, arguments, span),
            Pointer::Class(_) | Pointer::Object(_) | Pointer::Arguments => {
                self.unknown_call(&Value::unknown(), arguments, span)
            }
        }
    }

    /// A call that leaves the program.
    fn outside_call(&mut self, callee: Callee, arguments: &[Value], span: Span) -> Value {
        let key = (self.context, span.start, callee.to_string());
        let id = match self.call_ids.get(&key) {
            Some(id) => *id,
            None => self.new_call(key, callee, span),
        };
        self.made_after.insert(id, self.state.frontier.clone());
        self.state.open.insert(id);
        for condition in &self.conditions {
            for decider in &condition.deciders {
                let tie = if condition.branch.is_some() { Tie::Decides } else { Tie::DecidesHowOften };
                self.relations.entry((*decider, id)).or_default().ties.insert(tie);
            }
        }
        self.calls[id].literals.clear();
        // The sandbox passes on the first argument only.
        let parts = arguments.first().map(|one| self.parts(one, String::new(), PATH_DEPTH_MAX)).unwrap_or_default();
        self.calls[id].names = names(&parts);
        for part in &parts {
            self.argument(id, part);
        }
        let mut result = self.opaque([Origin::Call(id)].into(), span);
        result.pending.insert(id);
        result
    }

    fn new_call(&mut self, key: (u32, u32, String), callee: Callee, span: Span) -> CallId {
        let id = self.calls.len();
        let branches: Vec<u32> = self.conditions.iter().filter_map(|condition| condition.branch).collect();
        let mut ancestors = BTreeSet::new();
        for before in self.state.frontier.clone() {
            let is_shared = branches.iter().all(|branch| self.branches[before].contains(branch));
            let tie = if is_shared { Tie::Precedes } else { Tie::PrecedesInBranch };
            self.relations.entry((before, id)).or_default().ties.insert(tie);
            ancestors.insert(before);
            ancestors.extend(&self.ancestors[before]);
        }
        self.ancestors.push(ancestors);
        self.calls.push(Call {
            callee,
            position: Position::of(self.source, span.start as usize),
            span: range(span),
            repetition: self.repetition.iter().copied().max().unwrap_or(Repetition::Once),
            is_optional: !branches.is_empty(),
            names: None,
            literals: Vec::new(),
            inputs: std::collections::BTreeMap::new(),
        });
        self.branches.push(branches);
        self.call_ids.insert(key, id);
        id
    }

    /// Takes an argument apart, as far as the program says what stands where.
    fn parts(&self, value: &Value, path: String, depth: usize) -> Vec<Part> {
        let whole = |value: &Value| vec![Part { path: path.clone(), value: value.clone() }];
        if !path.is_empty() && self.state.json(value, PATH_DEPTH_MAX).is_some() {
            return whole(value);
        }
        let object: Option<&Object> = match (value.pointers.first(), value.pointers.len(), value.origins.is_empty()) {
            (Some(Pointer::Object(id)), 1, true) if depth > 0 => self.state.heap.get(id),
            _ => None,
        };
        let Some(object) = object else { return whole(value) };
        let mut parts = Vec::new();
        for (name, member) in &object.fields {
            let name = name.replace('~', "~0").replace('/', "~1");
            parts.extend(self.parts(member, format!("{path}/{name}"), depth - 1));
        }
        if object.rest != Value::default() {
            parts.push(Part { path, value: object.rest.clone() });
        }
        parts
    }

    /// Notes where an argument comes from.
    fn argument(&mut self, call: CallId, part: &Part) {
        let all = self.state.deep(&part.value);
        for origin in &all.origins {
            match origin {
                Origin::Call(from) => {
                    self.relations.entry((*from, call)).or_default().arguments.insert(part.path.clone());
                }
                Origin::Input(field) => {
                    self.parameters.insert(field.clone());
                    self.calls[call].inputs.entry(part.path.clone()).or_default().insert(field.clone());
                }
            }
        }
        let Some(value) = self.state.json(&part.value, PATH_DEPTH_MAX) else { return };
        let span = match (&part.value.known, part.value.objects().next()) {
            (Known::Exactly(_, span), _) => span.clone(),
            (_, Some(object)) => self.object_spans[&object].clone(),
            _ => return,
        };
        self.calls[call].literals.push(LiteralArgument { path: part.path.clone(), value, span });
    }
}

/// The names at the top of arguments; `None` where something without a name is passed.
fn names(parts: &[Part]) -> Option<BTreeSet<String>> {
    let name = |part: &Part| {
        let name = part.path.strip_prefix('/')?.split('/').next()?;
        Some(name.replace("~1", "/").replace("~0", "~"))
    };
    parts.iter().map(name).collect()
}
