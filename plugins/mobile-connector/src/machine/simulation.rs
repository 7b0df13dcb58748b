//! The machine against devices that come and go, sends that fail and crashes, from seeds that can be had again.

use std::collections::{BTreeMap, BTreeSet};

use skald_core_api::{Approval, InboxSnapshot, Notification, RequestId};
use skald_payloads::{Envelope, Payload};
use skald_testkit::Rng;

use super::tests::{A, B, ids};
use super::*;
use crate::test::{ask, id};

const DELAY: i64 = 5_000;

/// One device as it stands: what it shows and which notifications it got.
#[derive(Default)]
struct Phone {
    shows: BTreeSet<String>,
    ever_shown_stored: BTreeSet<String>,
    told: Vec<String>,
}

struct World {
    rng: Rng,
    now: i64,
    machine: Machine,
    link: bool,
    /// What survives a crash.
    durable: BTreeMap<DeviceKey, Memory>,
    phones: BTreeMap<DeviceKey, Phone>,
    pending: Vec<Approval>,
    revision: u64,
    log: Vec<Notification>,
    under_way: Vec<(DeviceKey, Lane, bool, Vec<Body>)>,
    next_id: u128,
    /// Items that ended before they were due, and that no device asked for.
    silent: BTreeSet<RequestId>,
    asked: bool,
    crashed: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            rng: Rng::new(seed),
            now: 1_000_000,
            machine: Machine::new(DELAY, ids()),
            link: false,
            durable: [A, B].map(|key| (key, Memory::default())).into(),
            phones: [A, B].map(|key| (key, Phone::default())).into(),
            pending: Vec::new(),
            revision: 0,
            log: Vec::new(),
            under_way: Vec::new(),
            next_id: 1,
            silent: BTreeSet::new(),
            asked: false,
            crashed: false,
        };
        world.start();
        world
    }

    fn start(&mut self) {
        self.machine = Machine::new(DELAY, ids());
        self.link = false;
        self.under_way.clear();
        let known = self.durable.iter().map(|(key, memory)| Known {
            key: *key,
            memory: memory.clone(),
            online: false,
        });
        let known = known.collect();
        self.input(Input::Devices(known));
        self.give_inbox();
        self.give_log();
    }

    fn input(&mut self, input: Input) {
        for effect in self.machine.handle(self.now, input) {
            match effect {
                Effect::Send { to, lane, live, bodies } => {
                    assert!(self.link, "nothing leaves without a link");
                    let busy = self.under_way.iter().any(|(k, l, ..)| (*k, *l) == (to, lane));
                    assert!(!busy || lane == Lane::Receipt, "one send of a lane at a time");
                    self.under_way.push((to, lane, live, bodies));
                }
                Effect::Remember { device, memory } => drop(self.durable.insert(device, memory)),
            }
        }
        self.give_log();
    }

    fn give_inbox(&mut self) {
        let snapshot = InboxSnapshot {
            revision: self.revision,
            approvals: self.pending.clone(),
            ..InboxSnapshot::default()
        };
        self.input(Input::Inbox(snapshot));
    }

    fn give_log(&mut self) {
        if let Some(after) = self.machine.log_after() {
            let next: Vec<_> = self.log.iter().filter(|n| n.seq > after).take(3).cloned().collect();
            if !next.is_empty() {
                self.input(Input::Log(next));
            }
        }
    }

    /// A send ends: it arrived and is known to have; it arrived and is thought to have failed; it failed.
    fn end_a_send(&mut self) {
        if self.under_way.is_empty() {
            return;
        }
        let place = self.rng.below(self.under_way.len());
        let (to, lane, live, bodies) = self.under_way.remove(place);
        let fate = self.rng.below(4);
        if fate != 0 && !(live && self.rng.one_in(3)) {
            self.deliver(to, live, &bodies);
        }
        self.input(Input::Sent { to, lane, ok: fate > 1 });
    }

    fn deliver(&mut self, to: DeviceKey, live: bool, bodies: &[Body]) {
        let phone = self.phones.get_mut(&to).unwrap();
        for body in bodies {
            match Envelope::parse(&body.json, self.now).unwrap().payload {
                Payload::InboxUpdate(update) => {
                    phone.shows = update.approvals.iter().map(|i| i.request_id.clone()).collect();
                    if !live {
                        phone.ever_shown_stored.extend(phone.shows.iter().cloned());
                    }
                }
                // A summary that stands for a snapshot has words for a title; the log's entries have numbers.
                Payload::Notification(n) if n.title.parse::<i64>().is_err() => {}
                Payload::Notification(n) => phone.told.push(n.title),
                other => panic!("{other:?}"),
            }
        }
    }

    fn step(&mut self) {
        match self.rng.below(12) {
            0 | 1 => {
                self.pending.push(ask(self.next_id, self.now));
                self.next_id += 1;
                self.revision += 1;
                self.give_inbox();
            }
            2 if !self.pending.is_empty() => {
                let place = self.rng.below(self.pending.len());
                let gone = self.pending.remove(place);
                if gone.created_at + DELAY > self.now && !self.asked {
                    self.silent.insert(gone.request_id);
                }
                self.revision += 1;
                self.give_inbox();
            }
            3 => {
                let seq = self.log.len() as i64 + 1;
                self.log.push(Notification {
                    seq,
                    title: seq.to_string(),
                    body: String::new(),
                    created_at: self.now,
                });
                self.give_log();
            }
            4 => {
                self.link = !self.link;
                self.input(Input::Link(self.link));
            }
            5 if self.rng.one_in(4) => {
                self.asked = true;
                let key = if self.rng.one_in(2) { A } else { B };
                self.input(Input::Request(key));
            }
            6 if self.rng.one_in(5) => {
                self.crashed = true;
                // What was handed over leaves with the next run, though nobody lived to note it.
                for (to, _, live, bodies) in std::mem::take(&mut self.under_way) {
                    if self.rng.one_in(2) {
                        self.deliver(to, live, &bodies);
                    }
                }
                self.start();
            }
            7 | 8 => {
                self.now += self.rng.below(3_000) as i64;
                self.input(Input::Tick);
            }
            _ => self.end_a_send(),
        }
    }

    /// Everything works again: whatever was owed arrives.
    fn come_to_rest(&mut self) {
        self.link = true;
        self.input(Input::Link(true));
        for _ in 0..10_000 {
            while let Some((to, lane, live, bodies)) = self.under_way.pop() {
                self.deliver(to, live, &bodies);
                self.input(Input::Sent { to, lane, ok: true });
            }
            let Some(at) = self.machine.wake_at(self.now) else { return };
            self.now = self.now.max(at);
            self.input(Input::Tick);
        }
        panic!("it never comes to rest");
    }
}

#[test]
fn devices_end_up_showing_what_is_pending_whatever_happened() {
    let base = Rng::from_env(1).seed();
    for seed in base..base + 100 {
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.step();
        }
        world.come_to_rest();
        let pending: BTreeSet<_> = world.pending.iter().map(|i| i.request_id.to_string()).collect();
        for (key, phone) in &world.phones {
            assert_eq!(phone.shows, pending, "seed {seed}, device {key:?}");
            for item in &world.silent {
                assert!(
                    !phone.ever_shown_stored.contains(&item.to_string()),
                    "seed {seed}: {item} was never due"
                );
            }
        }
    }
}

#[test]
fn notifications_reach_each_device_in_order_and_none_is_missing() {
    let base = Rng::from_env(1_000).seed();
    for seed in base..base + 100 {
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.step();
        }
        world.come_to_rest();
        for phone in world.phones.values() {
            // At least once, in order: a send of unknown end may repeat the last one.
            let mut distinct = phone.told.clone();
            distinct.dedup();
            let expected: Vec<_> = world.log.iter().map(|n| n.title.clone()).collect();
            assert_eq!(distinct, expected, "seed {seed}");
        }
    }
}

#[test]
fn the_simulation_reaches_what_it_is_meant_to_reach() {
    let (mut crashed, mut silent, mut asked) = (0, 0, 0);
    for seed in 0..50 {
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.step();
        }
        crashed += usize::from(world.crashed);
        silent += world.silent.len();
        asked += usize::from(world.asked);
    }
    assert!(crashed > 10 && silent > 10 && asked > 10, "{crashed} {silent} {asked}");
    assert_eq!(id(1).to_string().len(), 36);
}
