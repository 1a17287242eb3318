//! Expressions: the value that each may have.

use std::collections::BTreeSet;

use oxc_ast::ast::{
    ArrayExpression, ArrayExpressionElement, AssignmentExpression, ChainElement, Expression, MemberExpression, NumericLiteral,
    ObjectExpression, ObjectPropertyKind, PropertyKind, SimpleAssignmentTarget, TemplateLiteral,
};
use oxc_span::{GetSpan, Span};
use oxc_syntax::operator::{BinaryOperator, UnaryOperator};
use serde_json::{Number, Value as Json};

use super::functions::Body;
use super::interpreter::{Interpreter, range};
use super::value::{Known, Object, Origin, Pointer, Value};
use crate::structure::Reason;

/// Numbers up to here are whole in JSON and in JavaScript.
const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;

impl<'a> Interpreter<'a> {
    pub(super) fn expression(&mut self, expression: &'a Expression<'a>) -> Value {
        if !self.step() {
            return Value::unknown();
        }
        self.depth += 1;
        let value = self.expression_inside(expression);
        self.depth -= 1;
        value
    }

    fn expression_inside(&mut self, expression: &'a Expression<'a>) -> Value {
        let literal = |json: Json| Value::literal(json, range(expression.span()));
        match expression {
            Expression::BooleanLiteral(it) => literal(it.value.into()),
            Expression::NullLiteral(_) => literal(Json::Null),
            Expression::NumericLiteral(it) => literal(Json::Number(number(it))),
            Expression::StringLiteral(it) => literal(it.value.as_str().into()),
            Expression::TemplateLiteral(it) => self.template(it),
            Expression::Identifier(it) => self.read_name(it.name.as_str(), it.span),
            Expression::ThisExpression(_) => self.frames.last().map(|frame| frame.this.clone()).unwrap_or_default(),
            Expression::ArrayExpression(it) => self.array_literal(it),
            Expression::ObjectExpression(it) => self.object_literal(it),
            Expression::ArrowFunctionExpression(it) => self.closure(Body::Arrow(it)),
            Expression::FunctionExpression(it) => self.function_expression(it),
            Expression::ClassExpression(it) => self.class(it),
            Expression::AwaitExpression(it) => {
                let value = self.expression(&it.argument);
                self.awaited(value)
            }
            Expression::CallExpression(it) => self.call(it),
            Expression::NewExpression(it) => self.new_expression(it),
            Expression::ChainExpression(it) => match &it.expression {
                ChainElement::CallExpression(call) => self.call(call),
                ChainElement::TSNonNullExpression(inner) => self.expression(&inner.expression),
                member => member.as_member_expression().map_or_else(Value::unknown, |member| self.member(member)),
            },
            Expression::AssignmentExpression(it) => self.assignment(it),
            Expression::ConditionalExpression(it) => {
                let test = self.expression(&it.test);
                let deciders = self.state.deep(&test).calls();
                let (one, other) =
                    self.either(&deciders, |this| this.expression(&it.consequent), |this| this.expression(&it.alternate));
                one.joined(&other)
            }
            Expression::LogicalExpression(it) => {
                let left = self.expression(&it.left);
                let deciders = self.state.deep(&left).calls();
                let (right, _) = self.either(&deciders, |this| this.expression(&it.right), |_| Value::default());
                left.joined(&right)
            }
            Expression::SequenceExpression(it) => {
                it.expressions.iter().map(|one| self.expression(one)).last().unwrap_or_else(Value::unknown)
            }
            Expression::YieldExpression(it) => {
                let value = it.argument.as_ref().map_or_else(Value::unknown, |value| self.expression(value));
                let yielded = self.array(Vec::new(), value, it.span);
                self.frames.last_mut().into_iter().for_each(|frame| frame.returned.join(&yielded));
                Value::unknown()
            }
            Expression::ImportExpression(it) => {
                self.mark(it.span, Reason::Import);
                Value::unknown()
            }
            _ => self.plain(expression),
        }
    }

    /// Expressions that only combine, and those that types wrap around others.
    fn plain(&mut self, expression: &'a Expression<'a>) -> Value {
        match expression {
            Expression::BinaryExpression(it) => {
                let (left, right) = (self.expression(&it.left), self.expression(&it.right));
                if let (Known::Exactly(Json::String(one), _), Known::Exactly(Json::String(other), _)) =
                    (&left.known, &right.known)
                    && it.operator == BinaryOperator::Addition
                {
                    return Value::literal(Json::String(format!("{one}{other}")), range(it.span));
                }
                let all = left.joined(&right);
                Value::from_origins(self.state.deep(&all).origins)
            }
            Expression::UnaryExpression(it) => {
                let value = self.expression(&it.argument);
                match &value.known {
                    Known::Exactly(Json::Number(number), _) if it.operator == UnaryOperator::UnaryNegation => {
                        let negative =
                            number.as_i64().map(|whole| (-whole).into()).or_else(|| Number::from_f64(-number.as_f64()?));
                        negative.map_or_else(Value::unknown, |number| Value::literal(Json::Number(number), range(it.span)))
                    }
                    _ => Value::from_origins(self.state.deep(&value).origins),
                }
            }
            Expression::UpdateExpression(it) => {
                if let SimpleAssignmentTarget::AssignmentTargetIdentifier(name) = &it.argument
                    && let Some(variable) = self.lookup(name.name.as_str())
                {
                    let value = Value::from_origins(self.read_name(name.name.as_str(), it.span).origins);
                    self.set(variable, value.clone());
                    return value;
                }
                it.argument.as_member_expression().map_or_else(Value::unknown, |member| self.member(member))
            }
            Expression::TaggedTemplateExpression(it) => {
                let tag = self.expression(&it.tag);
                let parts: Vec<Value> = it.quasi.expressions.iter().map(|part| self.expression(part)).collect();
                let strings = std::iter::once(Value::unknown()).chain(parts).collect::<Vec<_>>();
                self.call_value(&tag, None, &strings, it.span)
            }
            Expression::ParenthesizedExpression(it) => self.expression(&it.expression),
            Expression::TSAsExpression(it) => self.expression(&it.expression),
            Expression::TSSatisfiesExpression(it) => self.expression(&it.expression),
            Expression::TSTypeAssertion(it) => self.expression(&it.expression),
            Expression::TSNonNullExpression(it) => self.expression(&it.expression),
            Expression::TSInstantiationExpression(it) => self.expression(&it.expression),
            Expression::PrivateInExpression(it) => self.expression(&it.right),
            expression => expression.as_member_expression().map_or_else(Value::unknown, |member| self.member(member)),
        }
    }

    fn function_expression(&mut self, function: &'a oxc_ast::ast::Function<'a>) -> Value {
        let Some(name) = &function.id else { return self.closure(Body::Function(function)) };
        let outer = self.open_scope();
        let variable = self.declare(name.name.as_str(), name.span.start);
        let value = self.closure(Body::Function(function));
        self.state.variables.insert(variable, value.clone());
        self.scope = outer;
        value
    }

    fn template(&mut self, template: &'a TemplateLiteral<'a>) -> Value {
        let mut text = Some(String::new());
        let mut origins = BTreeSet::new();
        for (at, quasi) in template.quasis.iter().enumerate() {
            let cooked = quasi.value.cooked.as_ref().map(ToString::to_string);
            text = text.zip(cooked).map(|(text, part)| text + &part);
            if let Some(part) = template.expressions.get(at) {
                let value = self.expression(part);
                text = text.zip(value.text()).map(|(text, part)| text + &part);
                origins.extend(self.state.deep(&value).origins);
            }
        }
        match text.filter(|_| origins.is_empty()) {
            Some(text) => Value::literal(Json::String(text), range(template.span)),
            None => Value::from_origins(origins),
        }
    }

    fn array_literal(&mut self, array: &'a ArrayExpression<'a>) -> Value {
        let (mut elements, mut rest) = (Vec::new(), Value::default());
        for element in &array.elements {
            match element {
                ArrayExpressionElement::SpreadElement(spread) => {
                    let value = self.expression(&spread.argument);
                    let value = self.property(&value, None, spread.span);
                    rest.join(&value);
                }
                element => {
                    let value = element.as_expression().map_or_else(Value::unknown, |element| self.expression(element));
                    // Behind a spread nobody knows the index.
                    if rest == Value::default() { elements.push(value) } else { rest.join(&value) }
                }
            }
        }
        self.array(elements, rest, array.span)
    }

    pub(super) fn array(&mut self, elements: Vec<Value>, rest: Value, span: Span) -> Value {
        let fields = elements.into_iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect();
        self.object_at(Object { fields, rest, is_array: true, is_promise: false }, span)
    }

    fn object_literal(&mut self, literal: &'a ObjectExpression<'a>) -> Value {
        let value = self.object_at(Object::default(), literal.span);
        for property in &literal.properties {
            match property {
                ObjectPropertyKind::ObjectProperty(property) => {
                    let name = self.key(&property.key);
                    let mut member = self.expression(&property.value);
                    if property.kind != PropertyKind::Init {
                        member = self.accessor(&member, &value, property.span);
                    }
                    self.put(&value, name.as_deref(), &member);
                }
                ObjectPropertyKind::SpreadProperty(spread) => {
                    let spread_value = self.expression(&spread.argument);
                    self.spread_into(&value, &spread_value, spread.span);
                }
            }
        }
        value
    }

    /// Copies all members of one value into another.
    pub(super) fn spread_into(&mut self, target: &Value, from: &Value, span: Span) {
        if from.pointers.iter().any(Pointer::is_way_out) {
            self.mark(span, Reason::ToolsAsValue);
        }
        for object in from.objects().collect::<Vec<_>>() {
            let Some(object) = self.state.heap.get(&object).cloned() else { continue };
            for (name, value) in &object.fields {
                self.put(target, Some(name), value);
            }
            if object.rest != Value::default() {
                self.put(target, None, &object.rest);
            }
        }
        let mut origins = from.origins.clone();
        if from.pointers.contains(&Pointer::Arguments) {
            origins.insert(Origin::Input(String::new()));
        }
        if !origins.is_empty() {
            self.put(target, None, &Value::from_origins(origins));
        }
    }

    /// The object that a place in the source makes. It keeps what it has held before: a loop makes one after the other.
    pub(super) fn object_at(&mut self, object: Object, span: Span) -> Value {
        let id = self.intern(4, span.start ^ span.end.rotate_left(16));
        let known = self.state.heap.entry(id).or_default();
        known.is_array |= object.is_array;
        known.is_promise |= object.is_promise;
        known.rest.join(&object.rest);
        for (name, value) in object.fields {
            known.fields.entry(name).or_default().join(&value);
        }
        self.object_spans.insert(id, range(span));
        Value::pointing(Pointer::Object(id))
    }

    /// A value of which only its origins are known; whatever is put into it at any depth stays in it.
    pub(super) fn opaque(&mut self, origins: BTreeSet<Origin>, span: Span) -> Value {
        let value = self.object_at(Object::default(), span);
        let rest = Value::from_origins(origins.clone()).joined(&value);
        self.put(&value, None, &rest);
        Value { origins, ..value }
    }

    /// Puts a value under a name, or under any, into every object that `target` may be.
    pub(super) fn put(&mut self, target: &Value, name: Option<&str>, value: &Value) {
        for id in target.objects().collect::<Vec<_>>() {
            let object = self.state.heap.entry(id).or_default();
            match name {
                Some(name) => object.fields.entry(name.to_owned()).or_default().join(value),
                None => object.rest.join(value),
            }
        }
    }

    fn assignment(&mut self, assignment: &'a AssignmentExpression<'a>) -> Value {
        let mut value;
        if assignment.operator.is_assign() {
            value = self.expression(&assignment.right);
        } else {
            let old = match assignment.left.as_member_expression() {
                Some(member) => self.member(member),
                None => assignment
                    .left
                    .get_identifier_name()
                    .map_or_else(Value::unknown, |name| self.read_name(name, assignment.span)),
            };
            let deciders = self.state.deep(&old).calls();
            if assignment.operator.is_logical() {
                let (right, _) = self.either(&deciders, |this| this.expression(&assignment.right), |_| Value::default());
                value = old.joined(&right);
            } else {
                value = self.expression(&assignment.right).joined(&old);
                value = Value::from_origins(self.state.deep(&value).origins);
            }
        }
        self.assign(&assignment.left, value.clone());
        value
    }

    pub(super) fn member(&mut self, member: &'a MemberExpression<'a>) -> Value {
        let object = self.expression(member.object());
        let name = self.member_name(member);
        self.property(&object, name.as_deref(), member.span())
    }

    /// The member of a value, under a name or any.
    pub(super) fn property(&mut self, object: &Value, name: Option<&str>, span: Span) -> Value {
        let mut found = self.state.member(object, name);
        for pointer in &object.pointers {
            let way_out = match (pointer, name) {
                (Pointer::Arguments, name) => {
                    let input = self.input(name.unwrap_or_default());
                    found.join(&input);
                    continue;
                }
                (Pointer::Tools, Some(name)) => Pointer::Server(name.to_owned()),
                (Pointer::Server(server), Some(name)) => Pointer::Tool(server.clone(), name.to_owned()),
                (Pointer::Capabilities, Some(name)) => Pointer::Capability(name.to_owned()),
                (Pointer::Tools | Pointer::Server(_) | Pointer::Capabilities, None) => {
                    self.mark(span, Reason::ComputedTool);
                    Pointer::ComputedTool
                }
                (Pointer::ComputedTool, _) => Pointer::ComputedTool,
                (Pointer::Tool(..) | Pointer::Capability(_), _) => {
                    self.mark(span, Reason::ToolsAsValue);
                    continue;
                }
                (Pointer::Global(global), Some(name)) => {
                    if ["eval", "Function"].contains(&name) {
                        self.mark(span, Reason::CodeFromText);
                    }
                    Pointer::Global(format!("{global}.{name}"))
                }
                _ => continue,
            };
            found.pointers.insert(way_out);
        }
        found
    }
}

fn number(literal: &NumericLiteral<'_>) -> Number {
    let value = literal.value;
    if value.fract() == 0.0 && value.abs() <= WHOLE_MAX {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
        return Number::from(value as i64);
    }
    Number::from_f64(value).unwrap_or_else(|| Number::from(0))
}
