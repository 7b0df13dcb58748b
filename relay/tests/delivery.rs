//! Messages through a running relay: nothing accepted is lost, and everything comes in order.

mod common;

use common::{Id, Peer, TestRelay, code, counter, message};
use skald_relay::Options;
use skald_relay_common::ErrorCode;
use skald_relay_common::frame::{FromPeer, FromRelay};
use tokio::io::AsyncReadExt as _;

#[tokio::test]
async fn a_message_arrives_from_its_authenticated_sender_to_the_byte() {
    let relay = TestRelay::start().await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    let mut device = Peer::device(relay.addr(), agent.namespace(), &phone).await;
    let body: Vec<u8> = (0..=255).cycle().take(5000).collect();
    home.message(&phone, body.clone(), 77, false).await;
    let mut expected = message(&agent, body, 77, false);
    assert_eq!(device.recv_message().await, expected);
    device.message(&agent, "back", 5, false).await;
    expected = message(&phone, "back", 5, false);
    assert_eq!(home.recv_message().await, expected);
}

#[tokio::test]
async fn fault_01_messages_to_a_connected_but_dead_socket_arrive_after_the_device_comes_back() {
    let relay = TestRelay::start().await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    // This device has gone and nobody knows: it reads nothing and says no goodbye.
    let dead = Peer::device(relay.addr(), agent.namespace(), &phone).await;
    for n in 1..=10 {
        home.message(&phone, format!("m{n}"), n, false).await;
    }
    home.settle().await;
    let mut device = Peer::device(relay.addr(), agent.namespace(), &phone).await;
    for n in 1..=10 {
        assert_eq!(device.recv_message().await.ciphertext, format!("m{n}"));
    }
    drop(dead);
}

#[tokio::test]
async fn fault_02_what_reached_the_socket_but_was_not_confirmed_comes_again() {
    let relay = TestRelay::start().await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    let mut device = Peer::device(relay.addr(), agent.namespace(), &phone).await;
    device.settle().await;
    home.message(&phone, "CONFIRM-ME", 1, false).await;
    // The bytes are read below the WebSocket, so no Pong goes back.
    let mut seen = Vec::new();
    while !seen.windows(10).any(|part| part == b"CONFIRM-ME") {
        let mut buffer = [0; 1024];
        let read = device.ws.get_mut().read(&mut buffer).await.unwrap();
        assert!(read > 0);
        seen.extend_from_slice(&buffer[..read]);
    }
    drop(device);
    let mut device = Peer::device(relay.addr(), agent.namespace(), &phone).await;
    assert_eq!(device.recv_message().await.ciphertext, "CONFIRM-ME");
}

#[tokio::test]
async fn a_confirmed_message_does_not_come_again() {
    let relay = TestRelay::start().await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    home.message(&phone, "once", 1, false).await;
    home.settle().await;
    let mut device = Peer::device(relay.addr(), agent.namespace(), &phone).await;
    assert_eq!(device.recv_message().await.ciphertext, "once");
    // The Pong leaves before this request, and the relay reads in order.
    device.settle().await;
    device.ws.close(None).await.unwrap();
    device.rest().await;
    home.presence(&phone, false).await;
    // The relay joins its connections before it closes, so the deletion is on disk.
    relay.running.shutdown().await;
    let running = common::start_in(relay.dir.path(), |_| {}, Options::default()).await;
    let mut device = Peer::device(running.local_addr(), agent.namespace(), &phone).await;
    device.send(FromPeer::PresenceRequest).await;
    assert!(matches!(device.recv().await, FromRelay::PresenceList(_)));
}

#[tokio::test]
async fn fault_03_newer_message_never_overtakes_queue() {
    let relay = TestRelay::start().await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    for n in 1..=40 {
        home.message(&phone, vec![7; 20_000], n, false).await;
    }
    home.settle().await;
    let device = tokio::spawn({
        let (addr, namespace, phone) = (relay.addr(), agent.namespace(), phone.clone());
        async move {
            let mut device = Peer::device(addr, namespace, &phone).await;
            let mut seen = Vec::new();
            // The last one is durable and so comes in any case.
            while seen.last() != Some(&55) {
                seen.push(counter(&device.recv_message().await));
            }
            seen
        }
    });
    for n in 41..=55 {
        home.message(&phone, "now", n, n % 2 == 0).await;
    }
    let seen = device.await.unwrap();
    assert!(seen.is_sorted(), "{seen:?}");
    assert!((1..=40).all(|n| seen.contains(&n)), "{seen:?}");
}

#[tokio::test]
async fn fault_04_messages_wait_for_an_absent_agent_too() {
    let relay = TestRelay::start().await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    let mut device = Peer::device(relay.addr(), agent.namespace(), &phone).await;
    home.ws.close(None).await.unwrap();
    device.presence(&agent, false).await;
    device.message(&agent, "while you were out", 1, false).await;
    device.settle().await;
    let mut home = Peer::agent(relay.addr(), &agent).await;
    assert_eq!(home.recv_message().await.ciphertext, "while you were out");
}

#[tokio::test]
async fn fault_05_the_live_flag_arrives_as_it_was_sent() {
    let relay = TestRelay::start().await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    let mut device = Peer::device(relay.addr(), agent.namespace(), &phone).await;
    device.settle().await;
    for (n, live) in [true, false, true].into_iter().enumerate() {
        home.message(&phone, "x", n as u64 + 1, live).await;
        assert_eq!(device.recv_message().await.live, live);
    }
}

#[tokio::test]
async fn a_live_message_to_an_absent_peer_is_answered_and_not_kept() {
    let relay = TestRelay::start().await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    home.message(&phone, "now or never", 1, true).await;
    assert_eq!(home.recv().await, FromRelay::PeerOffline(phone.public));
    let mut device = Peer::device(relay.addr(), agent.namespace(), &phone).await;
    device.send(FromPeer::PresenceRequest).await;
    assert!(matches!(device.recv().await, FromRelay::PresenceList(_)));
}

#[tokio::test]
async fn a_recipient_outside_the_namespace_is_not_found() {
    let relay = TestRelay::start().await;
    let (agent, phone, other) = (Id::new(1), Id::new(2), Id::new(3));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    let mut elsewhere = Peer::home(relay.addr(), &other, &[]).await;
    for live in [false, true] {
        home.message(&other, "x", 1, live).await;
        assert_eq!(home.refusal().await, ErrorCode::NotFound);
    }
    elsewhere.send(FromPeer::PresenceRequest).await;
    assert_eq!(elsewhere.recv().await, FromRelay::PresenceList(vec![other.public]));
}

#[tokio::test]
async fn fault_12_an_oversize_frame_gets_its_code_though_the_peer_is_still_sending() {
    let relay = TestRelay::start().await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut stranger = Peer::open(relay.addr()).await;
    assert!(matches!(stranger.recv().await, FromRelay::Challenge(_)));
    stranger.message(&phone, vec![0; 64 * 1024], 1, true).await;
    assert_eq!(stranger.refusal().await, ErrorCode::PayloadTooLarge);
    assert!(stranger.rest().await.is_empty());

    for (len, live) in [(64 * 1024, false), (512 * 1024, true), (4 * 1024 * 1024, true)] {
        let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
        let frame = FromPeer::Message(message(&phone, vec![0; len], 1, live));
        // The relay answers before it has read all of it; writing may fail, reading must not.
        let _ = futures_util::SinkExt::send(
            &mut home.ws,
            tokio_tungstenite::tungstenite::Message::Binary(frame.encode().into()),
        )
        .await;
        assert_eq!(home.refusal().await, ErrorCode::PayloadTooLarge, "{len} bytes, live {live}");
    }
}

#[tokio::test]
async fn the_largest_live_message_passes() {
    let relay = TestRelay::start().await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    let mut device = Peer::device(relay.addr(), agent.namespace(), &phone).await;
    device.settle().await;
    home.message(&phone, vec![3; 524_000], 1, true).await;
    assert_eq!(device.recv_message().await.ciphertext.len(), 524_000);
}

#[tokio::test]
async fn the_message_over_the_queues_bound_is_refused_and_the_others_are_kept() {
    let relay = TestRelay::with(|s| s.limits.queue_per_client = 3, Options::default()).await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    for n in 1..=4 {
        home.message(&phone, format!("{n}"), n, false).await;
    }
    assert_eq!(code(&home.recv().await), ErrorCode::QueueFull);
    let mut device = Peer::device(relay.addr(), agent.namespace(), &phone).await;
    for n in 1..=3 {
        assert_eq!(counter(&device.recv_message().await), n);
    }
}

#[tokio::test]
async fn fault_26_a_live_message_between_connected_peers_needs_no_database() {
    let relay = TestRelay::start().await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    let mut device = Peer::device(relay.addr(), agent.namespace(), &phone).await;
    // Once this has come through, its queue has been read.
    home.message(&phone, "first", 1, true).await;
    assert_eq!(device.recv_message().await.ciphertext, "first");
    break_database(relay.dir.path()).await;
    home.message(&phone, "live", 2, true).await;
    assert_eq!(device.recv_message().await.ciphertext, "live");
    // What does need it fails as the relay's own fault, and ends the connection.
    home.message(&phone, "stored", 3, false).await;
    assert_eq!(home.refusal().await, ErrorCode::Internal);
    assert!(home.rest().await.is_empty());
    let mut again = Peer::open(relay.addr()).await;
    let other = Id::new(9);
    let answer = again.auth(&other, skald_relay_common::frame::Role::Agent(other.public)).await;
    assert_eq!(code(&answer), ErrorCode::Internal);
}

/// Makes every statement of the relay fail.
async fn break_database(dir: &std::path::Path) {
    use sqlx::{Connection as _, Executor as _};
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(dir.join("relay.db"));
    let mut db = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    for table in ["namespaces", "clients", "queue"] {
        let rename = format!("ALTER TABLE {table} RENAME TO gone_{table}");
        db.execute(sqlx::AssertSqlSafe(rename)).await.unwrap();
    }
}
