//! Decisions that can be proved (crypto.md): a device's signature under the digest of what it showed and what the person
//! chose. How an item is digested is for who knows the item; here a digest is 32 bytes.

use sha2::{Digest as _, Sha256};
use skald_relay_common::challenge;
use skald_relay_common::ids::{NamespaceId, PublicKey, Signature};

use crate::Identity;

const DECISION_DOMAIN: &[u8] = b"skald-decision-v1";

/// The bytes a device signs: domain, namespace, hashed request id, digest, and `01` for approved or `00` for rejected.
pub fn message(namespace: &NamespaceId, request_id: &str, digest: &[u8; 32], approved: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(DECISION_DOMAIN.len() + 1 + 32 * 3 + 1);
    out.extend_from_slice(DECISION_DOMAIN);
    out.push(0);
    out.extend_from_slice(namespace.as_bytes());
    out.extend_from_slice(&Sha256::digest(request_id.as_bytes()));
    out.extend_from_slice(digest);
    out.push(u8::from(approved));
    out
}

/// Signs a decision as `identity`.
pub fn sign(
    identity: &Identity,
    namespace: &NamespaceId,
    request_id: &str,
    digest: &[u8; 32],
    approved: bool,
) -> Signature {
    identity.sign(&message(namespace, request_id, digest, approved))
}

/// Whether `device` signed exactly this decision. Strict: small-order keys and malleable signatures are refused.
pub fn verify(
    device: &PublicKey,
    namespace: &NamespaceId,
    request_id: &str,
    digest: &[u8; 32],
    approved: bool,
    signature: &Signature,
) -> bool {
    challenge::verify(device, &message(namespace, request_id, digest, approved), signature).is_ok()
}
