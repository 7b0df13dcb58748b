//! What the device keeps at rest is sealed with a key derived from its seed: answers on their way (a prompt's content
//! may be a password), the last Inbox and notifications. A copy of the folder without the seed tells nothing; who has
//! the seed has everything anyway.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf;
use zeroize::Zeroizing;

const SALT: &[u8] = b"skald-phone-v1";
const INFO: &[u8] = b"at-rest";

/// Seals and opens the files of one home.
pub struct Vault {
    key: LessSafeKey,
}

/// The content is not what this device sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

impl Vault {
    /// Derives the key. The salt keeps it apart from the protocol's own keys.
    pub fn new(seed: &[u8; 32]) -> Option<Self> {
        let mut key = Zeroizing::new([0u8; 32]);
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(seed);
        prk.expand(&[INFO], hkdf::HKDF_SHA256).ok()?.fill(key.as_mut()).ok()?;
        Some(Self { key: LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.as_ref()).ok()?) })
    }

    /// Seals `plain` as the content of `name`. The nonce is random: a home sees far fewer than 2^32 writes.
    pub fn seal(&self, name: &str, plain: &[u8]) -> Result<Vec<u8>, Damaged> {
        let mut nonce = [0u8; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|_| Damaged)?;
        let mut body = plain.to_vec();
        let sealed = self.key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(name.as_bytes()),
            &mut body,
        );
        sealed.map_err(|_| Damaged)?;
        let mut out = nonce.to_vec();
        out.extend_from_slice(&body);
        Ok(out)
    }

    /// Opens what was sealed as the content of `name`, and of no other.
    pub fn open(&self, name: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, Damaged> {
        let (nonce, body) = sealed.split_at_checked(NONCE_LEN).ok_or(Damaged)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| Damaged)?;
        let mut body = Zeroizing::new(body.to_vec());
        let length =
            self.key.open_in_place(nonce, Aad::from(name.as_bytes()), &mut body).map_err(|_| Damaged)?.len();
        body.truncate(length);
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_seed_and_name_open_what_was_sealed() {
        let vault = Vault::new(&[7; 32]).expect("vault");
        let sealed = vault.seal("a", b"hunter2").expect("sealed");
        assert!(!sealed.windows(7).any(|w| w == b"hunter2"));
        assert_eq!(vault.open("a", &sealed).expect("opened").as_slice(), b"hunter2");
        assert_eq!(vault.open("b", &sealed), Err(Damaged));
        assert_eq!(Vault::new(&[8; 32]).expect("vault").open("a", &sealed), Err(Damaged));
        assert_eq!(vault.open("a", &sealed[..sealed.len() - 1]), Err(Damaged));
        assert_eq!(vault.open("a", b"short"), Err(Damaged));
    }

    #[test]
    fn the_same_content_never_looks_the_same() {
        let vault = Vault::new(&[7; 32]).expect("vault");
        assert_ne!(vault.seal("a", b"x").expect("sealed"), vault.seal("a", b"x").expect("sealed"));
    }
}
