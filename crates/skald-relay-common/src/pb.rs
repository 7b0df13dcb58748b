//! The generated wire messages of `skald.relay.v2`, byte fields as [`bytes::Bytes`].
#![allow(missing_docs, clippy::all)]

use std::fmt;

include!(concat!(env!("OUT_DIR"), "/skald.relay.v2.rs"));

// Lengths help to find a fault, contents never may: ciphertext, nonces, tokens and signatures stay out of every log.

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("ciphertext_len", &self.ciphertext.len())
            .field("live", &self.live)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Challenge").finish_non_exhaustive()
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("role", &self.role).finish_non_exhaustive()
    }
}

impl fmt::Debug for auth::Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(agent) => agent.fmt(f),
            Self::Client(client) => client.fmt(f),
            Self::Pairing(pairing) => pairing.fmt(f),
        }
    }
}

impl fmt::Debug for AuthClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthClient").field("platform", &self.platform).finish_non_exhaustive()
    }
}

impl fmt::Debug for AuthPairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthPairing").field("platform", &self.platform).finish_non_exhaustive()
    }
}

impl fmt::Debug for PairingStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairingStart").field("ttl", &self.ttl).finish_non_exhaustive()
    }
}
