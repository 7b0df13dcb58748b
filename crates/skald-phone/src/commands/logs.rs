//! `logs`: what the host logs.

use serde_json::json;
use skald_payloads::streams::{LOG, LogLevel, LogReply, LogRequest};
use tokio::time::{Instant, sleep};

use super::ls::settle;
use crate::cli;
use crate::failure::Outcome;
use crate::out;
use crate::session::Session;
use crate::streams::retry::Retry;
use crate::streams::{self, Trouble};
use crate::text::{Style, one_line};

/// Lines asked for again after a break, so that those of the meantime are among them.
const AGAIN: u32 = 1000;

pub async fn run(session: &Session, json: bool, args: cli::Logs) -> Outcome<()> {
    let level = match args.level.as_str() {
        "error" => LogLevel::Error,
        "warn" => LogLevel::Warn,
        "debug" => LogLevel::Debug,
        "trace" => LogLevel::Trace,
        _ => LogLevel::Info,
    };
    let mut shown = Shown { json, style: Style::for_stdout(), last: None };
    let mut retry = Retry::new(args.wait);
    loop {
        let lines = if shown.last.is_some() { AGAIN } else { args.lines };
        let before = shown.last;
        let asked = LogRequest { lines, follow: args.follow, level };
        match follow(session, &asked, &mut shown).await {
            Ok(()) => return Ok(()),
            Err(trouble) => {
                let failure = settle(trouble, "")?;
                if shown.last != before {
                    retry.moved();
                }
                match retry.broke(Instant::now()) {
                    Some(pause) => sleep(pause).await,
                    None => return Err(failure),
                }
            }
        }
    }
}

async fn follow(session: &Session, asked: &LogRequest, shown: &mut Shown) -> Result<(), Trouble> {
    let (mut from, mut to) = streams::open(session, LOG, &[]).await?;
    streams::say(&mut to, asked).await?;
    loop {
        match from.hear().await? {
            LogReply::Line { seq, at, level, target, text } => shown.line(seq, at, level, &target, &text)?,
            LogReply::Lost { count } => {
                out::aside(&format!("{count} lines went by faster than they could be sent."))
            }
            LogReply::Idle => {}
            LogReply::End => return Ok(()),
            LogReply::Error(fault) => return Err(Trouble::Fault(fault)),
        }
    }
}

/// What was shown last, so that nothing is shown twice after a break.
struct Shown {
    json: bool,
    style: Style,
    last: Option<(i64, u64)>,
}

impl Shown {
    fn line(&mut self, seq: u64, at: i64, level: LogLevel, target: &str, text: &str) -> Outcome<()> {
        // A host that started again counts anew; its clock goes on.
        if self.last.is_some_and(|(last_at, last)| at < last_at || (seq <= last && at == last_at)) {
            return Ok(());
        }
        self.last = Some((at, seq));
        if self.json {
            return out::json(&json!({"seq": seq, "at": at, "level": level, "target": target, "text": text}));
        }
        let word = match level {
            LogLevel::Error => self.style.paint("31", "ERROR"),
            LogLevel::Warn => self.style.paint("33", " WARN"),
            other => format!("{:>5}", other.word().to_ascii_uppercase()),
        };
        let target = self.style.dim(&one_line(target));
        out::line(&format!("{} {word} {target} {}", clock(at), one_line(text)))
    }
}

/// A moment as date and time, UTC.
fn clock(ms: i64) -> String {
    let (days, ms) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    // Civil date from days since 1970: eras of 400 years, years that begin in March.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year_of_era + era * 400 + next;
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}Z")
}

#[cfg(test)]
mod tests {
    #[test]
    fn moments_are_read_as_dates() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_767_225_599_999, "2025-12-31T23:59:59Z"),
            (1_772_323_200_000, "2026-03-01T00:00:00Z"),
        ] {
            assert_eq!(super::clock(ms), text);
        }
    }
}
