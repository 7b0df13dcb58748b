//! What leaves next, and how it is sealed.

use std::time::Instant;

use skald_e2e::SendCounter;
use skald_e2e::counter::Take;
use skald_relay_common::ids::{MessageNonce, PublicKey};

use super::{LiveItem, Outbox, Outgoing, UnderWay, message};
use crate::error::StoreError;
use crate::link::{Pacer, Urgency};
use crate::store::{Peer, Store, Tx, outbound_context};

impl Outbox {
    /// The next message to leave, its counter durable and its envelope kept; `None` while nothing may.
    pub(crate) async fn next(
        &mut self,
        now: Instant,
        now_ms: u64,
        pacer: &mut Pacer,
    ) -> Result<Option<Outgoing>, StoreError> {
        self.wake = None;
        if self.under_way.is_some() {
            return Ok(None);
        }
        if self.sealed_waits
            && let Some(out) = self.next_sealed(now, pacer).await?
        {
            return Ok(Some(out));
        }
        let live = self.live.iter().position(|item| !self.held.contains(&item.peer));
        if live.is_some() || self.presence_due {
            if !pacer.allows(now, Urgency::Now) {
                self.wake_at(pacer.next(now, Urgency::Now));
                return Ok(None);
            }
            if self.live_in_a_row >= super::LIVE_IN_A_ROW
                && let Some(out) = self.next_stored(now, now_ms, pacer, Urgency::Now).await?
            {
                return Ok(Some(out));
            }
            if self.presence_due {
                self.presence_due = false;
                self.under_way = Some(UnderWay::Presence);
                return Ok(Some(Outgoing::PresenceRequest));
            }
            if let Some(item) = live.and_then(|at| self.live.remove(at)) {
                return self.next_live(item, now, now_ms, pacer).await;
            }
        }
        self.next_stored(now, now_ms, pacer, Urgency::Later).await
    }

    fn wake_at(&mut self, at: Instant) {
        self.wake = Some(self.wake.map_or(at, |earlier| earlier.min(at)));
    }

    fn paused_until(&self, peer: &PublicKey, now: Instant) -> Option<Instant> {
        self.paused.get(peer).map(|(until, _)| *until).filter(|until| *until > now)
    }

    /// What was sealed before and may or may not have arrived, byte for byte.
    async fn next_sealed(&mut self, now: Instant, pacer: &mut Pacer) -> Result<Option<Outgoing>, StoreError> {
        let sealed = self.store.sealed().await?;
        self.held = sealed.iter().map(|(_, peer)| *peer).collect();
        self.sealed_waits = !sealed.is_empty();
        for (seq, peer) in sealed {
            if let Some(until) = self.paused_until(&peer, now) {
                self.wake_at(until);
                continue;
            }
            if !pacer.allows(now, Urgency::Now) {
                self.wake_at(pacer.next(now, Urgency::Now));
                return Ok(None);
            }
            let Some((nonce, ciphertext)) = self.store.envelope(seq).await? else { continue };
            let Ok(nonce) = MessageNonce::try_from(nonce.as_slice()) else {
                // Only a damaged file holds such a nonce: seal it anew.
                self.store.unseal(seq).await?;
                continue;
            };
            self.under_way = Some(UnderWay::Stored { seq, peer, repeated: true });
            return Ok(Some(message(peer, nonce, ciphertext, false)));
        }
        Ok(None)
    }

    async fn next_live(
        &mut self,
        item: LiveItem,
        now: Instant,
        now_ms: u64,
        pacer: &mut Pacer,
    ) -> Result<Option<Outgoing>, StoreError> {
        let Some(peer) = self.store.peer(&item.peer).await? else {
            return Box::pin(self.next(now, now_ms, pacer)).await;
        };
        let mut tx = self.store.begin().await?;
        let sealed = self.seal(&mut tx, &peer, item.framed.clone(), now_ms).await?;
        let Some((nonce, ciphertext)) = sealed else { return Ok(None) };
        self.commit(tx, &peer.ed).await?;
        self.live_in_a_row = self.live_in_a_row.saturating_add(1);
        let out = message(item.peer, nonce, ciphertext, true);
        self.under_way = Some(UnderWay::Live(item));
        Ok(Some(out))
    }

    async fn next_stored(
        &mut self,
        now: Instant,
        now_ms: u64,
        pacer: &mut Pacer,
        urgency: Urgency,
    ) -> Result<Option<Outgoing>, StoreError> {
        if !self.stored_waits {
            return Ok(None);
        }
        let waiting = self.store.waiting().await?;
        if waiting.is_empty() {
            self.stored_waits = false;
            return Ok(None);
        }
        let free = |(_, peer): &&(i64, PublicKey)| {
            !self.held.contains(peer) && self.paused_until(peer, now).is_none()
        };
        let Some((seq, ed)) = waiting.iter().find(free).copied() else {
            for (_, peer) in &waiting {
                if let Some(until) = self.paused_until(peer, now) {
                    self.wake_at(until);
                }
            }
            return Ok(None);
        };
        if !pacer.allows(now, urgency) {
            self.wake_at(pacer.next(now, urgency));
            return Ok(None);
        }
        let Some(peer) = self.store.peer(&ed).await? else { return Ok(None) };
        let mut tx = self.store.begin().await?;
        let Some(body) = Store::body(&mut tx, seq).await? else { return Ok(None) };
        let Ok(framed) = self.keys.storage.open(&outbound_context(&ed), &body) else {
            // Sealed by another seed: whoever wrote it was somebody else.
            drop(tx);
            self.store.discard(seq).await?;
            return Box::pin(self.next_stored(now, now_ms, pacer, urgency)).await;
        };
        let Some((nonce, ciphertext)) = self.seal(&mut tx, &peer, framed, now_ms).await? else {
            return Ok(None);
        };
        let stored = Store::set_sealed(&mut tx, seq, nonce.as_bytes(), &ciphertext).await;
        if let Err(error) = stored {
            self.counters.remove(&ed);
            return Err(error);
        }
        self.commit(tx, &ed).await?;
        self.live_in_a_row = 0;
        self.under_way = Some(UnderWay::Stored { seq, peer: ed, repeated: false });
        Ok(Some(message(ed, nonce, ciphertext, false)))
    }

    /// Takes the next counter and seals. The number may be used only once `tx` is committed; on any error the counter is
    /// forgotten and begins above everything that may have been used.
    async fn seal(
        &mut self,
        tx: &mut Tx<'_>,
        peer: &Peer,
        framed: Vec<u8>,
        now_ms: u64,
    ) -> Result<Option<(MessageNonce, Vec<u8>)>, StoreError> {
        // Pairing refuses keys with which nothing can be shared, so there is a session.
        let Some(session) = self.keys.session(&peer.ed, &peer.x) else { return Ok(None) };
        let entry = self
            .counters
            .entry(peer.ed)
            .and_modify(|(x, counter)| {
                if *x != peer.x {
                    (*x, *counter) = (peer.x, SendCounter::start(peer.send_reserved, now_ms));
                }
            })
            .or_insert_with(|| (peer.x, SendCounter::start(peer.send_reserved, now_ms)));
        let number = loop {
            match entry.1.take() {
                Take::Use(number) => break number,
                Take::Reserve(up_to) => {
                    if let Err(error) = Store::reserve(tx, &peer.ed, up_to).await {
                        self.counters.remove(&peer.ed);
                        return Err(error);
                    }
                    entry.1.reserved(up_to);
                }
                Take::Exhausted => {
                    self.counters.remove(&peer.ed);
                    return Ok(None);
                }
            }
        };
        match session.seal(self.keys.outgoing(), number, &self.keys.aad_to(&peer.ed), framed) {
            Ok(sealed) => Ok(Some((MessageNonce::from_bytes(sealed.nonce), sealed.ciphertext))),
            Err(_) => {
                self.counters.remove(&peer.ed);
                Ok(None)
            }
        }
    }

    async fn commit(&mut self, tx: Tx<'_>, peer: &PublicKey) -> Result<(), StoreError> {
        if let Err(error) = tx.commit().await {
            self.counters.remove(peer);
            return Err(error.into());
        }
        Ok(())
    }
}
