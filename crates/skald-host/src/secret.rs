//! Values that are overwritten when dropped and cannot be printed.

use serde_json::Value;
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use crate::StoreError;

/// A token, link or cookie: shown once, kept nowhere but as a hash.
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// 256 bits from the operating system, with a prefix that scanners for leaked secrets can look for.
    pub(crate) fn generate(prefix: &str) -> Result<Self, StoreError> {
        let mut bytes = Zeroizing::new([0u8; 32]);
        getrandom::fill(bytes.as_mut_slice())
            .map_err(|_| StoreError::Other("the system gives no randomness".into()))?;
        Ok(Self(Zeroizing::new(format!("{prefix}{}", hex::encode(bytes.as_slice())))))
    }

    /// The text, to hand to the one it is for.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What is stored in a secret's place. 256 random bits need no slow hash.
pub(crate) fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// An elicitation's content: it may hold a secret, so it is overwritten when dropped and never printed.
pub struct Content(Value);

impl Content {
    pub(crate) fn new(value: Value) -> Self {
        Self(value)
    }
    /// Takes out of an object all that is not named here.
    pub(crate) fn keep_only(&mut self, names: &[String]) {
        if let Value::Object(map) = &mut self.0 {
            map.retain(|key, value| {
                let known = names.iter().any(|n| n == key);
                if !known {
                    wipe(value);
                }
                known
            });
        }
    }
    /// The JSON object, to hand to the source and nowhere else.
    pub fn expose(&self) -> &Value {
        &self.0
    }
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Content(..)")
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// Overwrites every string in a JSON value.
pub(crate) fn wipe(value: &mut Value) {
    match value {
        Value::String(s) => s.zeroize(),
        Value::Array(items) => items.iter_mut().for_each(wipe),
        Value::Object(map) => map.values_mut().for_each(wipe),
        other => *other = Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wiping_leaves_no_text_or_number_behind() {
        let mut v = serde_json::json!({"a": "geheim", "b": ["geheim", {"c": 7}], "d": true});
        wipe(&mut v);
        assert_eq!(v, serde_json::json!({"a": "", "b": ["", {"c": null}], "d": null}));
    }

    #[test]
    fn secrets_do_not_print() {
        let s = Secret::generate("skald_").unwrap();
        assert!(s.expose().starts_with("skald_") && s.expose().len() == 70);
        assert_eq!(format!("{s:?}"), "Secret(..)");
        assert_eq!(format!("{:?}", Content::new(serde_json::json!({"p": "x"}))), "Content(..)");
    }
}
