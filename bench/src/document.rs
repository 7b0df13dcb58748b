//! Puts figures into `docs/performance.md`, between marks, and their chart beside it.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::rows::{COLUMNS, Row};
use crate::{Scenario, chart, usage};

/// Replaces what stands between the scenario's marks; where there are none, they are put at the end.
pub fn write(root: &Path, scenario: &Scenario, rows: &[Row]) -> Result<()> {
    let (docs, name) = (root.join("docs"), scenario.name);
    let page = docs.join("performance.md");
    let text =
        std::fs::read_to_string(&page).with_context(|| format!("{} cannot be read", page.display()))?;
    let image = format!("images/bench-{name}.svg");
    let section = section(scenario, rows, &image);
    let text = replace(&text, name, scenario.title, &section)?;
    std::fs::write(docs.join(&image), chart::draw(scenario.title, rows))
        .context("the chart cannot be written")?;
    std::fs::write(&page, text).context("the figures cannot be written")
}

fn section(scenario: &Scenario, rows: &[Row], image: &str) -> String {
    let mut text = format!("![{}]({image})\n\n", scenario.title);
    let _ = writeln!(text, "| {} |", COLUMNS.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(COLUMNS.len()));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.cells().join(" | "));
    }
    let _ = writeln!(text, "\nMeasured on {}.", usage::machine());
    text
}

fn replace(text: &str, name: &str, title: &str, section: &str) -> Result<String> {
    let (open, close) = (format!("<!-- bench:{name} -->\n"), format!("<!-- /bench:{name} -->"));
    match (text.split_once(&open), text.split_once(&close)) {
        (Some((before, _)), Some((_, after))) => Ok(format!("{before}{open}{section}{close}{after}")),
        (None, None) => {
            let text = text.trim_end();
            Ok(format!("{text}\n\n## {title}\n\n{open}{section}{close}\n"))
        }
        _ => bail!("only one of the marks of {name} is in performance.md: put the other back"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_around_the_marks_stays() {
        let page = "# P\n\nBefore.\n\n<!-- bench:a -->\nold\n<!-- /bench:a -->\n\nAfter.\n";
        let new = replace(page, "a", "A", "new\n").unwrap();
        assert_eq!(new, page.replace("old", "new"));
        let more = replace(&new, "b", "B", "first\n").unwrap();
        assert!(more.starts_with(new.trim_end()));
        assert!(more.ends_with("## B\n\n<!-- bench:b -->\nfirst\n<!-- /bench:b -->\n"));
        assert!(replace("<!-- bench:a -->\n", "a", "A", "").is_err());
    }
}
