//! The table of devices.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use skald_relay_common::ids::NamespaceId;

use super::lanes::{Lanes, Passage};
use super::{Device, Effect, Event, Found, Note, Rules};
use crate::bridge::{Lane, Provider};
use crate::verdict::{Fault, Throttled, Verdict};

/// A push for which its lane has no room tries again after this.
const BUSY: Duration = Duration::from_millis(100);

/// The machine.
#[derive(Debug)]
pub struct Scheduler {
    rules: Rules,
    devices: HashMap<Device, Entry>,
    namespaces: HashMap<NamespaceId, usize>,
    due: BTreeSet<(Instant, Device)>,
    lanes: Lanes,
    in_flight: usize,
    random: u64,
}

#[derive(Debug)]
struct Entry {
    stage: Stage,
    /// How often in a row the provider wanted less for this device.
    failures: u32,
    /// A message has come since what is under way was read.
    again: bool,
    /// The provider has called the content too large.
    wake: bool,
    /// It was chosen to try a suspended lane.
    probe: bool,
}

#[derive(Debug)]
enum Stage {
    Due(Instant),
    Parked,
    /// `twice`: it was read once more already, because a message had come meanwhile.
    Looking {
        twice: bool,
    },
    Sending {
        lane: Option<Lane>,
        expires: Instant,
    },
}

impl Scheduler {
    /// An empty table. `seed` decides the jitter.
    pub fn new(rules: Rules, seed: u64) -> Self {
        Self {
            rules,
            devices: HashMap::new(),
            namespaces: HashMap::new(),
            due: BTreeSet::new(),
            lanes: Lanes::default(),
            in_flight: 0,
            random: seed | 1,
        }
    }

    /// When a [`Event::Tick`] is wanted next.
    pub fn deadline(&self) -> Option<Instant> {
        // While everything is busy only an answer helps.
        let room = self.in_flight < self.rules.at_once;
        let due = self.due.first().filter(|_| room).map(|(at, _)| *at);
        [due, self.lanes.deadline()].into_iter().flatten().min()
    }

    /// How many devices have a place.
    pub fn waiting(&self) -> usize {
        self.devices.len()
    }

    /// How many of them wait for another attempt.
    pub fn backing_off(&self) -> usize {
        let alone = self.devices.values().filter(|entry| entry.failures > 0);
        self.lanes.parked() + alone.count()
    }

    /// How many lanes of a provider are suspended.
    pub fn suspended(&self, provider: Provider) -> usize {
        self.lanes.suspended(provider)
    }

    /// Something happened, or time has passed.
    pub fn handle(&mut self, now: Instant, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Absent(device) => self.absent(now, device, &mut effects),
            Event::Looked(device, found) => self.looked(now, device, found, &mut effects),
            Event::Done(device, verdict) => self.done(now, device, verdict, &mut effects),
            Event::Tick => {}
        }
        self.start(now, &mut effects);
        effects
    }

    fn absent(&mut self, now: Instant, device: Device, effects: &mut Vec<Effect>) {
        if let Some(entry) = self.devices.get_mut(&device) {
            entry.again |= matches!(entry.stage, Stage::Looking { .. } | Stage::Sending { .. });
            return;
        }
        let mates = self.namespaces.get(&device.0).copied().unwrap_or(0);
        let left_out = if mates >= self.rules.devices_per_namespace {
            Some(device)
        } else if self.devices.len() >= self.rules.devices {
            let evicted = self.lanes.evict();
            if let Some(parked) = evicted {
                self.remove(parked);
            }
            evicted.or(Some(device))
        } else {
            None
        };
        effects.extend(left_out.map(|device| Effect::Note(Note::LeftOut(device))));
        if left_out == Some(device) {
            return;
        }
        *self.namespaces.entry(device.0).or_default() += 1;
        let at = now + self.rules.window;
        self.due.insert((at, device));
        let entry = Entry { stage: Stage::Due(at), failures: 0, again: false, wake: false, probe: false };
        self.devices.insert(device, entry);
    }

    /// Has looked at whatever is due, as far as there is room.
    fn start(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        for device in self.lanes.probes(now) {
            self.wait_until(device, now);
            if let Some(entry) = self.devices.get_mut(&device) {
                entry.probe = true;
            }
        }
        while self.in_flight < self.rules.at_once {
            let Some((_, device)) = self.due.first().copied().filter(|(at, _)| *at <= now) else { return };
            self.due.pop_first();
            let Some(entry) = self.devices.get_mut(&device) else { continue };
            entry.stage = Stage::Looking { twice: false };
            entry.again = false;
            self.in_flight += 1;
            effects.push(Effect::Look(device));
        }
    }

    fn looked(&mut self, now: Instant, device: Device, found: Found, effects: &mut Vec<Effect>) {
        let Some(entry) = self.devices.get_mut(&device) else { return };
        let Stage::Looking { twice } = entry.stage else { return };
        if std::mem::take(&mut entry.again) {
            if !twice {
                entry.stage = Stage::Looking { twice: true };
                effects.extend([Effect::Discard(device), Effect::Look(device)]);
                return;
            }
            // Messages come faster than they are read; this one goes, and another push follows.
            entry.again = true;
        }
        let wake = entry.wake;
        if std::mem::take(&mut entry.probe) {
            // Whether it really goes that way, and at all, is seen below.
            self.lanes.resign(device);
        }
        let (lane, expires) = match found {
            Found::Message { lane: Some(lane), expires } if now < expires => (lane, expires),
            Found::Message { lane: None, .. } => {
                let Some(entry) = self.devices.get_mut(&device) else { return };
                // It goes to the bridges all the same: they count it, and log it once.
                entry.stage = Stage::Sending { lane: None, expires: now };
                effects.push(Effect::Send { device, wake });
                return;
            }
            Found::Unreadable => {
                self.in_flight -= 1;
                let span = self.jittered(self.rules.device_wait.0);
                self.wait_until(device, now + span);
                return;
            }
            Found::Message { .. } | Found::Nothing => {
                self.in_flight -= 1;
                effects.push(Effect::Discard(device));
                self.finish(now, device);
                return;
            }
        };
        match self.lanes.enter(&lane, device, now, self.rules.at_once_per_lane) {
            Passage::Open => {
                if let Some(entry) = self.devices.get_mut(&device) {
                    entry.stage = Stage::Sending { lane: Some(lane), expires };
                }
                effects.push(Effect::Send { device, wake });
            }
            Passage::Busy => {
                self.in_flight -= 1;
                effects.push(Effect::Discard(device));
                self.wait_until(device, now + BUSY);
            }
            Passage::Suspended => {
                self.in_flight -= 1;
                effects.push(Effect::Discard(device));
                self.park(now, &lane, device);
            }
        }
    }

    fn done(&mut self, now: Instant, device: Device, verdict: Verdict, effects: &mut Vec<Effect>) {
        let Some(entry) = self.devices.get_mut(&device) else { return };
        let Stage::Sending { lane, expires } = &entry.stage else { return };
        let (lane, expires) = (lane.clone(), *expires);
        self.in_flight -= 1;
        let Some(lane) = lane else {
            self.finish(now, device);
            return;
        };
        self.lanes.leave(&lane);
        let (after, reason, operator) = match verdict {
            Verdict::Later { after, who: Throttled::Lane } => (after, Cow::from("it wants less"), false),
            Verdict::Unreachable { reason } => (None, reason, false),
            Verdict::Refused { fault: Fault::Operator, reason } => (None, reason, true),
            well => {
                self.well(now, &lane, effects);
                self.judge(now, device, well, (lane.provider, expires), effects);
                return;
            }
        };
        let (most, wait) = (self.rules.lanes, self.rules.lane_wait);
        let jitter = self.jitter();
        let reprobe = self.rules.reprobe;
        let span = |failures| {
            let own = if operator { reprobe } else { doubled(wait, failures) };
            spread(own, jitter).max(after.unwrap_or_default())
        };
        match self.lanes.failed(&lane, now, most, span) {
            // So many other hosts are silent already that this device just waits by itself.
            Err(()) => self.back_off(now, device, after, (lane.provider, expires), effects),
            Ok(began) => {
                if let Some((span, failures)) = began.filter(|(_, failures)| operator || *failures == 1) {
                    let provider = lane.provider;
                    let alarm = operator || failures > 1;
                    effects.push(Effect::Note(Note::Suspended { provider, span, reason, alarm }));
                }
                let again = self.devices.get(&device).is_some_and(|entry| entry.again);
                if !again && self.lanes.until(&lane).is_some_and(|until| expires <= until) {
                    self.remove(device);
                    effects.push(Effect::Note(Note::Expired(lane.provider)));
                } else {
                    self.park(now, &lane, device);
                }
            }
        }
    }

    /// An answer that shows that the lane works, whatever it means for the device.
    fn judge(
        &mut self,
        now: Instant,
        device: Device,
        verdict: Verdict,
        (provider, expires): (Provider, Instant),
        effects: &mut Vec<Effect>,
    ) {
        match verdict {
            Verdict::TokenDead { since } => {
                effects.push(Effect::Forget(device, since));
                self.finish(now, device);
            }
            Verdict::Later { after, .. } => self.back_off(now, device, after, (provider, expires), effects),
            Verdict::TooLarge => {
                let Some(entry) = self.devices.get_mut(&device) else { return };
                if std::mem::replace(&mut entry.wake, true) {
                    effects.push(Effect::Note(Note::GivenUp(device, "even a bare push is too large".into())));
                    self.finish(now, device);
                } else {
                    self.wait_until(device, now);
                }
            }
            Verdict::Refused { reason, .. } => {
                effects.push(Effect::Note(Note::GivenUp(device, reason)));
                self.finish(now, device);
            }
            Verdict::Accepted | Verdict::Unreachable { .. } | Verdict::NoProvider => self.finish(now, device),
        }
    }

    fn well(&mut self, now: Instant, lane: &Lane, effects: &mut Vec<Effect>) {
        if let Some(parked) = self.lanes.recovered(lane) {
            effects.push(Effect::Note(Note::Recovered(lane.provider)));
            for device in parked {
                self.wait_until(device, now);
            }
        }
    }

    fn back_off(
        &mut self,
        now: Instant,
        device: Device,
        after: Option<Duration>,
        (provider, expires): (Provider, Instant),
        effects: &mut Vec<Effect>,
    ) {
        let jitter = self.jitter();
        let wait = self.rules.device_wait;
        let Some(entry) = self.devices.get_mut(&device) else { return };
        let span = spread(doubled(wait, entry.failures), jitter);
        // What is asked for is the least; everybody coming back at that very moment would be the next flood.
        let asked = after.map_or(Duration::ZERO, |after| after + (after / 10).mul_f64(jitter));
        let at = now + span.max(asked);
        entry.failures = entry.failures.saturating_add(1);
        if at >= expires && !entry.again {
            self.remove(device);
            effects.push(Effect::Note(Note::Expired(provider)));
        } else {
            self.wait_until(device, at);
        }
    }

    /// The device's push is done with. If a message came meanwhile another follows.
    fn finish(&mut self, now: Instant, device: Device) {
        let Some(entry) = self.devices.get_mut(&device) else { return };
        (entry.failures, entry.wake) = (0, false);
        if std::mem::take(&mut entry.again) {
            self.wait_until(device, now + self.rules.window);
        } else {
            self.remove(device);
        }
    }

    fn park(&mut self, now: Instant, lane: &Lane, device: Device) {
        if !self.lanes.park(lane, device) {
            self.wait_until(device, now + BUSY);
        } else if let Some(entry) = self.devices.get_mut(&device) {
            (entry.stage, entry.failures) = (Stage::Parked, 0);
        }
    }

    fn wait_until(&mut self, device: Device, at: Instant) {
        let Some(entry) = self.devices.get_mut(&device) else { return };
        if let Stage::Due(before) = entry.stage {
            self.due.remove(&(before, device));
        }
        entry.stage = Stage::Due(at);
        self.due.insert((at, device));
    }

    fn remove(&mut self, device: Device) {
        if self.devices.remove(&device).is_none() {
            return;
        }
        if let Some(mates) = self.namespaces.get_mut(&device.0) {
            *mates -= 1;
            if *mates == 0 {
                self.namespaces.remove(&device.0);
            }
        }
    }

    /// A number in [0, 1).
    fn jitter(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    fn jittered(&mut self, span: Duration) -> Duration {
        let jitter = self.jitter();
        spread(span, jitter)
    }
}

/// The first span doubled for each failure, up to the longest.
fn doubled((first, longest): (Duration, Duration), failures: u32) -> Duration {
    first.saturating_mul(1 << failures.min(20)).min(longest)
}

/// Between three quarters of the span and five.
fn spread(span: Duration, jitter: f64) -> Duration {
    span.mul_f64(0.75 + jitter / 2.0)
}
