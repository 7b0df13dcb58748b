//! Both ends' stores against crashes at every step, from seeds that can be replayed.
//!
//! The relay here is a list: it takes a message in order, may or may not live to prove that it did, hands messages on in
//! order, and doubles them at will. Either end is dropped and opened from disk at any moment.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use skald_e2e::framing::{self, Framed};
use skald_e2e::{Direction, Identity, Seed};
use skald_relay_common::codes::ErrorCode;
use skald_relay_common::frame::Message;
use skald_relay_common::ids::PublicKey;

use crate::keyring::Keyring;
use crate::link::Pacer;
use crate::outbox::{Outbox, Outgoing};
use crate::receive::{Receiver, Verdict};
use crate::store::{InboundWhat, PeerState, Store};

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// One actor, opened from its folder.
struct End {
    store: Store,
    keys: Arc<Keyring>,
    outbox: Outbox,
    receiver: Receiver,
    pacer: Pacer,
}

struct Actor {
    path: PathBuf,
    seed: u8,
    namespace: skald_relay_common::ids::NamespaceId,
    direction: Direction,
}

fn identity(seed: u8) -> Identity {
    Identity::from_seed(&Seed::take(&mut [seed; 32]))
}

impl Actor {
    fn new(dir: &Path, seed: u8, direction: Direction) -> Self {
        Self { path: dir.join(format!("{seed}.db")), seed, namespace: identity(1).namespace_id(), direction }
    }

    async fn open(&self, now: Instant) -> End {
        let store = Store::open(&self.path).await.unwrap();
        let keys = Arc::new(Keyring::new(identity(self.seed), self.namespace, self.direction));
        End {
            outbox: Outbox::new(store.clone(), keys.clone(), Duration::from_secs(1)),
            receiver: Receiver::new(store.clone(), keys.clone()),
            // The pace has its own tests.
            pacer: Pacer::new(now, 1_000_000),
            store,
            keys,
        }
    }
}

async fn know(end: &End, peer: &Identity) {
    let mut tx = end.store.begin().await.unwrap();
    let (ed, x) = (peer.public_key(), peer.x_public_key());
    Store::admit(&mut tx, &ed, &x, PeerState::Authorized, 1, 1).await.unwrap();
    tx.commit().await.unwrap();
}

/// The relay's one change (relay-protocol §6.2): the recipient becomes the sender.
fn relayed(message: &Message) -> Message {
    Message { peer: identity(1).public_key(), ..message.clone() }
}

/// Everything the sender's application handed over, and everything the receiver's application acted upon.
struct World {
    sender: Actor,
    receiver: Actor,
    to: PublicKey,
    wire: VecDeque<Message>,
    delivered: Vec<Message>,
    sealed: HashMap<[u8; 12], Vec<u8>>,
    put: Vec<String>,
    applied: Vec<String>,
    cursor: i64,
    now_ms: u64,
}

impl World {
    fn record(&mut self, message: &Message) {
        let earlier = self.sealed.insert(*message.nonce.as_bytes(), message.ciphertext.to_vec());
        assert!(earlier.is_none_or(|e| e == message.ciphertext), "one nonce, two plaintexts");
    }

    /// The receiver takes what comes first, then its application acts and acknowledges, or dies in between.
    async fn deliver(&mut self, end: &End, rng: &mut Rng) {
        let again = !self.delivered.is_empty() && rng.below(5) == 0;
        let message = if again {
            let i = rng.below(self.delivered.len() as u64) as usize;
            self.delivered[i].clone()
        } else {
            let Some(message) = self.wire.pop_front() else { return };
            self.delivered.push(message.clone());
            message
        };
        let verdict = end.receiver.take(&relayed(&message), self.now_ms).await.unwrap();
        if again {
            assert!(matches!(verdict, Verdict::Dropped(_)), "a repetition is taken once");
        }
    }

    async fn apply(&mut self, end: &End) {
        let Some(row) = end.store.event_after(self.cursor).await.unwrap() else { return };
        let InboundWhat::Message { nonce, ciphertext, .. } = row.what else { return };
        let peer = end.store.peer(&row.peer).await.unwrap().unwrap();
        let session = end.keys.session(&peer.ed, &peer.x).unwrap();
        let aad = end.keys.aad_from(&peer.ed);
        let (_, plain) = session.open(end.keys.incoming(), &nonce, &aad, &ciphertext).unwrap();
        let Ok(Framed::Json(body)) = framing::decode(plain) else { panic!("it was framed") };
        // Acting and acknowledging are one step of the application's; what is between them is its own care.
        self.applied.push(String::from_utf8(body).unwrap());
        end.store.acknowledge(row.seq).await.unwrap();
        self.cursor = row.seq;
    }
}

async fn run(seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (agent, device) = (identity(1), identity(2));
    let mut w = World {
        sender: Actor::new(dir.path(), 1, Direction::AgentToClient),
        receiver: Actor::new(dir.path(), 2, Direction::ClientToAgent),
        to: device.public_key(),
        wire: VecDeque::new(),
        delivered: Vec::new(),
        sealed: HashMap::new(),
        put: Vec::new(),
        applied: Vec::new(),
        cursor: 0,
        now_ms: 1_750_000_000_000,
    };
    let mut now = Instant::now();
    let mut sender = w.sender.open(now).await;
    let mut receiver = w.receiver.open(now).await;
    know(&sender, &device).await;
    know(&receiver, &agent).await;
    for step in 0..150 {
        now += Duration::from_millis(rng.below(2_000));
        w.now_ms += 1 + rng.below(2_000);
        match rng.below(12) {
            0..=2 => {
                let body = format!("{step}");
                let framed = framing::encode_json(body.as_bytes());
                sender.outbox.put(&w.to, None, &framed, false, w.now_ms).await.unwrap();
                w.put.push(body);
            }
            3..=5 => {
                let out = sender.outbox.next(now, w.now_ms, &mut sender.pacer).await.unwrap();
                let Some(Outgoing::Message(message)) = out else { continue };
                w.record(&message);
                match rng.below(8) {
                    // The path broke before the relay had it.
                    0 => drop(sender.outbox.disconnected()),
                    // The relay has it, and the path broke before the proof.
                    1 => {
                        w.wire.push_back(message);
                        drop(sender.outbox.disconnected());
                    }
                    // The sender dies with the message under way, which the relay has or has not.
                    2 | 3 => {
                        if rng.below(2) == 0 {
                            w.wire.push_back(message);
                        }
                        sender.store.close().await;
                        sender = w.sender.open(now).await;
                    }
                    4 => {
                        let code =
                            if rng.below(2) == 0 { ErrorCode::QueueFull } else { ErrorCode::RateLimited };
                        sender
                            .outbox
                            .refused(Some(code), "", now, w.now_ms, &mut sender.pacer)
                            .await
                            .unwrap();
                    }
                    _ => {
                        w.wire.push_back(message);
                        sender.outbox.proved(w.now_ms).await.unwrap();
                    }
                }
            }
            6..=8 => w.deliver(&receiver, &mut rng).await,
            9 => w.apply(&receiver).await,
            10 => {
                sender.store.close().await;
                sender = w.sender.open(now).await;
            }
            _ => {
                receiver.store.close().await;
                receiver = w.receiver.open(now).await;
                w.cursor = 0;
            }
        }
    }
    // The path is well again: everything comes to its end.
    for _ in 0..600 {
        now += Duration::from_secs(120);
        w.now_ms += 120_000;
        if let Some(Outgoing::Message(message)) =
            sender.outbox.next(now, w.now_ms, &mut sender.pacer).await.unwrap()
        {
            w.record(&message);
            w.wire.push_back(message);
            sender.outbox.proved(w.now_ms).await.unwrap();
        }
        w.deliver(&receiver, &mut rng).await;
        w.apply(&receiver).await;
    }
    assert!(w.wire.is_empty() && sender.outbox.is_idle(), "seed {seed} came to rest");
    assert_eq!(w.applied, w.put, "seed {seed}: all, once, in order");
}

#[tokio::test]
async fn whatever_dies_whenever_every_message_is_applied_once_and_in_order() {
    for seed in 1..=12 {
        run(seed).await;
    }
}

#[tokio::test]
async fn a_store_from_a_backup_repeats_no_nonce() {
    let dir = tempfile::tempdir().unwrap();
    let device = identity(2);
    let actor = Actor::new(dir.path(), 1, Direction::AgentToClient);
    let (now, mut now_ms) = (Instant::now(), 1_750_000_000_000);
    let end = actor.open(now).await;
    know(&end, &device).await;
    end.store.close().await;
    let backup = dir.path().join("backup.db");
    std::fs::copy(&actor.path, &backup).unwrap();
    let mut seen = HashSet::new();
    for life in 0..5 {
        // Each life begins with the same old file, some time later.
        for suffix in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", actor.path.display()));
        }
        std::fs::copy(&backup, &actor.path).unwrap();
        now_ms += 10;
        let mut end = actor.open(now).await;
        for n in 0..100 {
            let framed = framing::encode_json(format!("{life} {n}").as_bytes());
            end.outbox.put(&device.public_key(), None, &framed, false, now_ms).await.unwrap();
            let out = end.outbox.next(now, now_ms, &mut end.pacer).await.unwrap();
            let Some(Outgoing::Message(message)) = out else { panic!("it leaves") };
            assert!(seen.insert(*message.nonce.as_bytes()), "a nonce came twice");
            end.outbox.proved(now_ms).await.unwrap();
        }
        end.store.close().await;
    }
}

#[tokio::test]
async fn no_payload_lies_in_the_database_in_clear() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, device) = (identity(1), identity(2));
    let actor = Actor::new(dir.path(), 1, Direction::AgentToClient);
    let other = Actor::new(dir.path(), 2, Direction::ClientToAgent);
    let now = Instant::now();
    let (mut a, d) = (actor.open(now).await, other.open(now).await);
    know(&a, &device).await;
    know(&d, &agent).await;
    let framed = framing::encode_json(b"the canary's secret");
    for _ in 0..3 {
        a.outbox.put(&device.public_key(), None, &framed, false, 1).await.unwrap();
    }
    let Some(Outgoing::Message(message)) = a.outbox.next(now, 1, &mut a.pacer).await.unwrap() else {
        panic!()
    };
    assert!(matches!(d.receiver.take(&relayed(&message), 1).await.unwrap(), Verdict::Kept));
    a.store.close().await;
    d.store.close().await;
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(6).any(|w| w == b"canary"), "{} holds it", path.display());
    }
}
