//! Patterns: what a declaration or an assignment takes out of a value.

use std::borrow::Cow;

use oxc_ast::ast::{
    AssignmentTarget, AssignmentTargetMaybeDefault, AssignmentTargetProperty, BindingPattern, Expression, MemberExpression,
    PropertyKey,
};
use oxc_span::{GetSpan, Span};

use super::interpreter::Interpreter;
use super::value::{Object, Pointer, Value};

impl<'a> Interpreter<'a> {
    /// Declares the names of a pattern and sets them.
    pub(super) fn bind(&mut self, pattern: &'a BindingPattern<'a>, value: Value) {
        self.declare_names(pattern);
        self.assign_declared(pattern, value);
    }

    /// Sets the names of a pattern that are declared already.
    pub(super) fn assign_declared(&mut self, pattern: &'a BindingPattern<'a>, value: Value) {
        match pattern {
            BindingPattern::BindingIdentifier(name) => {
                if let Some(variable) = self.lookup(name.name.as_str()) {
                    self.set(variable, value);
                }
            }
            BindingPattern::AssignmentPattern(assignment) => {
                let default = self.expression(&assignment.right);
                self.assign_declared(&assignment.left, value.joined(&default));
            }
            BindingPattern::ObjectPattern(object) => {
                for property in &object.properties {
                    let member = self.keyed(&value, &property.key, property.span);
                    self.assign_declared(&property.value, member);
                }
                if let Some(rest) = &object.rest {
                    let taken: Vec<_> = object.properties.iter().filter_map(|property| property.key.name()).collect();
                    let others = self.without(&value, &taken, rest.span);
                    self.assign_declared(&rest.argument, others);
                }
            }
            BindingPattern::ArrayPattern(array) => {
                for (at, element) in array.elements.iter().enumerate() {
                    if let Some(element) = element {
                        let member = self.property(&value, Some(&at.to_string()), array.span);
                        self.assign_declared(element, member);
                    }
                }
                if let Some(rest) = &array.rest {
                    let elements = self.property(&value, None, rest.span);
                    let rest_array = self.array(Vec::new(), elements, rest.span);
                    self.assign_declared(&rest.argument, rest_array);
                }
            }
        }
    }

    /// The members of a value but those that were taken out of it, as an object of their own.
    fn without(&mut self, value: &Value, taken: &[Cow<'_, str>], span: Span) -> Value {
        let others = self.object_at(Object::default(), span);
        for object in value.objects().collect::<Vec<_>>() {
            let Some(object) = self.state.heap.get(&object).cloned() else { continue };
            for (name, member) in object.fields.iter().filter(|(name, _)| !taken.iter().any(|taken| *taken == name.as_str())) {
                self.put(&others, Some(name), member);
            }
            self.put(&others, None, &object.rest);
        }
        let kept = value.pointers.iter().filter(|pointer| !matches!(pointer, Pointer::Object(_))).cloned();
        let mut others = Value { origins: value.origins.clone(), pending: value.pending.clone(), ..others };
        others.pointers.extend(kept);
        others
    }

    pub(super) fn assign(&mut self, target: &'a AssignmentTarget<'a>, value: Value) {
        match target {
            AssignmentTarget::AssignmentTargetIdentifier(name) => {
                if let Some(variable) = self.lookup(name.name.as_str()) {
                    self.set(variable, value);
                }
            }
            AssignmentTarget::ArrayAssignmentTarget(array) => {
                for (at, element) in array.elements.iter().enumerate() {
                    if let Some(element) = element {
                        let member = self.property(&value, Some(&at.to_string()), array.span);
                        self.assign_or_default(element, member);
                    }
                }
                if let Some(rest) = &array.rest {
                    let elements = self.property(&value, None, rest.span);
                    let rest_array = self.array(Vec::new(), elements, rest.span);
                    self.assign(&rest.target, rest_array);
                }
            }
            AssignmentTarget::ObjectAssignmentTarget(object) => {
                for property in &object.properties {
                    self.assign_property(property, &value);
                }
                if let Some(rest) = &object.rest {
                    self.assign(&rest.target, value);
                }
            }
            target => {
                if let Some(member) = target.as_member_expression() {
                    self.assign_member(member, &value);
                } else if let Some(expression) = target.get_expression() {
                    self.assign_expression(expression, value);
                }
            }
        }
    }

    /// `(x as T) = value`.
    fn assign_expression(&mut self, expression: &'a Expression<'a>, value: Value) {
        match expression.get_inner_expression() {
            Expression::Identifier(name) => {
                if let Some(variable) = self.lookup(name.name.as_str()) {
                    self.set(variable, value);
                }
            }
            inner => {
                if let Some(member) = inner.as_member_expression() {
                    self.assign_member(member, &value);
                }
            }
        }
    }

    fn assign_property(&mut self, property: &'a AssignmentTargetProperty<'a>, value: &Value) {
        match property {
            AssignmentTargetProperty::AssignmentTargetPropertyIdentifier(one) => {
                let mut member = self.property(value, Some(one.binding.name.as_str()), one.span);
                if let Some(default) = &one.init {
                    let default = self.expression(default);
                    member.join(&default);
                }
                if let Some(variable) = self.lookup(one.binding.name.as_str()) {
                    self.set(variable, member);
                }
            }
            AssignmentTargetProperty::AssignmentTargetPropertyProperty(one) => {
                let member = self.keyed(value, &one.name, one.span);
                self.assign_or_default(&one.binding, member);
            }
        }
    }

    fn assign_or_default(&mut self, target: &'a AssignmentTargetMaybeDefault<'a>, value: Value) {
        match target {
            AssignmentTargetMaybeDefault::AssignmentTargetWithDefault(one) => {
                let default = self.expression(&one.init);
                self.assign(&one.binding, value.joined(&default));
            }
            target => {
                if let Some(target) = target.as_assignment_target() {
                    self.assign(target, value);
                }
            }
        }
    }

    pub(super) fn assign_member(&mut self, member: &'a MemberExpression<'a>, value: &Value) {
        let object = self.expression(member.object());
        let name = self.member_name(member);
        self.put(&object, name.as_deref(), value);
    }

    /// The name of a member, if the source tells it.
    pub(super) fn member_name(&mut self, member: &'a MemberExpression<'a>) -> Option<String> {
        match member {
            MemberExpression::StaticMemberExpression(member) => Some(member.property.name.to_string()),
            MemberExpression::PrivateFieldExpression(member) => Some(member.field.name.to_string()),
            MemberExpression::ComputedMemberExpression(member) => self.expression(&member.expression).text(),
        }
    }

    /// The name of a property, if the source tells it.
    pub(super) fn key(&mut self, key: &'a PropertyKey<'a>) -> Option<String> {
        match (key.name(), key.as_expression()) {
            (Some(name), _) => Some(Cow::into_owned(name)),
            (None, Some(expression)) => self.expression(expression).text(),
            (None, None) => None,
        }
    }

    fn keyed(&mut self, value: &Value, key: &'a PropertyKey<'a>, span: Span) -> Value {
        let name = self.key(key);
        self.property(value, name.as_deref(), if span.is_empty() { key.span() } else { span })
    }
}
