//! The training curve while it grows: a bar per stage on a terminal, plain lines elsewhere, nothing with `--json`.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::cli::output::Output;

/// Shows epochs as they come. An epoch is the JSON that `GET /v1/models` gives.
pub(in crate::cli) struct Curve<'a> {
    output: &'a Output,
    on_terminal: bool,
    bar: Option<ProgressBar>,
    /// Part and stage of the bar.
    stage: String,
    last_line: String,
    /// Epochs of a server's run that were shown, and that run.
    shown: (Value, u64),
}

impl<'a> Curve<'a> {
    pub(in crate::cli) fn new(output: &'a Output) -> Self {
        let on_terminal = !output.is_json() && std::io::stderr().is_terminal();
        let bar = Some(output.working("preparing")).filter(|_| on_terminal);
        Self { output, on_terminal, bar, stage: String::new(), last_line: String::new(), shown: (Value::Null, 0) }
    }

    /// Shows one epoch.
    pub(in crate::cli) fn show(&mut self, epoch: &Value) {
        let stage = format!("{} {}", text(&epoch["part"]), text(&epoch["stage"]));
        if stage != self.stage {
            self.end_stage();
            self.stage = stage;
            self.bar = self.on_terminal.then(|| new_bar(epoch["epochs_max"].as_u64().unwrap_or(0)));
        }
        self.last_line = line(&self.stage, epoch);
        match &self.bar {
            Some(bar) => {
                bar.set_position(epoch["epoch"].as_u64().unwrap_or(0));
                bar.set_message(self.last_line.clone());
            }
            None => self.output.note(&self.last_line),
        }
    }

    /// Shows the epochs of a server's run that were not shown yet.
    pub(in crate::cli) fn catch_up(&mut self, running: &Value) {
        if running.is_null() {
            return;
        }
        if self.shown.0 != running["through_seq"] {
            self.shown = (running["through_seq"].clone(), 0);
        }
        let epochs = running["epochs"].as_u64().unwrap_or(0);
        let curve = running["curve"].as_array().map_or(&[][..], Vec::as_slice);
        let new = usize::try_from(epochs.saturating_sub(self.shown.1)).unwrap_or(usize::MAX).min(curve.len());
        for epoch in &curve[curve.len() - new..] {
            self.show(epoch);
        }
        self.shown.1 = epochs;
    }

    /// Leaves the last line of the last stage on the screen.
    pub(in crate::cli) fn finish(&mut self) {
        self.end_stage();
    }

    fn end_stage(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
            if !self.last_line.is_empty() {
                self.output.note(&self.last_line);
            }
        }
    }
}

fn new_bar(epochs_max: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {msg}").expect("a valid template");
    ProgressBar::new(epochs_max).with_style(style)
}

/// One epoch as a line of text.
fn line(stage: &str, epoch: &Value) -> String {
    let number = |value: &Value| value.as_f64().map(|value| format!("{value:.4}"));
    let loss = number(&epoch["loss"]).unwrap_or_default();
    let validation = number(&epoch["validation"]).map(|value| format!("  validation {value}")).unwrap_or_default();
    format!("{stage:<20} epoch {:>3}/{:<3} loss {loss}{validation}", epoch["epoch"], epoch["epochs_max"])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
