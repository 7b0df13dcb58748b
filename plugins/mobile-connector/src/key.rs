//! A device's name towards the protocol.

use std::fmt;
use std::str::FromStr;

/// A device's Ed25519 public key. Lowercase hex in JSON and on paths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceKey(pub [u8; 32]);

/// The text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a device's key has 64 hexadecimal digits")]
pub struct NotAKey;

impl fmt::Display for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// Eight digits, which is what logs bear.
impl fmt::Debug for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…", hex::encode(&self.0[..4]))
    }
}

impl FromStr for DeviceKey {
    type Err = NotAKey;
    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let mut key = [0; 32];
        hex::decode_to_slice(text, &mut key).map_err(|_| NotAKey)?;
        Ok(Self(key))
    }
}

impl From<[u8; 32]> for DeviceKey {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_in_either_case_and_logged_short() {
        let key: DeviceKey = "AB".repeat(32).parse().unwrap();
        assert_eq!(key.to_string(), "ab".repeat(32));
        assert_eq!(format!("{key:?}"), "abababab…");
        for bad in ["", "ab", &"zz".repeat(32), &"ab".repeat(33)] {
            assert_eq!(bad.parse::<DeviceKey>(), Err(NotAKey));
        }
    }
}
