//! What the relay says to its peers.

use bytes::Bytes;

use super::{FrameError, Message, Platform, decode, encode, id, ids};
use crate::codes::ErrorCode;
use crate::ids::{ChallengeNonce, NamespaceId, PublicKey, XPublicKey};
use crate::pb::{self, relay_frame::Frame};

/// A frame on its way from the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromRelay {
    /// Prove your key by signing this (relay-protocol §4).
    Challenge(ChallengeNonce),
    /// You are in.
    AuthOk(AuthOk),
    /// You are not.
    AuthError(Refusal),
    /// So many clients are authorised (§5).
    AuthorizeOk(u32),
    /// The pairing window is open for so many seconds (§9.1).
    PairingReady(u32),
    /// The pairing window is closed (§9.2).
    PairingStopOk,
    /// A device used the pairing token (§9.4).
    ClientPaired(ClientPaired),
    /// From a peer whom the relay vouches for (§6.2).
    Message(Message),
    /// That peer is not connected (§6.4).
    PeerOffline(PublicKey),
    /// Who is connected, the asker included (§7).
    PresenceList(Vec<PublicKey>),
    /// Someone came or went (§7).
    PresenceEvent {
        /// Who.
        peer: PublicKey,
        /// Came or went.
        online: bool,
    },
    /// Something was refused after authentication (§12).
    Error(Refusal),
}

/// The welcome, with what the relay tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthOk {
    /// The namespace that the peer is in.
    pub namespace: NamespaceId,
    /// What the relay allows, where it says.
    pub info: RelayInfo,
}

/// Optional news about a relay: older ones leave it out, and every field is then 0 or empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RelayInfo {
    /// Largest frame that is not a live message.
    pub max_frame_bytes: u32,
    /// Largest frame of a live message.
    pub max_live_frame_bytes: u32,
    /// Messages a minute on one connection.
    pub messages_per_minute: u32,
    /// Messages that may wait for one recipient.
    pub queue_per_client: u32,
    /// How often the relay pings.
    pub ping_interval_secs: u32,
    /// How long it bears silence.
    pub idle_timeout_secs: u32,
    /// Pipes of one namespace.
    pub pipes_per_namespace: u32,
    /// Largest frame of a pipe.
    pub pipe_max_frame_bytes: u32,
    /// The key that Web Push subscriptions must name; empty where the relay has none.
    pub vapid_public_key: Bytes,
}

/// A device that paired and awaits the agent's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientPaired {
    /// Its signing key.
    pub key: PublicKey,
    /// Its key agreement key.
    pub x_key: XPublicKey,
    /// What it runs on.
    pub platform: Platform,
}

/// A refusal: a code for programs and a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code as it came; a newer relay may use one that this version does not know.
    pub wire_code: String,
    /// What happened.
    pub message: String,
}

impl Refusal {
    /// A refusal of the relay's own.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { wire_code: code.as_str().to_owned(), message: message.into() }
    }

    /// The code, where it is known.
    pub fn code(&self) -> Option<ErrorCode> {
        self.wire_code.parse().ok()
    }
}

impl FromRelay {
    /// Reads a frame. `None`: a kind of frame, or a presence status, that this version does not know.
    pub fn parse(bytes: impl Into<Bytes>) -> Result<Option<Self>, FrameError> {
        let Some(frame) = decode(bytes.into())? else { return Ok(None) };
        Ok(Some(match frame {
            Frame::Challenge(challenge) => Self::Challenge(id(&challenge.nonce)?),
            Frame::AuthOk(ok) => Self::AuthOk(AuthOk::parse(ok)?),
            Frame::AuthError(e) => Self::AuthError(Refusal { wire_code: e.code, message: e.message }),
            Frame::AuthorizeOk(ok) => Self::AuthorizeOk(ok.authorized),
            Frame::PairingReady(ready) => Self::PairingReady(ready.ttl),
            Frame::PairingStopOk(_) => Self::PairingStopOk,
            Frame::ClientPaired(paired) => Self::ClientPaired(ClientPaired {
                key: id(&paired.client_ed25519_pub)?,
                x_key: id(&paired.client_x25519_pub)?,
                platform: Platform::from_code(paired.platform).ok_or(FrameError::NoPlatform)?,
            }),
            Frame::Message(message) => Self::Message(Message::parse(message)?),
            Frame::PeerOffline(offline) => Self::PeerOffline(id(&offline.peer)?),
            Frame::PresenceList(list) => Self::PresenceList(ids(&list.online)?),
            Frame::PresenceEvent(event) => {
                let peer = id(&event.pubkey)?;
                match pb::Status::try_from(event.status) {
                    Ok(pb::Status::Online) => Self::PresenceEvent { peer, online: true },
                    Ok(pb::Status::Offline) => Self::PresenceEvent { peer, online: false },
                    Ok(pb::Status::Unspecified) | Err(_) => return Ok(None),
                }
            }
            Frame::Error(e) => Self::Error(Refusal { wire_code: e.code, message: e.message }),
            Frame::Auth(_)
            | Frame::Authorize(_)
            | Frame::PairingStart(_)
            | Frame::PairingStop(_)
            | Frame::PresenceRequest(_) => return Err(FrameError::WrongDirection),
        }))
    }

    /// The frame as the generated wire message.
    pub fn to_pb(&self) -> pb::RelayFrame {
        let frame = match self {
            Self::Challenge(nonce) => Frame::Challenge(pb::Challenge { nonce: nonce.to_wire() }),
            Self::AuthOk(ok) => Frame::AuthOk(ok.to_pb()),
            Self::AuthError(e) => {
                Frame::AuthError(pb::AuthError { code: e.wire_code.clone(), message: e.message.clone() })
            }
            Self::AuthorizeOk(authorized) => Frame::AuthorizeOk(pb::AuthorizeOk { authorized: *authorized }),
            Self::PairingReady(ttl) => Frame::PairingReady(pb::PairingReady { ttl: *ttl }),
            Self::PairingStopOk => Frame::PairingStopOk(pb::PairingStopOk {}),
            Self::ClientPaired(paired) => Frame::ClientPaired(pb::ClientPaired {
                client_ed25519_pub: paired.key.to_wire(),
                client_x25519_pub: paired.x_key.to_wire(),
                platform: paired.platform.code(),
            }),
            Self::Message(message) => Frame::Message(message.to_pb()),
            Self::PeerOffline(peer) => Frame::PeerOffline(pb::PeerOffline { peer: peer.to_wire() }),
            Self::PresenceList(online) => Frame::PresenceList(pb::PresenceList {
                online: online.iter().map(PublicKey::to_wire).collect(),
            }),
            Self::PresenceEvent { peer, online } => {
                let status = if *online { pb::Status::Online } else { pb::Status::Offline };
                Frame::PresenceEvent(pb::PresenceEvent { pubkey: peer.to_wire(), status: status as i32 })
            }
            Self::Error(e) => {
                Frame::Error(pb::Error { code: e.wire_code.clone(), message: e.message.clone() })
            }
        };
        pb::RelayFrame { frame: Some(frame) }
    }

    /// The frame as bytes for one binary WebSocket message.
    pub fn encode(&self) -> Vec<u8> {
        match self.to_pb().frame {
            Some(frame) => encode(frame),
            None => Vec::new(),
        }
    }
}

impl AuthOk {
    fn parse(wire: pb::AuthOk) -> Result<Self, FrameError> {
        Ok(Self {
            namespace: id(&wire.namespace_id)?,
            info: RelayInfo {
                max_frame_bytes: wire.max_frame_bytes,
                max_live_frame_bytes: wire.max_live_frame_bytes,
                messages_per_minute: wire.messages_per_minute,
                queue_per_client: wire.queue_per_client,
                ping_interval_secs: wire.ping_interval_secs,
                idle_timeout_secs: wire.idle_timeout_secs,
                pipes_per_namespace: wire.pipes_per_namespace,
                pipe_max_frame_bytes: wire.pipe_max_frame_bytes,
                vapid_public_key: wire.vapid_public_key,
            },
        })
    }

    fn to_pb(&self) -> pb::AuthOk {
        pb::AuthOk {
            namespace_id: self.namespace.to_wire(),
            max_frame_bytes: self.info.max_frame_bytes,
            max_live_frame_bytes: self.info.max_live_frame_bytes,
            messages_per_minute: self.info.messages_per_minute,
            queue_per_client: self.info.queue_per_client,
            ping_interval_secs: self.info.ping_interval_secs,
            idle_timeout_secs: self.info.idle_timeout_secs,
            pipes_per_namespace: self.info.pipes_per_namespace,
            pipe_max_frame_bytes: self.info.pipe_max_frame_bytes,
            vapid_public_key: self.info.vapid_public_key.clone(),
        }
    }
}
