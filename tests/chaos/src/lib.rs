//! The chaos run: the real relay as a process, applications on `skald-relay-client` as threads and as processes, each behind
//! a proxy that drops, stalls, resets and swallows; the relay and the applications killed in the middle of it. One seed
//! draws the schedule, the faults and the payloads.
//!
//! What is promised and checked: a stored message that was accepted arrives at the application exactly once, in the order
//! of its sender, before its expiry. **Accepted** means that `RelayClient::send` returned well: from then on the message is
//! in the sender's outbox, and the library answers for it until the relay has proved that it read it, as the relay does
//! until the recipient has proved the same. Where a sender is killed between its call and its note of the outcome, the
//! message may have been accepted or not: it may arrive once or not at all. A refused message must not arrive.
//!
//! The same seed draws the same run as far as it is drawn: faults fall due by how many messages have been taken over and
//! seen, and after so many bytes of a connection. How the operating system lets threads run, and so which message is at
//! which point when a fault falls, is beyond a seed.
#![deny(missing_docs)]

mod check;
mod conductor;
mod home;
mod journal;
mod peer;
mod progress;
mod report;
mod script;
mod vessel;

use std::path::PathBuf;

pub use check::Counts;
pub use conductor::run;
pub use peer::{PeerConfig, Wish, run as run_peer};
pub use progress::Ticker;
pub use report::Report;
pub use vessel::wish_of;

/// What a run is made of.
#[derive(Debug, Clone)]
pub struct Options {
    /// What everything is drawn from.
    pub seed: u64,
    /// So many stored messages at least are accepted and arrive.
    pub messages: u64,
    /// How many namespaces.
    pub namespaces: usize,
    /// How many devices in each, beside the agent.
    pub devices: usize,
    /// The relay's binary.
    pub relay: PathBuf,
    /// This crate's binary, for peers that are processes.
    pub program: PathBuf,
    /// Where everything is kept, instead of a folder that goes away.
    pub keep: Option<PathBuf>,
    /// Whether to say now and then how far it is.
    pub talk: bool,
}
