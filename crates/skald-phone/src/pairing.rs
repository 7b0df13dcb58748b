//! What this device remembers of its pairing, for people and for signing. The keys are elsewhere; the pairing token is
//! nowhere.

use serde::{Deserialize, Serialize};
use skald_e2e::QrPayload;
use skald_relay_common::ids::{NamespaceId, PublicKey, XPublicKey};

use crate::failure::{Failure, Outcome};
use crate::home::{Home, why};

const FILE: &str = "pairing.json";

/// The host this device is paired with, and what the device is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pairing {
    /// What the host shall call this device.
    pub name: String,
    /// Where the relay is.
    pub relay_url: String,
    /// Lowercase hex, as are the keys.
    pub namespace_id: String,
    /// The host's signing key.
    pub agent_ed25519_pub: String,
    /// The host's key agreement key, which came by the QR alone.
    pub agent_x25519_pub: String,
}

impl Pairing {
    /// From a QR that was checked.
    pub fn new(qr: &QrPayload, name: String) -> Self {
        Self {
            name,
            relay_url: qr.relay_url.clone(),
            namespace_id: hex::encode(qr.namespace_id.as_bytes()),
            agent_ed25519_pub: hex::encode(qr.agent_ed25519_pub.as_bytes()),
            agent_x25519_pub: hex::encode(qr.agent_x25519_pub.as_bytes()),
        }
    }

    /// Reads it; `None` where nothing was paired.
    pub fn load(home: &Home) -> Outcome<Option<Self>> {
        let path = home.path(FILE);
        let bytes = home.read(FILE).map_err(|e| {
            Failure::usage(format!("The file {} cannot be read ({}).", path.display(), why(&e)))
        })?;
        let Some(bytes) = bytes else { return Ok(None) };
        let pairing: Option<Self> = serde_json::from_slice(&bytes).ok();
        match pairing.filter(|p| p.keys().is_some()) {
            Some(pairing) => Ok(Some(pairing)),
            None => Err(Failure::usage(format!(
                "The file {} is damaged; run `skald-phone logout --force` and pair again.",
                path.display()
            ))),
        }
    }

    /// Writes it.
    pub fn store(&self, home: &Home) -> Outcome<()> {
        let bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        home.write(FILE, &bytes)
            .map_err(|e| Failure::refused(format!("The pairing cannot be written down ({}).", why(&e))))
    }

    /// Forgets it.
    pub fn remove(home: &Home) -> std::io::Result<()> {
        home.remove(FILE)
    }

    /// Namespace and keys.
    pub fn keys(&self) -> Option<(NamespaceId, PublicKey, XPublicKey)> {
        fn bytes(text: &str) -> Option<[u8; 32]> {
            let mut out = [0; 32];
            hex::decode_to_slice(text, &mut out).ok()?;
            Some(out)
        }
        Some((
            NamespaceId::from(bytes(&self.namespace_id)?),
            PublicKey::from(bytes(&self.agent_ed25519_pub)?),
            XPublicKey::from(bytes(&self.agent_x25519_pub)?),
        ))
    }
}

/// The failure of every command that needs a pairing.
pub fn not_paired() -> Failure {
    Failure::usage("This device is not paired; begin with `skald-phone pair`.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pairing_is_remembered_without_its_token_and_damage_is_said() {
        let dir = tempfile::tempdir().expect("folder");
        let home = Home::locate(Some(dir.path().join("h"))).expect("located");
        home.create().expect("created");
        assert_eq!(Pairing::load(&home), Ok(None));
        let pairing = Pairing {
            name: "n".into(),
            relay_url: "wss://r/v1/ws".into(),
            namespace_id: "0a".repeat(32),
            agent_ed25519_pub: "0b".repeat(32),
            agent_x25519_pub: "0c".repeat(32),
        };
        pairing.store(&home).expect("stored");
        assert_eq!(Pairing::load(&home), Ok(Some(pairing)));
        home.write(FILE, b"{\"name\":1}").expect("damage");
        assert_eq!(Pairing::load(&home).expect_err("damaged").code.exit(), 2);
    }
}
