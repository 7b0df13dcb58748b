//! A chart of rows as SVG, which takes the colours of light or dark from whoever shows it.

use std::fmt::Write as _;

use crate::rows::{Row, Target, figure};

const WIDTH: f64 = 820.0;
/// Where bars begin, and how long the longest is.
const LEFT: f64 = 270.0;
const LENGTH: f64 = 330.0;
const TOP: f64 = 52.0;
const ROW: f64 = 38.0;
const GROUP: f64 = 26.0;

/// A bar for each figure with its baseline below it, in groups of one unit and one scale.
pub fn draw(title: &str, rows: &[Row]) -> String {
    let mut units: Vec<&str> = Vec::new();
    for row in rows {
        if !units.contains(&row.unit) {
            units.push(row.unit);
        }
    }
    let (mut body, mut y) = (String::new(), TOP);
    for unit in units {
        let group: Vec<&Row> = rows.iter().filter(|row| row.unit == unit).collect();
        let longest = group.iter().flat_map(|row| [Some(row.value), row.baseline, bound(row)]).flatten();
        let scale = LENGTH / longest.fold(f64::MIN_POSITIVE, f64::max);
        let _ = writeln!(body, r#"<text class="unit" x="16" y="{}">{}</text>"#, y + 14.0, escape(unit));
        y += GROUP;
        for row in group {
            bars(&mut body, row, y, scale);
            y += ROW;
        }
    }
    let height = y + 12.0;
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}">
<style>
svg {{ font: 13px system-ui, sans-serif; }}
text {{ fill: #1f2328; }}
.title {{ font-size: 16px; font-weight: 600; }}
.unit, .note {{ fill: #59636e; }}
.card {{ fill: #ffffff; stroke: #d1d9e0; }}
.ours {{ fill: #0969da; }}
.missed {{ fill: #bc4c00; }}
.base {{ fill: #afb8c1; }}
.bound {{ stroke: #1f2328; stroke-dasharray: 3 2; }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #f0f6fc; }}
.unit, .note {{ fill: #9198a1; }}
.card {{ fill: #0d1117; stroke: #3d444d; }}
.ours {{ fill: #4493f8; }}
.missed {{ fill: #f0883e; }}
.base {{ fill: #59636e; }}
.bound {{ stroke: #f0f6fc; }}
}}
</style>
<rect class="card" x="0.5" y="0.5" width="{}" height="{}" rx="8"/>
<text class="title" x="16" y="30">{}</text>
{body}</svg>
"##,
        WIDTH - 1.0,
        height - 1.0,
        escape(title),
        title = escape(title),
    )
}

fn bars(body: &mut String, row: &Row, y: f64, scale: f64) {
    let class = if row.holds() == Some(false) { "missed" } else { "ours" };
    let _ = writeln!(
        body,
        r#"<text x="{}" y="{}" text-anchor="end">{}</text>"#,
        LEFT - 10.0,
        y + 17.0,
        escape(&row.variant)
    );
    let bar = |body: &mut String, class: &str, y: f64, height: f64, value: f64| {
        let width = (value * scale).max(1.0);
        let _ = writeln!(
            body,
            r#"<rect class="{class}" x="{LEFT}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="2"/>"#
        );
    };
    bar(body, class, y + 3.0, 14.0, row.value);
    if let Some(baseline) = row.baseline {
        bar(body, "base", y + 19.0, 6.0, baseline);
    }
    if let Some(bound) = bound(row) {
        let x = LEFT + bound * scale;
        let _ = writeln!(
            body,
            r#"<line class="bound" x1="{x:.1}" x2="{x:.1}" y1="{:.1}" y2="{:.1}"/>"#,
            y,
            y + 27.0
        );
    }
    let mut note = figure(row.value);
    if let (Some(baseline), Some(name), Some(ratio)) = (row.baseline, row.against, row.ratio) {
        let _ = write!(note, " · {} {name} · ×{}", figure(baseline), figure(ratio));
    }
    let _ = writeln!(
        body,
        r#"<text class="note" x="{}" y="{}">{}</text>"#,
        LEFT + LENGTH + 10.0,
        y + 17.0,
        escape(&note)
    );
}

/// Where the figure should end, in its own unit. A bound far off the scale would make bars invisible.
fn bound(row: &Row) -> Option<f64> {
    let (Target::AtMost(target) | Target::AtLeast(target)) = row.target?;
    Some(target * if row.ratio.is_some() { row.baseline? } else { 1.0 })
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_a_bar_for_every_figure_and_baseline() {
        let rows = [
            Row::new("s", "with <angle>", 1.0, "s/GB").against("copy", 2.0).at_most(1.0),
            Row::new("s", "alone", 5.0, "KiB"),
        ];
        let svg = draw("T & T", &rows);
        assert_eq!((svg.matches(r#"class="ours""#).count(), svg.matches(r#"class="base""#).count()), (2, 1));
        assert!(svg.contains("with &lt;angle&gt;") && svg.contains("T &amp; T"));
        assert!(svg.contains("prefers-color-scheme: dark"));
    }
}
