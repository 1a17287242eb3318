//! Loops: read until nothing changes.

use std::collections::BTreeSet;

use oxc_ast::ast::{AssignmentTarget, Expression, ForStatementInit, ForStatementLeft, Statement};

use super::interpreter::{Condition, Interpreter};
use super::statements::{Bound, Exit, LoopFrame};
use super::value::Value;
use crate::structure::Repetition;

/// What a loop tests, and when.
#[derive(Clone, Copy)]
struct Test<'a> {
    expression: Option<&'a Expression<'a>>,
    is_first: bool,
    /// The loop is left from inside only.
    is_endless: bool,
}

impl<'a> Test<'a> {
    fn of(expression: &'a Expression<'a>, is_first: bool) -> Self {
        let is_endless = matches!(expression, Expression::BooleanLiteral(literal) if literal.value);
        Self { expression: Some(expression), is_first, is_endless }
    }
}

impl<'a> Interpreter<'a> {
    pub(super) fn loop_statement(&mut self, statement: &'a Statement<'a>) -> Exit {
        let outer = self.open_scope();
        let exit = match statement {
            Statement::ForStatement(each) => {
                match &each.init {
                    Some(ForStatementInit::VariableDeclaration(variables)) => {
                        variables.declarations.iter().for_each(|one| self.declare_names(&one.id));
                        self.variables(variables);
                    }
                    Some(init) => drop(init.as_expression().map(|init| self.expression(init))),
                    None => {}
                }
                let test = Test { expression: each.test.as_ref(), is_first: true, is_endless: each.test.is_none() };
                self.repeat(test, |this| {
                    let exit = this.statement(&each.body);
                    if let Some(update) = &each.update {
                        this.expression(update);
                    }
                    exit
                })
            }
            Statement::WhileStatement(each) => self.repeat(Test::of(&each.test, true), |this| this.statement(&each.body)),
            Statement::DoWhileStatement(each) => self.repeat(Test::of(&each.test, false), |this| this.statement(&each.body)),
            Statement::ForInStatement(each) => {
                let object = self.expression(&each.right);
                let keys = Value::from_origins(self.state.deep(&object).origins);
                self.each(&each.left, keys, &each.body)
            }
            Statement::ForOfStatement(each) => {
                let iterated = self.expression(&each.right);
                let mut element = self.state.member(&iterated, None);
                if each.r#await {
                    element.pending.extend(&iterated.pending);
                    element = self.awaited(element);
                }
                self.each(&each.left, element, &each.body)
            }
            _ => Exit::default(),
        };
        self.scope = outer;
        exit
    }

    fn each(&mut self, left: &'a ForStatementLeft<'a>, element: Value, body: &'a Statement<'a>) -> Exit {
        let deciders = self.state.deep(&element).calls();
        self.conditions.push(Condition { branch: None, deciders });
        let test = Test { expression: None, is_first: true, is_endless: false };
        let exit = self.repeat(test, |this| {
            let outer = this.open_scope();
            match left {
                ForStatementLeft::VariableDeclaration(variables) => {
                    if let Some(declarator) = variables.declarations.first() {
                        this.bind(&declarator.id, element.clone());
                    }
                }
                left => {
                    let target: Option<&AssignmentTarget<'a>> = left.as_assignment_target();
                    if let Some(target) = target {
                        this.assign(target, element.clone());
                    }
                }
            }
            let exit = this.statement(body);
            this.scope = outer;
            exit
        });
        self.conditions.pop();
        exit
    }

    /// Reads the body, with its test before or after, until nothing changes.
    fn repeat(&mut self, test: Test<'a>, mut body: impl FnMut(&mut Self) -> Exit) -> Exit {
        self.loops.push(LoopFrame::default());
        self.repetition.push(Repetition::Loop);
        let mut exit;
        let mut deciders = BTreeSet::new();
        loop {
            let before = self.state.clone();
            if let Some(expression) = test.expression.filter(|_| test.is_first) {
                let value = self.expression(expression);
                deciders.extend(self.state.deep(&value).calls());
            }
            self.conditions.push(Condition { branch: None, deciders: deciders.clone() });
            let (found, assigned) = self.logged(&mut body);
            self.conditions.pop();
            if let Some(expression) = test.expression.filter(|_| !test.is_first) {
                let value = self.expression(expression);
                deciders.extend(self.state.deep(&value).calls());
            }
            exit = found;
            self.join_assigned(&assigned);
            self.state.join(&before);
            self.reduce_frontier();
            if (self.state.variables == before.variables && self.state.heap == before.heap) || !self.step() {
                break;
            }
        }
        self.repetition.pop();
        let frame = self.loops.pop().unwrap_or_default();
        if frame.is_left && test.is_endless {
            self.state.frontier = frame.left_after;
        } else {
            self.state.frontier.extend(frame.left_after);
        }
        self.reduce_frontier();
        exit = exit.caught(Bound::Loop);
        // A body that always leaves the function does so only if the loop is entered.
        (exit.ends, exit.bound) = (false, None);
        exit
    }
}
