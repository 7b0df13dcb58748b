//! Delivery under everything that goes wrong, in virtual time and from seeds that can be replayed.
//!
//! Two senders write durable and live messages to one device. Connections drop at any moment with what is on the way,
//! the relay is killed and loses its memory, answers are late or doubled, the outbox is too small, the device
//! disappears for long. The session, its delivery and the outbox are the real ones; the database and the network are
//! models. Whatever happens:
//!
//! * every message that was accepted as durable is taken by the device, once: its counter check never has to refuse
//!   one that it has not seen;
//! * positions only rise on a connection;
//! * nothing is deleted that the device did not get.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ed25519_dalek::SigningKey;
use skald_relay_common::challenge;
use skald_relay_common::frame::{Auth, FromPeer, FromRelay, Role};
use skald_relay_common::ids::{ChallengeNonce, PublicKey};
use skald_relay_common::limits::{Limits, PipeLimits};

use super::machine::{Effect, Event, Session, Welcome};
use super::rules::Rules;
use crate::hub::outbox::{Budget, Eviction, Outbox};
use crate::metrics::Metrics;
use crate::store::Position;

/// A small generator, so that a seed means the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.roll(one_in) == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sent {
    sender: u8,
    counter: u64,
}

impl Sent {
    fn frame(self, size: usize) -> Bytes {
        let mut frame = vec![0; size.max(9)];
        frame[0] = self.sender;
        frame[1..9].copy_from_slice(&self.counter.to_be_bytes());
        frame.into()
    }

    fn read(frame: &[u8]) -> Self {
        Self { sender: frame[0], counter: u64::from_be_bytes(frame[1..9].try_into().unwrap()) }
    }
}

enum Wire {
    Frame(Bytes),
    Ping(Position),
}

/// One connection of the device, at the relay.
struct Connection {
    session: Session,
    outbox: Arc<Outbox>,
    to_device: VecDeque<Wire>,
    to_relay: VecDeque<Bytes>,
    /// The read that is under way, and the rows it saw when it ran.
    reading: Option<(Vec<(Position, Bytes)>, bool)>,
    wants_read: Option<(Position, Position)>,
}

struct World {
    dice: Dice,
    now: Instant,
    rules: Arc<Rules>,
    key: SigningKey,
    /// The database: survives everything.
    queue: BTreeMap<Position, Bytes>,
    next: Position,
    /// Committed, not yet offered: the writer is between its commit and its news.
    unoffered: VecDeque<(Position, Bytes)>,
    announced: Position,
    connection: Option<Connection>,
    outbox_bytes: usize,
    budget: Arc<Budget>,
    counters: [u64; 2],
    /// What the device has taken, and the highest counter of each sender.
    taken: BTreeSet<Sent>,
    seen: [u64; 2],
    accepted: BTreeSet<Sent>,
    suspected: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let outbox_bytes = [40, 200, 5_000][dice.roll(3) as usize];
        Self {
            dice,
            now: Instant::now(),
            rules: Arc::new(Rules::new(&Limits::default(), &PipeLimits::default())),
            key: SigningKey::from_bytes(&[5; 32]),
            queue: BTreeMap::new(),
            next: 1,
            unoffered: VecDeque::new(),
            announced: 0,
            connection: None,
            outbox_bytes,
            budget: Budget::new(1 << 30, Metrics::new().counts()),
            counters: [0; 2],
            taken: BTreeSet::new(),
            seen: [0; 2],
            accepted: BTreeSet::new(),
            suspected: false,
        }
    }

    fn connect(&mut self) {
        let nonce = ChallengeNonce::from_bytes([1; 32]);
        let (mut session, _) = Session::start(self.now, Arc::clone(&self.rules), nonce);
        let public = PublicKey::from_bytes(self.key.verifying_key().to_bytes());
        let signature = challenge::sign_auth(&self.key, &nonce);
        let auth = FromPeer::Auth(Auth { role: Role::Agent(public), signature });
        let effects = session.handle(self.now, Event::Binary(auth.encode().into()));
        assert!(matches!(effects[..], [Effect::Admit(_)]));
        self.connection = Some(Connection {
            session,
            outbox: Arc::new(Outbox::new(self.outbox_bytes, Arc::clone(&self.budget))),
            to_device: VecDeque::new(),
            to_relay: VecDeque::new(),
            reading: None,
            wants_read: None,
        });
        let welcome = Welcome { namespace: [0; 32].into(), pending: Vec::new(), announced: self.announced };
        self.event(Event::Admitted(Ok(welcome)));
    }

    fn event(&mut self, event: Event) {
        let Some(connection) = &mut self.connection else { return };
        let effects = connection.session.handle(self.now, event);
        for effect in effects {
            match effect {
                Effect::Write(frame) => connection.to_device.push_back(Wire::Frame(frame)),
                Effect::Ping(position) => connection.to_device.push_back(Wire::Ping(position)),
                Effect::Read(after, through) => connection.wants_read = Some((after, through)),
                Effect::Confirm(through) => {
                    let gone: Vec<_> = self.queue.range(..=through).map(|(p, _)| *p).collect();
                    for position in gone {
                        let frame = self.queue.remove(&position).unwrap();
                        let sent = Sent::read(&frame);
                        assert!(self.taken.contains(&sent), "{sent:?} was deleted and never arrived");
                    }
                }
                Effect::Suspect(suspect) => {
                    connection.outbox.set_suspect(suspect);
                    self.suspected |= suspect;
                }
                Effect::Send(FromRelay::AuthOk(_)) | Effect::RaiseLimit => {}
                Effect::Close(..) => {
                    self.connection = None;
                    return;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn send(&mut self, live: bool) {
        // A sender's next frame is read only after the store has answered for the last one.
        if !self.unoffered.is_empty() {
            return;
        }
        let sender = self.dice.roll(2) as u8;
        self.counters[sender as usize] += 1;
        let sent = Sent { sender, counter: self.counters[sender as usize] };
        let frame = sent.frame(9 + self.dice.roll(60) as usize);
        if live {
            if let Some(connection) = &self.connection {
                connection.outbox.push_live(|| frame);
            }
            return;
        }
        self.accepted.insert(sent);
        self.queue.insert(self.next, frame.clone());
        self.unoffered.push_back((self.next, frame));
        self.next += 1;
    }

    fn offer(&mut self) {
        for (position, frame) in self.unoffered.drain(..) {
            self.announced = position;
            if let Some(connection) = &self.connection {
                connection.outbox.push_stored(position, || frame);
            }
        }
    }

    /// One step of the connection's driver.
    fn drive(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        if let Some((rows, more)) = connection.reading.take() {
            return self.event(Event::Batch(rows, more));
        }
        if let Some((after, through)) = connection.wants_read.take() {
            let limit = 1 + self.dice.roll(5) as usize;
            let queue = self.queue.iter().filter(|(p, _)| (after + 1..=through).contains(*p));
            let rows: Vec<_> = queue.take(limit).map(|(p, frame)| (*p, frame.clone())).collect();
            let more = rows.len() == limit;
            // The rows are seen now and come later: what is committed in between is not among them.
            connection.reading = Some((rows, more));
            return;
        }
        if connection.session.is_flowing() {
            let taken = connection.outbox.take(1 + self.dice.roll(200) as usize);
            if !taken.items.is_empty() || taken.behind.is_some() {
                self.event(Event::Taken(taken));
            }
        }
    }

    fn device(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        match connection.to_device.pop_front() {
            Some(Wire::Frame(frame)) => {
                let sent = Sent::read(&frame);
                let seen = &mut self.seen[sent.sender as usize];
                if sent.counter > *seen {
                    *seen = sent.counter;
                    assert!(self.taken.insert(sent), "{sent:?} was taken twice");
                } else {
                    // A duplicate is fine; a message that came too late for its counter is lost for good.
                    assert!(self.taken.contains(&sent), "{sent:?} was overtaken");
                }
            }
            Some(Wire::Ping(position)) => {
                connection.to_relay.push_back(Bytes::copy_from_slice(&position.to_be_bytes()));
                if self.dice.chance(10) {
                    connection.to_relay.push_back(Bytes::copy_from_slice(&position.to_be_bytes()));
                }
            }
            None => {}
        }
    }

    fn pong(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        if let Some(pong) = connection.to_relay.pop_front() {
            connection.session.heard(self.now);
            self.event(Event::Pong(pong));
        }
    }

    fn step(&mut self) {
        match self.dice.roll(100) {
            0..20 => self.send(false),
            20..30 => self.send(true),
            30..40 => self.offer(),
            40..62 => self.drive(),
            62..82 => self.device(),
            82..90 => self.pong(),
            90..94 => {
                self.now += Duration::from_millis(self.dice.roll(4_000));
                self.event(Event::Tick);
            }
            94..97 => {
                if self.connection.is_none() || self.dice.chance(2) {
                    // A second connection displaces the first.
                    self.event(Event::Evicted(Eviction::Displaced));
                    self.connect();
                }
            }
            97..99 => self.connection = None,
            _ => {
                // kill -9: the memory is gone, what was committed is not.
                self.connection = None;
                self.unoffered.clear();
                self.announced = self.next - 1;
            }
        }
    }

    fn settle(&mut self) {
        self.offer();
        self.event(Event::Evicted(Eviction::Displaced));
        self.connect();
        for _ in 0..20_000 {
            self.drive();
            self.device();
            self.pong();
        }
    }
}

fn run(seed: u64) -> World {
    let mut world = World::new(seed);
    for _ in 0..600 {
        world.step();
    }
    world.settle();
    let lost: Vec<_> = world.accepted.difference(&world.taken).collect();
    assert!(lost.is_empty(), "seed {seed}: {lost:?} never arrived");
    assert!(world.queue.is_empty(), "seed {seed}: {} messages were never deleted", world.queue.len());
    world
}

#[test]
fn fault_01_whatever_drops_or_crashes_nothing_accepted_is_lost() {
    let mut suspected = 0;
    for seed in 0..400 {
        suspected += u32::from(run(seed).suspected);
    }
    assert!(suspected > 0, "the seeds must reach the case of a peer that confirms nothing");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let (first, second) = (run(7), run(7));
    assert_eq!((first.taken, first.next, first.counters), (second.taken, second.next, second.counters));
}
