//! What leaves first, and what a refusal is about.

use std::sync::Arc;

use skald_e2e::framing::{self, Framed};
use skald_e2e::{Aad, Direction, Identity, Seed};

use super::*;
use crate::store::PeerState;

fn identity(seed: u8) -> Identity {
    Identity::from_seed(&Seed::take(&mut [seed; 32]))
}

struct Desk {
    outbox: Outbox,
    pacer: Pacer,
    now: Instant,
    now_ms: u64,
    _dir: tempfile::TempDir,
}

impl Desk {
    /// An agent of a relay that takes 60 messages a minute, with devices of these seeds.
    async fn new(devices: &[u8]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("peers.db")).await.unwrap();
        for seed in devices {
            let (ed, x) = (identity(*seed).public_key(), identity(*seed).x_public_key());
            let mut tx = store.begin().await.unwrap();
            Store::admit(&mut tx, &ed, &x, PeerState::Authorized, 1, 1).await.unwrap();
            tx.commit().await.unwrap();
        }
        let keys = Keyring::new(identity(1), identity(1).namespace_id(), Direction::AgentToClient);
        let now = Instant::now();
        let outbox = Outbox::new(store, Arc::new(keys), Duration::from_secs(1));
        Self { outbox, pacer: Pacer::new(now, 60), now, now_ms: 1_750_000_000_000, _dir: dir }
    }

    async fn put(&mut self, to: u8, slot: Option<&str>, text: &str) -> Result<(), SendError> {
        let framed = framing::encode_json(text.as_bytes());
        self.outbox.put(&identity(to).public_key(), slot, &framed, false, self.now_ms).await
    }

    fn put_live(&mut self, to: u8, slot: Option<&str>, text: &str) -> Result<(), SendError> {
        let peer = identity(to).public_key();
        let framed = framing::encode_json(text.as_bytes());
        self.outbox.put_live(LiveItem { peer, slot: slot.map(Into::into), framed, pipe: None, tries: 0 })
    }

    async fn next(&mut self) -> Option<Outgoing> {
        self.outbox.next(self.now, self.now_ms, &mut self.pacer).await.unwrap()
    }

    /// The next message's text, once it may leave; the relay takes it.
    async fn leaves(&mut self, to: &[u8]) -> String {
        loop {
            match self.next().await {
                Some(Outgoing::Message(message)) => {
                    self.pacer.spend(self.now);
                    self.outbox.proved(self.now_ms).await.unwrap();
                    return read(&message, to);
                }
                Some(Outgoing::PresenceRequest) => panic!("nobody asked for presence"),
                None => self.now = self.outbox.wake().expect("something waits"),
            }
        }
    }

    async fn refused(&mut self, code: ErrorCode) -> Refused {
        self.outbox.refused(Some(code), code.as_str(), self.now, self.now_ms, &mut self.pacer).await.unwrap()
    }
}

fn read(message: &Message, devices: &[u8]) -> String {
    let agent = identity(1);
    let device = devices.iter().map(|seed| identity(*seed)).find(|d| d.public_key() == message.peer).unwrap();
    let aad = Aad::new(&agent.namespace_id(), &agent.public_key(), &device.public_key());
    let key = device.session(&agent.x_public_key()).unwrap();
    let opened = key.open(Direction::AgentToClient, message.nonce.as_bytes(), &aad, &message.ciphertext);
    let Ok(Framed::Json(body)) = framing::decode(opened.unwrap().1) else { panic!("it was framed") };
    String::from_utf8(body).unwrap()
}

#[tokio::test]
async fn fault_19_a_page_that_opens_pipe_after_pipe_does_not_hold_up_a_question() {
    let mut desk = Desk::new(&[2, 3]).await;
    // The pace is used up, and stays so: another signal waits whenever one has left.
    for _ in 0..60 {
        desk.pacer.spend(desk.now);
    }
    for n in 0..10 {
        desk.put_live(2, None, &format!("signal {n}")).unwrap();
    }
    desk.put(3, Some("inbox"), "question").await.unwrap();
    let mut before = 0;
    while desk.leaves(&[2, 3]).await != "question" {
        before += 1;
        assert!(before <= 5, "the question waits behind every signal");
        desk.put_live(2, None, "another signal").unwrap();
    }
    assert!(before > 0, "signals are not held up by it either");
}

#[tokio::test]
async fn what_replaces_itself_does_not_wait_behind_a_flood_of_other_messages() {
    let mut desk = Desk::new(&[2, 3]).await;
    for n in 0..30 {
        desk.put(2, None, &format!("news {n}")).await.unwrap();
        desk.put(3, None, &format!("news {n}")).await.unwrap();
    }
    desk.put(2, Some("inbox"), "snapshot").await.unwrap();
    desk.put(3, Some("inbox"), "snapshot").await.unwrap();
    desk.put(3, Some("inbox"), "newer").await.unwrap();
    assert_eq!(desk.leaves(&[2, 3]).await, "snapshot");
    assert_eq!(desk.leaves(&[2, 3]).await, "newer");
    assert_eq!(desk.leaves(&[2, 3]).await, "news 0");
}

#[tokio::test]
async fn a_full_queue_still_takes_what_replaces_itself() {
    let mut desk = Desk::new(&[2]).await;
    for _ in 0..MAX_STORED {
        desk.put(2, None, "news").await.unwrap();
    }
    assert!(matches!(desk.put(2, None, "news").await, Err(SendError::QueueFull)));
    desk.put(2, Some("inbox"), "snapshot").await.unwrap();
    assert_eq!(desk.leaves(&[2]).await, "snapshot");
}

#[tokio::test]
async fn a_device_that_asks_without_end_has_one_answer_waiting_in_its_old_place() {
    let mut desk = Desk::new(&[2, 3]).await;
    desk.put_live(2, Some("inbox"), "old").unwrap();
    desk.put_live(3, None, "signal").unwrap();
    for n in 0..200 {
        desk.put_live(2, Some("inbox"), &format!("answer {n}")).unwrap();
    }
    assert_eq!(desk.leaves(&[2, 3]).await, "answer 199");
    assert_eq!(desk.leaves(&[2, 3]).await, "signal");
    assert!(desk.next().await.is_none());
}

#[tokio::test]
async fn a_relay_that_hangs_up_on_a_question_for_presence_is_left_in_peace() {
    let mut desk = Desk::new(&[2]).await;
    let mut asked = 0;
    for _ in 0..20 {
        desk.outbox.ask_presence();
        if desk.next().await == Some(Outgoing::PresenceRequest) {
            asked += 1;
        }
        desk.outbox.disconnected();
    }
    assert!(asked <= 11, "{asked} of 20 sessions ended so");
    // One that answers is asked every time.
    for _ in 0..2 {
        desk.outbox.ask_presence();
        desk.next().await;
        desk.outbox.proved(desk.now_ms).await.unwrap();
    }
    desk.outbox.ask_presence();
    assert_eq!(desk.next().await, Some(Outgoing::PresenceRequest));
}

#[tokio::test]
async fn a_refusal_that_is_about_pairing_costs_no_message() {
    let mut desk = Desk::new(&[2]).await;
    desk.put(2, Some("inbox"), "snapshot").await.unwrap();
    let Some(Outgoing::Message(first)) = desk.next().await else { panic!("it leaves") };
    assert!(matches!(desk.refused(ErrorCode::PairingClosed).await, Refused::NothingUnderWay));
    // The path breaks before the proof: the very same envelope goes again.
    desk.outbox.disconnected();
    assert_eq!(desk.next().await, Some(Outgoing::Message(first)));
}

#[tokio::test]
async fn what_is_kept_until_it_is_confirmed_outlasts_a_refusal() {
    let mut desk = Desk::new(&[2]).await;
    let peer = identity(2).public_key();
    let framed = framing::encode_json(b"answer");
    desk.outbox.put(&peer, Some("answer-1"), &framed, true, desk.now_ms).await.unwrap();
    assert!(desk.next().await.is_some());
    assert!(matches!(desk.refused(ErrorCode::NotFound).await, Refused::Failed(_)));
    assert!(desk.next().await.is_none(), "it is not forced upon that connection");
    // The next connection, some time later.
    desk.outbox.disconnected();
    desk.now_ms += 60_000;
    desk.outbox.store.repeat_kept(desk.now_ms).await.unwrap();
    desk.outbox.stored_changed();
    assert_eq!(desk.leaves(&[2]).await, "answer");
}
