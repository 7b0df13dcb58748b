//! What is printed.

use std::io::Write;

use serde_json::Value;

use crate::failure::Failure;

/// Takes control characters out of text that came from elsewhere, so that it cannot drive the terminal.
pub fn clean(text: &str) -> String {
    let direction =
        |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().filter(|c| *c == '\n' || *c == '\t' || !(c.is_control() || direction(*c))).collect()
}

/// The same on one line.
pub fn clean_line(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}

/// Prints a line. A reader that went away is not an error of ours to shout about.
pub fn line(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(|e| Failure::failed(format!("The output could not be written: {e}.")))
}

/// Prints JSON.
pub fn json(value: &Value) -> Result<(), Failure> {
    line(&serde_json::to_string_pretty(value).unwrap_or_default())
}

/// Prints a table with aligned columns.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    let rows: Vec<Vec<String>> = rows.iter().map(|r| r.iter().map(|c| clean_line(c)).collect()).collect();
    let mut widths: Vec<usize> = head.iter().map(|h| h.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let format = |cells: Vec<&str>| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(c, w)| format!("{c:<w$}")).collect();
        padded.join("  ").trim_end().to_owned()
    };
    line(&format(head.to_vec()))?;
    rows.iter().try_for_each(|row| line(&format(row.iter().map(String::as_str).collect())))
}

/// A time as UTC, from unix milliseconds.
pub fn time(ms: Option<i64>) -> String {
    let Some(ms) = ms.filter(|ms| *ms > 0) else { return "-".to_owned() };
    let secs = ms.div_euclid(1000);
    let (days, of_day) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    let (y, m, d) = civil(days);
    format!("{y:04}-{m:02}-{d:02} {:02}:{:02} UTC", of_day / 3600, of_day / 60 % 60)
}

/// The date of a day counted from 1 January 1970. Years are counted from March within a 400-year cycle, so that the
/// leap day is the last of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let cycle = shifted.div_euclid(146_097);
    let day = shifted.rem_euclid(146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    (year + cycle * 400 + i64::from(month <= 2), month, of_year - (153 * march + 2) / 5 + 1)
}

/// A string member of a JSON object.
pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The members of a JSON list.
pub fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        assert_eq!(time(Some(0)), "-");
        assert_eq!(time(Some(1_000)), "1970-01-01 00:00 UTC");
        assert_eq!(time(Some(951_782_400_000)), "2000-02-29 00:00 UTC");
        assert_eq!(time(Some(1_767_225_599_000)), "2025-12-31 23:59 UTC");
    }

    #[test]
    fn text_from_elsewhere_cannot_drive_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\u{7}\nc\u{202e}d"), "a[2Jb\ncd");
        assert_eq!(clean_line("a\nb"), "a b");
    }
}
