//! What agent and device tell each other inside the ciphertext (spec payloads), as types.
//!
//! The crate is pure: it reads no clock, draws no randomness and opens nothing. Whoever builds a payload hands in its
//! id and time; whoever reads one hands in the time it is read at.
//!
//! ```
//! use skald_payloads::{Envelope, Payload};
//! use uuid::Uuid;
//!
//! let now = 1_750_000_000_000;
//! let id = Uuid::from_u128(0x0000_0000_0000_4000_8000_0000_0000_0001);
//! let bytes = Envelope::new(id, now, Payload::InboxRequest).encode();
//! let read = Envelope::parse(&bytes, now + 1_000).unwrap();
//! assert_eq!(read.payload, Payload::InboxRequest);
//! ```
#![deny(missing_docs)]

mod blocks;
mod canonical;
mod envelope;
mod items;
mod kinds;
mod size;
pub mod streams;
mod text;

pub use blocks::{Block, BlockShape, Blocks, ValueType};
pub use canonical::{CanonicalError, Digest, NotHex, ProofSignature, canonical, item_digest};
pub use envelope::{Discard, Envelope, MAX_AGE_MS, VERSION};
pub use items::{Approval, Clarification, Elicitation, InboxUpdate, Received, UnsignedItem};
pub use kinds::{
    Ack, ApprovalResponse, ClarificationResponse, Decision, DeviceInfo, ElicitationAction,
    ElicitationResponse, Hello, Notification, Payload,
};
pub use size::{
    LIVE_LIMIT_BYTES, PUSH_LIMIT_BASE64, STORED_LIMIT_BYTES, base64_len, ciphertext_len, fits_live,
    fits_push, fits_stored,
};
pub use text::{clip, one_line};
