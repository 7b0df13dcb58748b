//! HKDF-SHA256 to 32 bytes: the one derivation that every key here comes from (crypto.md, Constants).

use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

/// Seed → private keys.
pub(crate) const KDF_SALT: &[u8] = b"skald-kdf-v1";
pub(crate) const KDF_INFO_X25519: &[u8] = b"x25519";
pub(crate) const KDF_INFO_ED25519: &[u8] = b"ed25519";
/// Shared secret → session key.
pub(crate) const SESSION_SALT: &[u8] = b"skald-session-v1";
pub(crate) const SESSION_INFO: &[u8] = b"aes-256-gcm";
/// Own secret → key for content at rest. Local to one actor: no peer ever derives it.
pub(crate) const STORAGE_SALT: &[u8] = b"skald-storage-v1";
/// Ephemeral shared secret → pipe key.
pub(crate) const PIPE_KDF_SALT: &[u8] = b"skald-pipe-v1";
pub(crate) const PIPE_KDF_INFO: &[u8] = b"pipe-aes-256-gcm";

/// Derives 32 bytes from `ikm`.
pub(crate) fn derive(ikm: &[u8], salt: &[u8], info: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut out = Zeroizing::new([0u8; 32]);
    // HKDF-SHA256 gives up to 8,160 bytes; 32 always fit, so the error arm cannot be reached.
    if Hkdf::<Sha256>::new(Some(salt), ikm).expand(info, out.as_mut_slice()).is_err() {
        unreachable!("32 bytes are within HKDF-SHA256's limit");
    }
    out
}
