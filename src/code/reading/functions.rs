//! Functions and classes: made where they stand, read where they are called.

use std::collections::BTreeSet;

use oxc_ast::ast::{
    ArrowFunctionBody, ArrowFunctionExpression, ClassElement, Expression, FormalParameters, Function, MethodDefinitionKind,
    Statement,
};
use oxc_span::Span;

use super::builtins::is_function;
use super::interpreter::Interpreter;
use super::value::{CallId, Object, Pointer, Value};
use crate::structure::Repetition;

/// The source of a function.
#[derive(Clone, Copy)]
pub(super) enum Body<'a> {
    Function(&'a Function<'a>),
    Arrow(&'a ArrowFunctionExpression<'a>),
}

impl<'a> Body<'a> {
    fn parameters(self) -> &'a FormalParameters<'a> {
        match self {
            Self::Function(function) => &function.params,
            Self::Arrow(arrow) => &arrow.params,
        }
    }

    const fn is_async(self) -> bool {
        match self {
            Self::Function(function) => function.r#async,
            Self::Arrow(arrow) => arrow.r#async,
        }
    }

    fn span(self) -> Span {
        match self {
            Self::Function(function) => function.span,
            Self::Arrow(arrow) => arrow.span,
        }
    }
}

/// A function with the scope it was made in.
pub(super) struct Closure<'a> {
    body: Body<'a>,
    scope: usize,
    /// The value of `this` in an arrow function.
    this: Value,
}

/// A class with the scope it was made in.
pub(super) struct Class<'a> {
    definition: &'a oxc_ast::ast::Class<'a>,
    scope: usize,
    parent: Value,
}

/// A function that is being read.
pub(super) struct Frame {
    closure: Option<u32>,
    pub(super) returned: Value,
    /// The calls that have ended when it returns.
    pub(super) frontier: BTreeSet<CallId>,
    /// Arguments of the calls that it makes to itself.
    again: Vec<Value>,
    pub(super) is_recursive: bool,
    pub(super) this: Value,
}

impl Frame {
    pub(super) fn program() -> Self {
        Self::new(None, Value::unknown())
    }

    fn new(closure: Option<u32>, this: Value) -> Self {
        let (returned, frontier) = (Value::default(), BTreeSet::new());
        Self { closure, returned, frontier, again: Vec::new(), is_recursive: false, this }
    }
}

impl<'a> Interpreter<'a> {
    pub(super) fn closure(&mut self, body: Body<'a>) -> Value {
        let id = self.intern(1, body.span().start);
        let this = self.frames.last().map(|frame| frame.this.clone()).unwrap_or_default();
        let scope = self.scope;
        let closure = self.closures.entry(id).or_insert(Closure { body, scope, this: Value::default() });
        closure.scope = scope;
        closure.this.join(&this);
        Value::pointing(Pointer::Function(id))
    }

    /// Reads a call of a function of the program. `called` is the place that calls it.
    pub(super) fn call_closure(&mut self, id: u32, this: Option<&Value>, arguments: &[Value], called: Span) -> Value {
        let active = self.frames.iter().position(|frame| frame.closure == Some(id));
        if let Some(frame) = active.map(|at| &mut self.frames[at]) {
            return recurse(frame, arguments);
        }
        let closure = &self.closures[&id];
        let (body, scope) = (closure.body, closure.scope);
        let this = if matches!(body, Body::Arrow(_)) { closure.this.clone() } else { this.cloned().unwrap_or_default() };
        let outer = (self.scope, self.context, self.state.frontier.clone());
        self.context = self.intern(2, called.start ^ body.span().start.rotate_left(16));
        self.frames.push(Frame::new(Some(id), this));
        self.depth += 4;
        let first_call = self.calls.len();
        self.read_until_stable(body, scope, arguments.to_vec(), &outer.2);
        self.depth -= 4;
        let frame = self.frames.pop().expect("pushed above");
        (self.scope, self.context) = (outer.0, outer.1);
        if frame.is_recursive {
            self.calls[first_call..].iter_mut().for_each(|call| call.repetition = Repetition::Loop);
        }
        let mut returned = frame.returned;
        if !frame.frontier.is_empty() {
            self.state.frontier = frame.frontier;
        }
        self.reduce_frontier();
        if body.is_async() {
            // Whoever calls does not wait: the calls have ended when the value is awaited.
            let ended = self.reopen(outer.2);
            returned.pending.extend(ended);
        }
        if returned == Value::default() { Value::unknown() } else { returned }
    }

    /// Reads the function at the top of the frames; one that calls itself again and again, until nothing new is found.
    fn read_until_stable(&mut self, body: Body<'a>, scope: usize, mut arguments: Vec<Value>, frontier: &BTreeSet<CallId>) {
        loop {
            let frame = self.frames.last().expect("the function is being read");
            let before = (frame.is_recursive, frame.returned.clone(), arguments.clone());
            self.scope = scope;
            self.open_scope();
            self.state.frontier.clone_from(frontier);
            self.read_body(body, &arguments);
            let frame = self.frames.last_mut().expect("the function is being read");
            for (at, value) in std::mem::take(&mut frame.again).iter().enumerate() {
                if arguments.len() <= at {
                    arguments.push(Value::unknown());
                }
                arguments[at].join(value);
            }
            let is_stable = before == (frame.is_recursive, frame.returned.clone(), arguments.clone());
            if !frame.is_recursive || is_stable || !self.step() {
                break;
            }
        }
    }

    fn read_body(&mut self, body: Body<'a>, arguments: &[Value]) {
        self.bind_parameters(body.parameters(), arguments);
        match body {
            Body::Function(function) => {
                if let Some(body) = &function.body {
                    self.function_statements(&body.statements);
                }
            }
            Body::Arrow(arrow) => match &arrow.body {
                ArrowFunctionBody::FunctionBody(body) => self.function_statements(&body.statements),
                body => {
                    let value = self.expression(body.as_expression().expect("the other kind of body"));
                    self.returns(value);
                }
            },
        }
    }

    fn function_statements(&mut self, statements: &'a [Statement<'a>]) {
        let loops = std::mem::take(&mut self.loops);
        self.declare_vars(statements);
        let exit = self.block(statements);
        self.loops = loops;
        if !exit.ends {
            self.returns(Value::unknown());
        }
    }

    /// Notes a value that the function gives back, at the place where it does.
    pub(super) fn returns(&mut self, value: Value) {
        let value = if self.frames.last().is_some_and(|frame| frame.closure.is_some()) { value } else { self.awaited(value) };
        let frontier = self.state.frontier.clone();
        if let Some(frame) = self.frames.last_mut() {
            frame.frontier.extend(frontier);
            frame.returned.join(&value);
        }
    }

    fn bind_parameters(&mut self, parameters: &'a FormalParameters<'a>, arguments: &[Value]) {
        for (at, parameter) in parameters.items.iter().enumerate() {
            let mut value = arguments.get(at).cloned().unwrap_or_else(Value::unknown);
            if let Some(default) = &parameter.initializer {
                let default = self.expression(default);
                value = if arguments.len() > at { value.joined(&default) } else { default };
            }
            self.bind(&parameter.pattern, value);
        }
        if let Some(rest) = &parameters.rest {
            let values = arguments.get(parameters.items.len()..).unwrap_or_default().to_vec();
            let array = self.array(values, Value::default(), rest.span);
            self.bind(&rest.rest.argument, array);
        }
    }

    /// Reads a function that a method of the language calls with `arguments`, any number of times.
    pub(super) fn call_back(&mut self, function: &Value, arguments: &[Value], called: Span, repetition: Repetition) -> Value {
        if !is_function(function) {
            return Value::default();
        }
        if repetition != Repetition::Once {
            self.repetition.push(repetition);
        }
        let mut result = Value::default();
        loop {
            let before = (self.state.clone(), result.clone());
            let value = self.call_value(function, None, arguments, called);
            result.join(&value);
            self.state.join(&before.0);
            if repetition == Repetition::Once
                || (self.state.variables == before.0.variables && self.state.heap == before.0.heap)
                || !self.step()
            {
                break;
            }
        }
        self.reduce_frontier();
        if repetition != Repetition::Once {
            self.repetition.pop();
        }
        result
    }

    pub(super) fn class(&mut self, class: &'a oxc_ast::ast::Class<'a>) -> Value {
        let parent = class.heritage.as_ref().map(|heritage| self.expression(&heritage.expression)).unwrap_or_default();
        let id = self.intern(3, class.span.start);
        self.classes.insert(id, Class { definition: class, scope: self.scope, parent });
        let statics = self.object_at(Object::default(), class.span);
        self.members(class, &statics, true);
        Value::pointing(Pointer::Class(id)).joined(&statics)
    }

    /// An instance: an object with the methods and fields of the class and of those it extends.
    pub(super) fn instance(&mut self, id: u32, arguments: &[Value], called: Span) -> Value {
        let this = self.object_at(Object::default(), called);
        self.construct(id, &this, arguments, called);
        this
    }

    fn construct(&mut self, id: u32, this: &Value, arguments: &[Value], called: Span) {
        let Class { definition: class, scope, parent } = &self.classes[&id];
        let (class, scope, parent) = (*class, *scope, parent.clone());
        if self.depth > 200 || !self.step() {
            return;
        }
        self.depth += 4;
        for pointer in &parent.pointers {
            if let Pointer::Class(parent) = pointer {
                self.construct(*parent, this, arguments, called);
            }
        }
        let outer = std::mem::replace(&mut self.scope, scope);
        let constructor = self.members(class, this, false);
        if let Some(Pointer::Function(id)) = constructor.as_ref().and_then(|value| value.pointers.first()) {
            self.call_closure(*id, Some(this), arguments, called);
        }
        self.scope = outer;
        self.depth -= 4;
    }

    /// Puts the members of a class into an object; gives the constructor.
    fn members(&mut self, class: &'a oxc_ast::ast::Class<'a>, this: &Value, is_static: bool) -> Option<Value> {
        let mut constructor = None;
        self.frames.push(Frame::new(None, this.clone()));
        for element in &class.body.body {
            match element {
                ClassElement::MethodDefinition(method) if method.r#static == is_static => {
                    let function = self.closure(Body::Function(&method.value));
                    match method.kind {
                        MethodDefinitionKind::Constructor => constructor = Some(function),
                        MethodDefinitionKind::Method => self.put(this, method.key.name().as_deref(), &function),
                        MethodDefinitionKind::Get | MethodDefinitionKind::Set => {
                            let value = self.accessor(&function, this, method.span);
                            self.put(this, method.key.name().as_deref(), &value);
                        }
                    }
                }
                ClassElement::PropertyDefinition(property) if property.r#static == is_static => {
                    let value =
                        property.value.as_ref().map_or_else(Value::unknown, |value: &Expression<'a>| self.expression(value));
                    self.put(this, property.key.name().as_deref(), &value);
                }
                ClassElement::StaticBlock(block) if is_static => {
                    self.block(&block.body);
                }
                _ => {}
            }
        }
        self.frames.pop();
        constructor
    }

    /// The value that a getter gives; nothing tells when it is asked.
    pub(super) fn accessor(&mut self, function: &Value, this: &Value, span: Span) -> Value {
        let Some(Pointer::Function(id)) = function.pointers.first() else { return Value::unknown() };
        self.call_closure(*id, Some(this), &[Value::unknown()], span)
    }
}

/// A call that a function makes to itself: its arguments join those of the call being read, and what it has returned so far comes back.
fn recurse(frame: &mut Frame, arguments: &[Value]) -> Value {
    frame.is_recursive = true;
    for (at, value) in arguments.iter().enumerate() {
        if frame.again.len() <= at {
            frame.again.push(Value::unknown());
        }
        frame.again[at].join(value);
    }
    frame.returned.clone().joined(&Value::unknown())
}
