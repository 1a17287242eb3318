//! Statements: blocks, branches, `try`, and the ways out of them.

use std::collections::BTreeSet;

use oxc_ast::ast::{
    BindingPattern, Expression, Function, IfStatement, Statement, SwitchStatement, TryStatement, VariableDeclaration,
    VariableDeclarationKind,
};
use oxc_ast_visit::Visit;
use oxc_span::GetSpan;
use oxc_syntax::scope::ScopeFlags;

use super::functions::Body;
use super::interpreter::{Condition, Interpreter};
use super::value::{CallId, Value};
use crate::structure::Reason;

/// How far a way out of a statement leads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Bound {
    Loop,
    Try,
    Function,
}

/// A condition under which the statements that follow are left out.
#[derive(Clone)]
pub(super) struct Guard {
    pub(super) condition: Condition,
    pub(super) bound: Bound,
}

/// How a statement ends.
#[derive(Default)]
pub(super) struct Exit {
    /// Control never comes to the statement that follows.
    pub(super) ends: bool,
    /// How far the way out leads, if it ends.
    pub(super) bound: Option<Bound>,
    pub(super) guards: Vec<Guard>,
}

impl Exit {
    pub(super) fn to(bound: Bound) -> Self {
        Self { ends: true, bound: Some(bound), guards: Vec::new() }
    }

    /// The same exit seen from outside a statement that catches ways out of this kind.
    pub(super) fn caught(mut self, bound: Bound) -> Self {
        self.guards.retain(|guard| guard.bound != bound);
        if self.bound == Some(bound) {
            (self.ends, self.bound) = (false, None);
        }
        self
    }
}

/// A loop or switch that is being read.
#[derive(Default)]
pub(super) struct LoopFrame {
    /// The calls that have ended where it is left by `break`.
    pub(super) left_after: BTreeSet<CallId>,
    pub(super) is_left: bool,
}

impl<'a> Interpreter<'a> {
    /// Reads statements in a scope of their own.
    pub(super) fn block(&mut self, statements: &'a [Statement<'a>]) -> Exit {
        let outer = self.open_scope();
        let exit = self.statements(statements);
        self.scope = outer;
        exit
    }

    /// Reads statements in the scope at hand.
    pub(super) fn statements(&mut self, statements: &'a [Statement<'a>]) -> Exit {
        self.hoist(statements);
        let mut exit = Exit::default();
        let depth = self.conditions.len();
        for statement in statements {
            let found = self.statement(statement);
            self.conditions.extend(found.guards.iter().map(|guard| guard.condition.clone()));
            exit.guards.extend(found.guards);
            if found.ends {
                (exit.ends, exit.bound) = (true, found.bound);
                break;
            }
        }
        self.conditions.truncate(depth);
        exit
    }

    /// Declares every `var` of a function or program, wherever in it they stand.
    pub(super) fn declare_vars(&mut self, statements: &'a [Statement<'a>]) {
        let mut vars = Vars(Vec::new());
        for statement in statements {
            vars.visit_statement(statement);
        }
        for (name, place) in vars.0 {
            self.declare(name, place);
        }
    }

    /// Declares what may be used before its statement: functions with their values, the other names without.
    fn hoist(&mut self, statements: &'a [Statement<'a>]) {
        for statement in statements {
            match statement {
                Statement::VariableDeclaration(variables) if variables.kind != VariableDeclarationKind::Var => {
                    for declarator in &variables.declarations {
                        self.declare_names(&declarator.id);
                    }
                }
                Statement::ClassDeclaration(class) => {
                    if let Some(name) = &class.id {
                        self.declare(name.name.as_str(), name.span.start);
                    }
                }
                Statement::FunctionDeclaration(function) => {
                    if let Some(name) = &function.id {
                        self.declare(name.name.as_str(), name.span.start);
                    }
                }
                _ => {}
            }
        }
        for statement in statements {
            if let Statement::FunctionDeclaration(function) = statement
                && let Some(variable) = function.id.as_ref().and_then(|name| self.lookup(name.name.as_str()))
                && function.body.is_some()
            {
                let value = self.closure(Body::Function(function));
                self.state.variables.entry(variable).or_default().join(&value);
            }
        }
    }

    pub(super) fn statement(&mut self, statement: &'a Statement<'a>) -> Exit {
        if !self.step() {
            return Exit::default();
        }
        self.depth += 1;
        let exit = self.statement_inside(statement);
        self.depth -= 1;
        exit
    }

    fn statement_inside(&mut self, statement: &'a Statement<'a>) -> Exit {
        match statement {
            Statement::BlockStatement(block) => return self.block(&block.body),
            Statement::ExpressionStatement(expression) => drop(self.expression(&expression.expression)),
            Statement::VariableDeclaration(variables) => self.variables(variables),
            Statement::ReturnStatement(given) => {
                let value = given.argument.as_ref().map_or_else(Value::unknown, |value| self.expression(value));
                self.returns(value);
                return Exit::to(Bound::Function);
            }
            Statement::ThrowStatement(thrown) => {
                let value = self.expression(&thrown.argument);
                self.thrown.iter_mut().for_each(|caught| caught.join(&value));
                return Exit::to(Bound::Try);
            }
            Statement::BreakStatement(left) => {
                if let Some(frame) = self.loops.last_mut() {
                    frame.left_after.extend(&self.state.frontier);
                    frame.is_left = true;
                }
                return Exit::to(if left.label.is_some() { Bound::Function } else { Bound::Loop });
            }
            Statement::ContinueStatement(left) => {
                return Exit::to(if left.label.is_some() { Bound::Function } else { Bound::Loop });
            }
            Statement::IfStatement(branch) => return self.if_statement(branch),
            Statement::SwitchStatement(switch) => return self.switch(switch),
            Statement::TryStatement(tried) => return self.try_statement(tried),
            Statement::LabeledStatement(labelled) => {
                let (mut exit, assigned) = self.logged(|this| this.statement(&labelled.body));
                self.join_assigned(&assigned);
                // Whoever leaves by a label comes to the next statement or goes on further out.
                (exit.ends, exit.bound) = (false, None);
                return exit;
            }
            Statement::ForStatement(_)
            | Statement::ForInStatement(_)
            | Statement::ForOfStatement(_)
            | Statement::WhileStatement(_)
            | Statement::DoWhileStatement(_) => return self.loop_statement(statement),
            Statement::ClassDeclaration(class) => {
                let value = self.class(class);
                if let Some(variable) = class.id.as_ref().and_then(|name| self.lookup(name.name.as_str())) {
                    self.set(variable, value);
                }
            }
            Statement::WithStatement(with) => self.mark(with.object.span(), Reason::CodeFromText),
            _ => {}
        }
        Exit::default()
    }

    pub(super) fn variables(&mut self, variables: &'a VariableDeclaration<'a>) {
        for declarator in &variables.declarations {
            let mut value = declarator.init.as_ref().map_or_else(Value::unknown, |value| self.expression(value));
            if variables.kind == VariableDeclarationKind::Var && declarator.init.is_none() {
                continue;
            }
            if variables.kind == VariableDeclarationKind::AwaitUsing {
                value = self.awaited(value);
            }
            if variables.kind == VariableDeclarationKind::Var {
                self.assign_declared(&declarator.id, value);
            } else {
                self.bind(&declarator.id, value);
            }
        }
    }

    fn if_statement(&mut self, branch: &'a IfStatement<'a>) -> Exit {
        let test = self.expression(&branch.test);
        let deciders = self.state.deep(&test).calls();
        let before = self.state.clone();
        let taken = self.branch(&deciders);
        let one = self.under(taken.clone(), |this| this.statement(&branch.consequent));
        let after_one = std::mem::replace(&mut self.state, before);
        let left = self.branch(&deciders);
        let other = branch.alternate.as_ref().map(|alternate| self.under(left.clone(), |this| this.statement(alternate)));
        self.join_arms(after_one, (one, taken), (other.unwrap_or_default(), left))
    }

    /// Joins two ways. Where one of them leaves, what follows stands under the condition of the other.
    fn join_arms(&mut self, after_one: super::value::State, one: (Exit, Condition), other: (Exit, Condition)) -> Exit {
        let (one, taken) = one;
        let (other, left) = other;
        let mut exit = Exit { ends: one.ends && other.ends, bound: one.bound.max(other.bound), guards: Vec::new() };
        match (one.ends, other.ends) {
            (true, false) => exit.guards.push(Guard { condition: left, bound: one.bound.unwrap_or(Bound::Function) }),
            (false, true) => {
                exit.guards.push(Guard { condition: taken, bound: other.bound.unwrap_or(Bound::Function) });
                self.state = after_one;
            }
            _ => {
                self.state.join(&after_one);
                self.reduce_frontier();
            }
        }
        if !exit.ends {
            exit.bound = None;
        }
        exit.guards.extend(one.guards);
        exit.guards.extend(other.guards);
        exit
    }

    fn switch(&mut self, switch: &'a SwitchStatement<'a>) -> Exit {
        let value = self.expression(&switch.discriminant);
        let mut deciders = self.state.deep(&value).calls();
        let outer = self.open_scope();
        self.loops.push(LoopFrame::default());
        let before = self.state.clone();
        let (mut guards, mut joined) = (Vec::new(), before.clone());
        let ((), assigned) = self.logged(|this| {
            for case in &switch.cases {
                if let Some(test) = &case.test {
                    let test = this.expression(test);
                    deciders.extend(this.state.deep(&test).calls());
                }
                let condition = this.branch(&deciders);
                let exit = this.under(condition, |this| this.statements(&case.consequent));
                guards.extend(exit.guards);
                joined.join(&this.state);
                // A case is entered from the start, or from the case before it.
                if exit.ends {
                    this.state = before.clone();
                } else {
                    this.state.join(&before);
                }
            }
        });
        self.state = joined;
        self.join_assigned(&assigned);
        let frame = self.loops.pop().unwrap_or_default();
        self.state.frontier.extend(frame.left_after);
        self.reduce_frontier();
        self.scope = outer;
        Exit { guards, ..Exit::default() }.caught(Bound::Loop)
    }

    fn try_statement(&mut self, tried: &'a TryStatement<'a>) -> Exit {
        let before = self.state.clone();
        let first_call = self.calls.len();
        self.thrown.push(Value::unknown());
        let (exit, assigned) = self.logged(|this| this.block(&tried.block.body));
        let thrown = self.thrown.pop().unwrap_or_default();
        let mut exit = exit.caught(Bound::Try);
        let after = std::mem::replace(&mut self.state, before);
        if let Some(handler) = &tried.handler {
            // Any call in the block may have failed: the error, and whether the handler runs, come from all of them.
            let calls: BTreeSet<CallId> = (first_call..self.calls.len()).collect();
            self.state.heap = after.heap.clone();
            self.join_assigned(&assigned);
            self.state.frontier.extend(&after.frontier);
            self.reduce_frontier();
            let mut error = self.state.deep(&thrown);
            error.origins.extend(calls.iter().map(|id| super::value::Origin::Call(*id)));
            error.pending.clear();
            let condition = self.branch(&calls);
            let caught = self.under(condition, |this| {
                let outer = this.open_scope();
                if let Some(parameter) = &handler.param {
                    this.bind(&parameter.pattern, error);
                }
                let caught = this.statements(&handler.body.body);
                this.scope = outer;
                caught
            });
            if caught.ends && !exit.ends {
                self.state = after;
            } else if !caught.ends || exit.ends {
                if !exit.ends {
                    self.state.join(&after);
                }
                (exit.ends, exit.bound) = (exit.ends && caught.ends, exit.bound.filter(|_| caught.ends));
            }
            exit.guards.extend(caught.guards);
        } else {
            self.state = after;
        }
        self.join_assigned_if(tried.finalizer.is_some(), &assigned);
        self.reduce_frontier();
        if let Some(finalizer) = &tried.finalizer {
            let last = self.block(&finalizer.body);
            if last.ends {
                return last;
            }
            exit.guards.extend(last.guards);
        }
        exit
    }

    fn join_assigned_if(&mut self, needed: bool, assigned: &std::collections::BTreeMap<super::value::Variable, Value>) {
        if needed {
            self.join_assigned(assigned);
        }
    }

    /// The names of a pattern that a declaration introduces.
    pub(super) fn declare_names(&mut self, pattern: &'a BindingPattern<'a>) {
        match pattern {
            BindingPattern::BindingIdentifier(name) => drop(self.declare(name.name.as_str(), name.span.start)),
            BindingPattern::ObjectPattern(object) => {
                object.properties.iter().for_each(|property| self.declare_names(&property.value));
                object.rest.iter().for_each(|rest| self.declare_names(&rest.argument));
            }
            BindingPattern::ArrayPattern(array) => {
                array.elements.iter().flatten().for_each(|element| self.declare_names(element));
                array.rest.iter().for_each(|rest| self.declare_names(&rest.argument));
            }
            BindingPattern::AssignmentPattern(assignment) => self.declare_names(&assignment.left),
        }
    }
}

/// Finds the names that `var` declares in a function, without those of functions in it.
struct Vars<'a>(Vec<(&'a str, u32)>);

impl<'a> Visit<'a> for Vars<'a> {
    fn visit_variable_declaration(&mut self, it: &VariableDeclaration<'a>) {
        if it.kind == VariableDeclarationKind::Var {
            for name in it.declarations.iter().flat_map(|declarator| declarator.id.get_binding_identifiers()) {
                self.0.push((name.name.as_str(), name.span.start));
            }
        }
    }

    fn visit_function(&mut self, _: &Function<'a>, _: ScopeFlags) {}

    fn visit_expression(&mut self, _: &Expression<'a>) {}
}
