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

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use skald_relay_common::frame::FromRelay;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::lock;
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

/// The mailbox of one connection.
pub(crate) struct Outbox {
    bound: usize,
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
    pub(crate) fn new(bound: usize) -> Self {
        Self { bound, inner: Mutex::default(), wake: Notify::new(), suspect: AtomicBool::new(false) }
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
        if inner.bytes + frame.len() > self.bound {
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
        if inner.bytes + frame.len() > self.bound {
            return false;
        }
        inner.push(Item::Passing(frame));
        drop(inner);
        self.wake.notify_one();
        true
    }

    /// Takes a notice.
    pub(crate) fn push_notice(&self, notice: &FromRelay) {
        let frame = ws::binary(&notice.encode());
        let mut inner = lock(&self.inner);
        if inner.bytes + frame.len() > self.bound + NOTICE_ROOM {
            inner.evicted.get_or_insert(Eviction::Overflow);
        } else {
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
        let outbox = Outbox::new(100);
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
        let outbox = Outbox::new(100);
        assert!(outbox.push_live(|| frame(100)));
        assert!(!outbox.push_live(|| frame(1)));
        assert_eq!(outbox.take(1).items.len(), 1);
        assert!(outbox.push_live(|| frame(1)));
    }

    #[test]
    fn notices_have_room_of_their_own_and_then_end_the_connection() {
        let outbox = Outbox::new(0);
        let notice = FromRelay::PresenceList(vec![[0; 32].into(); 1000]);
        outbox.push_notice(&notice);
        assert_eq!(outbox.evicted(), None);
        (0..2).for_each(|_| outbox.push_notice(&notice));
        assert_eq!(outbox.evicted(), Some(Eviction::Overflow));
    }

    #[test]
    fn the_first_cause_of_an_eviction_stands() {
        let outbox = Outbox::new(10);
        outbox.evict(Eviction::Revoked);
        outbox.evict(Eviction::Displaced);
        assert_eq!(outbox.evicted(), Some(Eviction::Revoked));
    }
}
