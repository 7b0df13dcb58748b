//! What the connector needs of a relay's client: a boundary, so that everything above it is tested without a network.

use async_trait::async_trait;
use tokio::sync::watch;
use zeroize::Zeroizing;

use crate::DeviceKey;

/// How a message travels (relay-protocol §6.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Stored and forwarded; with a slot, in place of an earlier one that has not left.
    Stored(Option<&'static str>),
    /// Now or not at all.
    Live,
}

/// A paired device, as the client knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Its key.
    pub key: DeviceKey,
    /// What the relay says it runs on.
    pub platform: &'static str,
    /// Whether it was admitted.
    pub admitted: bool,
    /// The six digits to compare.
    pub verification_code: String,
    /// When it paired, unix milliseconds.
    pub created_at: i64,
    /// When it was last heard of, unix milliseconds.
    pub last_seen: Option<i64>,
    /// Whether the relay sees it connected.
    pub online: bool,
}

/// A pairing window that the relay has opened.
pub(crate) struct Opened {
    /// What [`crate::connector::Connector::paired`] is told when it was used.
    pub id: u64,
    /// The QR's text; it bears the token.
    pub qr: Zeroizing<String>,
    /// When the relay closes it, unix milliseconds.
    pub expires_at: i64,
}

/// Where the link stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// Whether the relay is reached.
    pub up: bool,
    /// One word for programs.
    pub state: &'static str,
    /// Why it is not reached, one plain sentence.
    pub last_error: Option<String>,
    /// Since when, unix milliseconds.
    pub since: i64,
}

/// Something the client could not do, for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RelayError(pub String);

/// See the module.
#[async_trait]
pub(crate) trait Relay: Send + Sync {
    /// Hands a payload over. Stored ones are durable at the client when this returns.
    async fn send(&self, to: DeviceKey, json: &[u8], how: How) -> Result<(), RelayError>;
    /// Every paired device, admitted or not.
    async fn devices(&self) -> Result<Vec<Peer>, RelayError>;
    /// Admits a device; whether there is one of that key.
    async fn authorize(&self, key: DeviceKey) -> Result<bool, RelayError>;
    /// Drops a device: its keys and counters go, and the relay is told. Whether there was one.
    async fn revoke(&self, key: DeviceKey) -> Result<bool, RelayError>;
    /// Opens a pairing window of `ttl` seconds in place of any other.
    async fn open_pairing(&self, ttl: u32) -> Result<Opened, RelayError>;
    /// Where the link stands.
    fn link(&self) -> watch::Receiver<Link>;
    /// The namespace.
    fn namespace(&self) -> [u8; 32];
}
