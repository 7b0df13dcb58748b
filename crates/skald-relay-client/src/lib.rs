//! Both ends' networking: the agent's and the device's side of a relay, as one library that knows nothing of what the
//! messages mean.
//!
//! # Shape
//!
//! [`RelayClient`] is a cheap handle to one running client. [`RelayClient::start_agent`] starts the owner of a
//! namespace, [`device::start`] a paired device; both give the handle and the one [`Events`] stream.
//!
//! * **Events** are durable where they matter: a message lies in the store, together with the counter that proves it
//!   new, until [`Received::ack`]. Whatever was not acknowledged comes again after a restart.
//! * **Stored messages** ([`Class::Stored`]) are durable before [`RelayClient::send`] returns, leave in order, are
//!   paced below the relay's quota and are kept until the relay is known to have read them. Messages that replace one
//!   another go through [`RelayClient::send_latest`], where only the newest of a slot leaves.
//! * **Live messages** ([`Class::Live`]) are sent now or not at all.
//! * **Pipes** are byte streams beside the messages: [`RelayClient::open_pipe`], [`RelayClient::incoming_pipes`],
//!   [`RelayClient::accept_pipe`], [`RelayClient::reject_pipe`], [`PipeConnection`]; many of them in one are
//!   [`RelayClient::open_streams`], [`PipeStreams`].
//! * **Pairing** and the list of devices are the agent's: [`RelayClient::open_pairing`], [`RelayClient::devices`],
//!   [`RelayClient::authorize`], [`RelayClient::revoke`].
//!
//! # Delivery
//!
//! The wire has no acknowledgement. A stored message counts as handed on once the relay echoed a WebSocket Ping that
//! was sent behind it; one message is under way at a time, so a refusal is never taken for another message's. When the
//! connection ends first, the very same sealed bytes are sent again before anything newer to that peer, so that the
//! receiver, who drops counters it has seen, takes them once. Only what the relay refused is sealed anew. The peer's
//! application therefore sees a message once, save for what the device's outbox repeats on purpose
//! ([`RelayClient::outbox_put`]): there the application recognises the payload by its own id.
//!
//! In the other direction the relay's Ping is answered only after everything before it is durable here.
#![deny(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]

mod client;
mod client_device;
pub mod device;
mod engine;
mod error;
mod event;
mod keyring;
mod link;
mod net;
mod options;
mod outbox;
mod pipe;
mod receive;
mod seed;
#[cfg(test)]
mod simulation_tests;
mod status;
mod store;
mod types;
mod util;
mod wire;

pub use client::RelayClient;
pub use error::{DeviceError, PairingError, PipeError, SendError, StartError, StoreError};
pub use event::{Events, Received, RelayEvent, SendFailure};
pub use net::{RelayUrl, RelayUrlError};
pub use options::{AgentOptions, DeviceOptions, Timings};
pub use pipe::{
    IncomingPipe, MAX_STREAMS, Opened, PipeConnection, PipeReceiver, PipeSender, PipeStream, PipeStreams,
};
pub use seed::SeedError;
pub use status::{LinkProblem, LinkState, LinkStatus};
pub use types::{Class, Device, DeviceState, PairingWindow, PublicIdentity};

/// The platforms a device may say it runs on.
pub use skald_relay_common::frame::Platform;
