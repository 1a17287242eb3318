//! The report as one HTML file: no scripts, nothing is fetched, so it can be sent to a colleague.

use std::fmt::Write as _;

use super::{COVERAGE_HEADER, coverage_rows, failing_row, sentences};
use crate::eval::report::{Habit, Report};
use crate::readers::report::Prediction;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 260.0;
const MARGIN: f64 = 44.0;
/// Points drawn per line; more would not be visible.
const POINTS_MAX: usize = 300;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#222}\
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .8rem;border-bottom:1px solid #ddd;text-align:left}\
svg{max-width:100%;height:auto}.plots{display:flex;flex-wrap:wrap;gap:2rem}code{font-size:90%}.note{color:#666}";

/// Returns the page.
pub(super) fn page(report: &Report, name: &str) -> String {
    let mut out = String::new();
    let mut put = |text: &str| out.push_str(text);
    put("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>pml report</title><style>");
    put(STYLE);
    put("</style></head><body>\n");
    put(&format!("<h1>What pml would have saved: {}</h1>\n", escaped(name)));
    put(&format!(
        "<p>{} runs with {} steps. Every step was predicted from what came before it, then learnt. A model decides {} times: before each \
         step and at the end of a run; where the call is predicted, it need not.</p>\n",
        report.runs,
        report.steps,
        report.predictions.len()
    ));
    put(&table(&COVERAGE_HEADER, coverage_rows(report)));
    put(
        "<p class=\"note\">Shares of all decisions with 95 % intervals (Wilson). The best threshold is known only afterwards; the other is chosen at \
         each step from the steps before it. Published results on their authors' own data: 15 to 25 % fewer model calls (AutoTool), 48 % less time by \
         speculation (PASTE).</p>\n",
    );
    put("<div class=\"plots\">");
    put(&plot("Precision over coverage", "share of decisions taken", "precision", &precision_curve(&report.predictions)));
    put(&plot("First prediction right, moving", "share of the history", "right", &learning_curve(&report.predictions)));
    put("</div>\n");
    for sentence in sentences(report) {
        put(&format!("<p>{}</p>\n", escaped(&sentence)));
    }
    put(&format!("<h2>Procedures that ran at least three times: {}</h2>\n", report.habits_count));
    let habit = |habit: &Habit| {
        vec![habit.name.clone(), habit.runs.to_string(), format!("{:.0} %", habit.success * 100.0), habit.summary.clone()]
    };
    put(&table(&["capability", "runs", "success", "calls"], report.habits.iter().map(habit).collect()));
    put("<h2>Tools that fail most, and what worked next</h2>\n");
    put(&table(&["tool", "calls", "failed", "worked next"], report.failing.iter().map(failing_row).collect()));
    put(&format!("<h2>Tools that were never used: {}</h2>\n<p>", report.never_used_count));
    let never: Vec<String> = report.never_used.iter().map(|tool| format!("<code>{}</code>", escaped(tool.as_str()))).collect();
    put(&never.join(", "));
    put("</p>\n</body></html>\n");
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let cells = |tag: &str, cells: Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
        format!("<tr>{}</tr>", cells.concat())
    };
    let head = cells("th", header.iter().map(|name| (*name).to_owned()).collect());
    let rows: Vec<String> = rows.into_iter().map(|row| cells("td", row)).collect();
    format!("<table>{head}{}</table>\n", rows.concat())
}

/// The precision of the most confident predictions, by the share of decisions that they are.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn precision_curve(predictions: &[Prediction]) -> Vec<(f64, f64)> {
    let mut sorted: Vec<&Prediction> = predictions.iter().collect();
    sorted.sort_by(|one, other| other.confidence.total_cmp(&one.confidence));
    let mut right = 0_usize;
    let points = sorted.iter().enumerate().map(|(at, prediction)| {
        right += usize::from(prediction.right);
        ((at + 1) as f64 / sorted.len() as f64, right as f64 / (at + 1) as f64)
    });
    thinned(points.collect())
}

/// The share of right predictions among the last twentieth of the history.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn learning_curve(predictions: &[Prediction]) -> Vec<(f64, f64)> {
    let window = (predictions.len() / 20).max(1);
    let mut right = 0_usize;
    let mut points = Vec::new();
    for (at, prediction) in predictions.iter().enumerate() {
        right += usize::from(prediction.right);
        if at >= window {
            right -= usize::from(predictions[at - window].right);
        }
        points.push(((at + 1) as f64 / predictions.len() as f64, right as f64 / (at + 1).min(window) as f64));
    }
    thinned(points)
}

fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let every = points.len().div_ceil(POINTS_MAX).max(1);
    points.into_iter().step_by(every).collect()
}

/// A line in a frame; both axes are shares.
fn plot(title: &str, across: &str, up: &str, points: &[(f64, f64)]) -> String {
    let at = |(x, y): (f64, f64)| (MARGIN + x * WIDTH, MARGIN / 2.0 + (1.0 - y) * HEIGHT);
    let (width, height) = (WIDTH + MARGIN * 1.5, HEIGHT + MARGIN * 1.5);
    let mut out = format!(
        "<figure><figcaption>{title}</figcaption><svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" font-size=\"11\">"
    );
    let mut put = |text: String| out.push_str(&text);
    for tick in 0..=4_u32 {
        let share = f64::from(tick) / 4.0;
        let ((left, y), (right, _)) = (at((0.0, share)), at((1.0, share)));
        put(format!("<line x1=\"{left:.1}\" y1=\"{y:.1}\" x2=\"{right:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>"));
        put(format!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.0} %</text>", left - 6.0, y + 4.0, share * 100.0));
        let (x, bottom) = at((share, 0.0));
        put(format!("<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.0} %</text>", bottom + 16.0, share * 100.0));
    }
    let mut line = String::new();
    for point in points {
        let (x, y) = at(*point);
        write!(line, "{x:.1},{y:.1} ").expect("writing to a string");
    }
    put(format!("<polyline points=\"{}\" fill=\"none\" stroke=\"#0072b2\" stroke-width=\"2\"/>", line.trim_end()));
    let (middle, bottom) = at((0.5, 0.0));
    put(format!(
        "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#666\">{across}; upwards: {up}</text>",
        bottom + 34.0
    ));
    put("</svg></figure>".to_owned());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curves_end_with_the_share_of_all_and_are_short() {
        let predictions: Vec<Prediction> =
            (0..1_000_u32).map(|at| Prediction { confidence: f64::from(at) / 1_000.0, right: at % 4 != 0 }).collect();
        let curve = precision_curve(&predictions);
        assert!(curve.len() <= POINTS_MAX && (curve.last().unwrap().1 - 0.75).abs() < 0.01, "{:?}", curve.last());
        let moving = learning_curve(&predictions);
        assert!(moving.iter().skip(5).all(|(_, share)| (share - 0.75).abs() < 0.1));
        assert!(precision_curve(&[]).is_empty() && learning_curve(&[]).is_empty());
    }

    #[test]
    fn texts_of_the_history_cannot_leave_their_place() {
        assert_eq!(
            table(&["a"], vec![vec!["<script>\"&".to_owned()]]),
            "<table><tr><th>a</th></tr><tr><td>&lt;script&gt;&quot;&amp;</td></tr></table>\n"
        );
    }
}
