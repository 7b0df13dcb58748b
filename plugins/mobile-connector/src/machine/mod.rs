//! What is sent to whom, and when: a machine without sockets, clock or randomness (design, How a connection is written).
//!
//! It is level-triggered. For every device it knows what the device was told, and compares that with what it should
//! know; the difference is sent. So a burst of changes becomes one snapshot, a change that was undone becomes nothing,
//! and whatever a crash interrupted is found again after it.
//!
//! A device should know every pending item that is *due*: elicitations at once, approvals and clarifications after the
//! delay (spec payloads, Delayed push), and it keeps what it has been shown before that, in a live answer to its own
//! request. An item it was told or shown that is pending no longer is taken back by the next snapshot.

mod device;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use skald_core_api::{InboxSnapshot, Notification, RequestId};
use skald_payloads::{Ack, Payload};
use uuid::Uuid;

use self::device::Device;
use crate::DeviceKey;
use crate::store::Memory;
use crate::wire::{self, Encoded};

/// What the machine is told.
#[derive(Debug)]
pub(crate) enum Input {
    /// The relay is reached, or no longer.
    Link(bool),
    /// What is pending now.
    Inbox(InboxSnapshot),
    /// Notifications that follow the ones given before.
    Log(Vec<Notification>),
    /// Every admitted device. The memory of one already known is ignored.
    Devices(Vec<Known>),
    /// A device asks for the Inbox.
    Request(DeviceKey),
    /// A device holds something other than what is pending: it is sent a snapshot whatever it was told.
    Refresh(DeviceKey),
    /// The relay refused a message to a device after it had left: what the device holds is not known.
    Refused(DeviceKey),
    /// A device's answer was dealt with.
    Ack {
        /// The device.
        to: DeviceKey,
        /// The answer's envelope, named as the device wrote it.
        ref_id: String,
    },
    /// A [`Effect::Send`] has ended.
    Sent {
        /// The device.
        to: DeviceKey,
        /// The lane.
        lane: Lane,
        /// Whether it left for the relay.
        ok: bool,
    },
    /// Time has passed.
    Tick,
}

/// An admitted device.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    /// Its key.
    pub key: DeviceKey,
    /// What it was told before this run.
    pub memory: Memory,
    /// Whether the relay sees it connected.
    pub online: bool,
}

/// What goes out in order. One send of a lane is under way at a time for a device, so that an older snapshot never
/// leaves after a newer one, and a flood of notifications never delays a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// Snapshots and what stands for them.
    Inbox,
    /// The host's notifications.
    Log,
    /// Receipts, of which nobody waits for the end.
    Receipt,
}

/// What the machine wants done.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// Send these payloads in order and tell the end with [`Input::Sent`].
    Send {
        /// The device.
        to: DeviceKey,
        /// The lane.
        lane: Lane,
        /// Route or fail (relay-protocol §6.4), rather than store and forward.
        live: bool,
        /// The payloads.
        bodies: Vec<Body>,
    },
    /// Make durable what a device was told.
    Remember {
        /// The device.
        device: DeviceKey,
        /// What it was told.
        memory: Memory,
    },
}

/// A payload on its way.
#[derive(Debug, PartialEq)]
pub(crate) struct Body {
    /// A later payload of the same slot replaces one that has not left yet.
    pub slot: Option<&'static str>,
    /// Its JSON text.
    pub json: Vec<u8>,
}

/// The slot of snapshots.
const SNAPSHOT: Option<&str> = Some("inbox");
/// The slot of words that stand for a snapshot.
const SUMMARY: Option<&str> = Some("summary");

/// Draws envelope ids; handed in, for the machine has no randomness of its own.
pub(crate) type Ids = Box<dyn FnMut() -> Uuid + Send>;

/// See the module.
pub(crate) struct Machine {
    delay_ms: i64,
    ids: Ids,
    link: bool,
    inbox: Option<InboxSnapshot>,
    /// When each pending item is due.
    due: BTreeMap<RequestId, i64>,
    devices: BTreeMap<DeviceKey, Device>,
    /// Notifications that some device has not been sent.
    log: BTreeMap<i64, Notification>,
    /// The last notification given to the machine.
    log_read: Option<i64>,
}

impl Machine {
    /// A machine that holds approvals and clarifications back for `delay_ms`.
    pub(crate) fn new(delay_ms: i64, ids: Ids) -> Self {
        Self {
            delay_ms,
            ids,
            link: false,
            inbox: None,
            due: BTreeMap::new(),
            devices: BTreeMap::new(),
            log: BTreeMap::new(),
            log_read: None,
        }
    }

    /// Takes one input at `now` and says what to do about it.
    pub(crate) fn handle(&mut self, now: i64, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Link(up) => {
                if up && !self.link {
                    self.devices.values_mut().for_each(Device::try_again);
                }
                self.link = up;
            }
            Input::Inbox(inbox) => self.take_inbox(now, inbox),
            Input::Log(entries) => {
                for entry in entries {
                    self.log_read = self.log_read.max(Some(entry.seq));
                    self.log.insert(entry.seq, entry);
                }
            }
            Input::Devices(known) => self.take_devices(known),
            Input::Request(key) => {
                self.with(key, |d| d.wants_live = true);
                self.seen(key);
            }
            Input::Refresh(key) => self.with(key, |d| d.stale = true),
            Input::Refused(key) => self.with(key, |d| d.refused(now)),
            Input::Ack { to, ref_id } => effects.extend(self.receipt(now, to, ref_id)),
            Input::Sent { to, lane, ok } => {
                if let Some(device) = self.devices.get_mut(&to)
                    && device.ended(now, lane, ok)
                {
                    effects.push(Effect::Remember { device: to, memory: device.memory.clone() });
                }
            }
            Input::Tick => {}
        }
        self.settle(now, &mut effects);
        effects
    }

    /// When to come back with [`Input::Tick`] though nothing else happened.
    pub(crate) fn wake_at(&self, now: i64) -> Option<i64> {
        if !self.link || self.devices.is_empty() {
            return None;
        }
        let due = self.due.values().copied().filter(|at| *at > now).min();
        let retries = self.devices.values().filter_map(|d| d.retry_at(now));
        due.into_iter().chain(retries).min()
    }

    /// After which notification the next ones are wanted; `None`: none are.
    pub(crate) fn log_after(&self) -> Option<i64> {
        // A long log is taken in parts: what is held here stays bounded.
        const AT_ONCE: usize = 200;
        if self.devices.is_empty() || self.log.len() >= AT_ONCE { None } else { self.log_read }
    }

    fn with(&mut self, key: DeviceKey, act: impl FnOnce(&mut Device)) {
        if let Some(device) = self.devices.get_mut(&key) {
            act(device);
        }
    }

    /// A device shows itself. What was held back for it is read from the host's log again.
    fn seen(&mut self, key: DeviceKey) {
        if let Some(device) = self.devices.get_mut(&key)
            && device.seen()
        {
            let from = device.memory.notified;
            self.log_read = Some(self.log_read.map_or(from, |read| read.min(from)));
        }
    }

    fn take_inbox(&mut self, now: i64, inbox: InboxSnapshot) {
        // Revisions only rise: a snapshot that was overtaken on its way here is not news.
        if self.inbox.as_ref().is_some_and(|known| known.revision > inbox.revision) {
            return;
        }
        let waiting = inbox.approvals.iter().map(|i| (i.request_id, i.created_at));
        let waiting = waiting.chain(inbox.clarifications.iter().map(|i| (i.request_id, i.created_at)));
        // The delay counts from the question, so that a restart does not begin it anew; a question from the future (the
        // clock was put back) counts from now.
        let waiting = waiting.map(|(id, at)| (id, at.min(now).saturating_add(self.delay_ms)));
        let at_once = inbox.elicitations.iter().map(|i| (i.request_id, now));
        let mut due = BTreeMap::new();
        for (id, at) in waiting.chain(at_once) {
            due.insert(id, self.due.get(&id).copied().unwrap_or(at));
        }
        self.due = due;
        self.inbox = Some(inbox);
    }

    fn take_devices(&mut self, known: Vec<Known>) {
        let mut before = std::mem::take(&mut self.devices);
        for Known { key, memory, online } in known {
            let device = match before.remove(&key) {
                Some(mut device) => {
                    device.online = online;
                    device
                }
                None => {
                    // One that was told less than the others needs the log from there on.
                    self.log_read =
                        Some(self.log_read.map_or(memory.notified, |read| read.min(memory.notified)));
                    Device::new(memory, online)
                }
            };
            self.devices.insert(key, device);
            if online {
                self.seen(key);
            }
        }
    }

    fn receipt(&mut self, now: i64, to: DeviceKey, ref_id: String) -> Option<Effect> {
        // A receipt is worth a message to who is there, and never a push to who is not.
        if !self.link || !self.devices.get(&to)?.online {
            return None;
        }
        let payload = Payload::Ack(Ack { ref_id });
        let body = Encoded::new((self.ids)(), now, payload).body;
        Some(Effect::Send {
            to,
            lane: Lane::Receipt,
            live: false,
            bodies: vec![Body { slot: None, json: body }],
        })
    }

    /// Starts what each device lacks.
    fn settle(&mut self, now: i64, effects: &mut Vec<Effect>) {
        if self.link {
            let due: BTreeSet<_> = self.due.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect();
            for (key, device) in &mut self.devices {
                if let Some(inbox) = &self.inbox {
                    device.tell_inbox(*key, now, inbox, &due, &mut self.ids, effects);
                }
                effects.extend(device.tell_log(*key, now, &self.log, &mut self.ids));
            }
        }
        // What every device was sent is needed no more.
        let through = self.devices.values().filter(|d| !d.is_held()).map(|d| d.memory.notified).min();
        self.log.retain(|seq, _| through.is_some_and(|through| *seq > through));
    }
}

/// The stored payloads that tell `show`, of which `new` is news: the snapshot where it rides in a push; otherwise the
/// snapshot for who comes back, and after it (the relay pushes the newest) a notification whose body is the summary.
fn stored(
    ids: &mut Ids,
    now: i64,
    inbox: &InboxSnapshot,
    show: &BTreeSet<RequestId>,
    new: &BTreeSet<RequestId>,
) -> Vec<Body> {
    let update = wire::update(inbox, show);
    let whole = Encoded::new(ids(), now, Payload::InboxUpdate(update.clone()));
    if whole.fits_push() {
        return vec![Body { slot: SNAPSHOT, json: whole.body }];
    }
    let storable = whole.fits_stored();
    let mut bodies = Vec::new();
    if storable {
        bodies.push(Body { slot: SNAPSHOT, json: whole.body });
    }
    // Without a snapshot the device must be told to ask; with one, only what is new is worth a person's attention.
    if !storable || !new.is_empty() {
        let summary = Payload::Notification(wire::summary(&update, new));
        bodies.push(Body { slot: SUMMARY, json: Encoded::new(ids(), now, summary).body });
    }
    bodies
}
