//! Pipes through a running relay.

mod common;

use std::time::Duration;

use common::{Id, Peer, TestRelay, bytes, dial};
use futures_util::{SinkExt as _, StreamExt as _};
use skald_relay::Options;
use tokio_tungstenite::tungstenite::Message as Ws;

async fn home(relay: &TestRelay) -> (Id, Id, Peer) {
    let (agent, phone) = (Id::new(1), Id::new(2));
    let home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    (agent, phone, home)
}

#[tokio::test]
async fn bytes_pass_both_ways_whatever_their_size() {
    let relay = TestRelay::start().await;
    let (agent, phone, _home) = home(&relay).await;
    let cid = [1; 32].into();
    let mut a = dial(relay.addr(), &agent, &phone, agent.namespace(), cid).await;
    // What comes before the partner waits for it.
    a.send(Ws::Binary(b"early".as_slice().into())).await.unwrap();
    let mut b = dial(relay.addr(), &phone, &agent, agent.namespace(), cid).await;
    assert_eq!(bytes(&mut b).await.unwrap(), b"early");
    for size in [0, 1, 125, 126, 65_535, 65_536, 1 << 20] {
        let blob: Vec<u8> = (0..size).map(|n| (n * 31 + 7) as u8).collect();
        a.send(Ws::Binary(blob.clone().into())).await.unwrap();
        assert_eq!(bytes(&mut b).await.unwrap(), blob);
        b.send(Ws::Binary(blob.clone().into())).await.unwrap();
        assert_eq!(bytes(&mut a).await.unwrap(), blob);
    }
    // Many small frames at once are gathered and still come one by one.
    for n in 0..1000u32 {
        a.feed(Ws::Binary(n.to_be_bytes().to_vec().into())).await.unwrap();
    }
    a.flush().await.unwrap();
    for n in 0..1000u32 {
        assert_eq!(bytes(&mut b).await.unwrap(), n.to_be_bytes());
    }
    // A ping is answered on its own leg.
    b.send(Ws::Ping(b"here?".as_slice().into())).await.unwrap();
    assert_eq!(b.next().await.unwrap().unwrap(), Ws::Pong(b"here?".as_slice().into()));
    a.close(None).await.unwrap();
    assert_eq!(bytes(&mut b).await, None);
}

#[tokio::test]
async fn fault_09_revoking_a_device_ends_its_pipes() {
    let relay = TestRelay::start().await;
    let (agent, phone, mut home) = home(&relay).await;
    let cid = [1; 32].into();
    let mut a = dial(relay.addr(), &agent, &phone, agent.namespace(), cid).await;
    let mut b = dial(relay.addr(), &phone, &agent, agent.namespace(), cid).await;
    a.send(Ws::Binary(b"x".as_slice().into())).await.unwrap();
    assert_eq!(bytes(&mut b).await.unwrap(), b"x");
    let mut waiting = dial(relay.addr(), &phone, &agent, agent.namespace(), [2; 32].into()).await;
    waiting.send(Ws::Ping(Vec::new().into())).await.unwrap();
    assert!(matches!(waiting.next().await, Some(Ok(Ws::Pong(_)))));
    home.authorize(&[]).await;
    for side in [&mut a, &mut b, &mut waiting] {
        assert_eq!(bytes(side).await, None);
    }
}

#[tokio::test]
async fn fault_10_a_stalled_direction_does_not_hold_up_the_other() {
    let relay = TestRelay::start().await;
    let (agent, phone, _home) = home(&relay).await;
    let cid = [1; 32].into();
    let a = dial(relay.addr(), &agent, &phone, agent.namespace(), cid).await;
    let mut b = dial(relay.addr(), &phone, &agent, agent.namespace(), cid).await;
    let (mut a_send, mut a_recv) = a.split();
    // b never reads, so this stands still once the sockets are full.
    let flood =
        tokio::spawn(async move { while a_send.send(Ws::Binary(vec![0; 1 << 20].into())).await.is_ok() {} });
    for n in 0..50u8 {
        b.send(Ws::Binary(vec![n; 1000].into())).await.unwrap();
        let got = tokio::time::timeout(common::PATIENCE, a_recv.next()).await.unwrap();
        assert_eq!(got.unwrap().unwrap(), Ws::Binary(vec![n; 1000].into()));
    }
    flood.abort();
}

#[tokio::test]
async fn who_does_not_belong_is_let_go() {
    let relay = TestRelay::start().await;
    let (agent, phone, _home) = home(&relay).await;
    let (stranger, ns) = (Id::new(9), agent.namespace());
    let mut p = dial(relay.addr(), &stranger, &agent, ns, [1; 32].into()).await;
    assert_eq!(bytes(&mut p).await, None);
    let mut a = dial(relay.addr(), &agent, &stranger, ns, [2; 32].into()).await;
    let mut b = dial(relay.addr(), &phone, &agent, ns, [2; 32].into()).await;
    assert_eq!((bytes(&mut a).await, bytes(&mut b).await), (None, None));
}

#[tokio::test]
async fn the_cap_counts_waiting_pipes_and_a_place_is_given_again() {
    let relay = TestRelay::with(|s| s.pipe.max_per_ns = 1, Options::default()).await;
    let (agent, phone, _home) = home(&relay).await;
    let ns = agent.namespace();
    let mut a = dial(relay.addr(), &agent, &phone, ns, [1; 32].into()).await;
    a.send(Ws::Ping(Vec::new().into())).await.unwrap();
    assert!(matches!(a.next().await, Some(Ok(Ws::Pong(_)))));
    let mut full = dial(relay.addr(), &agent, &phone, ns, [2; 32].into()).await;
    assert_eq!(bytes(&mut full).await, None);
    a.close(None).await.unwrap();
    while a.next().await.is_some() {}
    let mut a = dial(relay.addr(), &agent, &phone, ns, [3; 32].into()).await;
    let mut b = dial(relay.addr(), &phone, &agent, ns, [3; 32].into()).await;
    a.send(Ws::Binary(b"again".as_slice().into())).await.unwrap();
    assert_eq!(bytes(&mut b).await.unwrap(), b"again");
}

#[tokio::test]
async fn a_frame_over_the_cap_ends_both_sides() {
    let relay = TestRelay::with(|s| s.pipe.max_frame_bytes = 1000, Options::default()).await;
    let (agent, phone, _home) = home(&relay).await;
    let cid = [1; 32].into();
    let mut a = dial(relay.addr(), &agent, &phone, agent.namespace(), cid).await;
    let mut b = dial(relay.addr(), &phone, &agent, agent.namespace(), cid).await;
    a.send(Ws::Binary(vec![1; 1000].into())).await.unwrap();
    assert_eq!(bytes(&mut b).await.unwrap().len(), 1000);
    a.send(Ws::Binary(vec![1; 1001].into())).await.unwrap();
    assert_eq!((bytes(&mut a).await, bytes(&mut b).await), (None, None));
}

#[tokio::test]
async fn a_side_that_waits_in_vain_and_a_pipe_at_rest_are_let_go() {
    let relay = TestRelay::with(
        |s| {
            s.pipe.pending_ttl_secs = 1;
            s.pipe.idle_timeout_secs = 1;
        },
        Options::default(),
    )
    .await;
    let (agent, phone, _home) = home(&relay).await;
    let ns = agent.namespace();
    let mut alone = dial(relay.addr(), &agent, &phone, ns, [1; 32].into()).await;
    assert_eq!(bytes(&mut alone).await, None);
    let mut a = dial(relay.addr(), &agent, &phone, ns, [2; 32].into()).await;
    let mut b = dial(relay.addr(), &phone, &agent, ns, [2; 32].into()).await;
    a.send(Ws::Binary(b"x".as_slice().into())).await.unwrap();
    assert_eq!(bytes(&mut b).await.unwrap(), b"x");
    assert_eq!((bytes(&mut a).await, bytes(&mut b).await), (None, None));
}

#[tokio::test]
async fn a_bandwidth_limit_slows_a_pipe_and_loses_nothing() {
    let relay = TestRelay::with(|s| s.pipe.max_bps = 1_000_000, Options::default()).await;
    let (agent, phone, _home) = home(&relay).await;
    let cid = [1; 32].into();
    let mut a = dial(relay.addr(), &agent, &phone, agent.namespace(), cid).await;
    let mut b = dial(relay.addr(), &phone, &agent, agent.namespace(), cid).await;
    let started = std::time::Instant::now();
    let send = async {
        for n in 0..10u8 {
            a.send(Ws::Binary(vec![n; 100_000].into())).await.unwrap();
        }
    };
    let recv = async {
        for n in 0..10u8 {
            assert_eq!(bytes(&mut b).await.unwrap(), vec![n; 100_000]);
        }
    };
    tokio::join!(send, recv);
    // A megabyte at a megabyte a second, less the burst: it cannot have been faster.
    assert!(started.elapsed() > Duration::from_millis(500));
}
