//! What an agent, a client or a pairing device says to the relay.

use std::fmt;

use bytes::Bytes;

use super::{FrameError, Message, Platform, decode, encode, id, ids};
use crate::ids::{NamespaceId, PairingToken, PublicKey, Signature, XPublicKey};
use crate::pb::{self, relay_frame::Frame};

/// Push tokens are opaque, but a Web Push subscription, the longest kind, stays far below this.
pub const MAX_DEVICE_TOKEN_BYTES: usize = 4096;

/// A frame on its way to the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromPeer {
    /// Who I am (relay-protocol §4).
    Auth(Auth),
    /// The whole list of authorised clients (§5). Agent only.
    Authorize(Vec<PublicKey>),
    /// Open a pairing window (§9.1); a `ttl` of 0 means the default. Agent only.
    PairingStart {
        /// The bearer token that the QR shows.
        token: PairingToken,
        /// How long, in seconds.
        ttl: u32,
    },
    /// Close the pairing window (§9.2). Agent only.
    PairingStop,
    /// Deliver this (§6).
    Message(Message),
    /// Who is connected? (§7)
    PresenceRequest,
}

/// A role with its proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auth {
    /// Who claims to be connected.
    pub role: Role,
    /// Over the challenge, under that role's key.
    pub signature: Signature,
}

/// Who a peer claims to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The owner of the namespace that this key names.
    Agent(PublicKey),
    /// A device on the agent's list.
    Client(AuthClient),
    /// A device that holds a pairing token.
    Pairing(AuthPairing),
}

impl Role {
    /// The key that must have signed.
    pub const fn key(&self) -> &PublicKey {
        match self {
            Self::Agent(key) => key,
            Self::Client(client) => &client.key,
            Self::Pairing(pairing) => &pairing.key,
        }
    }
}

/// An authorised device (§4.3).
#[derive(Clone, PartialEq, Eq)]
pub struct AuthClient {
    /// Whose device.
    pub namespace: NamespaceId,
    /// The device's key.
    pub key: PublicKey,
    /// Its push token; empty keeps the one the relay knows.
    pub device_token: String,
    /// What it runs on.
    pub platform: Platform,
}

/// A device on its first visit (§4.2).
#[derive(Clone, PartialEq, Eq)]
pub struct AuthPairing {
    /// Whose window.
    pub namespace: NamespaceId,
    /// The device's signing key.
    pub key: PublicKey,
    /// Its key agreement key, which only the agent uses.
    pub x_key: XPublicKey,
    /// From the QR.
    pub token: PairingToken,
    /// Its push token, perhaps empty.
    pub device_token: String,
    /// What it runs on.
    pub platform: Platform,
}

// Push tokens let their holder wake a device: they never show.
impl fmt::Debug for AuthClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthClient")
            .field("key", &self.key)
            .field("platform", &self.platform)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for AuthPairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthPairing")
            .field("key", &self.key)
            .field("platform", &self.platform)
            .finish_non_exhaustive()
    }
}

impl FromPeer {
    /// Reads a frame. `None`: a kind of frame that this version does not know.
    pub fn parse(bytes: impl Into<Bytes>) -> Result<Option<Self>, FrameError> {
        let Some(frame) = decode(bytes.into())? else { return Ok(None) };
        Ok(Some(match frame {
            Frame::Auth(auth) => Self::Auth(Auth::parse(auth)?),
            Frame::Authorize(list) => Self::Authorize(ids(&list.clients)?),
            Frame::PairingStart(start) => {
                Self::PairingStart { token: id(&start.pairing_token)?, ttl: start.ttl }
            }
            Frame::PairingStop(_) => Self::PairingStop,
            Frame::Message(message) => Self::Message(Message::parse(message)?),
            Frame::PresenceRequest(_) => Self::PresenceRequest,
            Frame::Challenge(_)
            | Frame::AuthOk(_)
            | Frame::AuthError(_)
            | Frame::AuthorizeOk(_)
            | Frame::PairingReady(_)
            | Frame::PairingStopOk(_)
            | Frame::ClientPaired(_)
            | Frame::PeerOffline(_)
            | Frame::PresenceList(_)
            | Frame::PresenceEvent(_)
            | Frame::Error(_) => return Err(FrameError::WrongDirection),
        }))
    }

    /// The frame as bytes for one binary WebSocket message.
    pub fn encode(&self) -> Vec<u8> {
        encode(match self {
            Self::Auth(auth) => Frame::Auth(auth.to_pb()),
            Self::Authorize(keys) => {
                Frame::Authorize(pb::Authorize { clients: keys.iter().map(PublicKey::to_wire).collect() })
            }
            Self::PairingStart { token, ttl } => {
                Frame::PairingStart(pb::PairingStart { pairing_token: token.to_wire(), ttl: *ttl })
            }
            Self::PairingStop => Frame::PairingStop(pb::PairingStop {}),
            Self::Message(message) => Frame::Message(message.to_pb()),
            Self::PresenceRequest => Frame::PresenceRequest(pb::PresenceRequest {}),
        })
    }
}

impl Auth {
    fn parse(wire: pb::Auth) -> Result<Self, FrameError> {
        use pb::auth::Role as Wire;
        let role = match wire.role.ok_or(FrameError::NoRole)? {
            Wire::Agent(agent) => Role::Agent(id(&agent.agent_ed25519_pub)?),
            Wire::Client(client) => Role::Client(AuthClient {
                namespace: id(&client.namespace_id)?,
                key: id(&client.client_ed25519_pub)?,
                device_token: device_token(client.device_token)?,
                platform: Platform::from_code(client.platform).ok_or(FrameError::NoPlatform)?,
            }),
            Wire::Pairing(pairing) => Role::Pairing(AuthPairing {
                namespace: id(&pairing.namespace_id)?,
                key: id(&pairing.client_ed25519_pub)?,
                x_key: id(&pairing.client_x25519_pub)?,
                token: id(&pairing.pairing_token)?,
                device_token: device_token(pairing.device_token)?,
                platform: Platform::from_code(pairing.platform).ok_or(FrameError::NoPlatform)?,
            }),
        };
        Ok(Self { role, signature: id(&wire.signature)? })
    }

    fn to_pb(&self) -> pb::Auth {
        use pb::auth::Role as Wire;
        let role = match &self.role {
            Role::Agent(key) => Wire::Agent(pb::AuthAgent { agent_ed25519_pub: key.to_wire() }),
            Role::Client(client) => Wire::Client(pb::AuthClient {
                namespace_id: client.namespace.to_wire(),
                client_ed25519_pub: client.key.to_wire(),
                device_token: client.device_token.clone(),
                platform: client.platform.code(),
            }),
            Role::Pairing(pairing) => Wire::Pairing(pb::AuthPairing {
                namespace_id: pairing.namespace.to_wire(),
                client_ed25519_pub: pairing.key.to_wire(),
                client_x25519_pub: pairing.x_key.to_wire(),
                pairing_token: pairing.token.to_wire(),
                device_token: pairing.device_token.clone(),
                platform: pairing.platform.code(),
            }),
        };
        pb::Auth { role: Some(role), signature: self.signature.to_wire() }
    }
}

fn device_token(token: String) -> Result<String, FrameError> {
    if token.len() > MAX_DEVICE_TOKEN_BYTES { Err(FrameError::DeviceToken) } else { Ok(token) }
}
