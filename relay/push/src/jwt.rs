//! Signed tokens (RFC 7515) by the keys that providers give out.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use zeroize::Zeroizing;

/// A signing key. It cannot be printed.
pub(crate) enum SigningKey {
    /// ES256: P-256 with SHA-256.
    Es256(Box<EcdsaKeyPair>),
    /// RS256: RSA with SHA-256.
    Rs256(Box<RsaKeyPair>),
}

/// The system gave no randomness, or the key failed; neither happens in a working machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nothing can be signed")]
pub(crate) struct Unsigned;

impl SigningKey {
    /// A P-256 key in PEM (PKCS #8), as in a `.p8` file.
    pub(crate) fn es256(pem: &[u8]) -> Option<Self> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).ok()?;
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.secret_pkcs8_der(), &random);
        key.ok().map(|key| Self::Es256(Box::new(key)))
    }

    /// An RSA key in PEM (PKCS #8), as in a service account's file.
    pub(crate) fn rs256(pem: &[u8]) -> Option<Self> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).ok()?;
        RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).ok().map(|key| Self::Rs256(Box::new(key)))
    }

    /// `header.claims.signature`. The header's `alg` is put in here, so that it is the key's.
    pub(crate) fn sign(
        &self,
        header: &[(&str, &str)],
        claims: &Value,
    ) -> Result<Zeroizing<String>, Unsigned> {
        let alg = match self {
            Self::Es256(_) => "ES256",
            Self::Rs256(_) => "RS256",
        };
        let header: serde_json::Map<String, Value> = std::iter::once(&("alg", alg))
            .chain(header)
            .map(|(name, value)| ((*name).to_owned(), Value::from(*value)))
            .collect();
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let mut text = Zeroizing::new(format!("{}.{}", part(&header.into()), part(claims)));
        let random = SystemRandom::new();
        let signature = match self {
            Self::Es256(key) => key.sign(&random, text.as_bytes()).map_err(|_| Unsigned)?.as_ref().to_vec(),
            Self::Rs256(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature)
                    .map_err(|_| Unsigned)?;
                signature
            }
        };
        text.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut text);
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// Keys from Apple name the curve once more inside (RFC 5915 `parameters`), keys from other tools do not.
    #[test]
    fn a_p8_file_is_read_with_and_without_the_curve_named_inside() {
        let made =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let plain = made.as_ref();
        let curve = [0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
        // The private key's octet string is 32 bytes long and the public key, tagged a1, follows it.
        let after = plain.windows(2).position(|at| at == [0xa1, 0x44]).unwrap();
        let mut apple = [&plain[..after], &curve, &plain[after..]].concat();
        // Three lengths grow with it: the whole, the octet string around the inner key, and the inner key.
        for at in [2, 28, 30] {
            apple[at] += 12;
        }
        for der in [plain, &apple] {
            let pem =
                format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(der));
            assert!(SigningKey::es256(pem.as_bytes()).is_some(), "{}", hex::encode(der));
        }
        assert!(
            SigningKey::es256(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").is_none()
        );
        assert!(SigningKey::es256(b"rubbish").is_none());
    }
}
