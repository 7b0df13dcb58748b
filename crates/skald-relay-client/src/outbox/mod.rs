//! The one owner of counter, sealing and order (faults 13 and 15).
//!
//! One message is under way at a time, whoever it is for. Until the relay proves that it read it, or refuses it, no
//! other message is sealed; a refusal is therefore never taken for another message's, and after a lost connection the
//! very same bytes can go again before anything newer to that peer, so that the receiver takes them once. They stay what
//! they are until the relay is known to have them, even if it refuses to take them a second time; only what was refused
//! the first time is certain not to have gone on, and is sealed anew.

mod leave;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use skald_e2e::SendCounter;
use skald_e2e::framing;
use skald_relay_common::codes::ErrorCode;
use skald_relay_common::frame::Message;
use skald_relay_common::ids::{ConnectionId, MessageNonce, PublicKey, XPublicKey};

use crate::error::{SendError, StoreError};
use crate::event::SendFailure;
use crate::keyring::Keyring;
use crate::link::Pacer;
use crate::store::{NewRow, Store, outbound_context};
use crate::util;

/// So many stored messages may wait for one peer; beyond, the caller is told.
const MAX_STORED: i64 = 1_000;
/// So many live messages may wait for the pace; beyond, the caller is told.
const MAX_LIVE: usize = 64;
/// A live message that the relay found too frequent is tried so often.
const LIVE_TRIES: u8 = 3;
const MAX_PEER_PAUSE: Duration = Duration::from_secs(300);
/// After so many live messages in a row it is the turn of a stored one that waits. A page that opens pipe after pipe
/// takes the whole pace otherwise, and no question reaches anybody for as long as it does (fault 19).
const LIVE_IN_A_ROW: u8 = 3;
/// So often in a row a question for presence may end a session, or be refused, before one session goes without.
const PRESENCE_TRIES: u8 = 2;

/// A live message that waits for its turn.
#[derive(Debug)]
pub(crate) struct LiveItem {
    pub(crate) peer: PublicKey,
    pub(crate) slot: Option<String>,
    pub(crate) framed: Vec<u8>,
    /// The pipe that fails with it.
    pub(crate) pipe: Option<ConnectionId>,
    pub(crate) tries: u8,
}

#[derive(Debug)]
enum UnderWay {
    Stored {
        seq: i64,
        peer: PublicKey,
        /// It went before, on a connection that ended without a proof.
        repeated: bool,
    },
    Live(LiveItem),
    Presence,
    /// Its recipient was dropped meanwhile; the relay's verdict is still to come and concerns nobody.
    Gone,
}

/// A message that will not reach its recipient.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) peer: PublicKey,
    pub(crate) pipe: Option<ConnectionId>,
    pub(crate) why: SendFailure,
}

/// What leaves next.
#[derive(Debug, PartialEq)]
pub(crate) enum Outgoing {
    Message(Message),
    PresenceRequest,
}

/// What the relay's refusal was about.
#[derive(Debug)]
pub(crate) enum Refused {
    /// No message was under way.
    NothingUnderWay,
    /// It goes again later.
    Again,
    /// It never will.
    Failed(Failed),
    /// The relay does not say who is connected.
    Presence,
}

pub(crate) struct Outbox {
    store: Store,
    keys: Arc<Keyring>,
    counters: HashMap<PublicKey, (XPublicKey, SendCounter)>,
    live: VecDeque<LiveItem>,
    /// How many of the last messages were live.
    live_in_a_row: u8,
    under_way: Option<UnderWay>,
    presence_due: bool,
    /// How often in a row the question for presence was not answered.
    presence_failures: u8,
    /// Envelopes may be in the store whose fate is unknown; they go first.
    sealed_waits: bool,
    /// The peers they are for: nothing newer may overtake them.
    held: HashSet<PublicKey>,
    stored_waits: bool,
    /// Peers whose queue at the relay is full, until when, and the next pause.
    paused: HashMap<PublicKey, (Instant, Duration)>,
    queue_full_pause: Duration,
    wake: Option<Instant>,
}

impl Outbox {
    pub(crate) fn new(store: Store, keys: Arc<Keyring>, queue_full_pause: Duration) -> Self {
        Self {
            store,
            keys,
            counters: HashMap::new(),
            live: VecDeque::new(),
            live_in_a_row: 0,
            under_way: None,
            presence_due: false,
            presence_failures: 0,
            sealed_waits: true,
            held: HashSet::new(),
            stored_waits: true,
            paused: HashMap::new(),
            queue_full_pause,
            wake: None,
        }
    }

    /// Takes a stored message over, framed already.
    pub(crate) async fn put(
        &mut self,
        peer: &PublicKey,
        slot: Option<&str>,
        framed: &[u8],
        kept: bool,
        now_ms: u64,
    ) -> Result<(), SendError> {
        fits(framed, false)?;
        let random = util::random().map_err(|_| SendError::Random)?;
        let body = self.keys.storage.seal(random, &outbound_context(peer), framed);
        let row = NewRow { peer, slot, body: &body, kept };
        self.store.put(row, MAX_STORED, now_ms).await?.ok_or(SendError::QueueFull)?;
        self.stored_waits = true;
        Ok(())
    }

    /// Queues a live message, framed already. One of the same slot that still waits gives it its place in the queue, so
    /// that asking again and again neither fills the queue nor falls behind.
    pub(crate) fn put_live(&mut self, item: LiveItem) -> Result<(), SendError> {
        fits(&item.framed, true)?;
        let same = |other: &&mut LiveItem| other.peer == item.peer && other.slot == item.slot;
        if item.slot.is_some()
            && let Some(waiting) = self.live.iter_mut().find(same)
        {
            waiting.framed = item.framed;
            return Ok(());
        }
        if self.live.len() >= MAX_LIVE {
            return Err(SendError::QueueFull);
        }
        self.live.push_back(item);
        Ok(())
    }

    /// Asks who is connected. The seeds list this question among a client's frames alone (relay-protocol §13), so a relay
    /// may refuse it from an agent, or even hang up: every other session then goes without, and holds.
    pub(crate) fn ask_presence(&mut self) {
        if self.presence_failures >= PRESENCE_TRIES {
            self.presence_failures = PRESENCE_TRIES - 1;
            return;
        }
        self.presence_due = true;
    }

    /// Looks at the store again: something was repeated, or a device was authorised.
    pub(crate) fn stored_changed(&mut self) {
        self.stored_waits = true;
    }

    /// Whether a live message of that pipe still waits for the pace.
    pub(crate) fn waits(&self, pipe: &ConnectionId) -> bool {
        self.live.iter().any(|item| item.pipe.as_ref() == Some(pipe))
    }

    /// Whether nothing stored waits or is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_none() && !self.sealed_waits && !self.stored_waits
    }

    /// When [`Self::next`] is worth another call, if time alone can change its answer.
    pub(crate) fn wake(&self) -> Option<Instant> {
        self.wake
    }

    /// The relay has read what was under way.
    pub(crate) async fn proved(&mut self, now_ms: u64) -> Result<(), StoreError> {
        match &self.under_way {
            Some(UnderWay::Stored { seq, peer, .. }) => {
                self.store.handed_on(*seq, now_ms).await?;
                self.paused.remove(peer);
            }
            Some(UnderWay::Presence) => self.presence_failures = 0,
            _ => {}
        }
        self.under_way = None;
        Ok(())
    }

    /// The relay refused what was under way.
    pub(crate) async fn refused(
        &mut self,
        code: Option<ErrorCode>,
        wire_code: &str,
        now: Instant,
        now_ms: u64,
        pacer: &mut Pacer,
    ) -> Result<Refused, StoreError> {
        if code == Some(ErrorCode::RateLimited) {
            pacer.penalise(now);
        }
        if code.is_some_and(never_of_a_message) {
            return Ok(Refused::NothingUnderWay);
        }
        let why = match code {
            Some(ErrorCode::RateLimited | ErrorCode::QueueFull | ErrorCode::Internal) => None,
            Some(ErrorCode::PayloadTooLarge) => Some(SendFailure::TooLarge),
            Some(ErrorCode::NotFound) => Some(SendFailure::NotFound),
            _ => Some(SendFailure::Refused(wire_code.chars().take(40).collect())),
        };
        match &self.under_way {
            None => return Ok(Refused::NothingUnderWay),
            Some(UnderWay::Stored { seq, peer, repeated }) => {
                let (seq, peer, repeated) = (*seq, *peer, *repeated);
                if let Some(why) = why {
                    // What is kept until it is confirmed is not given up for a relay's word: it goes again with a later
                    // connection.
                    self.store.handed_on(seq, now_ms).await?;
                    self.under_way = None;
                    return Ok(Refused::Failed(Failed { peer, pipe: None, why }));
                }
                if repeated {
                    self.sealed_waits = true;
                } else {
                    self.store.unseal(seq).await?;
                }
                if code != Some(ErrorCode::RateLimited) {
                    let pause = self.paused.get(&peer).map_or(self.queue_full_pause, |(_, next)| *next);
                    self.paused.insert(peer, (now + pause, (pause * 2).min(MAX_PEER_PAUSE)));
                }
                self.stored_waits = true;
            }
            Some(UnderWay::Live(_) | UnderWay::Gone) => {}
            Some(UnderWay::Presence) => {
                self.presence_due = code == Some(ErrorCode::RateLimited);
                if !self.presence_due {
                    self.presence_failures = self.presence_failures.saturating_add(1);
                }
                self.under_way = None;
                return Ok(Refused::Presence);
            }
        }
        if let Some(UnderWay::Live(mut item)) = self.under_way.take() {
            item.tries += 1;
            let again = code == Some(ErrorCode::RateLimited) && item.tries < LIVE_TRIES;
            if !again {
                let why = why.unwrap_or_else(|| SendFailure::Refused(wire_code.chars().take(40).collect()));
                return Ok(Refused::Failed(Failed { peer: item.peer, pipe: item.pipe, why }));
            }
            self.live.push_front(item);
        }
        Ok(Refused::Again)
    }

    /// The relay says that a peer is not there: what was live for it is lost.
    pub(crate) fn peer_offline(&mut self, peer: &PublicKey) -> Vec<Failed> {
        let fail =
            |item: LiveItem| Failed { peer: item.peer, pipe: item.pipe, why: SendFailure::PeerOffline };
        let mut failed = Vec::new();
        if matches!(&self.under_way, Some(UnderWay::Live(item)) if item.peer == *peer)
            && let Some(UnderWay::Live(item)) = self.under_way.take()
        {
            failed.push(fail(item));
        }
        let (gone, kept): (VecDeque<_>, VecDeque<_>) =
            self.live.drain(..).partition(|item| item.peer == *peer);
        self.live = kept;
        failed.extend(gone.into_iter().map(fail));
        failed
    }

    /// A peer came back: its queue is being drained.
    pub(crate) fn peer_online(&mut self, peer: &PublicKey) {
        self.paused.remove(peer);
    }

    /// The connection ended: what was live is lost, what was stored goes again.
    pub(crate) fn disconnected(&mut self) -> Vec<Failed> {
        let mut failed = Vec::new();
        let under_way = match self.under_way.take() {
            Some(UnderWay::Live(item)) => Some(item),
            Some(UnderWay::Presence) => {
                self.presence_failures = self.presence_failures.saturating_add(1);
                None
            }
            _ => None,
        };
        for item in under_way.into_iter().chain(self.live.drain(..)) {
            failed.push(Failed { peer: item.peer, pipe: item.pipe, why: SendFailure::Disconnected });
        }
        self.sealed_waits = true;
        self.held.clear();
        self.presence_due = false;
        self.paused.clear();
        self.wake = None;
        failed
    }

    /// A device was dropped.
    pub(crate) fn forget(&mut self, peer: &PublicKey) {
        self.counters.remove(peer);
        self.paused.remove(peer);
        self.held.remove(peer);
        self.keys.forget(peer);
        self.live.retain(|item| item.peer != *peer);
        let gone = match &self.under_way {
            Some(UnderWay::Stored { peer: p, .. }) => p == peer,
            Some(UnderWay::Live(item)) => item.peer == *peer,
            _ => false,
        };
        if gone {
            self.under_way = Some(UnderWay::Gone);
        }
    }
}

/// Codes that answer pairing or a handshake (relay-protocol §12): whatever message is under way, they are not about it.
fn never_of_a_message(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::PairingClosed | ErrorCode::ChallengeTimeout | ErrorCode::InvalidSignature)
}

fn message(peer: PublicKey, nonce: MessageNonce, ciphertext: Vec<u8>, live: bool) -> Outgoing {
    Outgoing::Message(Message { peer, nonce, ciphertext: Bytes::from(ciphertext), live })
}

/// Whether a framed message fits once sealed (framing.md).
pub(crate) fn fits(framed: &[u8], live: bool) -> Result<(), SendError> {
    let (len, max) = (framing::sealed_len(framed.len()), framing::max_ciphertext(live));
    if len > max { Err(SendError::TooLarge { len, max }) } else { Ok(()) }
}
