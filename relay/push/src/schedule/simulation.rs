//! The machine against providers that fail at random, from seeds that can be replayed.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use skald_relay_common::ids::{NamespaceId, PublicKey};
use skald_testkit::Rng;

use super::{Device, Effect, Event, Found, Note, Rules, Scheduler};
use crate::bridge::{Lane, Provider};
use crate::verdict::{Fault, Verdict};

/// What a device has at the relay.
#[derive(Default)]
struct Home {
    /// The number of the newest message; what the device has confirmed; what was pushed.
    newest: u64,
    confirmed: u64,
    pushed: u64,
    token: bool,
    /// Its place was given away, or its message given up: nobody promised anything since.
    excused: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Looking,
    /// With this message in hand.
    Read(u64),
    Sending(u64),
}

struct World {
    rng: Rng,
    now: Instant,
    machine: Scheduler,
    homes: HashMap<Device, Home>,
    under_way: HashMap<Device, At>,
    /// Lanes that fail for now.
    down: HashSet<Lane>,
    calm: bool,
}

fn device(n: usize) -> Device {
    let n = n as u8;
    (NamespaceId::from_bytes([n / 4; 32]), PublicKey::from_bytes([n; 32]))
}

fn lane(device: &Device) -> Lane {
    match device.1.as_bytes()[0] % 4 {
        0 | 1 => Lane::whole(Provider::Apns),
        2 => Lane::whole(Provider::Fcm),
        n => Lane::host(Provider::WebPush, &format!("host{n}.example")),
    }
}

const DEVICES: usize = 40;
const RULES: Rules = Rules {
    window: Duration::from_secs(2),
    devices: 30,
    devices_per_namespace: 4,
    at_once: 6,
    at_once_per_lane: 4,
    device_wait: (Duration::from_secs(10), Duration::from_secs(600)),
    lane_wait: (Duration::from_secs(1), Duration::from_secs(60)),
    reprobe: Duration::from_secs(300),
    lanes: 2,
};

impl World {
    fn event(&mut self, event: Event) {
        let effects = self.machine.handle(self.now, event);
        for effect in effects {
            self.effect(effect);
        }
        assert!(self.under_way.len() <= RULES.at_once, "too many under way");
        assert!(self.machine.waiting() <= RULES.devices, "the table has grown");
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Look(device) => {
                let before = self.under_way.insert(device, At::Looking);
                assert!(before.is_none(), "one at a time: {before:?}");
            }
            Effect::Discard(device) => {
                let before = self.under_way.remove(&device);
                assert!(matches!(before, Some(At::Read(_))), "{before:?}");
            }
            Effect::Send { device, .. } => {
                let Some(At::Read(message)) = self.under_way.get(&device).copied() else {
                    panic!("nothing was read")
                };
                self.under_way.insert(device, At::Sending(message));
            }
            Effect::Forget(device, _) => {
                let home = self.homes.get_mut(&device).unwrap();
                (home.token, home.excused) = (false, home.newest);
            }
            Effect::Note(Note::LeftOut(device) | Note::GivenUp(device, _)) => {
                let home = self.homes.get_mut(&device).unwrap();
                home.excused = home.newest;
            }
            Effect::Note(_) => {}
        }
    }

    /// Something under way comes to its end.
    fn answer(&mut self) {
        let mut all: Vec<_> = self.under_way.iter().map(|(device, at)| (*device, *at)).collect();
        all.sort_by_key(|(device, _)| *device);
        let Some((device, at)) = self.rng.pick(&all).copied() else { return };
        let home = &self.homes[&device];
        match at {
            At::Looking => {
                let waits = home.newest > home.confirmed && home.token;
                self.under_way.insert(device, At::Read(home.newest));
                let found = if waits {
                    let expires = self.now + Duration::from_secs(7 * 86_400);
                    Found::Message { lane: Some(lane(&device)), expires }
                } else {
                    Found::Nothing
                };
                self.event(Event::Looked(device, found));
            }
            At::Sending(message) => {
                let verdict = self.verdict(&device);
                if verdict == Verdict::Accepted {
                    let home = self.homes.get_mut(&device).unwrap();
                    assert!(message >= home.pushed, "an older message follows a newer one");
                    home.pushed = message;
                }
                self.under_way.remove(&device);
                self.event(Event::Done(device, verdict));
            }
            At::Read(_) => panic!("what was read is sent or thrown away at once"),
        }
    }

    fn verdict(&mut self, device: &Device) -> Verdict {
        if self.calm {
            return Verdict::Accepted;
        }
        if self.down.contains(&lane(device)) {
            return match self.rng.below(3) {
                0 => Verdict::operator("Forbidden"),
                1 => Verdict::later_for_lane(Some(Duration::from_secs(30))),
                _ => Verdict::unreachable("no connection"),
            };
        }
        match self.rng.below(12) {
            0 => Verdict::TokenDead { since: None },
            1 => Verdict::later_for_device(None),
            2 => Verdict::TooLarge,
            3 => Verdict::Refused { fault: Fault::Ours, reason: "BadTopic".into() },
            _ => Verdict::Accepted,
        }
    }

    fn step(&mut self) {
        let it = device(self.rng.below(DEVICES));
        match self.rng.below(10) {
            0..=2 => {
                self.homes.get_mut(&it).unwrap().newest += 1;
                self.event(Event::Absent(it));
            }
            3 => {
                let home = self.homes.get_mut(&it).unwrap();
                (home.confirmed, home.token) = (home.newest, true);
            }
            4 => {
                let which = lane(&it);
                if !self.down.remove(&which) {
                    self.down.insert(which);
                }
            }
            5 => {
                self.now += Duration::from_millis(self.rng.below(5_000) as u64);
                self.event(Event::Tick);
            }
            _ => self.answer(),
        }
    }

    /// Everything works again, and time goes on until nothing is left to do.
    fn settle(&mut self) {
        self.calm = true;
        for _ in 0..100_000 {
            if !self.under_way.is_empty() {
                self.answer();
            } else if let Some(at) = self.machine.deadline() {
                self.now = self.now.max(at);
                self.event(Event::Tick);
            } else {
                return;
            }
        }
        panic!("it never comes to rest");
    }
}

fn run(seed: u64) {
    let homes = (0..DEVICES).map(|n| (device(n), Home { token: true, ..Home::default() })).collect();
    let mut world = World {
        rng: Rng::new(seed),
        now: Instant::now(),
        machine: Scheduler::new(RULES, seed),
        homes,
        under_way: HashMap::new(),
        down: HashSet::new(),
        calm: false,
    };
    for _ in 0..3_000 {
        world.step();
    }
    world.settle();
    assert_eq!(world.machine.waiting(), 0, "nothing is left behind");
    assert_eq!(world.machine.backing_off(), 0);
    for (device, home) in &world.homes {
        let seen = home.pushed.max(home.confirmed).max(home.excused);
        assert!(seen >= home.newest || !home.token, "{device:?} was not woken for its newest message");
    }
}

#[test]
fn every_device_is_woken_for_its_newest_message_whatever_providers_do() {
    let first = Rng::from_env(1).seed();
    for seed in first..first + 60 {
        println!("SKALD_TEST_SEED={seed}");
        run(seed);
    }
}
