//! What the handle speaks of.

use skald_e2e::{QrPayload, VerificationCode};
use skald_relay_common::frame::Platform;
use skald_relay_common::ids::{NamespaceId, PublicKey, XPublicKey};

use crate::client::code_of;
use crate::keyring::Keyring;
use crate::store::{Peer, PeerState};

/// How a message travels (relay-protocol §6.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Kept until the relay has it, and by the relay until the recipient has it. At most 65,000 bytes, sealed.
    Stored,
    /// Delivered now or not at all. At most 524,000 bytes, sealed.
    Live,
}

/// Who a client is, as others may know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicIdentity {
    /// The namespace it is in: its own for an agent, its agent's for a device.
    pub namespace_id: NamespaceId,
    /// Its signing key, by which the relay and its peers name it.
    pub ed25519_pub: PublicKey,
    /// Its key agreement key.
    pub x25519_pub: XPublicKey,
}

/// Whether the owner admitted a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceState {
    /// It paired and waits.
    Pending,
    /// It may connect.
    Authorized,
}

impl DeviceState {
    /// `pending` or `authorized`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Authorized => "authorized",
        }
    }
}

/// A device of this agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its key.
    pub key: PublicKey,
    /// Whether it is admitted.
    pub state: DeviceState,
    /// What it says it runs on.
    pub platform: Option<Platform>,
    /// The six digits both screens show.
    pub verification_code: VerificationCode,
    /// Unix milliseconds when it first paired.
    pub created_at: u64,
    /// Unix milliseconds when it was last heard of.
    pub last_seen: Option<u64>,
    /// Whether the relay says that it is connected.
    pub online: bool,
}

/// An open pairing window.
#[derive(Debug, Clone)]
pub struct PairingWindow {
    /// Names the window in [`crate::RelayEvent::Paired`]; rises with every window of this process.
    pub id: u64,
    /// What the QR shows. It bears the token: show it, and keep it nowhere.
    pub qr: QrPayload,
    /// Unix milliseconds.
    pub expires_at: u64,
}

impl Device {
    pub(crate) fn from_peer(keys: &Keyring, peer: &Peer, online: bool) -> Self {
        Self {
            key: peer.ed,
            state: match peer.state {
                PeerState::Pending => DeviceState::Pending,
                PeerState::Authorized => DeviceState::Authorized,
            },
            platform: Platform::from_code(peer.platform),
            verification_code: code_of(keys, peer),
            created_at: peer.created_at as u64,
            last_seen: peer.last_seen.map(|t| t as u64),
            online,
        }
    }
}
