//! When a push leaves, when it is tried again and when it is given up: a machine that takes the time and an event and
//! gives effects.
//!
//! It holds no content. A device that a message waits for gets a place in the table, and after the window the driver is
//! asked to look what waits for it; so the newest message goes, and a device that has confirmed meanwhile is not pushed.
//! A provider's *later* for one device makes that device wait; what concerns the whole way (no answer, a server that is
//! not well, a refused key) suspends the [lane](crate::Lane), whose devices are parked until one probe gets through.
//!
//! The table is bounded, in all and for each namespace. When it is full a parked device of the fullest lane loses its
//! place to the new one, and if none is parked the new one is left out: the message is still queued, and the next message
//! for that device tries again. The table does not outlive a restart, for the same reason.

mod lanes;
mod machine;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::{Duration, Instant};

use skald_relay_common::ids::{NamespaceId, PublicKey};

pub use machine::Scheduler;

use crate::bridge::{Lane, Provider};
use crate::push::UnixMillis;
use crate::verdict::Verdict;

/// A device in its namespace.
pub type Device = (NamespaceId, PublicKey);

/// The machine's numbers.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Messages to one device within this time make one push.
    pub window: Duration,
    /// How many devices may have a place.
    pub devices: usize,
    /// How many of one namespace.
    pub devices_per_namespace: usize,
    /// How many pushes are being read or are with their providers at a time.
    pub at_once: usize,
    /// How many of them on one lane, so that a slow one leaves room.
    pub at_once_per_lane: usize,
    /// The first and the longest wait of one device after a failure; it doubles between.
    pub device_wait: (Duration, Duration),
    /// The same of a lane.
    pub lane_wait: (Duration, Duration),
    /// How often a lane that the operator must mend is tried.
    pub reprobe: Duration,
    /// How many lanes may be suspended at a time. Beyond, a failure makes its device wait and nobody else.
    pub lanes: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(2),
            devices: 10_000,
            devices_per_namespace: 256,
            at_once: 64,
            at_once_per_lane: 48,
            device_wait: (Duration::from_secs(10), Duration::from_secs(3600)),
            lane_wait: (Duration::from_secs(1), Duration::from_secs(300)),
            reprobe: Duration::from_secs(600),
            lanes: 1024,
        }
    }
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A message waits for a device that is absent.
    Absent(Device),
    /// What [`Effect::Look`] asked for.
    Looked(Device, Found),
    /// What became of [`Effect::Send`].
    Done(Device, Verdict),
    /// Time has passed.
    Tick,
}

/// What waits for a device.
#[derive(Debug, Clone)]
pub enum Found {
    /// Nothing, or it has no token, or it is connected after all.
    Nothing,
    /// A message that is worth something until then, and the lane to its device; no lane where no provider reaches it.
    Message {
        /// The way to the device.
        lane: Option<Lane>,
        /// When the message expires.
        expires: Instant,
    },
    /// It could not be read; it is looked at again later.
    Unreadable,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Read what waits for this device, and answer with [`Event::Looked`].
    Look(Device),
    /// Hand over what was read for this device, and answer with [`Event::Done`].
    Send {
        /// For which device.
        device: Device,
        /// Without its content, which the provider has called too large.
        wake: bool,
    },
    /// What was read for this device is not needed now.
    Discard(Device),
    /// Forget the token that the last push to this device went to, unless the device has registered it later than this.
    Forget(Device, Option<UnixMillis>),
    /// Something that an operator may want to know.
    Note(Note),
}

/// Something that an operator may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A lane is left alone for a while.
    Suspended {
        /// Which provider's.
        provider: Provider,
        /// For how long.
        span: Duration,
        /// Why.
        reason: Cow<'static, str>,
        /// The operator must act.
        alarm: bool,
    },
    /// A lane works again.
    Recovered(Provider),
    /// A push was given up for a reason that will not pass by itself.
    GivenUp(Device, Cow<'static, str>),
    /// A device got no place.
    LeftOut(Device),
    /// A message expired before its push could leave.
    Expired(Provider),
}
