//! Whom a push wakes, and with what.

mod common;

use std::sync::Arc;

use async_trait::async_trait;
use common::{Id, Peer, TestRelay};
use skald_relay::Options;
use skald_relay_push::{Bridge, Bridges, Content, Provider, Push, Verdict};
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tokio::sync::mpsc;

type Seen = (String, String, Vec<u8>);

/// Hands every push to the test and calls tokens dead on demand.
struct Probe(mpsc::UnboundedSender<Seen>);

#[async_trait]
impl Bridge for Probe {
    fn provider(&self) -> Provider {
        Provider::Apns
    }

    async fn send(&self, push: &Push) -> Verdict {
        let body = match &push.content {
            Content::Sealed { ciphertext, .. } => ciphertext.to_vec(),
            Content::Wake => b"wake".to_vec(),
        };
        self.0.send((push.device.to_hex(), push.token.as_str().to_owned(), body)).unwrap();
        match push.token.as_str() {
            "dead" => Verdict::TokenDead { since: None },
            "small" if matches!(push.content, Content::Sealed { .. }) => Verdict::TooLarge,
            _ => Verdict::Accepted,
        }
    }
}

fn options() -> (Options, mpsc::UnboundedReceiver<Seen>) {
    let (send, receive) = mpsc::unbounded_channel();
    (Options { push: Some(Bridges::only(Arc::new(Probe(send)))), ..Options::default() }, receive)
}

/// A device that has said its token and gone.
async fn gone(relay: &TestRelay, home: &mut Peer, agent: &Id, phone: &Id, token: &str) {
    let mut device = Peer::try_device(relay.addr(), agent.namespace(), phone, token)
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    device.ws.close(None).await.unwrap();
    home.presence(phone, false).await;
}

/// Asks the database until the device has no token any more.
async fn until_no_token(database: &std::path::Path, device: &Id) {
    let options = SqliteConnectOptions::new().filename(database).read_only(true);
    let mut db = SqliteConnection::connect_with(&options).await.unwrap();
    let asked = async {
        loop {
            let known: Option<String> = sqlx::query_scalar("SELECT push_token FROM clients WHERE key = ?")
                .bind(&device.public.as_bytes()[..])
                .fetch_one(&mut db)
                .await
                .unwrap();
            if known.is_none() {
                return;
            }
        }
    };
    tokio::time::timeout(common::PATIENCE, asked).await.expect("the token is forgotten");
}

#[tokio::test]
async fn messages_to_an_absent_device_make_one_push_with_the_newest() {
    let (options, mut pushes) = options();
    let relay = TestRelay::with(|_| {}, options).await;
    let (agent, phone, tokenless) = (Id::new(1), Id::new(2), Id::new(3));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone, &tokenless]).await;
    gone(&relay, &mut home, &agent, &phone, "a-token").await;
    home.message(&tokenless, "nobody can be woken", 1, false).await;
    for n in 1..=5 {
        home.message(&phone, format!("m{n}"), n, false).await;
    }
    home.settle().await;
    let pushed = pushes.recv().await.unwrap();
    assert_eq!(pushed, (phone.public.to_hex(), "a-token".to_owned(), b"m5".to_vec()));
    relay.running.shutdown().await;
    assert_eq!(pushes.recv().await, None, "there was one push");
}

#[tokio::test]
async fn a_dead_token_is_forgotten_until_the_device_brings_one_again() {
    let (options, mut pushes) = options();
    let relay = TestRelay::with(|s| s.push.window_ms = 1, options).await;
    let (agent, phone, other) = (Id::new(1), Id::new(2), Id::new(3));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone, &other]).await;
    gone(&relay, &mut home, &agent, &phone, "dead").await;
    gone(&relay, &mut home, &agent, &other, "alive").await;
    home.message(&phone, "first", 1, false).await;
    assert_eq!(pushes.recv().await.unwrap().1, "dead");
    // The token goes after the provider's word, which nobody outside hears: ask until it has.
    let db = relay.dir.path().join("relay.db");
    until_no_token(&db, &phone).await;
    home.message(&phone, "second", 2, false).await;
    home.message(&other, "third", 3, false).await;
    assert_eq!(pushes.recv().await.unwrap().1, "alive", "nothing goes to the dead token");
    // The very same token, said anew, counts again.
    gone(&relay, &mut home, &agent, &phone, "dead").await;
    home.message(&phone, "fourth", 4, false).await;
    let again = pushes.recv().await.unwrap();
    assert_eq!(again.1, "dead");
    relay.running.shutdown().await;
}

#[tokio::test]
async fn what_is_too_large_for_the_provider_goes_again_as_a_bare_wake() {
    let (options, mut pushes) = options();
    let relay = TestRelay::with(|s| s.push.window_ms = 1, options).await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    gone(&relay, &mut home, &agent, &phone, "small").await;
    home.message(&phone, "content", 1, false).await;
    assert_eq!(pushes.recv().await.unwrap().2, b"content");
    assert_eq!(pushes.recv().await.unwrap().2, b"wake");
}

#[tokio::test]
async fn a_connected_device_that_confirms_nothing_is_pushed_and_gets_its_message_once() {
    let (options, mut pushes) = options();
    let relay = TestRelay::with(|s| s.limits.pong_timeout_secs = 1, options).await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    let silent = Peer::try_device(relay.addr(), agent.namespace(), &phone, "a-token")
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    home.message(&phone, "are you there", 1, false).await;
    home.settle().await;
    let (_, _, body) = pushes.recv().await.unwrap();
    assert_eq!(body, b"are you there");
    // The push woke it: it connects anew, in place of the socket that only seemed alive.
    let mut awake = Peer::device(relay.addr(), agent.namespace(), &phone).await;
    let message = awake.recv_message().await;
    assert_eq!((&message.ciphertext[..], common::counter(&message)), (&b"are you there"[..], 1));
    // What comes next is newer: there was no second copy in between.
    home.message(&phone, "good", 2, false).await;
    assert_eq!(common::counter(&awake.recv_message().await), 2);
    drop(silent);
}

#[tokio::test]
async fn a_device_that_breaks_off_before_it_has_confirmed_is_pushed() {
    let (options, mut pushes) = options();
    // Longer than any test lasts: it is the end of the connection that tells.
    let change = |s: &mut skald_relay::Settings| {
        s.limits.pong_timeout_secs = 3600;
        s.push.window_ms = 1;
    };
    let relay = TestRelay::with(change, options).await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    let silent = Peer::try_device(relay.addr(), agent.namespace(), &phone, "a-token")
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    home.message(&phone, "half-way", 1, false).await;
    home.settle().await;
    drop(silent);
    assert_eq!(pushes.recv().await.unwrap().2, b"half-way");
}
