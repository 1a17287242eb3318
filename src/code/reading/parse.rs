//! Parsing, and what a program may not contain.

use oxc_allocator::Allocator;
use oxc_ast::ast::{Program, Statement};
use oxc_parser::{ParseOptions, Parser};
use oxc_span::{GetSpan, SourceType, Span};

use super::ReadError;
use crate::structure::Position;

/// Parses a program. It may `return` and `await` at the top: it is the body of an async function.
pub(super) fn parse<'a>(allocator: &'a Allocator, source: &'a str) -> Result<Program<'a>, ReadError> {
    let parsed = parser(allocator, source, SourceType::ts()).parse();
    if let Some(diagnostic) = parsed.diagnostics.errors().next() {
        let offset = diagnostic.labels.first().map_or(0, |label| label.offset() as usize);
        let help = diagnostic.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        return Err(syntax(source, offset, format!("{}{help}", diagnostic.message)));
    }
    for statement in &parsed.program.body {
        if let Some(what) = refused(statement) {
            return Err(refuse(source, statement.span(), what));
        }
    }
    Ok(parsed.program)
}

/// Checks that a program without types is JavaScript.
pub(super) fn check_javascript(source: &str) -> Result<(), ReadError> {
    let allocator = Allocator::default();
    let parsed = parser(&allocator, source, SourceType::mjs()).parse();
    parsed.diagnostics.errors().next().map_or(Ok(()), |diagnostic| {
        let offset = diagnostic.labels.first().map_or(0, |label| label.offset() as usize);
        Err(syntax(source, offset, format!("{} (after the types were taken out)", diagnostic.message)))
    })
}

fn parser<'a>(allocator: &'a Allocator, source: &'a str, kind: SourceType) -> Parser<'a> {
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    Parser::new(allocator, source, kind).with_options(options)
}

fn refused(statement: &Statement<'_>) -> Option<&'static str> {
    match statement {
        Statement::ImportDeclaration(import) if import.import_kind.is_value() => {
            Some("import is not available; call tools and capabilities, they need no import")
        }
        Statement::ExportAllDeclaration(_)
        | Statement::ExportDefaultDeclaration(_)
        | Statement::ExportDeclaration(_)
        | Statement::ExportNamedDeclaration(_)
        | Statement::ExportFromDeclaration(_)
        | Statement::TSExportAssignment(_)
        | Statement::TSNamespaceExportDeclaration(_) => Some("export is not available; return the result"),
        Statement::TSImportEqualsDeclaration(_) => Some("import is not available"),
        _ => None,
    }
}

pub(super) fn refuse(source: &str, span: Span, what: &str) -> ReadError {
    syntax(source, span.start as usize, what.to_owned())
}

fn syntax(source: &str, offset: usize, message: String) -> ReadError {
    ReadError::Syntax { position: Position::of(source, offset), message }
}
