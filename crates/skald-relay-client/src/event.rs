//! What the application hears.

use std::sync::Arc;
use std::time::Duration;

use skald_e2e::VerificationCode;
use skald_e2e::framing::{self, Framed};
use skald_relay_common::frame::Platform;
use skald_relay_common::ids::PublicKey;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::error::StoreError;
use crate::keyring::Keyring;
use crate::store::{InboundRow, InboundWhat, Store};

/// Something happened. `Debug` leaves a message's body out.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum RelayEvent {
    /// A message from an authorised peer. Durable: it comes again after a restart until it is acknowledged.
    Message {
        /// From whom; sealed by that peer, not only named by the relay.
        peer: PublicKey,
        /// The JSON payload, inflated. Nothing of it was looked at.
        body: Vec<u8>,
        /// Whether it came over the live channel. (The relay says so; it is not sealed.)
        live: bool,
        /// Unix milliseconds when it was received here; long ago for one that comes again.
        received_at: u64,
    },
    /// Agent: a device used the pairing window. Durable. It is pending until [`crate::RelayClient::authorize`], unless
    /// it was authorised before under the very same keys.
    Paired {
        /// Its key.
        key: PublicKey,
        /// What it says it runs on.
        platform: Platform,
        /// The six digits both screens show.
        verification_code: VerificationCode,
        /// The window it used: [`crate::PairingWindow::id`].
        window: u64,
        /// Whether it may act already.
        authorized: bool,
    },
    /// A peer came or went. Told once a change; [`crate::RelayClient::online`] holds the whole.
    PresenceChanged {
        /// Who.
        peer: PublicKey,
        /// Came or went.
        online: bool,
    },
    /// A message that was taken over will not reach its recipient.
    SendFailed {
        /// Its recipient.
        peer: PublicKey,
        /// Why.
        why: SendFailure,
    },
    /// Agent: a device was revoked here.
    Revoked {
        /// Which.
        key: PublicKey,
    },
}

impl std::fmt::Debug for RelayEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Message { peer, live, received_at, .. } => f
                .debug_struct("Message")
                .field("peer", peer)
                .field("live", live)
                .field("received_at", received_at)
                .finish_non_exhaustive(),
            Self::Paired { key, platform, window, authorized, .. } => f
                .debug_struct("Paired")
                .field("key", key)
                .field("platform", platform)
                .field("window", window)
                .field("authorized", authorized)
                .finish_non_exhaustive(),
            Self::PresenceChanged { peer, online } => {
                f.debug_struct("PresenceChanged").field("peer", peer).field("online", online).finish()
            }
            Self::SendFailed { peer, why } => {
                f.debug_struct("SendFailed").field("peer", peer).field("why", why).finish()
            }
            Self::Revoked { key } => f.debug_struct("Revoked").field("key", key).finish(),
        }
    }
}

/// Why a message will not reach its recipient.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendFailure {
    /// Live: the recipient is not connected. Try again when it comes online.
    #[error("the recipient is not connected")]
    PeerOffline,
    /// Live: the connection to the relay ended first.
    #[error("the connection to the relay ended")]
    Disconnected,
    /// The relay does not know the recipient.
    #[error("the relay does not know the recipient")]
    NotFound,
    /// The relay's limit is smaller than the protocol's.
    #[error("the relay found the message too large")]
    TooLarge,
    /// The relay refused it with this code.
    #[error("the relay refused the message ({0})")]
    Refused(String),
}

/// The one stream of events of a client. Pull it to the end: what is durable waits in the store, so a slow reader loses
/// nothing and fills no memory.
pub struct Events {
    pub(crate) store: Store,
    pub(crate) keys: Arc<Keyring>,
    pub(crate) arrived: Arc<Notify>,
    /// Presence and failures. Bounded; while it is full, further ones are dropped, for state can be asked for.
    pub(crate) passing: mpsc::Receiver<RelayEvent>,
    pub(crate) stopped: CancellationToken,
    pub(crate) cursor: i64,
}

/// An event in hand.
#[derive(Debug)]
#[must_use = "an event that is not acknowledged comes again after a restart"]
pub struct Received {
    /// What happened.
    pub event: RelayEvent,
    acknowledge: Option<(Store, i64)>,
}

impl Received {
    /// The application has acted upon it, durably where that matters. It will not come again.
    pub async fn ack(self) -> Result<(), StoreError> {
        match self.acknowledge {
            Some((store, seq)) => store.acknowledge(seq).await,
            None => Ok(()),
        }
    }

    /// Whether it would come again without [`Self::ack`].
    pub fn is_durable(&self) -> bool {
        self.acknowledge.is_some()
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

/// A pause after a failed read of the store; the link reports the failure too.
const RETRY: Duration = Duration::from_secs(1);

impl Events {
    /// The next event; `None` after the client was shut down. Durable events come in the order of their arrival. May be
    /// dropped at any time without losing one.
    pub async fn next(&mut self) -> Option<Received> {
        loop {
            let arrived = self.arrived.clone();
            let arrived = arrived.notified();
            tokio::pin!(arrived);
            // Before the look into the store, so that what arrives in between is not missed.
            arrived.as_mut().enable();
            if self.stopped.is_cancelled() {
                return None;
            }
            match self.stored_event().await {
                Ok(Some(received)) => return Some(received),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, "events cannot be read");
                    tokio::select! {
                        () = tokio::time::sleep(RETRY) => continue,
                        () = self.stopped.cancelled() => return None,
                    }
                }
            }
            tokio::select! {
                () = arrived => {}
                () = self.stopped.cancelled() => return None,
                Some(event) = self.passing.recv() => return Some(Received { event, acknowledge: None }),
            }
        }
    }

    async fn stored_event(&mut self) -> Result<Option<Received>, StoreError> {
        while let Some(row) = self.store.event_after(self.cursor).await? {
            let seq = row.seq;
            let event = self.open(row).await?;
            self.cursor = seq;
            match event {
                Some(event) => {
                    return Ok(Some(Received { event, acknowledge: Some((self.store.clone(), seq)) }));
                }
                // Its peer has other keys by now, so it opens for nobody.
                None => self.store.acknowledge(seq).await?,
            }
        }
        Ok(None)
    }

    async fn open(&self, row: InboundRow) -> Result<Option<RelayEvent>, StoreError> {
        let Some(peer) = self.store.peer(&row.peer).await? else { return Ok(None) };
        Ok(match row.what {
            InboundWhat::Message { nonce, ciphertext, live } => {
                let Some(session) = self.keys.session(&peer.ed, &peer.x) else { return Ok(None) };
                let aad = self.keys.aad_from(&peer.ed);
                let Ok((_, plaintext)) = session.open(self.keys.incoming(), &nonce, &aad, &ciphertext) else {
                    return Ok(None);
                };
                match framing::decode(plaintext) {
                    Ok(Framed::Json(body)) => {
                        Some(RelayEvent::Message { peer: peer.ed, body, live, received_at: row.received_at })
                    }
                    _ => None,
                }
            }
            InboundWhat::Paired { window } => {
                let Some(platform) = Platform::from_code(peer.platform) else { return Ok(None) };
                Some(RelayEvent::Paired {
                    key: peer.ed,
                    platform,
                    verification_code: crate::client::code_of(&self.keys, &peer),
                    window,
                    authorized: peer.state == crate::store::PeerState::Authorized,
                })
            }
        })
    }
}
