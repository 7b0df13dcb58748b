//! Wakes absent devices through the push services.
//!
//! A push is a hint: the message stays queued at the relay until its arrival is proved, so a push that fails loses
//! nothing. Each provider is a [`Bridge`] that hands one [`Push`] over and says what became of it in a [`Verdict`];
//! [`Bridges`] picks the bridge by the device's platform and the shape of its token. When a push leaves, when it is
//! tried again and when it is given up is decided by [`schedule`], a machine without clock or sockets.
//!
//! Nothing in this crate could open an envelope, and nothing it logs or counts holds a token, ciphertext or a nonce.
#![deny(missing_docs)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

pub mod apns;
mod bridge;
mod bridges;
pub mod fcm;
pub mod gateway;
pub mod guard;
pub mod http;
mod jwt;
pub mod metrics;
pub mod ntfy;
pub mod payload;
mod push;
pub mod schedule;
pub mod settings;
mod setup;
mod verdict;
pub mod webpush;

pub use bridge::{Bridge, Lane, Provider};
pub use bridges::{Bridges, SetupError};
pub use metrics::PushMetrics;
pub use push::{Content, Push, Token, UnixMillis, WallClock};
pub use settings::PushSettings;
pub use verdict::{Fault, Throttled, Verdict};
