//! How the conductor learns that something has happened: signals, never the clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Something a peer tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tick {
    /// A stored message was taken over by the sender's client.
    Taken,
    /// A stored message was seen by its recipient.
    Got,
    /// A message of a closing round was seen.
    Closing,
    /// A peer, in this start, has come to the end of its script.
    Done,
}

impl Tick {
    const ALL: [Self; 4] = [Self::Taken, Self::Got, Self::Closing, Self::Done];

    /// As a process prints it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Got => "got",
            Self::Closing => "closing",
            Self::Done => "done",
        }
    }

    /// What a process printed.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tick| tick.word() == word)
    }
}

/// What all peers together have told.
#[derive(Debug, Default)]
pub struct Progress {
    counts: [AtomicU64; Tick::ALL.len()],
    /// Counts everything, so that a waiter sees that there was something.
    changed: Mutex<u64>,
    signal: Condvar,
}

impl Progress {
    /// Counts.
    pub fn tick(&self, tick: Tick) {
        self.counts[tick as usize].fetch_add(1, Ordering::Relaxed);
        *self.changed.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.signal.notify_all();
    }

    /// Wakes who waits, without counting.
    pub fn nudge(&self) {
        *self.changed.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.signal.notify_all();
    }

    /// How many of a kind.
    pub fn count(&self, tick: Tick) -> u64 {
        self.counts[tick as usize].load(Ordering::Relaxed)
    }

    /// How far the run is: stored messages taken and seen.
    pub fn steps(&self) -> u64 {
        self.count(Tick::Taken) + self.count(Tick::Got)
    }

    /// Waits until `reached` holds. False: nothing at all has been told for as long as `quiet`.
    pub fn wait(&self, quiet: Duration, mut reached: impl FnMut(&Self) -> bool) -> bool {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if reached(self) {
                return true;
            }
            let (before, until) = (*changed, Instant::now() + quiet);
            while *changed == before {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return false;
                }
                changed = self.signal.wait_timeout(changed, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

/// A peer's way to tell.
#[derive(Debug, Clone)]
pub enum Ticker {
    /// In the conductor's process.
    Here(Arc<Progress>),
    /// In a process of its own: a word on standard output.
    Printed,
}

impl Ticker {
    /// Tells.
    pub fn tick(&self, tick: Tick) {
        match self {
            Self::Here(progress) => progress.tick(tick),
            Self::Printed => println!("{}", tick.word()),
        }
    }
}
