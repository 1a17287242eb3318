//! Output of the commands: tables and sentences for people, JSON for programs. Results go to standard output, all else to standard
//! error.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use comfy_table::{Cell, Color, ColumnConstraint, ContentArrangement, Table, Width, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

/// Longest word that is not broken in two: `capability:` and the longest handle.
const WHOLE_WORD_MAX: usize = 72;
/// Blanks beside the text of a cell.
const PADDING: usize = 2;
/// How often a progress bar is drawn again by itself.
const TICK: Duration = Duration::from_millis(250);

/// `Output` prints in one of the two forms.
pub(super) struct Output {
    json: bool,
}

impl Output {
    pub(super) fn new(json: bool) -> Self {
        Self { json }
    }

    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints a sentence, for people only.
    pub(super) fn say(&self, text: impl AsRef<str>) {
        if !self.json {
            print_line(text.as_ref());
        }
    }

    /// Prints a value, for programs only.
    pub(super) fn json(&self, value: &Value) {
        if self.json {
            print_line(&value.to_string());
        }
    }

    /// Prints a table, for people only.
    pub(super) fn table(&self, header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
        if self.json {
            return;
        }
        let mut table = Table::new();
        table.set_content_arrangement(ContentArrangement::Dynamic).set_header(header);
        if std::io::stdout().is_terminal() {
            table.load_style(presets::UTF8_FULL_CONDENSED);
        } else {
            // For `grep` and `awk`: columns of plain text.
            table.load_style(presets::NOTHING).set_width(120);
        }
        let mut longest_words = vec![0; header.len()];
        for row in rows {
            for (longest, text) in longest_words.iter_mut().zip(&row) {
                let words = text.split_whitespace().map(|word| word.chars().count());
                *longest = words.fold(*longest, usize::max);
            }
            table.add_row(row.into_iter().map(cell).collect::<Vec<_>>());
        }
        // A name that is broken in two cannot be copied.
        for (column, longest) in table.column_iter_mut().zip(longest_words) {
            let width = u16::try_from(longest.min(WHOLE_WORD_MAX) + PADDING).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
        }
        print_line(&table.to_string());
    }

    /// Returns a progress bar, hidden unless standard error is a terminal. A length of 0 is one that is not known.
    pub(super) fn progress(&self, what: &'static str, len: u64) -> ProgressBar {
        progress_bar(what, len, self.shows_progress())
    }

    /// Shows that something is under way that cannot be counted, until the bar that is returned is dropped.
    #[must_use]
    pub(super) fn working(&self, what: &'static str) -> ProgressBar {
        working(what, self.shows_progress())
    }

    fn shows_progress(&self) -> bool {
        !self.json && std::io::stderr().is_terminal()
    }

    /// Prints a line about the progress to standard error, for people only.
    pub(super) fn note(&self, text: &str) {
        if !self.json {
            // There is no way to report that standard error is closed.
            drop(writeln!(std::io::stderr(), "{text}"));
        }
    }

    /// Prints an error with its causes.
    pub(super) fn failure(&self, error: &anyhow::Error) {
        let chain: Vec<String> = error.chain().map(ToString::to_string).collect();
        if self.json {
            print_line(&json!({"error": chain.join(": ")}).to_string());
        } else {
            // There is no way to report that standard error is closed.
            drop(writeln!(std::io::stderr(), "pml: {}", chain.join(": ")));
        }
    }
}

/// Returns a progress bar on standard error.
pub(super) fn progress_bar(what: &'static str, len: u64, is_visible: bool) -> ProgressBar {
    let template = match len {
        0 => "{msg} {human_pos} {per_sec} {elapsed}",
        _ => "{msg} {bar:40} {human_pos}/{human_len} {per_sec} {eta}",
    };
    shown(what, template, Some(len), is_visible)
}

/// Returns a sign on standard error that something is under way.
pub(super) fn working(what: &'static str, is_visible: bool) -> ProgressBar {
    shown(what, "{spinner} {msg} {elapsed}", None, is_visible)
}

fn shown(what: &'static str, template: &str, len: Option<u64>, is_visible: bool) -> ProgressBar {
    let target = if is_visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template(template).expect("a valid template");
    let bar = ProgressBar::with_draw_target(len, target).with_style(style).with_message(what);
    if is_visible {
        bar.tick();
        // It moves on also while a single step takes long.
        bar.enable_steady_tick(TICK);
    }
    bar
}

/// Words that are coloured where they fill a cell, on a terminal and unless `NO_COLOR` is set.
fn cell(text: String) -> Cell {
    let colour = match text.as_str() {
        "BAD" | "failed" | "refused" | "aborted" => Some(Color::Red),
        "note" | "approval_required" | "interrupted" => Some(Color::Yellow),
        "ok" | "succeeded" | "accepted" => Some(Color::Green),
        _ => None,
    };
    match colour.filter(|_| std::env::var_os("NO_COLOR").is_none()) {
        Some(colour) => Cell::new(text).fg(colour),
        None => Cell::new(text),
    }
}

/// Prints a line to standard output. Exits if that is closed: with 0 if a reader has stopped (`pml log cat | head`), else with 1.
pub(super) fn print_line(text: &str) {
    if let Err(error) = writeln!(std::io::stdout().lock(), "{text}") {
        std::process::exit(i32::from(error.kind() != std::io::ErrorKind::BrokenPipe));
    }
}
