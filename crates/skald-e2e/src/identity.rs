//! One persistent secret per actor, and the two key pairs it yields (crypto.md, Identity).

use std::fmt;

use ed25519_dalek::{Signer as _, SigningKey};
use skald_relay_common::ids::{ChallengeNonce, ConnectionId, NamespaceId, PublicKey, Signature, XPublicKey};
use skald_relay_common::{challenge, namespace_id};
use x25519_dalek::StaticSecret;
use zeroize::{Zeroize as _, Zeroizing};

use crate::kdf;
use crate::session::SessionKey;
use crate::storage::StorageKey;

/// The 32 random bytes an actor is made of. Wiped when dropped; never printed.
pub struct Seed(Zeroizing<[u8; 32]>);

impl Seed {
    /// How many bytes a seed has, on disk and here.
    pub const LEN: usize = 32;

    /// Takes over `bytes` and wipes the caller's copy.
    pub fn take(bytes: &mut [u8; 32]) -> Self {
        let seed = Self(Zeroizing::new(*bytes));
        bytes.zeroize();
        seed
    }

    /// The raw bytes, for the file they are kept in and for nothing else.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl TryFrom<&[u8]> for Seed {
    type Error = WrongSeedLength;

    fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
        let mut copy: [u8; 32] = bytes.try_into().map_err(|_| WrongSeedLength(bytes.len()))?;
        Ok(Self::take(&mut copy))
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// A seed is exactly 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a seed is 32 bytes long, this one is {0}")]
pub struct WrongSeedLength(pub usize);

/// The peer's key agreement key is degenerate: the shared secret would be all zero, which anybody could guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer's X25519 key is not usable")]
pub struct KeyAgreementError;

/// An actor's private keys. They are derived anew from the seed and never stored.
pub struct Identity {
    ed: SigningKey,
    ed_public: PublicKey,
    x: StaticSecret,
    x_public: XPublicKey,
}

impl Identity {
    /// Derives both key pairs. The Ed25519 key signs and never enters a key agreement.
    pub fn from_seed(seed: &Seed) -> Self {
        let ed = SigningKey::from_bytes(&kdf::derive(seed.expose(), kdf::KDF_SALT, kdf::KDF_INFO_ED25519));
        let x = StaticSecret::from(*kdf::derive(seed.expose(), kdf::KDF_SALT, kdf::KDF_INFO_X25519));
        let ed_public = PublicKey::from(ed.verifying_key().to_bytes());
        let x_public = XPublicKey::from(x25519_dalek::PublicKey::from(&x).to_bytes());
        Self { ed, ed_public, x, x_public }
    }

    /// The signing key's public half: the actor's name on the relay.
    pub fn public_key(&self) -> PublicKey {
        self.ed_public
    }

    /// The key agreement's public half.
    pub fn x_public_key(&self) -> XPublicKey {
        self.x_public
    }

    /// The namespace this identity owns, if it is an agent's.
    pub fn namespace_id(&self) -> NamespaceId {
        namespace_id(&self.ed_public)
    }

    /// Signs `message` as it is (no pre-hash). Callers put a domain in front; see [`crate::decision`].
    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature::from(self.ed.sign(message).to_bytes())
    }

    /// Answers the relay's challenge on the control socket (crypto.md, Signatures).
    pub fn sign_challenge(&self, nonce: &ChallengeNonce) -> Signature {
        self.sign(&challenge::auth_message(nonce))
    }

    /// Answers the relay's challenge on a pipe's socket (pipe §3.1).
    pub fn sign_pipe_challenge(&self, nonce: &ChallengeNonce, connection_id: &ConnectionId) -> Signature {
        self.sign(&challenge::pipe_auth_message(nonce, connection_id))
    }

    /// The key for what this actor keeps on its own disk; see [`StorageKey`].
    pub fn storage_key(&self) -> StorageKey {
        // The X25519 private key is itself a derived secret of the seed; no agreement ever uses this salt.
        StorageKey::new(&kdf::derive(self.x.as_bytes(), kdf::STORAGE_SALT, kdf::SESSION_INFO))
    }

    /// The key shared with a peer. Both directions use it, so it lives as long as both static keys do.
    pub fn session(&self, peer: &XPublicKey) -> Result<SessionKey, KeyAgreementError> {
        let shared = self.x.diffie_hellman(&x25519_dalek::PublicKey::from(*peer.as_bytes()));
        if !shared.was_contributory() {
            return Err(KeyAgreementError);
        }
        Ok(SessionKey::new(&kdf::derive(shared.as_bytes(), kdf::SESSION_SALT, kdf::SESSION_INFO)))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("public_key", &self.ed_public).finish_non_exhaustive()
    }
}
