//! Whom a push would wake, and with what.

mod common;

use std::sync::Arc;

use async_trait::async_trait;
use common::{Id, Peer, TestRelay};
use skald_relay::Options;
use skald_relay::push::{Push, PushOutcome, PushSender};
use tokio::sync::mpsc;

/// Hands every push to the test and calls tokens dead on demand.
struct Probe(mpsc::UnboundedSender<(String, String, Vec<u8>)>);

#[async_trait]
impl PushSender for Probe {
    async fn send(&self, push: &Push) -> PushOutcome {
        let seen = (push.device.to_hex(), push.token.clone(), push.message.ciphertext.to_vec());
        self.0.send(seen).unwrap();
        if push.token.starts_with("dead") { PushOutcome::TokenDead } else { PushOutcome::Sent }
    }
}

fn options() -> (Options, mpsc::UnboundedReceiver<(String, String, Vec<u8>)>) {
    let (send, receive) = mpsc::unbounded_channel();
    (Options { push: Arc::new(Probe(send)), ..Options::default() }, receive)
}

#[tokio::test]
async fn messages_to_an_absent_device_make_one_push_with_the_newest() {
    let (options, mut pushes) = options();
    let relay = TestRelay::with(|_| {}, options).await;
    let (agent, phone, tokenless) = (Id::new(1), Id::new(2), Id::new(3));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone, &tokenless]).await;
    let mut device = Peer::try_device(relay.addr(), agent.namespace(), &phone, "a-token")
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    device.ws.close(None).await.unwrap();
    home.presence(&phone, false).await;
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
async fn a_connected_device_that_confirms_nothing_counts_as_absent() {
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
    drop(silent);
}
