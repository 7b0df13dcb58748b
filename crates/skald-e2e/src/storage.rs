//! Content at rest. A message that waits in its sender's own store is sealed there too, so that no payload, which may
//! hold a secret, lies in a database in clear.
//!
//! This is local to one actor and no part of the protocol: nobody else ever opens it.

use std::fmt;

use aes_gcm::aead::{AeadInOut as _, KeyInit as _};
use aes_gcm::{Aes256Gcm, Nonce};

use crate::session::{NONCE_LEN, OpenError, TAG_LEN};

/// Seals what an actor keeps for itself. Wiped when dropped; never printed.
pub struct StorageKey(Box<Aes256Gcm>);

impl StorageKey {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Self(Box::new(Aes256Gcm::new(key.into())))
    }

    /// Seals `content` under 12 fresh random bytes and gives `random ‖ ciphertext ‖ tag`. `context` says what it is and
    /// must be given again to open it, so that one row cannot pass for another.
    pub fn seal(&self, random: [u8; NONCE_LEN], context: &[u8], content: &[u8]) -> Vec<u8> {
        let mut body = Vec::with_capacity(NONCE_LEN + content.len() + TAG_LEN);
        body.extend_from_slice(content);
        if self.0.encrypt_in_place(&Nonce::from(random), context, &mut body).is_err() {
            unreachable!("stored content is far below the cipher's 64 GiB");
        }
        body.splice(..0, random);
        body
    }

    /// Opens what [`Self::seal`] gave.
    pub fn open(&self, context: &[u8], stored: &[u8]) -> Result<Vec<u8>, OpenError> {
        let (random, body) = stored.split_first_chunk::<NONCE_LEN>().ok_or(OpenError)?;
        let mut body = body.to_vec();
        self.0.decrypt_in_place(&Nonce::from(*random), context, &mut body).map_err(|_| OpenError)?;
        Ok(body)
    }
}

impl fmt::Debug for StorageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StorageKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use crate::{Identity, Seed};

    #[test]
    fn content_at_rest_opens_for_its_owner_and_context_alone() {
        let mine = Identity::from_seed(&Seed::take(&mut [1; 32])).storage_key();
        let sealed = mine.seal([7; 12], b"row 1", b"a secret");
        assert!(!sealed.windows(6).any(|w| w == b"secret"));
        assert_eq!(mine.open(b"row 1", &sealed).unwrap(), b"a secret");
        assert!(mine.open(b"row 2", &sealed).is_err());
        assert!(mine.open(b"row 1", &sealed[..11]).is_err());
        let other = Identity::from_seed(&Seed::take(&mut [2; 32])).storage_key();
        assert!(other.open(b"row 1", &sealed).is_err());
    }
}
