//! Learning curves as an SVG picture, with one panel per question and metric.

use std::fmt::Write as _;

use super::curves::Curve;
use super::prequential::METRICS;

const PANEL_WIDTH: f64 = 400.0;
const PANEL_HEIGHT: f64 = 260.0;
/// Margins around a panel, for tick labels and titles.
const LEFT: f64 = 56.0;
const RIGHT: f64 = 20.0;
const ABOVE: f64 = 40.0;
const BELOW: f64 = 52.0;
const HEADER: f64 = 84.0;
/// Points drawn per line; more would not be visible.
const LINE_POINTS_MAX: usize = 300;
/// Colours that colour-blind people can tell apart (Okabe and Ito). The first is for what pml serves.
const COLOURS: [&str; 8] = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c8c8c", "#b8a300"];

/// The position of a panel in the picture and the length of its axis in traces.
struct Panel {
    x: f64,
    y: f64,
    traces: u32,
}

impl Panel {
    fn at(&self, trace: f64, value: f64) -> (f64, f64) {
        let along = (trace - 1.0) / f64::from(self.traces.max(2) - 1);
        (self.x + along * PANEL_WIDTH, self.y + (1.0 - value) * PANEL_HEIGHT)
    }
}

/// Returns the picture as SVG, with a title and a subtitle that says what was measured.
pub fn svg(curves: &[Curve], title: &str, subtitle: &str) -> String {
    let mut questions: Vec<&str> = curves.iter().map(|curve| curve.question).collect();
    questions.dedup();
    let (columns, rows) = (METRICS.len(), questions.len());
    let cell = (LEFT + PANEL_WIDTH + RIGHT, ABOVE + PANEL_HEIGHT + BELOW);
    #[expect(clippy::cast_precision_loss, reason = "a handful of panels")]
    let (width, height) = (cell.0 * columns as f64, HEADER + cell.1 * rows as f64);
    let mut out = String::new();
    let mut put = |text: String| writeln!(out, "{text}").expect("writing to memory cannot fail");
    put(format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#333333">"##
    ));
    put(format!(r##"<rect width="{width}" height="{height}" fill="#ffffff"/>"##));
    put(label(LEFT, 28.0, "start", r#"font-size="18" font-weight="bold""#, title));
    put(label(LEFT, 48.0, "start", r##"fill="#666666""##, subtitle));
    let rankers = rankers(curves);
    put(legend(&rankers));
    for (row, question) in questions.iter().enumerate() {
        for (column, metric) in METRICS.iter().enumerate() {
            let lines: Vec<&Curve> = curves.iter().filter(|curve| curve.question == *question).collect();
            let traces = lines.iter().filter_map(|curve| curve.points.last()).map(|point| point.trace).max().unwrap_or(1);
            #[expect(clippy::cast_precision_loss, reason = "a handful of panels")]
            let (x, y) = (cell.0 * column as f64 + LEFT, HEADER + cell.1 * row as f64 + ABOVE);
            let panel = Panel { x, y, traces };
            put(frame(&panel, &format!("{question}: {metric}")));
            // The first ranker last, so that it lies on top.
            for curve in lines.iter().rev() {
                put(line(&panel, curve, column, colour(&rankers, curve.ranker), curve.ranker == rankers[0]));
            }
        }
    }
    put("</svg>".to_owned());
    out
}

fn rankers(curves: &[Curve]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for curve in curves {
        if !names.contains(&curve.ranker) {
            names.push(curve.ranker);
        }
    }
    names
}

fn colour(rankers: &[&str], ranker: &str) -> &'static str {
    COLOURS[rankers.iter().position(|name| *name == ranker).unwrap_or(0) % COLOURS.len()]
}

fn label(x: f64, y: f64, anchor: &str, style: &str, text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" {style}>{text}</text>"#)
}

fn legend(rankers: &[&str]) -> String {
    let mut x = LEFT;
    let mut out = String::new();
    for name in rankers {
        let (width, colour) = (stroke(*name == rankers[0]), colour(rankers, name));
        let end = x + 26.0;
        let key = format!(r#"<line x1="{x}" y1="70" x2="{end}" y2="70" stroke="{colour}" stroke-width="{width}"/>"#);
        writeln!(out, "{key}{}", label(end + 6.0, 74.0, "start", "", name)).expect("writing to memory cannot fail");
        #[expect(clippy::cast_precision_loss, reason = "names are short")]
        let step = 56.0 + 7.0 * name.len() as f64;
        x += step;
    }
    out
}

const fn stroke(first: bool) -> f64 {
    if first { 3.0 } else { 1.8 }
}

fn rule(from: (f64, f64), to: (f64, f64), colour: &str) -> String {
    format!(r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{colour}"/>"#, from.0, from.1, to.0, to.1)
}

/// Returns the axes, grid, ticks and labels of a panel.
fn frame(panel: &Panel, title: &str) -> String {
    let (left, bottom) = (panel.x, panel.y + PANEL_HEIGHT);
    let right = left + PANEL_WIDTH;
    let mut out = label(left, panel.y - 14.0, "start", r#"font-size="14" font-weight="bold""#, title);
    for tick in 0..=5_u32 {
        let value = f64::from(tick) / 5.0;
        let (_, y) = panel.at(1.0, value);
        let colour = if tick == 0 { "#333333" } else { "#e3e3e3" };
        out += &rule((left, y), (right, y), colour);
        out += &label(left - 8.0, y + 4.0, "end", "", &format!("{:.0}%", value * 100.0));
    }
    for trace in ticks(panel.traces) {
        let (x, _) = panel.at(f64::from(trace), 0.0);
        out += &rule((x, bottom), (x, bottom + 5.0), "#333333");
        out += &label(x, bottom + 19.0, "middle", "", &trace.to_string());
    }
    out + &label(
        f64::midpoint(left, right),
        bottom + 38.0,
        "middle",
        r##"fill="#666666""##,
        "traces asked about, each before it was learnt",
    )
}

/// Returns about five round numbers along the axis.
fn ticks(traces: u32) -> Vec<u32> {
    let rough = traces.div_ceil(5).max(1);
    let power = 10_u32.pow(rough.ilog10());
    let step = [1, 2, 5, 10].into_iter().map(|factor| factor * power).find(|step| *step >= rough).unwrap_or(rough);
    std::iter::once(1)
        .chain((1..).map(|number| number * step).skip_while(|tick| *tick <= 1).take_while(|tick| *tick <= traces))
        .collect()
}

fn line(panel: &Panel, curve: &Curve, metric: usize, colour: &str, first: bool) -> String {
    let every = curve.points.len().div_ceil(LINE_POINTS_MAX).max(1);
    let last = curve.points.len().saturating_sub(1);
    let kept = curve.points.iter().zip(&curve.means).enumerate().filter(|(at, _)| at % every == 0 || *at == last);
    let points: Vec<String> = kept
        .map(|(_, (point, means))| {
            let (x, y) = panel.at(f64::from(point.trace), means[metric]);
            format!("{x:.1},{y:.1}")
        })
        .collect();
    let (width, opacity) = (stroke(first), if first { 1.0 } else { 0.85 });
    format!(
        r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-opacity="{opacity}" stroke-linejoin="round"/>"#,
        points.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(3_027), [1, 1_000, 2_000, 3_000]);
        assert_eq!(ticks(100), [1, 20, 40, 60, 80, 100]);
        assert_eq!(ticks(7), [1, 2, 4, 6]);
        assert_eq!(ticks(1), [1]);
    }
}
