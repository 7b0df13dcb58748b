//! The envelope between agent and device (crypto.md, Session).

use std::fmt;

use aes_gcm::aead::{AeadInOut as _, KeyInit as _};
use aes_gcm::{Aes256Gcm, Nonce};
use skald_relay_common::ids::{NamespaceId, PublicKey};

/// What GCM adds to a plaintext.
pub const TAG_LEN: usize = 16;
/// The nonce's length on the wire.
pub const NONCE_LEN: usize = 12;

/// Which way a message goes. It is the nonce's prefix, so that the two ends, who share one key, never share a nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the host to a device.
    AgentToClient,
    /// From a device to the host.
    ClientToAgent,
}

impl Direction {
    /// The four bytes that begin the nonce.
    pub const fn prefix(self) -> [u8; 4] {
        match self {
            Self::AgentToClient => [0, 0, 0, 1],
            Self::ClientToAgent => [0, 0, 0, 2],
        }
    }

    /// The way back.
    pub const fn reverse(self) -> Self {
        match self {
            Self::AgentToClient => Self::ClientToAgent,
            Self::ClientToAgent => Self::AgentToClient,
        }
    }
}

/// `direction ‖ counter`.
pub fn nonce(direction: Direction, counter: u64) -> [u8; NONCE_LEN] {
    compose(direction.prefix(), counter)
}

pub(crate) fn compose(prefix: [u8; 4], counter: u64) -> [u8; NONCE_LEN] {
    let mut out = [0u8; NONCE_LEN];
    out[..4].copy_from_slice(&prefix);
    out[4..].copy_from_slice(&counter.to_be_bytes());
    out
}

/// What the tag also covers: `namespace ‖ from ‖ to`. A relay that changes an address breaks the tag.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Aad([u8; 96]);

impl Aad {
    /// For a message in `namespace` from `from` to `to`.
    pub fn new(namespace: &NamespaceId, from: &PublicKey, to: &PublicKey) -> Self {
        let mut out = [0u8; 96];
        out[..32].copy_from_slice(namespace.as_bytes());
        out[32..64].copy_from_slice(from.as_bytes());
        out[64..].copy_from_slice(to.as_bytes());
        Self(out)
    }

    /// The 96 bytes.
    pub fn as_bytes(&self) -> &[u8; 96] {
        &self.0
    }
}

/// A sealed message, as the wire carries it.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    /// `direction ‖ counter`.
    pub nonce: [u8; NONCE_LEN],
    /// Ciphertext and tag.
    pub ciphertext: Vec<u8>,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.ciphertext.len())
    }
}

/// The message could not be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// Counters begin at 1; zero is no counter.
    #[error("a counter begins at 1")]
    ZeroCounter,
    /// The plaintext is beyond what the cipher takes.
    #[error("the message is too long to seal")]
    TooLong,
}

/// The message did not open. All causes look alike on purpose (crypto.md, Session).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message did not open")]
pub struct OpenError;

/// The key between one agent and one device. Wiped when dropped; never printed.
pub struct SessionKey(Box<Aes256Gcm>);

impl SessionKey {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Self(Box::new(Aes256Gcm::new(key.into())))
    }

    /// Seals `plaintext` under `counter`. The caller owns the rule that a counter is durable before it is used here
    /// and never used twice; see [`crate::counter`].
    pub fn seal(
        &self,
        direction: Direction,
        counter: u64,
        aad: &Aad,
        mut plaintext: Vec<u8>,
    ) -> Result<Sealed, SealError> {
        if counter == 0 {
            return Err(SealError::ZeroCounter);
        }
        let nonce = nonce(direction, counter);
        plaintext.reserve_exact(TAG_LEN);
        self.0
            .encrypt_in_place(&Nonce::from(nonce), aad.as_bytes(), &mut plaintext)
            .map_err(|_| SealError::TooLong)?;
        Ok(Sealed { nonce, ciphertext: plaintext })
    }

    /// Opens what came from the other end and gives back counter and plaintext. `direction` is the one the message
    /// must have; whether the counter is new is for [`crate::ReplayWindow`] to say, afterwards.
    pub fn open(
        &self,
        direction: Direction,
        nonce: &[u8],
        aad: &Aad,
        ciphertext: &[u8],
    ) -> Result<(u64, Vec<u8>), OpenError> {
        let nonce: [u8; NONCE_LEN] = nonce.try_into().map_err(|_| OpenError)?;
        let counter = counter_of(direction, &nonce).ok_or(OpenError)?;
        if ciphertext.len() < TAG_LEN {
            return Err(OpenError);
        }
        let mut buffer = ciphertext.to_vec();
        self.0.decrypt_in_place(&Nonce::from(nonce), aad.as_bytes(), &mut buffer).map_err(|_| OpenError)?;
        Ok((counter, buffer))
    }
}

/// The counter in a nonce of the right direction, without opening anything: a cheap way to drop a repetition.
pub fn counter_of(direction: Direction, nonce: &[u8]) -> Option<u64> {
    let nonce: &[u8; NONCE_LEN] = nonce.try_into().ok()?;
    if nonce[..4] != direction.prefix() {
        return None;
    }
    let mut counter = [0u8; 8];
    counter.copy_from_slice(&nonce[4..]);
    match u64::from_be_bytes(counter) {
        0 => None,
        n => Some(n),
    }
}
