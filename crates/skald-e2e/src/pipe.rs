//! The pipe's cipher (pipe §4; crypto.md, Pipe): AES-256-GCM of *ring* under a key of two ephemeral halves.
//!
//! Everything goes through [`PipeSealer`] and [`PipeOpener`], in place; no other module knows which library is behind
//! them. *ring* does not wipe its expanded key when it is dropped; the key lives as long as the pipe and is known to
//! no other connection.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use skald_relay_common::ids::ConnectionId;
use x25519_dalek::StaticSecret;
use zeroize::{Zeroize as _, Zeroizing};

use crate::identity::KeyAgreementError;
use crate::session::{TAG_LEN, compose};
use crate::{kdf, session::NONCE_LEN};

/// Which side of the pipe this is. Only who invited whom counts, never agent or device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipeRole {
    /// Sent the Invite.
    Initiator,
    /// Sent the Accept.
    Responder,
}

impl PipeRole {
    /// What this side's frames bear in their nonce.
    const fn prefix(self) -> [u8; 4] {
        match self {
            Self::Initiator => [0, 0, 0, 3],
            Self::Responder => [0, 0, 0, 4],
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Initiator => Self::Responder,
            Self::Responder => Self::Initiator,
        }
    }
}

/// A key pair for one pipe, forgotten after the exchange. Wiped when dropped; never printed.
pub struct EphemeralKey(StaticSecret);

impl EphemeralKey {
    /// From 32 fresh random bytes, which are wiped.
    pub fn take(random: &mut [u8; 32]) -> Self {
        let key = Self(StaticSecret::from(*random));
        random.zeroize();
        key
    }

    /// What goes into the signal's `handshake`.
    pub fn public(&self) -> [u8; 32] {
        x25519_dalek::PublicKey::from(&self.0).to_bytes()
    }

    /// Agrees on the pipe's key, and is used up by that.
    pub fn agree(self, peer: &[u8; 32]) -> Result<PipeKey, KeyAgreementError> {
        let shared = self.0.diffie_hellman(&x25519_dalek::PublicKey::from(*peer));
        if !shared.was_contributory() {
            return Err(KeyAgreementError);
        }
        Ok(PipeKey(kdf::derive(shared.as_bytes(), kdf::PIPE_KDF_SALT, kdf::PIPE_KDF_INFO)))
    }
}

impl fmt::Debug for EphemeralKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EphemeralKey(..)")
    }
}

/// One pipe's key. Wiped when dropped; never printed, never copied.
pub struct PipeKey(Zeroizing<[u8; 32]>);

impl PipeKey {
    /// The two halves of the cipher, as `role` uses them. It takes the key: a second pair would repeat nonces.
    pub fn into_ciphers(self, role: PipeRole, connection_id: ConnectionId) -> (PipeSealer, PipeOpener) {
        let key = match UnboundKey::new(&AES_256_GCM, self.0.as_slice()) {
            Ok(key) => LessSafeKey::new(key),
            Err(_) => unreachable!("an AES-256 key is 32 bytes long"),
        };
        let half = |key, role: PipeRole| Half { key, prefix: role.prefix(), next: 1, aad: connection_id };
        (PipeSealer(half(key.clone(), role)), PipeOpener { half: half(key, role.other()), broken: false })
    }

    #[cfg(test)]
    pub(crate) fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for PipeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PipeKey(..)")
    }
}

struct Half {
    key: LessSafeKey,
    prefix: [u8; 4],
    /// The counter of the next frame, from 1. It is not transmitted: the stream is in order or it is broken.
    next: u64,
    aad: ConnectionId,
}

impl Half {
    fn nonce(&self) -> [u8; NONCE_LEN] {
        compose(self.prefix, self.next)
    }
}

/// What a frame grows by.
pub const PIPE_TAG_LEN: usize = TAG_LEN;

/// A frame could not be sealed or opened. The pipe ends (crypto.md, Pipe); no cause is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the pipe's cipher refused a frame")]
pub struct PipeCipherError;

/// Seals this side's frames, each under the next counter.
pub struct PipeSealer(Half);

impl PipeSealer {
    /// Turns the plaintext in `frame` into one sealed frame. The counter moves on with the call and never back, so it
    /// is called only once the frame is certain to be queued.
    pub fn seal_in_place(&mut self, frame: &mut Vec<u8>) -> Result<(), PipeCipherError> {
        frame.reserve(PIPE_TAG_LEN);
        let tag = self.seal_detached(frame)?;
        frame.extend_from_slice(&tag);
        Ok(())
    }

    /// The same for a region of a larger buffer; the tag, which belongs after it, is given back.
    pub fn seal_detached(&mut self, plaintext: &mut [u8]) -> Result<[u8; PIPE_TAG_LEN], PipeCipherError> {
        let half = &mut self.0;
        let nonce = half.nonce();
        half.next = half.next.checked_add(1).ok_or(PipeCipherError)?;
        let tag = half
            .key
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(half.aad.as_bytes()),
                plaintext,
            )
            .map_err(|_| PipeCipherError)?;
        let mut out = [0u8; PIPE_TAG_LEN];
        out.copy_from_slice(tag.as_ref());
        Ok(out)
    }
}

impl fmt::Debug for PipeSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PipeSealer(..)")
    }
}

/// Opens the other side's frames, in their order.
pub struct PipeOpener {
    half: Half,
    broken: bool,
}

impl PipeOpener {
    /// Opens the frame in `frame` and gives the plaintext's length: it lies at the front. After one failure
    /// everything fails, for a stream with a hole is no stream.
    pub fn open_in_place(&mut self, frame: &mut [u8]) -> Result<usize, PipeCipherError> {
        if self.broken {
            return Err(PipeCipherError);
        }
        let half = &mut self.half;
        let nonce = Nonce::assume_unique_for_key(half.nonce());
        let opened =
            half.key.open_in_place(nonce, Aad::from(half.aad.as_bytes()), frame).map(|plain| plain.len());
        match (opened, half.next.checked_add(1)) {
            (Ok(len), Some(next)) => {
                half.next = next;
                Ok(len)
            }
            _ => {
                self.broken = true;
                Err(PipeCipherError)
            }
        }
    }
}

impl fmt::Debug for PipeOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PipeOpener(..)")
    }
}
