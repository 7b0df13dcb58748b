//! The data plane against a relay in the test's hands.

use std::time::Duration;

use bytes::BytesMut;
use skald_e2e::features::Features;
use skald_e2e::pipe::{EphemeralKey, PipeKey, PipeOpener, PipeRole, PipeSealer};
use skald_relay_common::ids::ConnectionId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::PipeConnection;
use crate::error::PipeError;
use crate::net::Io;

const ID: ConnectionId = ConnectionId::from_bytes([5; 32]);

fn keys(a: u8, b: u8) -> (PipeKey, PipeKey) {
    let (a, b) = (EphemeralKey::take(&mut [a; 32]), EphemeralKey::take(&mut [b; 32]));
    let (a_pub, b_pub) = (a.public(), b.public());
    (a.agree(&b_pub).unwrap(), b.agree(&a_pub).unwrap())
}

const HALF: Features = Features { half_close: true, streams: false };

struct Rig {
    pipe: PipeConnection,
    relay: TcpStream,
    tasks: TaskTracker,
    end: CancellationToken,
    sealer: PipeSealer,
    opener: PipeOpener,
}

/// This end of a pipe, the relay's socket, and the peer's ciphers. The peer knows of no additions.
async fn rig() -> Rig {
    rig_with(Features::NONE).await
}

async fn rig_with(agreed: Features) -> Rig {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (relay, _) = listener.accept().await.unwrap();
    let (mine, theirs) = keys(1, 2);
    let (sealer, opener) = theirs.into_ciphers(PipeRole::Responder, ID);
    let (tasks, end) = (TaskTracker::new(), CancellationToken::new());
    let pipe = PipeConnection::start(
        Io::Plain(client),
        BytesMut::new(),
        mine.into_ciphers(PipeRole::Initiator, ID),
        agreed,
        end.clone(),
        &tasks,
        Duration::from_secs(75),
    );
    Rig { pipe, relay, tasks, end, sealer, opener }
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    assert!(payload.len() < 126);
    [&[first, payload.len() as u8], payload].concat()
}

impl Rig {
    fn seal(&mut self, text: &[u8]) -> Vec<u8> {
        let mut sealed = text.to_vec();
        self.sealer.seal_in_place(&mut sealed).unwrap();
        sealed
    }

    /// The client's next frame: its first byte and its payload.
    async fn read(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.relay.read_exact(&mut head).await.unwrap();
        let len = match head[1] & 0x7f {
            126 => usize::from(self.relay.read_u16().await.unwrap()),
            127 => self.relay.read_u64().await.unwrap() as usize,
            short => usize::from(short),
        };
        let mut mask = [0; 4];
        self.relay.read_exact(&mut mask).await.unwrap();
        let mut payload = vec![0; len];
        self.relay.read_exact(&mut payload).await.unwrap();
        payload.iter_mut().zip(mask.iter().cycle()).for_each(|(b, m)| *b ^= m);
        (head[0], payload)
    }
}

#[tokio::test]
async fn a_wrong_key_opens_nothing_and_ends_the_pipe() {
    let mut rig = rig().await;
    let (_, stranger) = keys(1, 3);
    let (mut sealer, _) = stranger.into_ciphers(PipeRole::Responder, ID);
    let mut sealed = b"from a stranger".to_vec();
    sealer.seal_in_place(&mut sealed).unwrap();
    let good = rig.seal(b"from the peer");
    rig.relay.write_all(&frame(0x82, &sealed)).await.unwrap();
    rig.relay.write_all(&frame(0x82, &good)).await.unwrap();
    assert!(matches!(rig.pipe.recv().await, Err(PipeError::Cipher)));
    assert!(matches!(rig.pipe.recv().await, Ok(None)), "nothing comes after it");
    assert!(rig.pipe.send(b"x").await.is_err());
}

#[tokio::test]
async fn pings_are_answered_though_the_stream_is_stalled() {
    let mut rig = rig().await;
    rig.relay.write_all(&frame(0x89, b"are you there")).await.unwrap();
    let data = rig.seal(b"data");
    rig.relay.write_all(&frame(0x82, &data)).await.unwrap();
    assert_eq!(rig.pipe.recv().await.unwrap().unwrap(), b"data");
    assert_eq!(rig.read().await, (0x8a, b"are you there".to_vec()));
}

#[tokio::test]
async fn a_message_in_several_frames_is_one_box() {
    let mut rig = rig().await;
    let sealed = rig.seal(b"one box");
    rig.relay.write_all(&frame(0x02, &sealed[..5])).await.unwrap();
    rig.relay.write_all(&frame(0x89, b"")).await.unwrap();
    rig.relay.write_all(&frame(0x00, &sealed[5..9])).await.unwrap();
    rig.relay.write_all(&frame(0x80, &sealed[9..])).await.unwrap();
    assert_eq!(rig.pipe.recv().await.unwrap().unwrap(), b"one box");
}

#[tokio::test]
async fn an_end_without_a_goodbye_is_no_orderly_end() {
    let mut rig = rig().await;
    let sealed = rig.seal(b"cut");
    rig.relay.write_all(&frame(0x82, &sealed)[..6]).await.unwrap();
    drop(rig.relay);
    assert!(matches!(rig.pipe.recv().await, Err(PipeError::Broken(_))));
}

#[tokio::test]
async fn a_goodbye_is_answered_and_ends_the_stream() {
    let mut rig = rig().await;
    rig.relay.write_all(&frame(0x88, &1000u16.to_be_bytes())).await.unwrap();
    assert!(matches!(rig.pipe.recv().await, Ok(None)));
    assert_eq!(rig.read().await.0, 0x88);
    rig.tasks.close();
    rig.tasks.wait().await;
}

#[tokio::test]
async fn what_is_sent_is_sealed_in_order_and_the_goodbye_comes_last() {
    let mut rig = rig().await;
    rig.pipe.send(b"one").await.unwrap();
    rig.pipe.send(b"two").await.unwrap();
    rig.pipe.shutdown().await.unwrap();
    assert!(rig.pipe.send(b"after the goodbye").await.is_err());
    for expected in [b"one", b"two"] {
        let (first, mut payload) = rig.read().await;
        assert_eq!(first, 0x82);
        let n = rig.opener.open_in_place(&mut payload).unwrap();
        assert_eq!(&payload[..n], expected);
    }
    assert_eq!(rig.read().await.0, 0x88);
}

#[tokio::test]
async fn ending_from_outside_wakes_both_halves() {
    let rig = rig().await;
    let (mut sender, mut receiver) = rig.pipe.split();
    let reading = tokio::spawn(async move { receiver.recv().await });
    tokio::task::yield_now().await;
    rig.end.cancel();
    assert!(matches!(reading.await.unwrap(), Err(PipeError::Closed)));
    assert!(matches!(sender.send(b"x").await, Err(PipeError::Closed)));
    rig.tasks.close();
    rig.tasks.wait().await;
}

impl Rig {
    /// The client's next frame, opened.
    async fn opened(&mut self) -> Vec<u8> {
        let (first, mut payload) = self.read().await;
        assert_eq!(first, 0x82);
        let n = self.opener.open_in_place(&mut payload).unwrap();
        payload.truncate(n);
        payload
    }

    async fn say(&mut self, text: &[u8]) {
        let sealed = self.seal(text);
        self.relay.write_all(&frame(0x82, &sealed)).await.unwrap();
    }
}

#[tokio::test]
async fn one_direction_ends_and_the_other_goes_on() {
    let mut rig = rig_with(HALF).await;
    assert!(rig.pipe.half_closes());
    rig.pipe.send(b"request").await.unwrap();
    rig.pipe.shutdown().await.unwrap();
    assert!(matches!(rig.pipe.send(b"more").await, Err(PipeError::Closed)));
    assert_eq!(rig.opened().await, b"request");
    assert_eq!(rig.opened().await, b"", "the mark");
    rig.say(b"a long answer").await;
    assert_eq!(rig.pipe.recv().await.unwrap().unwrap(), b"a long answer");
    // Meanwhile the relay is answered as ever.
    rig.relay.write_all(&frame(0x89, b"there?")).await.unwrap();
    rig.say(b"its rest").await;
    assert_eq!(rig.pipe.recv().await.unwrap().unwrap(), b"its rest");
    assert_eq!(rig.read().await.0, 0x8a);
    rig.say(b"").await;
    assert_eq!(rig.pipe.recv().await.unwrap(), None);
    assert_eq!(rig.pipe.recv().await.unwrap(), None, "the end stays the end");
    assert_eq!(rig.read().await.0, 0x88, "nothing is left to say in either direction");
    rig.tasks.close();
    rig.tasks.wait().await;
}

#[tokio::test]
async fn the_peer_ends_first_and_still_hears_the_rest() {
    let mut rig = rig_with(HALF).await;
    rig.say(b"all I have").await;
    rig.say(b"").await;
    assert_eq!(rig.pipe.recv().await.unwrap().unwrap(), b"all I have");
    assert_eq!(rig.pipe.recv().await.unwrap(), None);
    rig.pipe.send(b"an answer").await.unwrap();
    rig.pipe.shutdown().await.unwrap();
    assert_eq!(rig.opened().await, b"an answer");
    assert_eq!(rig.opened().await, b"");
    assert_eq!(rig.read().await.0, 0x88);
}

#[tokio::test]
async fn a_relay_cannot_end_a_stream_unnoticed() {
    let mut rig = rig_with(HALF).await;
    rig.say(b"the first half").await;
    rig.relay.write_all(&frame(0x88, &1000u16.to_be_bytes())).await.unwrap();
    assert_eq!(rig.pipe.recv().await.unwrap().unwrap(), b"the first half");
    assert!(matches!(rig.pipe.recv().await, Err(PipeError::Truncated)));
    assert!(matches!(rig.pipe.recv().await, Ok(None)), "it is told once");
    // Nor make up the mark itself.
    let mut rig = rig_with(HALF).await;
    rig.relay.write_all(&frame(0x82, &[0; 16])).await.unwrap();
    assert!(matches!(rig.pipe.recv().await, Err(PipeError::Cipher)));
}

#[tokio::test]
async fn closing_marks_the_end_before_the_goodbye() {
    let mut rig = rig_with(HALF).await;
    rig.pipe.send(b"last words").await.unwrap();
    let (pipe, mut relay) = (rig.pipe, rig.relay);
    let closing = tokio::spawn(pipe.close());
    let mut seen = Vec::new();
    while !seen.ends_with(&[0x88, 0x82]) {
        // Kinds and lengths: data, mark, goodbye.
        let mut head = [0; 6];
        relay.read_exact(&mut head).await.unwrap();
        let mut payload = vec![0; usize::from(head[1] & 0x7f)];
        relay.read_exact(&mut payload).await.unwrap();
        seen.extend_from_slice(&head[..2]);
    }
    assert_eq!(seen, [0x82, 0x80 | 26, 0x82, 0x80 | 16, 0x88, 0x82]);
    drop(relay);
    closing.await.unwrap().unwrap();
}

#[tokio::test]
async fn with_a_peer_of_the_first_form_an_empty_piece_says_nothing_and_shutting_down_says_goodbye() {
    let mut rig = rig().await;
    rig.say(b"").await;
    rig.say(b"after it").await;
    assert_eq!(rig.pipe.recv().await.unwrap().unwrap(), b"after it");
    assert!(!rig.pipe.half_closes());
    rig.pipe.shutdown().await.unwrap();
    assert_eq!(rig.read().await.0, 0x88);
}
