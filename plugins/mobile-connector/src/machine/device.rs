//! One device as the machine sees it.

use std::collections::{BTreeMap, BTreeSet};

use skald_core_api::{InboxSnapshot, Notification, RequestId};

use super::{Body, Effect, Ids, Lane, stored};
use crate::store::Memory;
use crate::{DeviceKey, wire};

/// First pause after a send that failed; doubled with each failure.
const RETRY_FIRST_MS: i64 = 1_000;
/// Longest such pause.
const RETRY_MAX_MS: i64 = 60_000;

/// How many notifications wait at the relay for a device that is away. The relay keeps 200 messages for it, and the
/// rest of that room belongs to questions.
pub(super) const UNSEEN_MAX: u32 = 100;

/// What is under way in a lane, and when it may try again.
struct Flight<T> {
    under_way: Option<T>,
    retry_at: i64,
    failures: u32,
}

impl<T> Default for Flight<T> {
    fn default() -> Self {
        Self { under_way: None, retry_at: i64::MIN, failures: 0 }
    }
}

impl<T> Flight<T> {
    fn is_free(&self, now: i64) -> bool {
        self.under_way.is_none() && self.retry_at <= now
    }

    /// Ends what is under way; gives it back where it left.
    fn end(&mut self, now: i64, ok: bool) -> Option<T> {
        let ended = self.under_way.take()?;
        if ok {
            (self.failures, self.retry_at) = (0, i64::MIN);
            return Some(ended);
        }
        let pause = RETRY_FIRST_MS.checked_shl(self.failures).unwrap_or(RETRY_MAX_MS).min(RETRY_MAX_MS);
        self.failures = (self.failures + 1).min(10);
        self.retry_at = now.saturating_add(pause);
        None
    }

    fn wake(&self, now: i64) -> Option<i64> {
        (self.under_way.is_none() && self.retry_at > now).then_some(self.retry_at)
    }
}

/// What the device will have been told once a snapshot has left.
enum Telling {
    Stored(BTreeSet<RequestId>),
    Live(BTreeSet<RequestId>),
}

pub(super) struct Device {
    pub(super) memory: Memory,
    pub(super) online: bool,
    /// It asked for the Inbox and has not been answered.
    pub(super) wants_live: bool,
    /// It is known to hold something else than what it was told.
    pub(super) stale: bool,
    /// Notifications sent since it was last known to be there.
    unseen: u32,
    snapshots: Flight<Telling>,
    log: Flight<i64>,
}

impl Device {
    pub(super) fn new(memory: Memory, online: bool) -> Self {
        Self {
            memory,
            online,
            wants_live: false,
            stale: false,
            unseen: 0,
            snapshots: Flight::default(),
            log: Flight::default(),
        }
    }

    /// It is away and enough waits for it: later notifications are kept here until it is back.
    pub(super) fn is_held(&self) -> bool {
        !self.online && self.unseen >= UNSEEN_MAX
    }

    /// It is there, or was a moment ago; whether it lacks notifications that were held back.
    pub(super) fn seen(&mut self) -> bool {
        let held = self.unseen >= UNSEEN_MAX;
        self.unseen = 0;
        held
    }

    /// The link is back: what waited for its pause need not.
    pub(super) fn try_again(&mut self) {
        self.snapshots.retry_at = i64::MIN;
        self.log.retry_at = i64::MIN;
    }

    /// The relay refused something: a snapshot settles what the device holds, after a pause, for the next may be refused
    /// as well.
    pub(super) fn refused(&mut self, now: i64) {
        self.stale = true;
        self.snapshots.retry_at = now.saturating_add(RETRY_MAX_MS);
    }

    pub(super) fn retry_at(&self, now: i64) -> Option<i64> {
        self.snapshots.wake(now).into_iter().chain(self.log.wake(now)).min()
    }

    /// A send has ended; whether the memory changed.
    pub(super) fn ended(&mut self, now: i64, lane: Lane, ok: bool) -> bool {
        match lane {
            Lane::Inbox => {
                // A live answer that could not leave is not tried again: who is gone will ask anew.
                let live = matches!(self.snapshots.under_way, Some(Telling::Live(_)));
                let ended = self.snapshots.end(now, ok);
                if live && !ok {
                    self.snapshots.retry_at = i64::MIN;
                } else if !ok {
                    // Part of it may have left: only a snapshot that did leave settles what the device holds.
                    self.stale = true;
                }
                match ended {
                    Some(Telling::Stored(told)) => {
                        self.memory.told = Some(told);
                        self.memory.shown.clear();
                    }
                    Some(Telling::Live(all)) => {
                        // What it was told stays as it is: a live answer may be lost, and then the stored snapshots
                        // must still take back and announce as if it had never been.
                        let told = self.memory.told.get_or_insert_default();
                        self.memory.shown.extend(all.difference(told));
                    }
                    None => return false,
                }
                true
            }
            Lane::Log => match self.log.end(now, ok) {
                Some(seq) => {
                    self.memory.notified = self.memory.notified.max(seq);
                    self.unseen = if self.online { 0 } else { self.unseen.saturating_add(1) };
                    true
                }
                None => false,
            },
            Lane::Receipt => false,
        }
    }

    /// Sends the Inbox where the device asked for it, or lacks something of it. What it may have been shown is remembered
    /// before: after a crash between the two, an item that ended meanwhile must still be taken back.
    pub(super) fn tell_inbox(
        &mut self,
        key: DeviceKey,
        now: i64,
        inbox: &InboxSnapshot,
        due: &BTreeSet<RequestId>,
        ids: &mut Ids,
        effects: &mut Vec<Effect>,
    ) {
        if self.snapshots.under_way.is_some() {
            return;
        }
        let pending = wire::ids(inbox);
        if std::mem::take(&mut self.wants_live) {
            let json = wire::live_update(ids(), now, wire::update(inbox, &pending)).body;
            effects.extend(self.may_show(key, &pending));
            self.snapshots.under_way = Some(Telling::Live(pending));
            let bodies = vec![Body { slot: None, json }];
            effects.push(Effect::Send { to: key, lane: Lane::Inbox, live: true, bodies });
            return;
        }
        if !self.snapshots.is_free(now) {
            return;
        }
        let nothing = BTreeSet::new();
        let told = self.memory.told.as_ref().unwrap_or(&nothing);
        let new: BTreeSet<_> = due.difference(told).copied().collect();
        let gone = told.union(&self.memory.shown).any(|id| !pending.contains(id));
        if new.is_empty() && !gone && !self.stale {
            return;
        }
        let shown = told.union(&self.memory.shown).copied().filter(|id| pending.contains(id));
        let show: BTreeSet<_> = due.iter().copied().chain(shown).collect();
        let bodies = stored(ids, now, inbox, &show, &new);
        self.stale = false;
        effects.extend(self.may_show(key, &show));
        self.snapshots.under_way = Some(Telling::Stored(show));
        effects.push(Effect::Send { to: key, lane: Lane::Inbox, live: false, bodies });
    }

    /// Notes that the device may show these from now on.
    fn may_show(&mut self, device: DeviceKey, items: &BTreeSet<RequestId>) -> Option<Effect> {
        let nothing = BTreeSet::new();
        let told = self.memory.told.as_ref().unwrap_or(&nothing);
        let before = self.memory.shown.len();
        self.memory.shown.extend(items.difference(told));
        (self.memory.shown.len() > before).then(|| Effect::Remember { device, memory: self.memory.clone() })
    }

    /// Sends the oldest notification that the device has not been sent.
    pub(super) fn tell_log(
        &mut self,
        key: DeviceKey,
        now: i64,
        log: &BTreeMap<i64, Notification>,
        ids: &mut Ids,
    ) -> Option<Effect> {
        if !self.log.is_free(now) || self.is_held() {
            return None;
        }
        let (seq, entry) = log.range(self.memory.notified.saturating_add(1)..).next()?;
        let json = wire::told(ids(), now, entry).body;
        self.log.under_way = Some(*seq);
        Some(Effect::Send { to: key, lane: Lane::Log, live: false, bodies: vec![Body { slot: None, json }] })
    }
}
