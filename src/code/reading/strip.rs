//! Takes the types out of a program by writing spaces over them, so that every character keeps its line and column.
//!
//! Syntax that needs more than that (enums, namespaces, parameter properties, decorators) is refused with its position.

use std::collections::BTreeMap;

use oxc_ast::ast::{
    ArrowFunctionExpression, Class, ClassElement, Declaration, Decorator, FormalParameter, Function, MethodDefinition, Program,
    PropertyDefinition, Statement, TSAsExpression, TSNonNullExpression, TSSatisfiesExpression, TSThisParameter,
    TSTypeAnnotation, TSTypeAssertion, TSTypeParameterDeclaration, TSTypeParameterInstantiation, VariableDeclarator,
};
use oxc_ast_visit::{Visit, walk};
use oxc_span::{GetSpan, Span};
use oxc_syntax::scope::ScopeFlags;

use super::ReadError;
use super::parse::refuse;

/// Words that only types know, before a member of a class.
const MODIFIERS: [&str; 7] = ["abstract", "declare", "override", "private", "protected", "public", "readonly"];

/// The program as JavaScript.
pub(super) fn strip(source: &str, program: &Program<'_>) -> Result<String, ReadError> {
    let mut types = Types { source, blanks: vec![false; source.len()], marks: BTreeMap::new(), refused: None };
    types.visit_program(program);
    if let Some((span, what)) = types.refused {
        return Err(refuse(source, span, what));
    }
    let replaced = |(at, character): (usize, char)| match types.marks.get(&at) {
        Some(mark) => *mark,
        None if types.blanks[at] && !['\n', '\r', '\u{2028}', '\u{2029}'].contains(&character) => ' ',
        None => character,
    };
    Ok(source.char_indices().map(replaced).collect())
}

struct Types<'s> {
    source: &'s str,
    blanks: Vec<bool>,
    /// Characters that stand in the place of others.
    marks: BTreeMap<usize, char>,
    refused: Option<(Span, &'static str)>,
}

impl Types<'_> {
    fn blank(&mut self, from: u32, to: u32) {
        self.blanks[from as usize..to as usize].fill(true);
    }

    fn blank_span(&mut self, span: Span) {
        self.blank(span.start, span.end);
    }

    /// Blanks a whole statement. A semicolon keeps the lines around it apart.
    fn blank_statement(&mut self, span: Span) {
        self.blank_span(span);
        self.marks.insert(span.start as usize, ';');
    }

    /// Blanks the first `?` or `!` between two places.
    fn blank_mark(&mut self, from: u32, to: u32) {
        let gap = &self.source[from as usize..to as usize];
        if let Some(at) = gap.find(['?', '!']) {
            self.blanks[from as usize + at] = true;
        }
    }

    /// Blanks every one of `words` between two places.
    fn blank_words(&mut self, from: u32, to: u32, words: &[&str]) {
        let gap = &self.source[from as usize..to as usize];
        let is_part = |character: char| character.is_alphanumeric() || character == '_' || character == '$';
        let mut at = 0;
        for word in gap.split(|character| !is_part(character)) {
            if words.contains(&word) {
                let start = from as usize + at;
                self.blanks[start..start + word.len()].fill(true);
            }
            // The separator is one character of any length.
            at += word.len();
            at += gap[at..].chars().next().map_or(0, char::len_utf8);
        }
    }

    fn refuse(&mut self, span: Span, what: &'static str) {
        self.refused.get_or_insert((span, what));
    }

    fn declaration(&mut self, declaration: &Declaration<'_>) -> bool {
        let is_type = match declaration {
            Declaration::TSTypeAliasDeclaration(_)
            | Declaration::TSInterfaceDeclaration(_)
            | Declaration::TSExternalModuleDeclaration(_)
            | Declaration::TSGlobalDeclaration(_) => true,
            Declaration::VariableDeclaration(it) => it.declare,
            Declaration::FunctionDeclaration(it) => it.declare || it.body.is_none(),
            Declaration::ClassDeclaration(it) => it.declare,
            Declaration::TSEnumDeclaration(it) if it.declare => true,
            Declaration::TSEnumDeclaration(it) => {
                self.refuse(it.span, "enums are not available; use an object");
                true
            }
            Declaration::TSNamespaceDeclaration(it) if it.declare => true,
            Declaration::TSNamespaceDeclaration(it) => {
                self.refuse(it.span, "namespaces are not available; use an object");
                true
            }
            Declaration::TSImportEqualsDeclaration(it) => {
                self.refuse(it.span, "import is not available");
                true
            }
        };
        if is_type {
            self.blank_statement(declaration.span());
        }
        is_type
    }
}

impl<'a> Visit<'a> for Types<'_> {
    fn visit_statement(&mut self, it: &Statement<'a>) {
        let is_type = match it {
            Statement::ImportDeclaration(import) => {
                self.blank_statement(import.span);
                true
            }
            it => it.as_declaration().is_some_and(|declaration| self.declaration(declaration)),
        };
        if !is_type {
            walk::walk_statement(self, it);
        }
    }

    fn visit_ts_type_annotation(&mut self, it: &TSTypeAnnotation<'a>) {
        self.blank_span(it.span);
    }

    fn visit_ts_type_parameter_declaration(&mut self, it: &TSTypeParameterDeclaration<'a>) {
        self.blank_span(it.span);
    }

    fn visit_ts_type_parameter_instantiation(&mut self, it: &TSTypeParameterInstantiation<'a>) {
        self.blank_span(it.span);
    }

    fn visit_ts_as_expression(&mut self, it: &TSAsExpression<'a>) {
        self.blank(it.expression.span().end, it.span.end);
        self.visit_expression(&it.expression);
    }

    fn visit_ts_satisfies_expression(&mut self, it: &TSSatisfiesExpression<'a>) {
        self.blank(it.expression.span().end, it.span.end);
        self.visit_expression(&it.expression);
    }

    fn visit_ts_non_null_expression(&mut self, it: &TSNonNullExpression<'a>) {
        self.blank(it.expression.span().end, it.span.end);
        self.visit_expression(&it.expression);
    }

    fn visit_ts_type_assertion(&mut self, it: &TSTypeAssertion<'a>) {
        self.blank(it.span.start, it.expression.span().start);
        self.visit_expression(&it.expression);
    }

    fn visit_ts_this_parameter(&mut self, it: &TSThisParameter<'a>) {
        self.blank_span(it.span);
        let behind = self.source[it.span.end as usize..].trim_start();
        if behind.starts_with(',') {
            self.blanks[self.source.len() - behind.len()] = true;
        }
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        if it.accessibility.is_some() || it.readonly || it.r#override {
            self.refuse(it.span, "parameter properties are not available; assign the field in the constructor");
        }
        if it.optional {
            let end = it.type_annotation.as_ref().map_or(it.span.end, |annotation| annotation.span.start);
            // Without a type the mark may stand behind the parameter's span.
            let end = if end == it.pattern.span().end { end + 1 } else { end };
            self.blank_mark(it.pattern.span().end, end);
        }
        walk::walk_formal_parameter(self, it);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if let Some(annotation) = it.type_annotation.as_ref().filter(|_| it.definite) {
            self.blank_mark(it.id.span().end, annotation.span.start);
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        walk::walk_arrow_function_expression(self, it);
        // No line may end between the parameters and the arrow: the bracket moves to the end of a type of several lines.
        if let Some(span) = it.return_type.as_ref().map(|annotation| annotation.span)
            && span.source_text(self.source).contains('\n')
            && let Some(bracket) = self.source[..span.start as usize].rfind(')')
        {
            self.blanks[bracket] = true;
            self.marks.insert(span.end as usize - 1, ')');
        }
    }

    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        walk::walk_function(self, it, flags);
    }

    fn visit_class(&mut self, it: &Class<'a>) {
        let body = it.body.span.start;
        if it.r#abstract {
            let key = it.id.as_ref().map_or(body, |id| id.span.start);
            self.blank_words(it.span.start, key, &["abstract"]);
        }
        if let (Some(first), Some(last)) = (it.implements.first(), it.implements.last()) {
            let before = it.heritage.as_ref().map(|heritage| heritage.expression.span().end);
            let before = before.or_else(|| it.id.as_ref().map(|id| id.span.end)).unwrap_or(it.span.start);
            self.blank_words(before, first.span.start, &["implements"]);
            self.blank(first.span.start, last.span.end);
        }
        walk::walk_class(self, it);
    }

    fn visit_class_element(&mut self, it: &ClassElement<'a>) {
        let is_type = match it {
            ClassElement::MethodDefinition(method) => method.value.body.is_none(),
            ClassElement::PropertyDefinition(property) => property.declare || property.r#type.is_abstract(),
            ClassElement::TSIndexSignature(_) => true,
            ClassElement::AccessorProperty(_) | ClassElement::StaticBlock(_) => false,
        };
        if is_type {
            self.blank_statement(it.span());
        } else {
            walk::walk_class_element(self, it);
        }
    }

    fn visit_method_definition(&mut self, it: &MethodDefinition<'a>) {
        self.blank_words(it.span.start, it.key.span().start, &MODIFIERS);
        if it.optional {
            self.blank_mark(it.key.span().end, it.value.params.span.start);
        }
        walk::walk_method_definition(self, it);
    }

    fn visit_property_definition(&mut self, it: &PropertyDefinition<'a>) {
        self.blank_words(it.span.start, it.key.span().start, &MODIFIERS);
        if it.optional || it.definite {
            let end = it.type_annotation.as_ref().map(|annotation| annotation.span.start);
            self.blank_mark(it.key.span().end, end.unwrap_or(it.span.end));
        }
        walk::walk_property_definition(self, it);
    }

    fn visit_decorator(&mut self, it: &Decorator<'a>) {
        self.refuse(it.span, "decorators are not available");
    }
}

#[cfg(test)]
mod tests {
    use oxc_allocator::Allocator;

    use super::super::parse::{check_javascript, parse};
    use super::*;

    fn stripped(source: &str) -> Result<String, ReadError> {
        let allocator = Allocator::default();
        let javascript = strip(source, &parse(&allocator, source)?)?;
        check_javascript(&javascript)?;
        Ok(javascript)
    }

    /// What is left, with runs of spaces as one.
    fn check(source: &str, expected: &str) {
        let javascript = stripped(source).unwrap();
        assert_eq!(javascript.chars().count(), source.chars().count(), "{source}");
        assert_eq!(javascript.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{source}");
    }

    #[test]
    fn types_are_blanked_and_nothing_moves() {
        check("const a: string = 'x' as string;", "const a = 'x' ;");
        check("let a!: number; a = 1", "let a ; a = 1");
        check("function f<T>(this: Window, a?: T, ...b: T[]): T { return a! }", "function f ( a , ...b ) { return a }");
        check("const f = async (a?: number): Promise<void> => {}", "const f = async (a ) => {}");
        check("const f = (a): {\n x: 1\n} => a", "const f = (a ) => a");
        check("interface A { x: 1 }\ntype B = A\n(1)", "; ; (1)");
        check("import type { A } from 'a'; declare const x: 1; f<number>(1)", "; ; f (1)");
        check("const x = (y as any).z satisfies T; const w = <any>y", "const x = (y ).z ; const w = y");
        check("function f(a: 1): 1;\nfunction f(a: any) { return a }", "; function f(a ) { return a }");
        check("const s = '\u{e9}' as '\u{e9}', t = 1 as 1", "const s = '\u{e9}' , t = 1");
    }

    #[test]
    fn members_of_classes_lose_what_only_types_know() {
        check(
            "abstract class A<T> extends B<T> implements C, D { private readonly x?: number = 1; declare z: 1; abstract y(): void; [k: string]: any; public static async m?(): Promise<1> { return 1 } }",
            "class A extends B { x = 1; ; ; ; static async m () { return 1 } }",
        );
    }

    #[test]
    fn syntax_that_is_more_than_types_is_refused_with_its_place() {
        let refused = |source: &str| stripped(source).unwrap_err().to_string();
        assert_eq!(refused("let a\n enum E { A }"), "2:2: enums are not available; use an object");
        assert_eq!(refused("namespace N { f() }"), "1:1: namespaces are not available; use an object");
        assert_eq!(
            refused("class A { constructor(private x: 1) {} }"),
            "1:23: parameter properties are not available; assign the field in the constructor"
        );
        assert_eq!(refused("@d class A {}"), "1:1: decorators are not available");
        assert_eq!(refused("export const a = 1"), "1:1: export is not available; return the result");
    }
}
