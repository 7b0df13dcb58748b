//! The gateway that runs bridges for other relays, and the bridge to one.
//!
//! Who has an app's keys with Apple and Google runs the gateway; the relays of the app's users hand their pushes to it.
//! It is as blind as the relay: a token and sealed fields pass through it, and it stores none of them. What it must
//! know for its limits it keeps in memory, as a hash.

mod client;
mod key;
mod limits;
mod service;
mod wire;

pub use client::{GatewayBridge, GatewaySettings};
pub use key::{KeyHash, RelayKey};
pub use limits::TokenLimits;
pub use service::{Gateway, GatewayMetrics, Known, Problem, RelayAccess};
pub use wire::{PUSH_PATH, REQUEST_BYTES};
