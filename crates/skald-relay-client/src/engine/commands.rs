//! What the handle asks for.

use std::time::Duration;

use skald_e2e::signal::{Accept, Invite, PipeSignal};
use skald_relay_common::frame::FromPeer;
use skald_relay_common::ids::PublicKey;
use tokio::sync::oneshot;

use super::Engine;
use crate::client::reply;
use crate::error::{DeviceError, PairingError, PipeError, SendError};
use crate::event::RelayEvent;
use crate::link::Input;
use crate::outbox::LiveItem;
use crate::store::PeerState;
use crate::types::PairingWindow;
use crate::util;

type To<T, E> = oneshot::Sender<Result<T, E>>;

pub(crate) enum Command {
    Send {
        peer: PublicKey,
        slot: Option<String>,
        framed: Vec<u8>,
        live: bool,
        kept: bool,
        reply: To<(), SendError>,
    },
    Flush(oneshot::Sender<()>),
    Nudge,
    OpenPairing {
        ttl: Duration,
        reply: To<PairingWindow, PairingError>,
    },
    ClosePairing(To<(), PairingError>),
    Authorize {
        key: PublicKey,
        reply: To<(), DeviceError>,
    },
    Revoke {
        key: PublicKey,
        reply: To<(), DeviceError>,
    },
    /// Invites; the answer is the peer's.
    Invite {
        peer: PublicKey,
        invite: Invite,
        reply: To<Accept, PipeError>,
    },
    /// Answers an invitation; replied to once the answer is queued.
    Answer {
        peer: PublicKey,
        answer: PipeSignal,
        reply: To<(), PipeError>,
    },
}

impl Engine {
    pub(super) async fn on_command(&mut self, command: Command) {
        match command {
            Command::Send { peer, slot, framed, live, kept, reply: to } => {
                let outcome = self.send(peer, slot, framed, live, kept).await;
                reply(to, outcome);
            }
            Command::Flush(to) => self.flushers.push(to),
            Command::Nudge => self.input(Input::Nudge).await,
            Command::OpenPairing { ttl, reply } => self.open_pairing(ttl, reply).await,
            Command::ClosePairing(to) => {
                let outcome = self.close_pairing().await;
                reply(to, outcome);
            }
            Command::Authorize { key, reply: to } => {
                let outcome = self.authorize_device(key).await;
                reply(to, outcome);
            }
            Command::Revoke { key, reply: to } => {
                let outcome = self.revoke_device(key).await;
                reply(to, outcome);
            }
            Command::Invite { peer, invite, reply } => self.invite(peer, invite, reply).await,
            Command::Answer { peer, answer, reply: to } => {
                let outcome = self.answer(peer, answer).await;
                reply(to, outcome);
            }
        }
    }

    /// A write whose failure ends the session and is nobody else's concern.
    pub(super) async fn attempt_write(&mut self, frame: &FromPeer) {
        if let Err(problem) = self.write(frame) {
            self.input(Input::Lost(problem)).await;
        }
    }

    async fn send(
        &mut self,
        peer: PublicKey,
        slot: Option<String>,
        framed: Vec<u8>,
        live: bool,
        kept: bool,
    ) -> Result<(), SendError> {
        self.may_send(&peer, live).await?;
        if live {
            self.outbox.put_live(LiveItem { peer, slot, framed, pipe: None, tries: 0 })
        } else {
            self.outbox.put(&peer, slot.as_deref(), &framed, kept, util::now_ms()).await
        }
    }

    /// Whether a message to that peer may be taken over at all.
    pub(super) async fn may_send(&self, peer: &PublicKey, live: bool) -> Result<(), SendError> {
        match self.shared.store.peer(peer).await? {
            Some(found) if found.state == PeerState::Authorized => {}
            _ => return Err(SendError::UnknownPeer),
        }
        if live && !self.machine.is_live() {
            return Err(SendError::NotConnected);
        }
        if live && self.absent.contains(peer) {
            return Err(SendError::PeerOffline);
        }
        Ok(())
    }

    async fn authorize_device(&mut self, key: PublicKey) -> Result<(), DeviceError> {
        if !self.is_agent() {
            return Err(DeviceError::NotAgent);
        }
        match self.shared.store.authorize(&key).await? {
            None => Err(DeviceError::Unknown),
            Some(_) => {
                self.tell_devices().await;
                Ok(())
            }
        }
    }

    async fn revoke_device(&mut self, key: PublicKey) -> Result<(), DeviceError> {
        if !self.is_agent() {
            return Err(DeviceError::NotAgent);
        }
        if !self.shared.store.revoke(&key).await? {
            return Err(DeviceError::Unknown);
        }
        self.outbox.forget(&key);
        self.signals.forget(&key);
        self.shared.end_pipes(&key);
        let mut online = (**self.shared.online.borrow()).clone();
        online.remove(&key);
        self.set_online(online);
        self.pass(RelayEvent::Revoked { key });
        self.tell_devices().await;
        Ok(())
    }

    /// The list changed, durably. If the relay cannot be told now, the next connection tells it.
    async fn tell_devices(&mut self) {
        if self.machine.is_live()
            && let Err(problem) = self.send_authorize().await
        {
            self.input(Input::Lost(problem)).await;
        }
    }
}
