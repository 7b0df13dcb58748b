//! Connects the Inbox with phones through a relay: the plugin `mobile-connector`.
//!
//! # Shape
//!
//! * `machine` decides what is sent to whom and when; it has neither sockets nor clock. `outbound` is the thin loop
//!   around it: it reads the Inbox and the devices, sends, remembers and waits.
//! * `inbound` acts upon what devices send; `pump` takes it from the relay client and acknowledges it afterwards.
//! * `relay` is the boundary to the relay client, `client` what stands behind it.
//! * `streams` and `proxy` serve the pipes that devices open.
//! * `windows`, `picture` and `http` are pairing and the list of devices as the page sees them.
//! * `store` keeps names and what each device was told; keys and counters are the relay client's.
#![deny(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]

mod client;
mod connector;
#[cfg(test)]
mod fakes;
mod health;
mod http;
mod inbound;
mod key;
mod machine;
mod openapi;
mod outbound;
mod picture;
mod plugin;
mod proof;
mod proxy;
mod pump;
mod relay;
mod settings;
mod store;
mod streams;
#[cfg(test)]
mod test;
#[cfg(test)]
mod tests;
mod windows;
mod wire;

pub use key::{DeviceKey, NotAKey};
pub use plugin::{ID, MobileConnector};
pub use proxy::{HTTP_LOCAL_PROXY, HttpLocalProxy};
pub use settings::{Fault, Settings};
