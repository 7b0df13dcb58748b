//! The relay's language: frames, pipe messages, ids, error codes, limits and challenge signatures.
//!
//! Everything that the relay and its peers have to agree on to the byte lives here, and nothing else does. The crate
//! has no runtime, no clock and no source of randomness: whoever calls it brings what it needs as an argument.
//!
//! * [`ids`]: keys, namespaces, tokens and nonces as types that cannot be mixed up.
//! * [`frame`]: what a peer says to the relay and what the relay says to a peer, parsed once and checked.
//! * [`pipe`]: the two MsgPack messages that open `/v1/pipe`.
//! * [`challenge`]: what is signed to prove a key, and its strict verification.
//! * [`codes`], [`limits`]: the error codes and the numbers of the protocol.
//! * [`pb`]: the generated wire messages, for those who need them raw.
#![deny(missing_docs)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

pub mod challenge;
pub mod codes;
pub mod frame;
pub mod ids;
pub mod limits;
pub mod pb;
pub mod pipe;

pub use challenge::namespace_id;
pub use codes::ErrorCode;
