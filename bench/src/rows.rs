//! What was measured.

use std::fmt::Write as _;

use serde::Serialize;

/// One figure, and what it is compared with.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Which scenario it belongs to.
    pub scenario: &'static str,
    /// What was measured: a few words.
    pub variant: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// What the baseline took for the same in the same run, in the same unit.
    pub baseline: Option<f64>,
    /// What the baseline is: a few words.
    pub against: Option<&'static str>,
    /// The figure's share of the baseline.
    pub ratio: Option<f64>,
    /// What it should be.
    pub target: Option<Target>,
}

/// What a ratio should be, or a figure that has no baseline.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Not more.
    AtMost(f64),
    /// Not less.
    AtLeast(f64),
}

impl Row {
    /// A figure that stands alone.
    pub fn new(scenario: &'static str, variant: impl Into<String>, value: f64, unit: &'static str) -> Self {
        let variant = variant.into();
        Self { scenario, variant, value, unit, baseline: None, against: None, ratio: None, target: None }
    }

    /// Beside a baseline.
    pub fn against(self, name: &'static str, baseline: f64) -> Self {
        let ratio = self.value / baseline;
        Self { baseline: Some(baseline), against: Some(name), ratio: Some(ratio), ..self }
    }

    /// With a ratio of its own, where several rounds gave one each.
    pub fn ratio(self, ratio: f64) -> Self {
        Self { ratio: Some(ratio), ..self }
    }

    /// The ratio, or where there is none the figure, should not exceed this.
    pub fn at_most(self, target: f64) -> Self {
        Self { target: Some(Target::AtMost(target)), ..self }
    }

    /// The ratio, or where there is none the figure, should reach this.
    pub fn at_least(self, target: f64) -> Self {
        Self { target: Some(Target::AtLeast(target)), ..self }
    }

    /// Whether it is what it should be; `None` where nothing was asked.
    pub fn holds(&self) -> Option<bool> {
        let value = self.ratio.unwrap_or(self.value);
        self.target.map(|target| match target {
            Target::AtMost(most) => value <= most,
            Target::AtLeast(least) => value >= least,
        })
    }

    /// The cells of a table: figure, baseline, ratio, target.
    pub fn cells(&self) -> [String; 5] {
        let baseline = self.baseline.zip(self.against);
        let target = match self.target {
            None => String::new(),
            Some(Target::AtMost(most)) => format!("≤ {}", figure(most)),
            Some(Target::AtLeast(least)) => format!("≥ {}", figure(least)),
        };
        let held = match self.holds() {
            None => "",
            Some(true) => " ✓",
            Some(false) => " ✗",
        };
        [
            self.variant.clone(),
            format!("{} {}", figure(self.value), self.unit),
            baseline.map_or(String::new(), |(value, name)| format!("{} ({name})", figure(value))),
            self.ratio.map_or(String::new(), figure),
            target + held,
        ]
    }
}

/// The columns of a table.
pub const COLUMNS: [&str; 5] = ["what", "figure", "baseline", "ratio", "should be"];

/// Three digits that matter.
pub fn figure(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 || v == 0.0 => 2,
        _ => 4,
    };
    format!("{value:.digits$}")
}

/// The middle of what several rounds gave.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A table for a terminal.
pub fn table(rows: &[Row]) -> String {
    let lines: Vec<[String; 5]> =
        std::iter::once(COLUMNS.map(str::to_owned)).chain(rows.iter().map(Row::cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3, 4].map(width);
    let mut text = String::new();
    for line in &lines {
        for (cell, width) in line.iter().zip(widths) {
            let _ = write!(text, "{cell:width$}  ");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_judged_before_the_figure() {
        let row = Row::new("s", "v", 2.0, "s/GB").against("copy", 4.0).at_most(1.0);
        assert_eq!((row.ratio, row.holds()), (Some(0.5), Some(true)));
        assert_eq!(Row::new("s", "v", 600.0, "KiB").at_most(512.0).holds(), Some(false));
        assert_eq!(
            Row::new("s", "v", 30.0, "frames/s").against("loop", 2.0).at_least(20.0).holds(),
            Some(false)
        );
        assert_eq!(Row::new("s", "v", 1.0, "s").holds(), None);
    }

    #[test]
    fn the_table_lines_up() {
        let rows = [Row::new("s", "one", 1.0, "s"), Row::new("s", "longer", 1234.5, "s").against("x", 10.0)];
        let text = table(&rows);
        let columns: Vec<_> = text.lines().map(|line| line.find(" s").unwrap_or(0)).collect();
        assert_eq!(text.lines().count(), 3);
        assert!(columns[1] > 0 && text.contains("1234 s"), "{text}");
    }
}
