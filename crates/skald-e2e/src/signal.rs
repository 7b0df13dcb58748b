//! Pipe signalling: three messages in MsgPack (pipe §2; framing.md, MsgPack details).
//!
//! Byte strings are written as arrays of integers, which is what existing peers read; the `bin` family is read too.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use skald_relay_common::ids::ConnectionId;
use skald_relay_common::pipe::byte_array;

/// The one suite of this version.
pub const SUITE_X25519_SEALED: &str = "x25519-sealed";
/// The one codec of this version.
pub const CODEC_NONE: &str = "none";
/// No handshake of any suite is longer; an attacker's must not fill memory.
const MAX_HANDSHAKE: usize = 4_096;

/// A pipe signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PipeSignal {
    /// "Meet me at the relay."
    Invite(Invite),
    /// "I am coming."
    Accept(Accept),
    /// "I am not", and why.
    Reject(Reject),
}

/// The initiator's offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invite {
    /// The rendezvous: 32 random bytes, used once.
    #[serde(with = "byte_array")]
    pub connection_id: ConnectionId,
    /// How keys are agreed. Anything but [`SUITE_X25519_SEALED`] is answered with a [`Reject`].
    pub suite: String,
    /// The suite's own; for `x25519-sealed` the initiator's ephemeral public key.
    pub handshake: Handshake,
    /// What the stream is for; the application's word.
    pub stream_type: String,
    /// Codecs the initiator can read.
    #[serde(default)]
    pub compress: Vec<String>,
    /// The application's own; absent means empty.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// The responder's consent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accept {
    /// The invite's.
    #[serde(with = "byte_array")]
    pub connection_id: ConnectionId,
    /// The invite's.
    pub suite: String,
    /// For `x25519-sealed` the responder's ephemeral public key.
    pub handshake: Handshake,
    /// The codec chosen from the invite's.
    pub compress: String,
    /// What was taken of the invite's offer (see [`crate::features`]). Absent, not empty, where nothing was: that is the
    /// form which peers know that never heard of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
}

/// The responder's refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reject {
    /// The invite's.
    #[serde(with = "byte_array")]
    pub connection_id: ConnectionId,
    /// For people and logs of the initiator.
    pub reason: String,
}

/// A suite's handshake bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Handshake(Vec<u8>);

impl Handshake {
    /// Wraps an ephemeral public key.
    pub fn from_key(key: [u8; 32]) -> Self {
        Self(key.to_vec())
    }

    /// The key, if it has a key's length.
    pub fn as_key(&self) -> Option<[u8; 32]> {
        self.0.as_slice().try_into().ok()
    }
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handshake({} bytes)", self.0.len())
    }
}

/// The bytes are no pipe signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a pipe signal")]
pub struct SignalError;

impl PipeSignal {
    /// The pipe it is about.
    pub fn connection_id(&self) -> &ConnectionId {
        match self {
            Self::Invite(m) => &m.connection_id,
            Self::Accept(m) => &m.connection_id,
            Self::Reject(m) => &m.connection_id,
        }
    }

    /// As MsgPack, named maps, fields in the order of the vectors.
    pub fn encode(&self) -> Vec<u8> {
        match rmp_serde::to_vec_named(self) {
            Ok(bytes) => bytes,
            // Strings, maps of strings and byte arrays into memory: no part of it can fail.
            Err(_) => unreachable!("a pipe signal always encodes"),
        }
    }

    /// Reads a signal. A byte string of a wrong length refuses the whole message; an unknown suite does not, for it
    /// is to be answered.
    pub fn decode(bytes: &[u8]) -> Result<Self, SignalError> {
        let signal: Self = rmp_serde::from_slice(bytes).map_err(|_| SignalError)?;
        let sealed = match &signal {
            Self::Invite(m) => Some((&m.suite, &m.handshake)),
            Self::Accept(m) => Some((&m.suite, &m.handshake)),
            Self::Reject(_) => None,
        };
        match sealed {
            Some((suite, handshake)) if suite == SUITE_X25519_SEALED && handshake.as_key().is_none() => {
                Err(SignalError)
            }
            _ => Ok(signal),
        }
    }
}

impl Serialize for Handshake {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_bytes(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Handshake {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_bytes(deserializer).map(Self)
    }
}

fn write_bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let mut seq = serializer.serialize_seq(Some(bytes.len()))?;
    for byte in bytes {
        seq.serialize_element(byte)?;
    }
    seq.end()
}

fn read_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    struct Bytes;

    impl<'de> Visitor<'de> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes, or an array of integers")
        }

        fn visit_bytes<E: serde::de::Error>(self, v: &[u8]) -> Result<Vec<u8>, E> {
            if v.len() > MAX_HANDSHAKE {
                return Err(E::invalid_length(v.len(), &self));
            }
            Ok(v.to_vec())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<u8>, A::Error> {
            let mut out = Vec::with_capacity(seq.size_hint().unwrap_or(0).min(64));
            while let Some(byte) = seq.next_element::<u8>()? {
                if out.len() == MAX_HANDSHAKE {
                    return Err(serde::de::Error::invalid_length(out.len() + 1, &self));
                }
                out.push(byte);
            }
            Ok(out)
        }
    }

    deserializer.deserialize_any(Bytes)
}
