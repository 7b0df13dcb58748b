//! What a peer signs to prove its key, and the id that a namespace has from its agent's key.

use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};

use crate::ids::{ChallengeNonce, ConnectionId, NamespaceId, PeerHash, PublicKey, Signature};

/// Hashed before an agent's key to name its namespace.
pub const NS_DOMAIN: &[u8] = b"skald-namespace-v1";
/// Signed before the control socket's challenge.
pub const AUTH_DOMAIN: &[u8] = b"skald-relay-auth-v1";
/// Signed before a pipe's challenge, so that one socket's signature never opens the other.
pub const PIPE_AUTH_DOMAIN: &[u8] = b"skald-pipe-auth-v1";

/// The signature does not belong to that key and challenge. No finer cause is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the signature is not valid")]
pub struct BadSignature;

/// The namespace of the agent that owns this key.
pub fn namespace_id(agent: &PublicKey) -> NamespaceId {
    let digest = Sha256::new().chain_update(NS_DOMAIN).chain_update([0]).chain_update(agent).finalize();
    NamespaceId::from_bytes(digest.into())
}

/// How a pipe's side names the key it expects opposite (pipe §3.1, `dest`).
pub fn peer_hash(peer: &PublicKey) -> PeerHash {
    PeerHash::from_bytes(Sha256::digest(peer).into())
}

/// The bytes that are signed on the control socket (relay-protocol §4).
pub fn auth_message(nonce: &ChallengeNonce) -> Vec<u8> {
    [AUTH_DOMAIN, &[0], nonce.as_bytes()].concat()
}

/// The bytes that are signed on a pipe (pipe §3.1).
pub fn pipe_auth_message(nonce: &ChallengeNonce, connection: &ConnectionId) -> Vec<u8> {
    [PIPE_AUTH_DOMAIN, &[0], nonce.as_bytes(), connection.as_bytes()].concat()
}

/// Answers the control socket's challenge.
pub fn sign_auth(key: &SigningKey, nonce: &ChallengeNonce) -> Signature {
    Signature::from_bytes(key.sign(&auth_message(nonce)).to_bytes())
}

/// Answers a pipe's challenge.
pub fn sign_pipe(key: &SigningKey, nonce: &ChallengeNonce, connection: &ConnectionId) -> Signature {
    Signature::from_bytes(key.sign(&pipe_auth_message(nonce, connection)).to_bytes())
}

/// Judges the answer to a control socket's challenge.
pub fn verify_auth(
    key: &PublicKey,
    nonce: &ChallengeNonce,
    signature: &Signature,
) -> Result<(), BadSignature> {
    verify(key, &auth_message(nonce), signature)
}

/// Judges the answer to a pipe's challenge.
pub fn verify_pipe(
    key: &PublicKey,
    nonce: &ChallengeNonce,
    connection: &ConnectionId,
    signature: &Signature,
) -> Result<(), BadSignature> {
    verify(key, &pipe_auth_message(nonce, connection), signature)
}

/// Strict Ed25519 verification: small-order keys and malleable signatures are refused too.
pub fn verify(key: &PublicKey, message: &[u8], signature: &Signature) -> Result<(), BadSignature> {
    let key = VerifyingKey::from_bytes(key.as_bytes()).map_err(|_| BadSignature)?;
    let signature = ed25519_dalek::Signature::from_bytes(signature.as_bytes());
    key.verify_strict(message, &signature).map_err(|_| BadSignature)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> (SigningKey, PublicKey) {
        let key = SigningKey::from_bytes(&[7; 32]);
        let public = PublicKey::from_bytes(key.verifying_key().to_bytes());
        (key, public)
    }

    #[test]
    fn a_signature_is_bound_to_its_challenge_and_connection() {
        let (key, public) = key();
        let (nonce, connection) = (ChallengeNonce::from_bytes([1; 32]), ConnectionId::from_bytes([2; 32]));
        let signature = sign_pipe(&key, &nonce, &connection);
        assert!(verify_pipe(&public, &nonce, &connection, &signature).is_ok());
        assert!(verify_pipe(&public, &nonce, &ConnectionId::from_bytes([3; 32]), &signature).is_err());
        assert!(verify_pipe(&public, &ChallengeNonce::from_bytes([9; 32]), &connection, &signature).is_err());
    }

    #[test]
    fn the_control_sockets_signature_does_not_open_a_pipe() {
        let (key, public) = key();
        let (nonce, connection) = (ChallengeNonce::from_bytes([1; 32]), ConnectionId::from_bytes([2; 32]));
        assert!(verify_pipe(&public, &nonce, &connection, &sign_auth(&key, &nonce)).is_err());
        assert!(verify_auth(&public, &nonce, &sign_pipe(&key, &nonce, &connection)).is_err());
    }

    #[test]
    fn a_small_order_key_is_refused() {
        let mut small = [0; 32];
        small[0] = 1;
        let mut zero = [0; 64];
        zero[..32].copy_from_slice(&small);
        let nonce = ChallengeNonce::from_bytes([1; 32]);
        assert!(verify_auth(&PublicKey::from_bytes(small), &nonce, &Signature::from_bytes(zero)).is_err());
    }

    #[test]
    fn a_malleable_signature_is_refused() {
        let (key, public) = key();
        let nonce = ChallengeNonce::from_bytes([1; 32]);
        let mut bytes = *sign_auth(&key, &nonce).as_bytes();
        // Adding the group order to the scalar gives the other encoding of the same signature.
        const ORDER: [u8; 32] = [
            0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
        ];
        let mut carry = 0u16;
        for (s, l) in bytes[32..].iter_mut().zip(ORDER) {
            let sum = u16::from(*s) + u16::from(l) + carry;
            *s = sum as u8;
            carry = sum >> 8;
        }
        assert!(verify_auth(&public, &nonce, &Signature::from_bytes(bytes)).is_err());
    }
}
