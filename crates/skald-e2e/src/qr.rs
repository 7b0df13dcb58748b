//! What the pairing QR holds (framing.md, The QR).

use std::fmt;

use serde::{Deserialize, Serialize};
use skald_relay_common::ids::{NamespaceId, PairingToken, PublicKey, XPublicKey};
use skald_relay_common::namespace_id;

/// The QR's version.
const VERSION: u64 = 1;
/// A relay's address is short; anything longer is not one.
const MAX_URL: usize = 2_048;

/// An invitation to pair. It bears the pairing token, so it is shown and never stored or logged.
#[derive(Clone)]
pub struct QrPayload {
    /// Where the relay is, `wss://…/v1/ws`.
    pub relay_url: String,
    /// The agent's namespace.
    pub namespace_id: NamespaceId,
    /// The agent's signing key.
    pub agent_ed25519_pub: PublicKey,
    /// The agent's key agreement key: the one thing a hostile relay does not see.
    pub agent_x25519_pub: XPublicKey,
    /// The single-use token.
    pub pairing_token: PairingToken,
}

/// The QR cannot be used; the text tells a person why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QrError {
    /// Not the JSON object of a pairing QR.
    #[error("this is not a Skald pairing code")]
    NotOurs,
    /// A later version of the code.
    #[error("this pairing code needs a newer version of the app (it is version {0})")]
    Version(u64),
    /// A field is missing or has another form.
    #[error("the pairing code is damaged: {0} is missing or malformed")]
    Field(&'static str),
    /// Identity and namespace do not belong together.
    #[error("the pairing code contradicts itself: its namespace is not that of its key")]
    Namespace,
}

#[derive(Serialize)]
struct Out<'a> {
    v: u64,
    relay_url: &'a str,
    namespace_id: String,
    agent_ed25519_pub: String,
    agent_x25519_pub: String,
    pairing_token: String,
}

#[derive(Deserialize)]
struct In {
    v: Option<serde_json::Value>,
    relay_url: Option<serde_json::Value>,
    namespace_id: Option<serde_json::Value>,
    agent_ed25519_pub: Option<serde_json::Value>,
    agent_x25519_pub: Option<serde_json::Value>,
    pairing_token: Option<serde_json::Value>,
}

impl QrPayload {
    /// The JSON to draw.
    pub fn to_json(&self) -> String {
        let out = Out {
            v: VERSION,
            relay_url: &self.relay_url,
            namespace_id: hex::encode(self.namespace_id.as_bytes()),
            agent_ed25519_pub: hex::encode(self.agent_ed25519_pub.as_bytes()),
            agent_x25519_pub: hex::encode(self.agent_x25519_pub.as_bytes()),
            pairing_token: hex::encode(self.pairing_token.as_bytes()),
        };
        match serde_json::to_string(&out) {
            Ok(json) => json,
            Err(_) => unreachable!("strings and one number always encode"),
        }
    }

    /// Reads and checks a scanned or pasted code. Unknown fields are ignored, uppercase hex is taken, and the
    /// namespace is recomputed from the key before anything is trusted.
    pub fn parse(text: &str) -> Result<Self, QrError> {
        let read: In = serde_json::from_str(text.trim()).map_err(|_| QrError::NotOurs)?;
        match read.v.as_ref().map(serde_json::Value::as_u64) {
            Some(Some(VERSION)) => {}
            Some(Some(other)) => return Err(QrError::Version(other)),
            _ => return Err(QrError::NotOurs),
        }
        let relay_url = match read.relay_url {
            Some(serde_json::Value::String(url)) if is_relay_url(&url) => url,
            _ => return Err(QrError::Field("relay_url")),
        };
        let payload = Self {
            relay_url,
            namespace_id: NamespaceId::from(bytes("namespace_id", read.namespace_id)?),
            agent_ed25519_pub: PublicKey::from(bytes("agent_ed25519_pub", read.agent_ed25519_pub)?),
            agent_x25519_pub: XPublicKey::from(bytes("agent_x25519_pub", read.agent_x25519_pub)?),
            pairing_token: PairingToken::from(bytes("pairing_token", read.pairing_token)?),
        };
        if namespace_id(&payload.agent_ed25519_pub) != payload.namespace_id {
            return Err(QrError::Namespace);
        }
        Ok(payload)
    }
}

fn is_relay_url(url: &str) -> bool {
    url.len() <= MAX_URL
        && (url.starts_with("wss://") || url.starts_with("ws://"))
        && url.bytes().all(|b| b.is_ascii_graphic())
}

fn bytes(name: &'static str, value: Option<serde_json::Value>) -> Result<[u8; 32], QrError> {
    let Some(serde_json::Value::String(digits)) = value else { return Err(QrError::Field(name)) };
    let mut out = [0u8; 32];
    hex::decode_to_slice(digits, &mut out).map_err(|_| QrError::Field(name))?;
    Ok(out)
}

impl fmt::Debug for QrPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QrPayload")
            .field("relay_url", &self.relay_url)
            .field("namespace_id", &self.namespace_id)
            .finish_non_exhaustive()
    }
}
