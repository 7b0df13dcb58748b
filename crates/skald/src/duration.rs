//! Durations as people write them: `90s`, `10m`, `2h`, `1d`, `1h30m`.

use std::time::Duration;

/// The longest duration that makes sense here.
const LONGEST: u64 = 366 * 86_400;

/// Parses a duration of a second or more.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a duration like 90s, 10m, 2h, 1d or 1h30m".to_owned();
    let mut rest = text.trim();
    let mut secs = 0u64;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let n: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let mut after = rest[digits..].chars();
        let unit = match after.next() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3_600,
            Some('d') => 86_400,
            _ => return Err(wrong()),
        };
        secs = n.checked_mul(unit).and_then(|s| secs.checked_add(s)).ok_or_else(wrong)?;
        rest = after.as_str();
    }
    match secs {
        0 => Err("the duration must be a second at least".to_owned()),
        secs if secs > LONGEST => Err("the duration must be a year at most".to_owned()),
        secs => Ok(Duration::from_secs(secs)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read_and_what_is_unclear_is_refused() {
        for (text, secs) in
            [("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86_400), ("1h30m", 5400), (" 5m ", 300)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(secs)), "{text}");
        }
        for text in
            ["", "10", "m", "-5m", "1.5h", "5 m", "0s", "10min", "99999999999999999999d", "400d", "1w", "５m"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
