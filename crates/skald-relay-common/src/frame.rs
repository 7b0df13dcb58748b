//! The frames of relay-protocol §3, parsed once and checked: what is in hand afterwards has the right lengths.
//!
//! The two directions are two types, so neither side can mistake its own words for the other's. A frame whose kind is
//! not known parses to `None`: newer peers may say more than this version understands, and that breaks nothing.

mod peer;
mod relay;

use std::fmt;
use std::num::NonZeroI32;

use bytes::Bytes;
use prost::Message as _;

use crate::codes::ErrorCode;
use crate::ids::{IdError, MessageNonce, PublicKey};
use crate::pb;

pub use peer::{Auth, AuthClient, AuthPairing, FromPeer, MAX_DEVICE_TOKEN_BYTES, Role};
pub use relay::{AuthOk, ClientPaired, FromRelay, Refusal, RelayInfo};

/// Why bytes are not a frame that may be acted upon.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Not a protobuf `RelayFrame`.
    #[error("the frame is not a RelayFrame")]
    Undecodable,
    /// A byte field is absent or has another length.
    #[error("{0}")]
    Id(#[from] IdError),
    /// A message without ciphertext.
    #[error("the message has no ciphertext")]
    NoCiphertext,
    /// An `Auth` without a role.
    #[error("the Auth names no role")]
    NoRole,
    /// A client or pairing without a platform.
    #[error("the platform is missing")]
    NoPlatform,
    /// A push token longer than any provider's.
    #[error("the device token is too long")]
    DeviceToken,
    /// A frame that only the other side may send.
    #[error("this frame goes the other way")]
    WrongDirection,
}

impl FrameError {
    /// The code that answers it.
    pub const fn code(&self) -> ErrorCode {
        ErrorCode::BadRequest
    }
}

/// What a device runs on. Numbers that this version does not know are kept and passed on; only 0 is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Platform(NonZeroI32);

impl Platform {
    /// An iPhone or iPad.
    pub const IOS: Self = Self(NonZeroI32::new(pb::Platform::Ios as i32).unwrap());
    /// An Android phone or tablet.
    pub const ANDROID: Self = Self(NonZeroI32::new(pb::Platform::Android as i32).unwrap());
    /// A browser.
    pub const WEB: Self = Self(NonZeroI32::new(pb::Platform::Web as i32).unwrap());
    /// A program on a computer.
    pub const DESKTOP: Self = Self(NonZeroI32::new(pb::Platform::Desktop as i32).unwrap());

    /// The platform of this number; `None` for 0.
    pub fn from_code(code: i32) -> Option<Self> {
        NonZeroI32::new(code).map(Self)
    }

    /// The number on the wire.
    pub const fn code(self) -> i32 {
        self.0.get()
    }

    /// A plain name, `unknown` where this version has none.
    pub const fn name(self) -> &'static str {
        match self.0.get() {
            1 => "ios",
            2 => "android",
            3 => "web",
            4 => "desktop",
            _ => "unknown",
        }
    }
}

/// A sealed message: `peer` is the recipient on the way to the relay and the sender on the way from it.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The recipient, or the sender that the relay vouches for.
    pub peer: PublicKey,
    /// The AEAD nonce.
    pub nonce: MessageNonce,
    /// The sealed bytes, tag included.
    pub ciphertext: Bytes,
    /// Deliver now or not at all.
    pub live: bool,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("peer", &self.peer)
            .field("len", &self.ciphertext.len())
            .field("live", &self.live)
            .finish_non_exhaustive()
    }
}

impl Message {
    fn parse(wire: pb::Message) -> Result<Self, FrameError> {
        let (peer, nonce) = (id(&wire.peer)?, id(&wire.nonce)?);
        if wire.ciphertext.is_empty() {
            return Err(FrameError::NoCiphertext);
        }
        Ok(Self { peer, nonce, ciphertext: wire.ciphertext, live: wire.live })
    }

    fn to_pb(&self) -> pb::Message {
        pb::Message {
            ciphertext: self.ciphertext.clone(),
            nonce: self.nonce.to_wire(),
            peer: self.peer.to_wire(),
            live: self.live,
        }
    }
}

fn id<T: for<'a> TryFrom<&'a [u8], Error = IdError>>(bytes: &Bytes) -> Result<T, FrameError> {
    Ok(T::try_from(bytes)?)
}

fn ids(list: &[Bytes]) -> Result<Vec<PublicKey>, FrameError> {
    list.iter().map(id).collect()
}

fn decode(bytes: Bytes) -> Result<Option<pb::relay_frame::Frame>, FrameError> {
    pb::RelayFrame::decode(bytes).map(|frame| frame.frame).map_err(|_| FrameError::Undecodable)
}

fn encode(frame: pb::relay_frame::Frame) -> Vec<u8> {
    pb::RelayFrame { frame: Some(frame) }.encode_to_vec()
}
