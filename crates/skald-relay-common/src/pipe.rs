//! The two MsgPack messages that open a pipe (pipe §3.1). After them the socket carries raw bytes.
//!
//! Byte strings are written as arrays of integers, for that is what existing peers write and read; a reader takes the
//! `bin` family as well.

use serde::{Deserialize, Serialize};

use crate::ids::{ChallengeNonce, ConnectionId, NamespaceId, PeerHash, PublicKey, Signature};

/// The relay's first word on `/v1/pipe`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeChallenge {
    /// What to sign.
    #[serde(with = "byte_array")]
    pub nonce: ChallengeNonce,
}

/// The peer's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeAuth {
    /// Where the two sides meet.
    #[serde(with = "byte_array")]
    pub connection_id: ConnectionId,
    /// Who this side is.
    #[serde(with = "byte_array")]
    pub pubkey: PublicKey,
    /// Whom it expects opposite.
    #[serde(with = "byte_array")]
    pub dest: PeerHash,
    /// The namespace of both.
    #[serde(with = "byte_array")]
    pub namespace_id: NamespaceId,
    /// Over `PIPE_AUTH_DOMAIN`, a zero byte, the challenge and the connection id.
    #[serde(with = "byte_array")]
    pub signature: Signature,
}

/// A pipe message that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pipe message is malformed")]
pub struct PipeMessageError;

macro_rules! msgpack {
    ($name:ident) => {
        impl $name {
            /// The message as bytes.
            pub fn encode(&self) -> Vec<u8> {
                // Writing fixed arrays under fixed names into memory has nothing that could fail.
                rmp_serde::to_vec_named(self).unwrap_or_default()
            }

            /// Reads a message; unknown keys are skipped, a wrong length refuses the whole.
            pub fn decode(bytes: &[u8]) -> Result<Self, PipeMessageError> {
                rmp_serde::from_slice(bytes).map_err(|_| PipeMessageError)
            }
        }
    };
}
msgpack!(PipeChallenge);
msgpack!(PipeAuth);

/// Fixed byte strings in MsgPack: written as an array of integers, read from an array or from `bin`.
///
/// For `#[serde(with = "...")]` on any type that is made from a byte slice of the right length.
pub mod byte_array {
    use std::fmt;
    use std::marker::PhantomData;

    use serde::de::{Error, SeqAccess, Visitor};
    use serde::ser::SerializeSeq;
    use serde::{Deserializer, Serializer};

    /// The longest byte string that is read: enough for a signature, and a bound for a hostile length.
    const MAX: usize = 64;

    /// Writes the bytes as an array of integers.
    pub fn serialize<T: AsRef<[u8]>, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = value.as_ref();
        let mut seq = serializer.serialize_seq(Some(bytes.len()))?;
        for byte in bytes {
            seq.serialize_element(byte)?;
        }
        seq.end()
    }

    /// Reads the bytes from either form.
    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: for<'a> TryFrom<&'a [u8]>,
        D: Deserializer<'de>,
    {
        struct Bytes<T>(PhantomData<T>);

        impl<'de, T: for<'a> TryFrom<&'a [u8]>> Visitor<'de> for Bytes<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a byte string of the right length")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<T, E> {
                T::try_from(bytes).map_err(|_| E::invalid_length(bytes.len(), &self))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<T, A::Error> {
                let (mut bytes, mut len) = ([0u8; MAX], 0);
                while let Some(byte) = seq.next_element::<u8>()? {
                    *bytes.get_mut(len).ok_or_else(|| A::Error::invalid_length(MAX + 1, &self))? = byte;
                    len += 1;
                }
                self.visit_bytes(&bytes[..len])
            }
        }

        deserializer.deserialize_any(Bytes(PhantomData))
    }
}
