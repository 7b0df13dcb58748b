//! What an application writes down: one line an event, in one `write`, so that no kill leaves half of it unseen.
//!
//! A file outlasts the SIGKILL of its writer without any sync. What is tried is written before, what came of it after:
//! between the two a kill leaves the outcome open, and the check treats it so.

use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

/// An event in a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// The application started, for the so many-th time.
    Up(u32),
    /// It is about to send this number.
    Try(u64),
    /// The client took it over.
    Taken(u64),
    /// The client refused it.
    Refused(u64, String),
    /// A message was seen for the first time, and acted upon.
    Got(usize, u64),
    /// It was handed over again, for its acknowledgement had been cut off.
    Again(usize, u64),
    /// It was acknowledged.
    Acked(usize, u64),
    /// The client said that a message will not arrive.
    Failed(String),
    /// Something that must not happen.
    Wrong(String),
}

impl Entry {
    fn text(&self) -> String {
        match self {
            Self::Up(times) => format!("up {times}"),
            Self::Try(number) => format!("try {number}"),
            Self::Taken(number) => format!("taken {number}"),
            Self::Refused(number, why) => format!("refused {number} {why}"),
            Self::Got(from, number) => format!("got {from} {number}"),
            Self::Again(from, number) => format!("again {from} {number}"),
            Self::Acked(from, number) => format!("acked {from} {number}"),
            Self::Failed(why) => format!("failed {why}"),
            Self::Wrong(what) => format!("wrong {what}"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (word, rest) = text.split_once(' ')?;
        let two = || {
            let (from, number) = rest.split_once(' ')?;
            Some((from.parse().ok()?, number.parse().ok()?))
        };
        Some(match word {
            "up" => Self::Up(rest.parse().ok()?),
            "try" => Self::Try(rest.parse().ok()?),
            "taken" => Self::Taken(rest.parse().ok()?),
            "refused" => {
                let (number, why) = rest.split_once(' ')?;
                Self::Refused(number.parse().ok()?, why.to_owned())
            }
            "got" => two().map(|(from, number)| Self::Got(from, number))?,
            "again" => two().map(|(from, number)| Self::Again(from, number))?,
            "acked" => two().map(|(from, number)| Self::Acked(from, number))?,
            "failed" => Self::Failed(rest.to_owned()),
            "wrong" => Self::Wrong(rest.to_owned()),
            _ => return None,
        })
    }
}

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    file: File,
}

impl Journal {
    /// Goes on with the journal at `path`.
    pub fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Self { file: file.with_context(|| format!("{} cannot be opened", path.display()))? })
    }

    /// Writes an entry down.
    pub fn write(&mut self, entry: &Entry) -> Result<()> {
        let line = format!("{} {}\n", now_ms(), entry.text().replace('\n', " "));
        self.file.write_all(line.as_bytes()).context("a journal cannot be written")
    }
}

/// The entries of the journal at `path`, each with the Unix millisecond of its writing. A journal that is not there yet is
/// empty.
pub fn read(path: &Path) -> Result<Vec<(u64, Entry)>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(missing) if missing.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(other) => return Err(other).with_context(|| format!("{} cannot be read", path.display())),
    };
    let line = |line: &str| {
        let (at, entry) = line.split_once(' ')?;
        Some((at.parse().ok()?, Entry::parse(entry)?))
    };
    text.lines().map(|text| line(text).with_context(|| format!("a journal says {text:?}"))).collect()
}

/// What an application that starts again knows of itself.
#[derive(Debug, Default)]
pub struct Memory {
    /// The number to send next.
    pub next: u64,
    /// What it has seen, and acted upon.
    pub got: HashSet<(usize, u64)>,
    /// What it has acknowledged as well.
    pub acked: HashSet<(usize, u64)>,
    /// The last number seen, by sender and stream.
    pub last: BTreeMap<(usize, crate::script::Stream), u64>,
}

/// Unix milliseconds.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let scratch = skald_testkit::Scratch::new().unwrap();
        let path = scratch.join("journal");
        assert_eq!(read(&path).unwrap(), []);
        let entries = [
            Entry::Up(1),
            Entry::Try(7),
            Entry::Refused(7, "there is no connection".into()),
            Entry::Got(2, 9),
            Entry::Wrong("two\nlines".into()),
        ];
        let mut journal = Journal::open(&path).unwrap();
        entries.iter().for_each(|entry| journal.write(entry).unwrap());
        let read: Vec<_> = read(&path).unwrap().into_iter().map(|(_, entry)| entry).collect();
        assert_eq!(read[..4], entries[..4]);
        assert_eq!(read[4], Entry::Wrong("two lines".into()));
    }
}
