//! Frames of a live session.

use std::collections::{BTreeSet, HashSet};
use std::time::Instant;

use skald_relay_common::codes::ErrorCode;
use skald_relay_common::frame::{FromRelay, Message, Refusal};

use super::Engine;
use crate::outbox::Refused;
use crate::receive::Verdict;
use crate::status::LinkProblem;
use crate::util;

impl Engine {
    pub(super) async fn deliver(&mut self, frame: FromRelay) -> Result<(), LinkProblem> {
        match frame {
            FromRelay::Message(message) => self.message(&message).await,
            FromRelay::AuthorizeOk(_) => self.authorize_confirmed().await,
            FromRelay::PairingReady(ttl) => self.pairing_ready(ttl).await,
            FromRelay::ClientPaired(paired) => self.client_paired(paired).await,
            FromRelay::PeerOffline(peer) => {
                // A relay may name keys without end; who is known here is bounded.
                if self.shared.store.peer(&peer).await?.is_none() {
                    return Ok(());
                }
                self.absent.insert(peer);
                for failed in self.outbox.peer_offline(&peer) {
                    self.failed(failed);
                }
                let mut online = (**self.shared.online.borrow()).clone();
                online.remove(&peer);
                self.set_online(online);
                Ok(())
            }
            FromRelay::PresenceList(list) => {
                let known: HashSet<_> = self.shared.store.peers().await?.iter().map(|peer| peer.ed).collect();
                let online: BTreeSet<_> = list.into_iter().filter(|peer| known.contains(peer)).collect();
                for peer in &online {
                    self.absent.remove(peer);
                }
                self.set_online(online);
                Ok(())
            }
            FromRelay::PresenceEvent { peer, online } => {
                if !self.shared.store.seen(&peer, util::now_ms()).await? {
                    return Ok(());
                }
                let mut members = (**self.shared.online.borrow()).clone();
                if online {
                    members.insert(peer);
                    self.absent.remove(&peer);
                    self.outbox.peer_online(&peer);
                } else {
                    members.remove(&peer);
                    self.absent.insert(peer);
                }
                self.set_online(members);
                Ok(())
            }
            FromRelay::Error(refusal) => self.refused(&refusal).await,
            FromRelay::PairingStopOk
            | FromRelay::Challenge(_)
            | FromRelay::AuthOk(_)
            | FromRelay::AuthError(_) => Ok(()),
        }
    }

    async fn message(&mut self, message: &Message) -> Result<(), LinkProblem> {
        match self.receiver.take(message, util::now_ms()).await? {
            Verdict::Kept => {
                self.shared.arrived.notify_waiters();
                Ok(())
            }
            Verdict::Signal(signal) => {
                self.signal(message.peer, signal);
                Ok(())
            }
            Verdict::Dropped(code) => {
                tracing::debug!(code, from = %message.peer.short(), "a message was dropped");
                Ok(())
            }
            Verdict::Backlog => Err(LinkProblem::Backlog),
        }
    }

    async fn refused(&mut self, refusal: &Refusal) -> Result<(), LinkProblem> {
        let (code, now) = (refusal.code(), Instant::now());
        let word = code.map_or_else(|| "unknown".to_owned(), |c| c.to_string());
        tracing::warn!(code = %word, "the relay refused something");
        match self.outbox.refused(code, &word, now, util::now_ms(), &mut self.pacer).await? {
            Refused::Again | Refused::Presence => {}
            Refused::Failed(failed) => self.failed(failed),
            Refused::NothingUnderWay => {
                // That a window is closed already, which was to be closed, harms nothing.
                let closed = code == Some(ErrorCode::PairingClosed);
                if !self.pairing.refused(&word) && !closed && self.authorize.is_under_way() {
                    return Err(LinkProblem::Refused(word));
                }
            }
        }
        // The relay closes after an internal failure; what was under way goes again with the next connection.
        if code == Some(ErrorCode::Internal) { Err(LinkProblem::Refused(word)) } else { Ok(()) }
    }
}
