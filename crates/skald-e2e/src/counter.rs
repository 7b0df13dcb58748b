//! Counters: how the sender never uses a number twice, and how the receiver never takes one twice (crypto.md, Session).
//!
//! Both types are pure state. The store writes what they ask for; the rule that it does so *before* the frame leaves
//! is in the types: [`SendCounter::take`] gives nothing beyond what was confirmed as written.

/// How many numbers are reserved in the store at a time. A crash skips at most so many.
pub const BLOCK: u64 = 64;

/// The largest counter, so that every one fits SQLite's signed integer.
pub const MAX: u64 = i64::MAX as u64;

/// The next numbers of one peer and direction.
///
/// ```
/// # use skald_e2e::counter::{SendCounter, Take};
/// let mut counter = SendCounter::start(0, 0);
/// let Take::Reserve(up_to) = counter.take() else { panic!() };
/// // … write `up_to` durably …
/// counter.reserved(up_to);
/// assert_eq!(counter.take(), Take::Use(1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendCounter {
    next: u64,
    /// The highest number known to be durable; numbers up to it may be used.
    reserved: u64,
}

/// What [`SendCounter::take`] answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// Use this number, once.
    Use(u64),
    /// Write this bound durably, tell [`SendCounter::reserved`], and ask again.
    Reserve(u64),
    /// All numbers are used up; the key must be replaced. (At one a microsecond: in 290,000 years.)
    Exhausted,
}

impl SendCounter {
    /// After a start of the program: `stored` is the bound last written (0 where there is none), `now_ms` the time
    /// since 1970. The folder may be older than it looks, so the clock is a second lower bound: no number can have
    /// been used in an earlier life of the folder unless that life sent more than 65,536 messages a millisecond.
    pub fn start(stored: u64, now_ms: u64) -> Self {
        let next = stored.saturating_add(1).max(now_ms.saturating_mul(1 << 16)).max(1);
        Self { next, reserved: 0 }
    }

    /// The next number, or what must be written first.
    pub fn take(&mut self) -> Take {
        if self.next > MAX {
            return Take::Exhausted;
        }
        if self.next > self.reserved {
            return Take::Reserve((self.next - 1).saturating_add(BLOCK).min(MAX));
        }
        let number = self.next;
        self.next += 1;
        Take::Use(number)
    }

    /// The store has made `up_to` durable.
    pub fn reserved(&mut self, up_to: u64) {
        self.reserved = self.reserved.max(up_to);
    }
}

/// The last counter accepted from one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplayWindow {
    high: u64,
}

/// The counter is not above the last one: a repetition, or something that was overtaken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message is not newer than the last one")]
pub struct Replayed;

impl ReplayWindow {
    /// From the stored mark; 0 where nothing was received yet.
    pub fn new(high: u64) -> Self {
        Self { high }
    }

    /// The mark to store.
    pub fn high(&self) -> u64 {
        self.high
    }

    /// Whether `counter` would be accepted. Any forward gap is.
    pub fn check(&self, counter: u64) -> Result<(), Replayed> {
        if counter > self.high { Ok(()) } else { Err(Replayed) }
    }

    /// Accepts `counter`. The new mark must be durable no later than the payload is acted upon.
    pub fn accept(&mut self, counter: u64) -> Result<(), Replayed> {
        self.check(counter)?;
        self.high = counter;
        Ok(())
    }
}
