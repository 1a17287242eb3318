//! Functions and methods of the language: what they hand on and whom they call.

use std::collections::BTreeSet;

use oxc_span::Span;

use super::interpreter::Interpreter;
use super::value::{Object, Origin, Pointer, Value};
use crate::structure::{Reason, Repetition};

/// Methods that leave their object and their arguments as they are.
const PURE: [&str; 58] = [
    "at",
    "catch",
    "charAt",
    "charCodeAt",
    "codePointAt",
    "concat",
    "endsWith",
    "entries",
    "every",
    "filter",
    "finally",
    "find",
    "findIndex",
    "findLast",
    "findLastIndex",
    "flat",
    "flatMap",
    "forEach",
    "get",
    "has",
    "includes",
    "indexOf",
    "join",
    "keys",
    "lastIndexOf",
    "localeCompare",
    "map",
    "match",
    "matchAll",
    "normalize",
    "padEnd",
    "padStart",
    "pop",
    "reduce",
    "reduceRight",
    "repeat",
    "replace",
    "replaceAll",
    "search",
    "shift",
    "slice",
    "some",
    "split",
    "startsWith",
    "substring",
    "test",
    "then",
    "toFixed",
    "toISOString",
    "toLowerCase",
    "toSorted",
    "toReversed",
    "toString",
    "toUpperCase",
    "trim",
    "trimEnd",
    "trimStart",
    "values",
];

/// Global functions that change none of their arguments.
const PURE_GLOBALS: [&str; 10] =
    ["Array.", "Boolean", "JSON.", "Math.", "Number", "Object.", "String", "parse", "structuredClone", "isNaN"];

impl Interpreter<'_> {
    /// A method of a value that the program has not defined.
    pub(super) fn method(&mut self, object: &Value, name: Option<&str>, arguments: &[Value], span: Span) -> Value {
        if object.pointers.iter().any(Pointer::is_way_out) {
            self.mark(span, Reason::ToolsAsValue);
        }
        let first = arguments.first().cloned().unwrap_or_else(Value::unknown);
        let mut element = self.state.member(object, None);
        if object.pointers.contains(&Pointer::Arguments) {
            let input = self.input("");
            element.join(&input);
        }
        match name {
            Some("map" | "flatMap") if is_function(&first) => {
                let mut mapped =
                    self.call_back(&first, &[element, Value::unknown(), object.clone()], span, Repetition::Parallel);
                if name == Some("flatMap") {
                    let inner = self.property(&mapped, None, span);
                    mapped.join(&inner);
                }
                self.array(Vec::new(), mapped, span)
            }
            Some("forEach") => {
                self.call_back(&first, &[element, Value::unknown(), object.clone()], span, Repetition::Parallel);
                Value::unknown()
            }
            Some("reduce" | "reduceRight") if is_function(&first) => {
                let mut sum = arguments.get(1).cloned().unwrap_or_else(|| element.clone());
                loop {
                    let before = sum.clone();
                    let value =
                        self.call_back(&first, &[sum.clone(), element.clone(), Value::unknown()], span, Repetition::Loop);
                    sum.join(&value);
                    if sum == before || !self.step() {
                        return sum;
                    }
                }
            }
            Some("then") => self.then(object, &first, arguments.get(1), span),
            Some("catch") => self.catch(object, &first, span),
            Some("finally") => {
                let value = object.clone();
                let after = self.after(object, |this| this.call_back(&first, &[], span, Repetition::Once));
                Value { pending: after.pending, ..value }
            }
            Some("constructor") => {
                self.mark(span, Reason::CodeFromText);
                Value::unknown()
            }
            Some("call" | "apply") => {
                let rest = arguments.get(1..).unwrap_or_default().to_vec();
                let rest = if name == Some("apply") {
                    vec![self.property(rest.first().unwrap_or(&Value::unknown()), None, span)]
                } else {
                    rest
                };
                self.call_value(object, Some(&first), &rest, span)
            }
            Some("bind") => object.clone(),
            name => {
                let is_pure = name.is_some_and(|name| PURE.contains(&name));
                self.hand_on(object, arguments, is_pure, span)
            }
        }
    }

    /// Reads something that happens once a promise is settled; the value it gives is a promise too.
    fn after(&mut self, promise: &Value, read: impl FnOnce(&mut Self) -> Value) -> Value {
        let outer = self.state.frontier.clone();
        self.awaited(promise.clone());
        let value = read(self);
        let mut value = self.awaited(value);
        let ended = self.reopen(outer);
        value.pending.extend(ended);
        value
    }

    fn then(&mut self, promise: &Value, next: &Value, failed: Option<&Value>, span: Span) -> Value {
        let mut result = self.after(promise, |this| {
            let value = this.awaited(promise.clone());
            this.call_back(next, &[value], span, Repetition::Once)
        });
        if !is_function(next) {
            result.join(promise);
        }
        if let Some(failed) = failed {
            let value = self.catch(promise, failed, span);
            result.join(&value);
        }
        result
    }

    fn catch(&mut self, promise: &Value, failed: &Value, span: Span) -> Value {
        let error = Value::from_origins(self.state.deep(promise).origins);
        let condition = self.branch(&error.calls());
        let value =
            self.under(condition, |this| this.after(promise, |this| this.call_back(failed, &[error], span, Repetition::Once)));
        let mut result = promise.clone().joined(&value);
        result.pending = value.pending;
        result
    }

    /// `new Promise(executor)`.
    pub(super) fn new_promise(&mut self, arguments: &[Value], span: Span) -> Value {
        let promise = self.object_at(Object { is_promise: true, ..Object::default() }, span);
        let resolvers: BTreeSet<Pointer> = promise.objects().map(Pointer::Resolver).collect();
        let resolver = Value { pointers: resolvers, ..Value::unknown() };
        if let Some(executor) = arguments.first() {
            self.call_back(executor, &[resolver.clone(), resolver], span, Repetition::Once);
        }
        promise
    }

    /// A global function, or a method of a global object.
    pub(super) fn global_call(&mut self, name: &str, this: Option<&Value>, arguments: &[Value], span: Span) -> Value {
        let first = arguments.first().cloned().unwrap_or_else(Value::unknown);
        let name = name.trim_start_matches("globalThis.");
        match name {
            "eval" | "Function" => Value::unknown(),
            "Promise.all" | "Promise.allSettled" => self.promise_all(&first, name == "Promise.all", span),
            "Promise.any" | "Promise.race" => self.property(&first, None, span),
            "Promise.resolve" | "Promise.reject" => first,
            "Object.assign" => {
                for from in arguments.iter().skip(1) {
                    self.spread_into(&first, from, span);
                    self.put(&first, None, &Value::from_origins(self.state.deep(from).origins));
                }
                let copied = arguments.iter().skip(1).fold(first, Value::joined);
                Value { known: super::value::Known::Unknown, ..copied }
            }
            "Array.from" if arguments.len() > 1 => {
                let elements = self.property(&first, None, span);
                let mapped = self.call_back(&arguments[1], &[elements, Value::unknown()], span, Repetition::Parallel);
                self.array(Vec::new(), mapped, span)
            }
            name if name.starts_with("console.") => Value::unknown(),
            name => {
                let is_pure = PURE_GLOBALS.iter().any(|pure| name.starts_with(pure));
                let object = this.filter(|this| !this.pointers.iter().all(|one| matches!(one, Pointer::Global(_))));
                self.hand_on(&object.cloned().unwrap_or_default(), arguments, is_pure, span)
            }
        }
    }

    /// The value of several promises: waited for together, each where it stood.
    fn promise_all(&mut self, promises: &Value, keeps_shape: bool, span: Span) -> Value {
        let mut pending = promises.pending.clone();
        for id in promises.objects() {
            if let Some(object) = self.state.heap.get(&id) {
                pending.extend(object.fields.values().chain([&object.rest]).flat_map(|value| value.pending.iter().copied()));
            }
        }
        let only = promises.objects().next().filter(|_| promises.pointers.len() == 1 && keeps_shape);
        let mut result = match only.and_then(|id| self.state.heap.get(&id).cloned()) {
            Some(object) => {
                let settled = |value: Value| Value { pending: BTreeSet::new(), ..value };
                let fields = object.fields.into_iter().map(|(name, value)| (name, settled(value))).collect();
                let rest = settled(object.rest);
                self.object_at(Object { fields, rest, is_array: true, is_promise: false }, span)
            }
            None => self.hand_on(promises, &[], true, span),
        };
        result.pending = pending;
        result
    }

    pub(super) fn unknown_call(&mut self, callee: &Value, arguments: &[Value], span: Span) -> Value {
        self.hand_on(callee, arguments, false, span)
    }

    /// A function of which nothing is known: it may call every function that it gets, and what it gives may hold anything it got. One
    /// that is not pure may also put anything into anything.
    fn hand_on(&mut self, object: &Value, arguments: &[Value], is_pure: bool, span: Span) -> Value {
        let mut all = arguments.iter().fold(object.clone(), Value::joined);
        for argument in arguments {
            let inside = self.state.deep(argument);
            let is_whole = |pointer: &Pointer| {
                matches!(pointer, Pointer::Tools | Pointer::Server(_) | Pointer::Capabilities | Pointer::ComputedTool)
            };
            if inside.pointers.iter().any(is_whole) {
                self.mark(span, Reason::ToolsAsValue);
            }
        }
        let mut element = self.state.member(&all, None);
        if all.pointers.contains(&Pointer::Arguments) {
            let input = self.input("");
            element.join(&input);
        }
        for function in arguments.iter().filter(|argument| is_function(argument)) {
            let given = Value { pending: BTreeSet::new(), ..element.clone().joined(object) };
            let value = self.call_back(function, &[given.clone(), given.clone(), given], span, Repetition::Parallel);
            all.join(&value);
        }
        if !is_pure {
            let held = Value { pointers: without_globals(&all), ..all.clone() };
            for target in arguments.iter().chain([object]) {
                self.put(target, None, &held);
            }
        }
        let origins: BTreeSet<Origin> = self.state.deep(&all).origins;
        let mut result = self.opaque(origins, span);
        let held = Value { pointers: without_globals(&all), ..all }.joined(&element);
        self.put(&result, None, &held);
        result.pending = held.pending;
        result
    }
}

/// Whether the program can follow a call of the value.
pub(super) fn is_function(value: &Value) -> bool {
    value.pointers.iter().any(|pointer| matches!(pointer, Pointer::Function(_) | Pointer::Resolver(_)) || pointer.is_way_out())
}

fn without_globals(value: &Value) -> BTreeSet<Pointer> {
    value.pointers.iter().filter(|pointer| !matches!(pointer, Pointer::Global(_))).cloned().collect()
}
