//! Pipe signalling (pipe §2): invitations sent, invitations received.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use skald_e2e::features::Features;
use skald_e2e::framing;
use skald_e2e::signal::{Accept, CODEC_NONE, Invite, PipeSignal, Reject, SUITE_X25519_SEALED};
use skald_relay_common::ids::{ConnectionId, PublicKey};
use tokio::sync::oneshot;

use super::Engine;
use crate::client::reply;
use crate::error::{PipeError, SendError};
use crate::event::SendFailure;
use crate::outbox::{LiveItem, Outbox};
use crate::pipe::IncomingPipe;

/// How long an invitation can be taken up: as long as the relay lets the other end wait (pipe §3.3).
const OPEN_FOR: Duration = Duration::from_secs(30);
/// So many invitations may be open; more are refused.
const MAX_INVITATIONS: usize = 32;
const MAX_REASON: usize = 200;

struct Waiting {
    peer: PublicKey,
    until: Instant,
    reply: oneshot::Sender<Result<Accept, PipeError>>,
}

#[derive(Default)]
pub(super) struct Signals {
    waiting: HashMap<ConnectionId, Waiting>,
    invitations: HashMap<ConnectionId, (PublicKey, Instant)>,
}

impl Signals {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting.values().map(|w| w.until).chain(self.invitations.values().map(|(_, until)| *until)).min()
    }

    pub(super) fn expire(&mut self, now: Instant, outbox: &Outbox) {
        self.invitations.retain(|_, (_, until)| *until > now);
        let late: Vec<_> = self.waiting.iter().filter(|(_, w)| w.until <= now).map(|(id, _)| *id).collect();
        for id in late {
            // Nothing is silent about the pace: who waited for it in vain is told so.
            let error = if outbox.waits(&id) { PipeError::Paced } else { PipeError::NoAnswer };
            self.finish(&id, Err(error));
        }
    }

    fn finish(&mut self, id: &ConnectionId, outcome: Result<Accept, PipeError>) {
        if let Some(waiting) = self.waiting.remove(id) {
            reply(waiting.reply, outcome);
        }
    }

    /// The relay did not pass the invitation on.
    pub(super) fn failed(&mut self, id: &ConnectionId, why: SendFailure) {
        let error = match why {
            SendFailure::PeerOffline => PipeError::Signal(SendError::PeerOffline),
            SendFailure::Disconnected => PipeError::Signal(SendError::NotConnected),
            SendFailure::NotFound => PipeError::Signal(SendError::UnknownPeer),
            SendFailure::TooLarge => PipeError::Refused("payload_too_large".into()),
            SendFailure::Refused(code) => PipeError::Refused(code),
        };
        self.finish(id, Err(error));
    }

    pub(super) fn disconnected(&mut self) {
        for (_, waiting) in self.waiting.drain() {
            reply(waiting.reply, Err(PipeError::Signal(SendError::NotConnected)));
        }
        self.invitations.clear();
    }

    pub(super) fn forget(&mut self, peer: &PublicKey) {
        self.invitations.retain(|_, (from, _)| from != peer);
        let gone: Vec<_> = self.waiting.iter().filter(|(_, w)| w.peer == *peer).map(|(id, _)| *id).collect();
        for id in gone {
            self.finish(&id, Err(PipeError::Signal(SendError::UnknownPeer)));
        }
    }
}

impl Engine {
    pub(super) async fn invite(
        &mut self,
        peer: PublicKey,
        invite: Invite,
        to: oneshot::Sender<Result<Accept, PipeError>>,
    ) {
        let id = invite.connection_id;
        if let Err(error) = self.may_send(&peer, true).await {
            return reply(to, Err(error.into()));
        }
        if let Err(error) = self.queue_signal(peer, &PipeSignal::Invite(invite), Some(id)) {
            return reply(to, Err(error.into()));
        }
        let until = Instant::now() + self.shared.dialer.timings.pipe_answer;
        self.signals.waiting.insert(id, Waiting { peer, until, reply: to });
        if self.paced() {
            tracing::debug!("a pipe's invitation waits for the pace");
        }
    }

    /// Accepts or refuses an invitation that is still open, and uses it up.
    pub(super) async fn answer(&mut self, peer: PublicKey, answer: PipeSignal) -> Result<(), PipeError> {
        let id = *answer.connection_id();
        match self.signals.invitations.get(&id) {
            Some((from, until)) if *from == peer && *until > Instant::now() => {}
            _ => return Err(PipeError::Expired),
        }
        self.may_send(&peer, true).await?;
        self.signals.invitations.remove(&id);
        Ok(self.queue_signal(peer, &answer, None)?)
    }

    fn queue_signal(
        &mut self,
        peer: PublicKey,
        signal: &PipeSignal,
        pipe: Option<ConnectionId>,
    ) -> Result<(), SendError> {
        let framed = framing::encode_signal(signal);
        self.outbox.put_live(LiveItem { peer, slot: None, framed, pipe, tries: 0 })
    }

    fn refuse(&mut self, peer: PublicKey, connection_id: ConnectionId, reason: &str) {
        let reject = PipeSignal::Reject(Reject { connection_id, reason: reason.to_owned() });
        if self.queue_signal(peer, &reject, None).is_err() {
            tracing::debug!("a refusal of a pipe was not sent: too many messages wait");
        }
    }

    pub(super) fn signal(&mut self, peer: PublicKey, signal: PipeSignal) {
        match signal {
            PipeSignal::Invite(invite) => self.invited(peer, invite),
            PipeSignal::Accept(accept) => {
                let id = accept.connection_id;
                if self.signals.waiting.get(&id).is_none_or(|w| w.peer != peer) {
                    tracing::debug!(code = "unexpected_accept", from = %peer.short(), "a pipe signal was dropped");
                    return;
                }
                let known = accept.suite == SUITE_X25519_SEALED && accept.compress == CODEC_NONE;
                if known {
                    self.signals.finish(&id, Ok(accept));
                } else {
                    self.refuse(peer, id, "unsupported suite or compression");
                    self.signals
                        .finish(&id, Err(PipeError::Rejected("its answer is of another version".into())));
                }
            }
            PipeSignal::Reject(reject) => {
                if self.signals.waiting.get(&reject.connection_id).is_some_and(|w| w.peer == peer) {
                    let reason: String =
                        reject.reason.chars().filter(|c| !c.is_control()).take(MAX_REASON).collect();
                    self.signals.finish(&reject.connection_id, Err(PipeError::Rejected(reason)));
                }
            }
        }
    }

    fn invited(&mut self, peer: PublicKey, mut invite: Invite) {
        let id = invite.connection_id;
        if self.signals.invitations.contains_key(&id) {
            return;
        }
        if invite.suite != SUITE_X25519_SEALED {
            return self.refuse(peer, id, "unsupported suite");
        }
        if !invite.compress.is_empty() && !invite.compress.iter().any(|codec| codec == CODEC_NONE) {
            return self.refuse(peer, id, "unsupported compression");
        }
        let Some(handshake) = invite.handshake.as_key() else {
            return self.refuse(peer, id, "bad handshake");
        };
        if self.signals.invitations.len() >= MAX_INVITATIONS {
            return self.refuse(peer, id, "too many invitations");
        }
        let offered = Features::take_offer(&mut invite.headers);
        let pipe = IncomingPipe {
            peer,
            connection_id: id,
            stream_type: invite.stream_type,
            headers: invite.headers,
            offered,
            handshake,
        };
        if self.shared.incoming.send(pipe).is_err() {
            return self.refuse(peer, id, "nobody takes pipes here");
        }
        self.signals.invitations.insert(id, (peer, Instant::now() + OPEN_FOR));
    }
}
