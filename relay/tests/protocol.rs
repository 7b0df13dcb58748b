//! Authentication, pairing, authorisation, presence and limits through a running relay.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use common::{Id, Peer, TestRelay, code, pair};
use skald_relay::{Clock, Options};
use skald_relay_common::ErrorCode;
use skald_relay_common::frame::{FromPeer, FromRelay, Role};
use skald_relay_common::ids::PairingToken;
use tokio_tungstenite::tungstenite::Error as WsError;

const TOKEN: PairingToken = PairingToken::from_bytes([0x5d; 32]);

#[tokio::test]
async fn a_device_pairs_waits_and_is_admitted() {
    let relay = TestRelay::start().await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::agent(relay.addr(), &agent).await;
    let ns = agent.namespace();
    assert_eq!(code(&pair(relay.addr(), ns, &phone, TOKEN, "").await), ErrorCode::PairingClosed);
    home.open_window(TOKEN).await;
    assert!(matches!(pair(relay.addr(), ns, &phone, TOKEN, "").await, FromRelay::AuthOk(_)));
    let FromRelay::ClientPaired(paired) = home.recv().await else { panic!("the agent is told") };
    assert_eq!((paired.key, paired.platform.name()), (phone.public, "ios"));
    assert_eq!(code(&pair(relay.addr(), ns, &Id::new(3), TOKEN, "").await), ErrorCode::PairingClosed);
    let early = Peer::try_device(relay.addr(), ns, &phone, "").await;
    assert_eq!(early.err(), Some(ErrorCode::Unauthorized));
    home.authorize(&[&phone]).await;
    Peer::device(relay.addr(), ns, &phone).await;
}

#[tokio::test]
async fn an_agent_that_was_away_learns_of_the_pairing_when_it_returns() {
    let relay = TestRelay::start().await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::agent(relay.addr(), &agent).await;
    home.open_window(TOKEN).await;
    home.ws.close(None).await.unwrap();
    home.rest().await;
    assert!(matches!(pair(relay.addr(), agent.namespace(), &phone, TOKEN, "").await, FromRelay::AuthOk(_)));
    let mut home = Peer::agent(relay.addr(), &agent).await;
    assert!(matches!(home.recv().await, FromRelay::ClientPaired(paired) if paired.key == phone.public));
}

#[tokio::test]
async fn fault_06_a_pending_device_outlives_an_authorize_and_can_be_admitted_later() {
    let relay = TestRelay::start().await;
    let (agent, phone, tablet) = (Id::new(1), Id::new(2), Id::new(3));
    let mut home = Peer::agent(relay.addr(), &agent).await;
    home.open_window(TOKEN).await;
    pair(relay.addr(), agent.namespace(), &phone, TOKEN, "").await;
    home.authorize(&[&tablet]).await;
    home.authorize(&[&tablet, &phone]).await;
    Peer::device(relay.addr(), agent.namespace(), &phone).await;
}

#[tokio::test]
async fn a_revoked_device_is_cut_off_and_its_queue_is_gone() {
    let relay = TestRelay::start().await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    let mut device = Peer::device(relay.addr(), agent.namespace(), &phone).await;
    home.authorize(&[]).await;
    let seen = device.rest().await;
    assert_eq!(code(seen.last().unwrap()), ErrorCode::Unauthorized);
    home.message(&phone, "x", 1, false).await;
    assert_eq!(home.refusal().await, ErrorCode::NotFound);
    let again = Peer::try_device(relay.addr(), agent.namespace(), &phone, "").await;
    assert_eq!(again.err(), Some(ErrorCode::Unauthorized));
}

#[tokio::test]
async fn after_a_displacement_the_last_word_is_online() {
    let relay = TestRelay::start().await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    let mut first = Peer::device(relay.addr(), agent.namespace(), &phone).await;
    let second = Peer::device(relay.addr(), agent.namespace(), &phone).await;
    first.rest().await;
    home.presence(&phone, true).await;
    home.presence(&phone, true).await;
    home.send(FromPeer::PresenceRequest).await;
    // Between the second ONLINE and the list nothing about the first connection's end may come.
    let Some(FromRelay::PresenceList(mut online)) = home.try_recv().await else {
        panic!("the list comes next")
    };
    online.sort();
    let mut expected = vec![agent.public, phone.public];
    expected.sort();
    assert_eq!(online, expected);
    drop(second);
    home.presence(&phone, false).await;
}

#[tokio::test]
async fn a_window_ends_with_its_time_by_the_relays_clock() {
    let time = Arc::new(AtomicI64::new(1_000_000));
    let clock = Clock::from_fn({
        let time = Arc::clone(&time);
        move || time.load(Ordering::SeqCst)
    });
    let relay = TestRelay::with(|_| {}, Options { clock, ..Options::default() }).await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::agent(relay.addr(), &agent).await;
    home.open_window(TOKEN).await;
    time.fetch_add(300_000, Ordering::SeqCst);
    let late = pair(relay.addr(), agent.namespace(), &phone, TOKEN, "").await;
    assert_eq!(code(&late), ErrorCode::PairingClosed);
}

#[tokio::test]
async fn strangers_from_one_address_are_held_off_before_the_upgrade_and_members_are_not() {
    let relay = TestRelay::with(|s| s.limits.connections_per_ip_per_minute = 5, Options::default()).await;
    let agent = Id::new(1);
    for _ in 0..20 {
        Peer::agent(relay.addr(), &agent).await;
    }
    let mut strangers = Vec::new();
    let refused = loop {
        let stream = tokio::net::TcpStream::connect(relay.addr()).await.unwrap();
        let url = format!("ws://{}/v1/ws", relay.addr());
        match tokio_tungstenite::client_async(url, stream).await {
            Ok((ws, _)) => strangers.push(ws),
            Err(WsError::Http(response)) => break response.status().as_u16(),
            Err(other) => panic!("{other}"),
        }
        assert!(strangers.len() <= 6);
    };
    assert_eq!(refused, 429);
}

#[tokio::test]
async fn a_namespace_may_not_open_connections_without_end() {
    let relay =
        TestRelay::with(|s| s.limits.connections_per_namespace_per_minute = 5, Options::default()).await;
    let agent = Id::new(1);
    for _ in 0..5 {
        Peer::agent(relay.addr(), &agent).await;
    }
    let mut sixth = Peer::open(relay.addr()).await;
    assert_eq!(code(&sixth.auth(&agent, Role::Agent(agent.public)).await), ErrorCode::RateLimited);
    Peer::agent(relay.addr(), &Id::new(2)).await;
}

#[tokio::test]
async fn a_flooder_is_refused_and_then_closed() {
    let relay = TestRelay::start().await;
    let agent = Id::new(1);
    let mut home = Peer::agent(relay.addr(), &agent).await;
    for _ in 0..200 {
        let frame =
            tokio_tungstenite::tungstenite::Message::Binary(FromPeer::PresenceRequest.encode().into());
        if futures_util::SinkExt::send(&mut home.ws, frame).await.is_err() {
            break;
        }
    }
    let seen = home.rest().await;
    let answered = seen.iter().filter(|frame| matches!(frame, FromRelay::PresenceList(_))).count();
    assert!((60..65).contains(&answered), "{answered}");
    assert_eq!(code(seen.last().unwrap()), ErrorCode::RateLimited);
}

#[tokio::test]
async fn a_namespace_that_nobody_uses_is_forgotten_with_its_devices() {
    let time = Arc::new(AtomicI64::new(1_000_000));
    let clock = Clock::from_fn({
        let time = Arc::clone(&time);
        move || time.load(Ordering::SeqCst)
    });
    let dir = tempfile::tempdir().unwrap();
    let options = || Options { clock: clock.clone(), ..Options::default() };
    let (agent, phone) = (Id::new(1), Id::new(2));
    let relay = common::start_in(dir.path(), |_| {}, options()).await;
    Peer::home(relay.local_addr(), &agent, &[&phone]).await;
    relay.shutdown().await;
    time.fetch_add(7 * 24 * 60 * 60 * 1000 + 1, Ordering::SeqCst);
    // A relay sweeps as it starts, and shutting it down waits for that.
    common::start_in(dir.path(), |_| {}, options()).await.shutdown().await;
    let relay = common::start_in(dir.path(), |_| {}, options()).await;
    let gone = Peer::try_device(relay.local_addr(), agent.namespace(), &phone, "").await;
    assert_eq!(gone.err(), Some(ErrorCode::NotFound));
    Peer::agent(relay.local_addr(), &agent).await;
    let gone = Peer::try_device(relay.local_addr(), agent.namespace(), &phone, "").await;
    assert_eq!(gone.err(), Some(ErrorCode::Unauthorized));
}

#[tokio::test]
async fn a_stopping_relay_says_that_it_goes_away() {
    let relay = TestRelay::start().await;
    let mut home = Peer::agent(relay.addr(), &Id::new(1)).await;
    let mut stranger = Peer::open(relay.addr()).await;
    stranger.recv().await;
    let stopping = tokio::spawn(relay.running.shutdown());
    for peer in [&mut home, &mut stranger] {
        let close = loop {
            match futures_util::StreamExt::next(&mut peer.ws).await {
                Some(Ok(tokio_tungstenite::tungstenite::Message::Close(frame))) => break frame,
                Some(Ok(_)) => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(u16::from(close.unwrap().code), 1001);
        // Reading on sends the answer.
        while let Some(Ok(_)) = futures_util::StreamExt::next(&mut peer.ws).await {}
    }
    stopping.await.unwrap();
}
