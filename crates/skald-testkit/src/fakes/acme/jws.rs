//! Signed requests (RFC 7515, RFC 8555 §6.2).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// An account's key.
#[derive(Debug, Clone)]
pub(super) struct Signer {
    point: Vec<u8>,
    /// RFC 7638.
    pub(super) thumbprint: String,
}

impl Signer {
    fn from_jwk(jwk: &Value) -> Result<Self, String> {
        if jwk["kty"] != "EC" || jwk["crv"] != "P-256" {
            return Err("the key is not on P-256".to_owned());
        }
        let coordinate = |name: &str| {
            let text = jwk[name].as_str().unwrap_or_default();
            BASE64_URL_SAFE_NO_PAD.decode(text).ok().filter(|bytes| bytes.len() == 32)
        };
        let (Some(x), Some(y)) = (coordinate("x"), coordinate("y")) else {
            return Err("the key has no coordinates".to_owned());
        };
        let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":{},"y":{}}}"#, jwk["x"], jwk["y"]);
        let thumbprint = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(canonical));
        Ok(Self { point: [&[4][..], &x, &y].concat(), thumbprint })
    }
}

/// A request, not verified yet.
pub(super) struct Jws {
    signed: String,
    signature: Vec<u8>,
    payload: Vec<u8>,
    pub(super) nonce: String,
    pub(super) url: String,
    /// The key itself, with which an account is made; or
    pub(super) key: Option<Signer>,
    /// the account's address.
    pub(super) account: Option<String>,
}

impl Jws {
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        let outer: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let text = |name: &str| outer[name].as_str().ok_or(format!("there is no {name}"));
        let decode = |name: &str| {
            BASE64_URL_SAFE_NO_PAD.decode(text(name)?).map_err(|error| format!("{name}: {error}"))
        };
        let header: Value =
            serde_json::from_slice(&decode("protected")?).map_err(|error| error.to_string())?;
        if header["alg"] != "ES256" {
            return Err("only ES256 is understood".to_owned());
        }
        let key = header.get("jwk").map(Signer::from_jwk).transpose()?;
        let account = header["kid"].as_str().map(str::to_owned);
        if key.is_some() == account.is_some() {
            return Err("a request names either its key or its account".to_owned());
        }
        let from_header =
            |name: &str| header[name].as_str().map(str::to_owned).ok_or(format!("there is no {name}"));
        Ok(Self {
            signed: format!("{}.{}", text("protected")?, text("payload")?),
            signature: decode("signature")?,
            payload: decode("payload")?,
            nonce: from_header("nonce")?,
            url: from_header("url")?,
            key,
            account,
        })
    }

    pub(super) fn verify(&self, signer: &Signer) -> Result<(), String> {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &signer.point)
            .verify(self.signed.as_bytes(), &self.signature)
            .map_err(|_| "the signature is wrong".to_owned())
    }

    pub(super) fn json(&self) -> Result<Value, String> {
        serde_json::from_slice(&self.payload).map_err(|error| error.to_string())
    }
}
