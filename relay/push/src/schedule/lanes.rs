//! The lanes that are not well, and how many pushes are under way on each.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::Device;
use crate::bridge::{Lane, Provider};

/// A lane that is left alone.
#[derive(Debug)]
pub(super) struct Trouble {
    /// Until then nothing is sent; afterwards one push at a time tries.
    pub(super) until: Instant,
    /// How often in a row it failed.
    pub(super) failures: u32,
    /// The device whose push tries.
    pub(super) probe: Option<Device>,
    /// Devices that wait for it.
    pub(super) parked: BTreeSet<Device>,
}

/// Whether a push may take a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passage {
    Open,
    /// Too many are under way.
    Busy,
    Suspended,
}

#[derive(Debug, Default)]
pub(super) struct Lanes {
    troubled: HashMap<Lane, Trouble>,
    /// Pushes under way; a lane without any has no entry.
    load: HashMap<Lane, usize>,
}

impl Lanes {
    /// Whether this device's push may go now; it is then the probe of a lane that was suspended.
    pub(super) fn enter(&mut self, lane: &Lane, device: Device, now: Instant, most: usize) -> Passage {
        let trouble = self.troubled.get_mut(lane);
        if trouble.as_ref().is_some_and(|trouble| now < trouble.until || trouble.probe.is_some()) {
            return Passage::Suspended;
        }
        let load = self.load.entry(lane.clone()).or_default();
        if *load >= most {
            return Passage::Busy;
        }
        *load += 1;
        if let Some(trouble) = trouble {
            trouble.probe = Some(device);
        }
        Passage::Open
    }

    /// A push is under way no more.
    pub(super) fn leave(&mut self, lane: &Lane) {
        if let Some(load) = self.load.get_mut(lane) {
            *load -= 1;
            if *load == 0 {
                self.load.remove(lane);
            }
        }
    }

    /// This device probes nothing, whatever it was chosen for.
    pub(super) fn resign(&mut self, device: Device) {
        let chosen = self.troubled.values_mut().filter(|trouble| trouble.probe == Some(device));
        chosen.for_each(|trouble| trouble.probe = None);
    }

    /// The lane works. Gives the devices that waited for it, if it had been suspended.
    pub(super) fn recovered(&mut self, lane: &Lane) -> Option<BTreeSet<Device>> {
        self.troubled.remove(lane).map(|trouble| trouble.parked)
    }

    /// The lane failed. `wait` gives the span for a number of failures in a row. Gives the span where it begins anew, and
    /// `Err` where too many lanes are suspended already.
    pub(super) fn failed(
        &mut self,
        lane: &Lane,
        now: Instant,
        most: usize,
        wait: impl FnOnce(u32) -> Duration,
    ) -> Result<Option<(Duration, u32)>, ()> {
        if !self.troubled.contains_key(lane) && self.troubled.len() >= most {
            return Err(());
        }
        let new = || Trouble { until: now, failures: 0, probe: None, parked: BTreeSet::new() };
        let trouble = self.troubled.entry(lane.clone()).or_insert_with(new);
        if now < trouble.until {
            // One of several that were under way when it failed first: the same failure.
            return Ok(None);
        }
        let span = wait(trouble.failures);
        trouble.failures = trouble.failures.saturating_add(1);
        trouble.until = now + span;
        trouble.probe = None;
        Ok(Some((span, trouble.failures)))
    }

    /// The device waits for the lane; if that is not suspended after all, nothing happens and the answer is false.
    pub(super) fn park(&mut self, lane: &Lane, device: Device) -> bool {
        let Some(trouble) = self.troubled.get_mut(lane) else { return false };
        trouble.parked.insert(device)
    }

    pub(super) fn until(&self, lane: &Lane) -> Option<Instant> {
        self.troubled.get(lane).map(|trouble| trouble.until)
    }

    /// When the next lane may be tried by one of those who wait for it.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let waiting = self.troubled.values().filter(|t| t.probe.is_none() && !t.parked.is_empty());
        waiting.map(|trouble| trouble.until).min()
    }

    /// Chooses a probe for each lane whose time has come.
    pub(super) fn probes(&mut self, now: Instant) -> Vec<Device> {
        let mut chosen = Vec::new();
        for trouble in self.troubled.values_mut() {
            if trouble.probe.is_none() && trouble.until <= now {
                trouble.probe = trouble.parked.pop_first();
                chosen.extend(trouble.probe);
            }
        }
        chosen
    }

    /// Takes a parked device of the fullest lane out.
    pub(super) fn evict(&mut self) -> Option<Device> {
        self.troubled.values_mut().max_by_key(|trouble| trouble.parked.len())?.parked.pop_first()
    }

    pub(super) fn suspended(&self, provider: Provider) -> usize {
        self.troubled.keys().filter(|lane| lane.provider == provider).count()
    }

    pub(super) fn parked(&self) -> usize {
        self.troubled.values().map(|trouble| trouble.parked.len()).sum()
    }
}
