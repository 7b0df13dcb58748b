//! Files, logs and local ports for paired devices: the plugin `local-streams`.
//!
//! Three stream handlers, each off unless enabled, each with limits and a list of devices of its own. What is said in
//! their streams is in `docs/protocol/streams.md`, and its types are in [`skald_payloads::streams`].
//!
//! # Shape
//!
//! * `path` and `beneath` decide what a path may reach; `file` lists, fetches and takes files by them.
//! * `log` keeps the last lines of the host's log and hands them to who follows.
//! * `tcp` joins a stream to a port that the owner lists by name.
//! * `access` is who may, and how many at once; `settings` is what the owner wrote.
#![deny(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]

mod access;
mod beneath;
mod file;
mod frames;
mod lines;
mod log;
mod path;
mod plugin;
mod settings;
mod surroundings;
mod tcp;
#[cfg(test)]
mod tests;

use skald_payloads::streams::{FaultCode, StreamFault};

pub use log::{LogLayer, LogRing};
pub use plugin::{ID, LocalStreams};
pub use settings::{Fault, Settings};
pub use surroundings::Surroundings;

fn fault(code: FaultCode, text: &str) -> StreamFault {
    StreamFault { code, text: text.to_owned() }
}
