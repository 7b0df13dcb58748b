//! Fixtures for tests and for the project's chores: the real binaries as child processes, scratch folders, a private
//! certificate authority, a small HTTP client, a search for canaries and numbers that can be drawn again from a seed.
//!
//! Nothing here sleeps. A fixture is ready when the program under test says so on its output, and a test waits for a
//! line, an event or the end of a stream. [`PATIENCE`] only bounds how long a test that has already failed hangs.
#![deny(missing_docs)]

use std::time::Duration;

mod authority;
mod bins;
mod browser;
mod canary;
#[cfg(feature = "proxy")]
mod chaos_proxy;
#[cfg(feature = "fakes")]
mod delay;
#[cfg(feature = "fakes")]
pub mod fakes;
mod host;
mod http;
mod phone;
mod ports;
mod program;
mod relay;
mod rng;
mod scratch;

pub use authority::{Authority, ServerCertificate};
pub use bins::binary;
pub use browser::{Browser, Page};
pub use canary::{Trace, is_in_memory, traces_in_text, traces_in_tree};
#[cfg(feature = "proxy")]
pub use chaos_proxy::{ChaosProxy, FaultCounts, NetFault};
#[cfg(feature = "fakes")]
pub use delay::{Delay, DelayLine, Stall};
pub use host::HostProcess;
pub use http::{Client, Events, Response};
pub use phone::Phone;
pub use ports::free_port;
pub use program::{Finished, Program, Stream};
pub use relay::RelayProcess;
pub use rng::Rng;
pub use scratch::Scratch;

/// How long a fixture waits for a signal before it says that the test has failed. No assertion depends on it.
pub const PATIENCE: Duration = Duration::from_secs(90);
