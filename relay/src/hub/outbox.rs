//! What waits in memory for one connection.
//!
//! Bounded in bytes. What happens when it is full depends on what comes:
//!
//! * a stored message stays where it is safe, in the database, and the connection reads it from there once the outbox
//!   is empty ([`Taken::behind`]);
//! * a live message is refused, and its sender learns `PeerOffline`;
//! * so is a live message that would overtake a stored one left in the database;
//! * a notice (presence, a pairing) has some room of its own; a peer that lets even that fill up takes nothing any
//!   more, and its connection is given up.
//!
//! All outboxes together have a budget as well. While it is used up each of them counts as full, so stored messages wait
//! in the database and live ones are refused; what waits in a socket counts too (see the session's driver).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use skald_relay_common::frame::FromRelay;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::lock;
use crate::metrics::Counts;
use crate::metrics::names::Limit;
use crate::store::Position;
use crate::ws;

/// What notices may take beyond the bound.
const NOTICE_ROOM: usize = 64 * 1024;

/// Why a connection must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// The same member has connected anew.
    Displaced,
    /// The agent took the device off its list.
    Revoked,
    /// The peer takes nothing any more.
    Overflow,
    /// The relay is shutting down.
    Shutdown,
}

/// One frame that waits.
pub(crate) enum Item {
    /// A durable message at its position.
    Stored(Position, Bytes),
    /// Anything that is kept nowhere else.
    Passing(Bytes),
}

/// What was taken from an outbox.
#[derive(Default)]
pub(crate) struct Taken {
    pub(crate) items: Vec<Item>,
    /// The outbox is now empty, and stored messages up to this one were left in the database meanwhile.
    pub(crate) behind: Option<Position>,
}

/// What may wait in memory for all connections together.
pub(crate) struct Budget {
    cap: i64,
    counts: Arc<Counts>,
}

impl Budget {
    pub(crate) fn new(cap: u64, counts: Arc<Counts>) -> Arc<Self> {
        Arc::new(Self { cap: i64::try_from(cap).unwrap_or(i64::MAX), counts })
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.counts.outboxes.get() >= self.cap
    }

    /// Takes so much if it is there.
    fn try_take(&self, bytes: usize) -> bool {
        let fits = self.counts.outboxes.get() + bytes as i64 <= self.cap;
        if fits {
            self.take(bytes);
        } else {
            self.counts.limits.count(Limit::OutboxTotal);
        }
        fits
    }

    /// Takes so much though there may be less.
    pub(crate) fn take(&self, bytes: usize) {
        self.counts.outboxes.inc_by(bytes as i64);
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.counts.outboxes.dec_by(bytes as i64);
    }
}

/// The mailbox of one connection.
pub(crate) struct Outbox {
    bound: usize,
    budget: Arc<Budget>,
    inner: Mutex<Inner>,
    wake: Notify,
    suspect: AtomicBool,
}

#[derive(Default)]
struct Inner {
    items: VecDeque<Item>,
    bytes: usize,
    /// The last stored message that was left in the database, while there is one.
    behind: Option<Position>,
    evicted: Option<Eviction>,
}

impl Outbox {
    pub(crate) fn new(bound: usize, budget: Arc<Budget>) -> Self {
        Self { bound, budget, inner: Mutex::default(), wake: Notify::new(), suspect: AtomicBool::new(false) }
    }

    /// Takes a durable message, or leaves it in the database.
    pub(crate) fn push_stored(&self, position: Position, frame: impl FnOnce() -> Bytes) {
        let mut inner = lock(&self.inner);
        if inner.evicted.is_some() {
            return;
        }
        if let Some(last) = &mut inner.behind {
            *last = position;
            return;
        }
        let frame = frame();
        if !self.fits(&inner, frame.len()) {
            inner.behind = Some(position);
        } else {
            inner.push(Item::Stored(position, frame));
        }
        drop(inner);
        self.wake.notify_one();
    }

    /// Takes a live message, unless there is no room or it would overtake a stored one.
    pub(crate) fn push_live(&self, frame: impl FnOnce() -> Bytes) -> bool {
        let mut inner = lock(&self.inner);
        if inner.behind.is_some() || inner.evicted.is_some() {
            return false;
        }
        let frame = frame();
        if !self.fits(&inner, frame.len()) {
            return false;
        }
        inner.push(Item::Passing(frame));
        drop(inner);
        self.wake.notify_one();
        true
    }

    fn fits(&self, inner: &Inner, bytes: usize) -> bool {
        if inner.bytes + bytes > self.bound {
            self.budget.counts.limits.count(Limit::Outbox);
            return false;
        }
        self.budget.try_take(bytes)
    }

    /// Takes a notice.
    pub(crate) fn push_notice(&self, notice: &FromRelay) {
        let frame = ws::binary(&notice.encode());
        let mut inner = lock(&self.inner);
        if inner.bytes + frame.len() > self.bound + NOTICE_ROOM {
            self.budget.counts.limits.count(Limit::Outbox);
            inner.evicted.get_or_insert(Eviction::Overflow);
        } else {
            self.budget.take(frame.len());
            inner.push(Item::Passing(frame));
        }
        drop(inner);
        self.wake.notify_one();
    }

    /// Ends the connection as soon as its task looks.
    pub(crate) fn evict(&self, why: Eviction) {
        lock(&self.inner).evicted.get_or_insert(why);
        self.wake.notify_one();
    }

    pub(crate) fn evicted(&self) -> Option<Eviction> {
        lock(&self.inner).evicted
    }

    /// Takes items of about so many bytes.
    pub(crate) fn take(&self, at_most: usize) -> Taken {
        let mut inner = lock(&self.inner);
        let mut taken = Taken::default();
        let mut bytes = 0;
        while bytes < at_most {
            let Some(item) = inner.items.pop_front() else { break };
            bytes += item.len();
            taken.items.push(item);
        }
        inner.bytes -= bytes;
        self.budget.give_back(bytes);
        if inner.items.is_empty() {
            taken.behind = inner.behind.take();
            if inner.items.capacity() > 16 {
                inner.items = VecDeque::new();
            }
        }
        taken
    }

    /// Completes when something may have been pushed since the last [`take`](Self::take).
    pub(crate) fn pushed(&self) -> Notified<'_> {
        self.wake.notified()
    }

    /// Marks a connection whose peer confirms nothing: it counts as absent for push.
    pub(crate) fn set_suspect(&self, suspect: bool) {
        self.suspect.store(suspect, Ordering::Relaxed);
    }

    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.budget.give_back(lock(&self.inner).bytes);
    }
}

impl Inner {
    fn push(&mut self, item: Item) {
        self.bytes += item.len();
        self.items.push_back(item);
    }
}

impl Item {
    fn len(&self) -> usize {
        match self {
            Self::Stored(_, frame) | Self::Passing(frame) => frame.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outbox(bound: usize) -> Outbox {
        Outbox::new(bound, budget(1 << 20))
    }

    fn budget(cap: u64) -> Arc<Budget> {
        Budget::new(cap, crate::metrics::Metrics::new().counts())
    }

    #[test]
    fn all_outboxes_share_a_budget_and_give_back_what_they_held() {
        let budget = budget(100);
        let (one, other) = (Outbox::new(80, Arc::clone(&budget)), Outbox::new(80, Arc::clone(&budget)));
        assert!(one.push_live(|| frame(80)));
        assert!(!other.push_live(|| frame(30)), "together they would hold 110");
        other.push_stored(1, || frame(30));
        assert_eq!(other.take(1000).behind, Some(1), "it waits in the database");
        assert!(other.push_live(|| frame(20)));
        assert!(budget.is_used_up());
        other.push_notice(&FromRelay::PresenceList(Vec::new()));
        assert_eq!(other.evicted(), None, "notices have room of their own");
        drop(one);
        assert!(other.push_live(|| frame(30)));
        drop(other);
        assert!(!budget.is_used_up() && budget.try_take(100));
    }

    fn frame(len: usize) -> Bytes {
        Bytes::from(vec![0; len])
    }

    fn positions(taken: &Taken) -> Vec<Option<Position>> {
        let position = |item: &Item| match item {
            Item::Stored(position, _) => Some(*position),
            Item::Passing(_) => None,
        };
        taken.items.iter().map(position).collect()
    }

    #[test]
    fn a_full_outbox_leaves_stored_messages_in_the_database_and_refuses_live_ones() {
        let outbox = outbox(100);
        outbox.push_stored(1, || frame(60));
        outbox.push_stored(2, || frame(60));
        outbox.push_stored(3, || frame(1));
        assert!(!outbox.push_live(|| frame(1)), "a live message would overtake message 2");
        let taken = outbox.take(1000);
        assert_eq!(positions(&taken), [Some(1)]);
        assert_eq!(taken.behind, Some(3), "2 and 3 are to be read");
        assert!(outbox.push_live(|| frame(1)));
        assert_eq!(outbox.take(1000).behind, None);
    }

    #[test]
    fn a_live_message_without_room_is_refused_and_later_ones_fit_again() {
        let outbox = outbox(100);
        assert!(outbox.push_live(|| frame(100)));
        assert!(!outbox.push_live(|| frame(1)));
        assert_eq!(outbox.take(1).items.len(), 1);
        assert!(outbox.push_live(|| frame(1)));
    }

    #[test]
    fn notices_have_room_of_their_own_and_then_end_the_connection() {
        let outbox = outbox(0);
        let notice = FromRelay::PresenceList(vec![[0; 32].into(); 1000]);
        outbox.push_notice(&notice);
        assert_eq!(outbox.evicted(), None);
        (0..2).for_each(|_| outbox.push_notice(&notice));
        assert_eq!(outbox.evicted(), Some(Eviction::Overflow));
    }

    #[test]
    fn the_first_cause_of_an_eviction_stands() {
        let outbox = outbox(10);
        outbox.evict(Eviction::Revoked);
        outbox.evict(Eviction::Displaced);
        assert_eq!(outbox.evicted(), Some(Eviction::Revoked));
    }
}
