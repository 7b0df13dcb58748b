//! The last lines of the log, in memory.
//!
//! Who follows keeps a number and nothing else: the ring forgets its oldest lines whoever has read them, and tells a
//! follower that fell behind how many it has missed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use skald_payloads::streams::LogLevel;
use tokio::sync::watch;

/// Lines that are kept.
const LINES: usize = 4000;
/// Bytes of text that are kept.
const BYTES: usize = 2 * 1024 * 1024;
/// Bytes of one line's text. What is longer is cut, visibly.
pub(crate) const LINE: usize = 4096;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub at: i64,
    pub level: LogLevel,
    pub target: String,
    pub text: String,
}

/// The last lines of a log. Cheap to clone.
#[derive(Clone)]
pub struct LogRing(Arc<Inner>);

struct Inner {
    lines: Mutex<Lines>,
    /// The number of the next line.
    next: watch::Sender<u64>,
}

#[derive(Default)]
struct Lines {
    first: u64,
    kept: VecDeque<Arc<Line>>,
    bytes: usize,
}

/// What a follower takes at a time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Lines it asked for too late.
    pub lost: u64,
    /// Lines with their numbers.
    pub lines: Vec<(u64, Arc<Line>)>,
    /// Where the next batch begins.
    pub next: u64,
}

impl Default for LogRing {
    fn default() -> Self {
        Self(Arc::new(Inner { lines: Mutex::default(), next: watch::Sender::new(0) }))
    }
}

impl LogRing {
    /// Adds a line and forgets the oldest where there are too many. Never waits for anybody who reads.
    pub(crate) fn push(&self, mut line: Line) {
        if line.text.len() > LINE {
            let cut = (0..=LINE - 3).rev().find(|at| line.text.is_char_boundary(*at)).unwrap_or(0);
            line.text.truncate(cut);
            line.text.push('…');
        }
        let next = {
            let mut lines = self.0.lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.bytes += line.text.len();
            lines.kept.push_back(Arc::new(line));
            while lines.kept.len() > LINES || lines.bytes > BYTES {
                let Some(gone) = lines.kept.pop_front() else { break };
                lines.bytes -= gone.text.len();
                lines.first += 1;
            }
            lines.first + lines.kept.len() as u64
        };
        self.0.next.send_replace(next);
    }

    /// Where the last `count` lines of at least this gravity begin.
    pub(crate) fn back(&self, count: usize, level: LogLevel) -> u64 {
        let lines = self.0.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wanted = (lines.first..).zip(&lines.kept).rev_grave(level);
        let end = lines.first + lines.kept.len() as u64;
        match count {
            0 => end,
            count => wanted.nth(count - 1).unwrap_or(lines.first),
        }
    }

    /// At most `most` lines of at least this gravity from number `from` on.
    pub(crate) fn take(&self, from: u64, level: LogLevel, most: usize) -> Batch {
        let lines = self.0.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let start = from.max(lines.first);
        let mut batch = Batch { lost: start - from, lines: Vec::new(), next: start };
        let skip = usize::try_from(start - lines.first).unwrap_or(usize::MAX);
        for line in lines.kept.iter().skip(skip) {
            if batch.lines.len() == most {
                break;
            }
            if line.level <= level {
                batch.lines.push((batch.next, line.clone()));
            }
            batch.next += 1;
        }
        batch
    }

    /// Tells of new lines.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.0.next.subscribe()
    }
}

/// Numbers of grave lines, the newest first.
trait RevGrave {
    fn rev_grave(self, level: LogLevel) -> impl Iterator<Item = u64>;
}

impl<'a, I: Iterator<Item = (u64, &'a Arc<Line>)>> RevGrave for I {
    fn rev_grave(self, level: LogLevel) -> impl Iterator<Item = u64> {
        let mut numbers: Vec<u64> = self.filter(|(_, line)| line.level <= level).map(|(n, _)| n).collect();
        numbers.reverse();
        numbers.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(level: LogLevel, text: impl Into<String>) -> Line {
        Line { at: 0, level, target: "t".into(), text: text.into() }
    }

    fn texts(batch: &Batch) -> Vec<&str> {
        batch.lines.iter().map(|(_, l)| l.text.as_str()).collect()
    }

    #[test]
    fn the_last_lines_are_those_of_the_gravity_that_is_wanted() {
        let ring = LogRing::default();
        for n in 0..10 {
            let level = if n % 3 == 0 { LogLevel::Warn } else { LogLevel::Info };
            ring.push(line(level, n.to_string()));
        }
        let from = ring.back(2, LogLevel::Warn);
        assert_eq!(texts(&ring.take(from, LogLevel::Warn, 99)), ["6", "9"]);
        let from = ring.back(3, LogLevel::Info);
        assert_eq!(texts(&ring.take(from, LogLevel::Info, 99)), ["7", "8", "9"]);
        assert_eq!(ring.take(ring.back(0, LogLevel::Info), LogLevel::Info, 99).lines, []);
        assert_eq!(ring.take(ring.back(99, LogLevel::Error), LogLevel::Error, 99).lines, []);
    }

    #[test]
    fn a_follower_that_falls_behind_is_told_how_many_lines_it_missed() {
        let ring = LogRing::default();
        ring.push(line(LogLevel::Info, "first"));
        let read = ring.take(0, LogLevel::Info, 99);
        assert_eq!((read.lost, read.next), (0, 1));
        for n in 0..LINES + 5 {
            ring.push(line(LogLevel::Info, n.to_string()));
        }
        let late = ring.take(read.next, LogLevel::Info, 2);
        assert_eq!((late.lost, texts(&late)), (5, vec!["5", "6"]));
        assert_eq!(ring.take(late.next, LogLevel::Info, 1).lost, 0);
    }

    #[test]
    fn memory_is_bounded_by_bytes_too_and_long_lines_are_cut_between_characters() {
        let ring = LogRing::default();
        for _ in 0..2000 {
            ring.push(line(LogLevel::Info, "ü".repeat(LINE)));
        }
        let lines = ring.0.lines.lock().unwrap();
        assert!(lines.bytes <= BYTES && !lines.kept.is_empty());
        let text = &lines.kept[0].text;
        assert!(text.ends_with('…') && text.len() <= LINE);
    }
}
