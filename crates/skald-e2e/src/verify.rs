//! The six digits that both screens show (crypto.md, Verification code).

use std::fmt;

use sha2::{Digest as _, Sha256};
use skald_relay_common::ids::{NamespaceId, PublicKey, XPublicKey};

const VERIFY_DOMAIN: &[u8] = b"skald-verify-v1";

/// Six digits over the keys of both ends. `Display` groups them: `123 456`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VerificationCode(u32);

impl VerificationCode {
    /// The digits without the space.
    pub fn digits(&self) -> String {
        format!("{:06}", self.0)
    }
}

impl fmt::Display for VerificationCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03} {:03}", self.0 / 1_000, self.0 % 1_000)
    }
}

impl fmt::Debug for VerificationCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerificationCode({self})")
    }
}

/// Computes the code. A relay that offers keys of its own gets another one, for it does not know the agent's X25519
/// key, which travels in the QR alone.
pub fn verification_code(
    namespace: &NamespaceId,
    agent: &PublicKey,
    agent_x: &XPublicKey,
    client: &PublicKey,
    client_x: &XPublicKey,
) -> VerificationCode {
    let digest = digest(namespace, agent, agent_x, client, client_x);
    let mut first = [0u8; 8];
    first.copy_from_slice(&digest[..8]);
    VerificationCode((u64::from_be_bytes(first) % 1_000_000) as u32)
}

pub(crate) fn digest(
    namespace: &NamespaceId,
    agent: &PublicKey,
    agent_x: &XPublicKey,
    client: &PublicKey,
    client_x: &XPublicKey,
) -> [u8; 32] {
    Sha256::new()
        .chain_update(VERIFY_DOMAIN)
        .chain_update([0])
        .chain_update(namespace.as_bytes())
        .chain_update(agent.as_bytes())
        .chain_update(agent_x.as_bytes())
        .chain_update(client.as_bytes())
        .chain_update(client_x.as_bytes())
        .finalize()
        .into()
}
