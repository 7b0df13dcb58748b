//! A relay's key with a gateway.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// What every key begins with, so that one which has got into the wrong place is recognised.
const PREFIX: &str = "skg_";

/// A relay's key: 256 random bits. It is shown once, when it is made; a gateway knows its hash alone.
pub struct RelayKey(Zeroizing<String>);

/// Text that is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is no gateway key: it begins with {PREFIX} and is what the gateway's operator gave you")]
pub struct NoKey;

impl RelayKey {
    /// A new key; fails where the system gives no random bytes.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = Zeroizing::new([0; 32]);
        getrandom::fill(&mut bytes[..])?;
        let text = Zeroizing::new(URL_SAFE_NO_PAD.encode(&bytes[..]));
        Ok(Self(Zeroizing::new(format!("{PREFIX}{}", text.as_str()))))
    }

    /// Reads a key, as a file holds it.
    pub fn parse(text: &str) -> Result<Self, NoKey> {
        let text = text.trim();
        let random = text.strip_prefix(PREFIX).ok_or(NoKey)?;
        let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(random).map_err(|_| NoKey)?);
        if bytes.len() == 32 { Ok(Self(Zeroizing::new(text.to_owned()))) } else { Err(NoKey) }
    }

    /// The key, for its owner and the gateway alone.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What a gateway knows of it.
    pub fn hash(&self) -> KeyHash {
        KeyHash::of(self.0.as_bytes())
    }
}

/// The SHA-256 of a relay's key. A key has 256 random bits, so a hash that is made slow on purpose would add nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyHash([u8; 32]);

/// Text that is no hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the hash of a relay's key has 64 hexadecimal digits: skald-relay gateway key makes a key and prints it"
)]
pub struct NoHash;

impl KeyHash {
    fn of(key: &[u8]) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, key).as_ref());
        Self(hash)
    }

    /// Whether this is the hash of `key`. It takes as long for a wrong key as for the right one.
    pub fn is_of(&self, key: &[u8]) -> bool {
        let found = Self::of(key).0;
        let difference = found.iter().zip(&self.0).fold(0, |seen, (a, b)| seen | (a ^ b));
        std::hint::black_box(difference) == 0
    }
}

impl FromStr for KeyHash {
    type Err = NoHash;
    fn from_str(text: &str) -> Result<Self, NoHash> {
        let mut hash = [0; 32];
        hex::decode_to_slice(text, &mut hash).map_err(|_| NoHash)?;
        Ok(Self(hash))
    }
}

impl TryFrom<String> for KeyHash {
    type Error = NoHash;
    fn try_from(text: String) -> Result<Self, NoHash> {
        text.parse()
    }
}

impl From<KeyHash> for String {
    fn from(hash: KeyHash) -> Self {
        hash.to_string()
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_knows_its_key_and_no_other() {
        let (one, two) = (RelayKey::generate().unwrap(), RelayKey::generate().unwrap());
        assert!(one.as_str() != two.as_str());
        let hash: KeyHash = one.hash().to_string().parse().unwrap();
        assert!(hash.is_of(one.as_str().as_bytes()));
        assert!(!hash.is_of(two.as_str().as_bytes()) && !hash.is_of(b""));
        assert!(!hash.is_of(&one.as_str().as_bytes()[..46]));
    }

    #[test]
    fn a_key_is_read_from_a_file_and_nothing_else_is() {
        let key = RelayKey::generate().unwrap();
        assert_eq!(RelayKey::parse(&format!("{}\n", key.as_str())).unwrap().as_str(), key.as_str());
        for wrong in ["", "skg_", "skg_AAAA", &key.as_str()[4..], &format!("{}A", key.as_str())] {
            assert!(RelayKey::parse(wrong).is_err());
        }
        assert!("abc".parse::<KeyHash>().is_err());
    }
}
