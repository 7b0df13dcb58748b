//! Canonical JSON (RFC 8785) and what is computed over it (spec crypto, Decisions).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The value has no canonical form.
///
/// It carries no text of the value: the value may be private.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this value has no canonical JSON form")]
pub struct CanonicalError;

/// Text that should have been hex of a fixed length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} hexadecimal digits")]
pub struct NotHex {
    /// How many digits were expected.
    pub expected: usize,
}

/// The canonical JSON text of `value`, as RFC 8785 defines it: members sorted by UTF-16 code units, numbers as
/// ECMAScript writes doubles, no white space.
pub fn canonical(value: &Value) -> Result<Vec<u8>, CanonicalError> {
    serde_json_canonicalizer::to_vec(value).map_err(|_| CanonicalError)
}

/// The digest of an item as a device receives it: SHA-256 of its canonical JSON, its own `digest` left out.
pub fn item_digest(item: &Value) -> Result<Digest, CanonicalError> {
    let bytes = match item {
        Value::Object(members) if members.contains_key("digest") => {
            let mut members = members.clone();
            members.remove("digest");
            canonical(&Value::Object(members))?
        }
        other => canonical(other)?,
    };
    Ok(Digest(Sha256::digest(&bytes).into()))
}

/// SHA-256 of an item, lowercase hex in JSON.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

/// A device's Ed25519 signature under a decision, lowercase hex in JSON. Checked by who knows the device's key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProofSignature(pub [u8; 64]);

/// Gives a byte array its hex form on the wire: lowercase written, either case read (index §5).
macro_rules! hex_bytes {
    ($name:ident, $len:literal) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&hex::encode(self.0))
            }
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({}…)", stringify!($name), hex::encode(&self.0[..4]))
            }
        }
        impl std::str::FromStr for $name {
            type Err = NotHex;
            fn from_str(text: &str) -> Result<Self, NotHex> {
                let mut bytes = [0; $len];
                hex::decode_to_slice(text, &mut bytes).map_err(|_| NotHex { expected: 2 * $len })?;
                Ok(Self(bytes))
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    };
}
hex_bytes!(Digest, 32);
hex_bytes!(ProofSignature, 64);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_sort_by_utf16_and_numbers_are_doubles() {
        let value =
            json!({"\u{20ac}": 1, "\r": 2, "\u{fb33}": 3, "1": 4, "\u{1f600}": 5, "\u{80}": 6, "\u{f6}": 7});
        let text = String::from_utf8(canonical(&value).unwrap()).unwrap();
        assert_eq!(
            text,
            "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":1,\"\u{1f600}\":5,\"\u{fb33}\":3}"
        );
        let numbers = json!([
            333_333_333.333_333_3,
            1e30,
            4.50,
            2e-3,
            0.000000000000000000000000001,
            -0.0,
            9007199254740993i64
        ]);
        assert_eq!(
            canonical(&numbers).unwrap(),
            b"[333333333.3333333,1e+30,4.5,0.002,1e-27,0,9007199254740992]"
        );
    }

    #[test]
    fn hex_is_read_in_either_case_and_written_in_lower() {
        let text = "AB".repeat(32);
        let digest: Digest = serde_json::from_value(json!(text)).unwrap();
        assert_eq!(serde_json::to_value(digest).unwrap(), json!("ab".repeat(32)));
        for bad in ["", "ab", &"ab".repeat(33), &"xy".repeat(32)] {
            assert_eq!(bad.parse::<Digest>(), Err(NotHex { expected: 64 }));
        }
    }

    #[test]
    fn a_digest_leaves_itself_out_and_sees_every_other_member() {
        let item = json!({"request_id": "a", "summary": "b"});
        let plain = item_digest(&item).unwrap();
        assert_eq!(item_digest(&json!({"summary": "b", "digest": "cc", "request_id": "a"})).unwrap(), plain);
        assert_ne!(item_digest(&json!({"summary": "b", "request_id": "a", "extra": null})).unwrap(), plain);
    }
}
