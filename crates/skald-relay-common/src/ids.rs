//! Identifiers as types: fixed lengths are checked once, where bytes come in, and hex appears only where one prints.

use std::fmt;
use std::str::FromStr;

use subtle::ConstantTimeEq;

/// Bytes or hex of a length that the identifier does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The byte string is shorter or longer than the identifier.
    #[error("{what} must be {expected} bytes, not {got}")]
    Length {
        /// Which identifier.
        what: &'static str,
        /// How many bytes it has.
        expected: usize,
        /// How many came.
        got: usize,
    },
    /// The text is not hexadecimal.
    #[error("{what} must be hexadecimal")]
    Hex {
        /// Which identifier.
        what: &'static str,
    },
}

/// The first four bytes of an identifier as 8 hex digits: the only form in which logs show one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Short([u8; 4]);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! bytes_id {
    ($(#[$doc:meta])* $name:ident, $len:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name([u8; $len]);

        impl $name {
            /// How many bytes it has.
            pub const LEN: usize = $len;

            /// Takes the bytes as they are.
            pub const fn from_bytes(bytes: [u8; $len]) -> Self {
                Self(bytes)
            }

            /// The raw bytes.
            pub const fn as_bytes(&self) -> &[u8; $len] {
                &self.0
            }

            /// The raw bytes, owned and ready for the wire.
            pub fn to_wire(&self) -> bytes::Bytes {
                bytes::Bytes::copy_from_slice(&self.0)
            }

            /// Lowercase hex.
            pub fn to_hex(&self) -> String {
                hex::encode(self.0)
            }
        }

        impl AsRef<[u8]> for $name {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }

        impl From<[u8; $len]> for $name {
            fn from(bytes: [u8; $len]) -> Self {
                Self(bytes)
            }
        }

        impl TryFrom<&[u8]> for $name {
            type Error = IdError;
            fn try_from(bytes: &[u8]) -> Result<Self, IdError> {
                let wrong = |_| IdError::Length { what: $what, expected: $len, got: bytes.len() };
                bytes.try_into().map(Self).map_err(wrong)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            /// Reads hex, uppercase too.
            fn from_str(text: &str) -> Result<Self, IdError> {
                let bytes = hex::decode(text).map_err(|_| IdError::Hex { what: $what })?;
                Self::try_from(bytes.as_slice())
            }
        }

        impl fmt::Display for $name {
            /// Lowercase hex.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
            }
        }
    };
}

/// An identifier that anyone of the namespace may know: plain equality, hashing, and 8 hex digits in debug output.
macro_rules! public_id {
    ($(#[$doc:meta])* $name:ident, $len:literal, $what:literal) => {
        bytes_id!($(#[$doc])* #[derive(PartialEq, Eq, PartialOrd, Ord, Hash)] $name, $len, $what);

        impl $name {
            /// The first 8 hex digits, for logs.
            pub fn short(&self) -> Short {
                Short([self.0[0], self.0[1], self.0[2], self.0[3]])
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.short())
            }
        }
    };
}

/// A value whose comparison must not tell how much of a guess was right, and which debug output never shows.
macro_rules! secret_id {
    ($(#[$doc:meta])* $name:ident, $len:literal, $what:literal) => {
        bytes_id!($(#[$doc])* $name, $len, $what);

        impl PartialEq for $name {
            /// Constant-time.
            fn eq(&self, other: &Self) -> bool {
                self.0.ct_eq(&other.0).into()
            }
        }

        impl Eq for $name {}

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    };
}

public_id!(
    /// An Ed25519 public key: who an agent or a device is.
    PublicKey, 32, "an Ed25519 public key"
);
public_id!(
    /// An X25519 public key, which the relay carries and never uses.
    XPublicKey, 32, "an X25519 public key"
);
public_id!(
    /// One person's zone: the hash of their agent's key.
    NamespaceId, 32, "a namespace id"
);
public_id!(
    /// Where the two sides of a pipe meet. Single-use, and no proof of anything by itself.
    ConnectionId, 32, "a connection id"
);
public_id!(
    /// SHA-256 of the Ed25519 key that a pipe's side expects opposite.
    PeerHash, 32, "a peer hash"
);
public_id!(
    /// An Ed25519 signature.
    Signature, 64, "a signature"
);
secret_id!(
    /// The single-use bearer token of a pairing window.
    PairingToken, 32, "a pairing token"
);
secret_id!(
    /// What the relay asks a peer to sign.
    ChallengeNonce, 32, "a challenge"
);
secret_id!(
    /// The nonce beside a sealed message. The relay passes it on unread.
    MessageNonce, 12, "a message nonce"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_length_is_refused_by_name() {
        let error = PublicKey::try_from([0u8; 31].as_slice()).unwrap_err();
        assert_eq!(error.to_string(), "an Ed25519 public key must be 32 bytes, not 31");
        assert!(Signature::try_from([0u8; 65].as_slice()).is_err());
        assert!("zz".parse::<NamespaceId>().is_err());
    }

    #[test]
    fn hex_reads_both_cases_and_writes_lowercase() {
        let text = "AB".repeat(32);
        let id: NamespaceId = text.parse().unwrap();
        assert_eq!(id.to_string(), text.to_lowercase());
        assert_eq!(format!("{id:?}"), "NamespaceId(abababab)");
        assert_eq!(id.short().to_string(), "abababab");
    }

    #[test]
    fn secrets_do_not_show_in_debug_output() {
        let token = PairingToken::from_bytes([0x5d; 32]);
        assert_eq!(format!("{token:?}"), "PairingToken(..)");
        assert_eq!(token, PairingToken::from_bytes([0x5d; 32]));
        assert_ne!(token, PairingToken::from_bytes([0x5e; 32]));
    }
}
