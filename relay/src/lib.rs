//! A blind relay between one person's agent and devices.
//!
//! It routes sealed messages by public key inside a namespace, keeps them for who is away until their arrival is
//! proved, tells who is connected, and carries byte streams. It reads no content: nothing in this crate could open an
//! envelope.
//!
//! [`Relay::start`] runs one inside any Tokio runtime; the program `skald-relay` is a command line around it.
//!
//! How it is put together: `server` accepts, `session` and `pipe` are the two protocols (each a machine without
//! sockets or clock, and a driver that owns a socket), `hub` knows who is connected, `store` is the database with its
//! one writer, `push` wakes the absent.
#![deny(missing_docs)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

pub mod backup;
mod bucket;
pub mod check;
pub mod gateway;
mod hub;
mod metrics;
mod pipe;
mod private;
mod push;
mod quota;
mod relay;
mod server;
mod session;
pub mod settings;
mod shared;
mod store;
mod stream;
mod ws;

pub use metrics::Metrics;
pub use relay::{Options, Relay, Running, StartError};
pub use server::tls::TlsError;
pub use settings::Settings;
pub use store::{Clock, OpenError, StoreError};

/// For fuzzers: feeds a client's bytes, cut in pieces, through decoder and splice, and panics where they do not do what a
/// straightforward reading of RFC 6455 says. The first byte says how many of the next are the cuts.
#[doc(hidden)]
pub fn compare_framing(bytes: &[u8]) {
    let Some((count, rest)) = bytes.split_first() else { return };
    let (cuts, wire) = rest.split_at(rest.len().min(usize::from(count % 8)));
    pipe::model::compare(wire, cuts);
}
