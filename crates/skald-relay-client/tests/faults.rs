//! Faults of another implementation that only a relay out of its mind, or a broken disk, brings to light.

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::puppet::{Keys, Puppet, identity, pair_in_window, with_device};
use common::*;
use skald_relay_client::{DeviceState, LinkProblem, LinkState, RelayClient, RelayEvent};
use skald_relay_common::codes::ErrorCode;
use skald_relay_common::frame::{FromPeer, FromRelay, Refusal};

#[tokio::test]
async fn fault_07_a_list_that_cannot_be_read_is_never_sent_as_an_empty_one() {
    let (place, puppet, keys) = (Place::new(), Puppet::new().await, Keys::new(1));
    let (agent, _events, session) = with_device(&place, &puppet, &keys).await;
    // The table is gone; the file is not.
    let db = format!("sqlite://{}", place.path("agent/peers.db").display());
    let other = sqlx::SqlitePool::connect(&db).await.unwrap();
    sqlx::query("ALTER TABLE peers RENAME TO lost").execute(&other).await.unwrap();
    session.cut();

    let mut session = puppet.session().await;
    while let Some(frame) = session.next().await {
        assert!(!matches!(frame, FromPeer::Authorize(_)), "that would revoke every device");
    }
    let mut status = agent.status();
    soon("the cause", async {
        status.wait_for(|s| matches!(s.last_error, Some(LinkProblem::Store(_)))).await.map(drop)
    })
    .await
    .unwrap();

    sqlx::query("ALTER TABLE lost RENAME TO peers").execute(&other).await.unwrap();
    // It heals by itself, with the list as it is.
    let list = loop {
        let mut session = puppet.session().await;
        match session.next().await {
            Some(FromPeer::Authorize(list)) => break list,
            _ => continue,
        }
    };
    assert_eq!(list, [keys.0.public_key()]);
}

#[tokio::test]
async fn fault_13_a_client_paired_without_a_window_changes_nothing() {
    let (place, puppet, keys) = (Place::new(), Puppet::new().await, Keys::new(1));
    let (agent, mut events, mut session) = with_device(&place, &puppet, &keys).await;
    let me = identity(&place.path("agent"));
    agent.send(&keys.0.public_key(), "one", STORED).await.unwrap();
    let (first, _) = keys.open(&me, &session.message().await);
    session.send(keys.seal(&me, 5, b"five")).await;
    assert_eq!(next_message(&mut events).await.1, "five");

    // The known device again, then one that nobody invited.
    session.send(keys.paired()).await;
    session.send(Keys::new(2).paired()).await;
    session.settle().await;
    assert_eq!(agent.devices().await.unwrap().len(), 1);
    agent.send(&keys.0.public_key(), "two", STORED).await.unwrap();
    let (second, _) = keys.open(&me, &session.message().await);
    assert_eq!(second, first + 1, "the counter goes on");
    session.send(keys.seal(&me, 5, b"five again")).await;
    session.send(keys.seal(&me, 6, b"six")).await;
    assert_eq!(next_message(&mut events).await.1, "six", "and so does the mark");
}

#[tokio::test]
async fn fault_13_pairing_again_with_the_same_keys_keeps_both_counters_and_the_admission() {
    let (place, puppet, keys) = (Place::new(), Puppet::new().await, Keys::new(1));
    let (agent, mut events, mut session) = with_device(&place, &puppet, &keys).await;
    let me = identity(&place.path("agent"));
    agent.send(&keys.0.public_key(), "one", STORED).await.unwrap();
    let (first, _) = keys.open(&me, &session.message().await);
    session.send(keys.seal(&me, 5, b"five")).await;
    assert_eq!(next_message(&mut events).await.1, "five");

    pair_in_window(&agent, &mut events, &mut session, &keys).await;
    assert_eq!(agent.devices().await.unwrap()[0].state, DeviceState::Authorized);
    assert_eq!(
        session.authorized().await,
        [keys.0.public_key()],
        "the relay made it pending, and hears that it is not"
    );
    agent.send(&keys.0.public_key(), "two", STORED).await.unwrap();
    let (second, _) = keys.open(&me, &session.message().await);
    assert_eq!(second, first + 1);
    session.send(keys.seal(&me, 5, b"five again")).await;
    session.send(keys.seal(&me, 6, b"six")).await;
    assert_eq!(next_message(&mut events).await.1, "six");
}

#[tokio::test]
async fn a_window_admits_one_device_and_survives_a_reconnection() {
    let (place, puppet) = (Place::new(), Puppet::new().await);
    let (agent, mut events) = agent(&puppet.url(), &place.path("agent")).await;
    let mut session = puppet.session().await;
    session.authorized().await;
    let open = tokio::spawn({
        let agent = agent.clone();
        async move { agent.open_pairing(Duration::from_secs(60)).await.unwrap() }
    });
    session.find(|f| matches!(f, FromPeer::PairingStart { .. }).then_some(())).await;
    session.send(FromRelay::PairingReady(60)).await;
    open.await.unwrap();
    // The device comes while the agent is away; the relay tells it afterwards, twice.
    session.cut();
    let mut session = puppet.session().await;
    session.send(Keys::new(1).paired()).await;
    session.send(Keys::new(1).paired()).await;
    session.send(Keys::new(2).paired()).await;
    let received = next(&mut events).await;
    assert!(matches!(received.event, RelayEvent::Paired { key, .. } if key == Keys::new(1).0.public_key()));
    received.ack().await.unwrap();
    let mut starts = 0;
    session
        .find(|f| {
            starts += usize::from(matches!(f, FromPeer::PairingStart { .. }));
            matches!(f, FromPeer::PairingStop).then_some(())
        })
        .await;
    assert_eq!(starts, 0, "a token that was shown is never put up again");
    session.settle().await;
    assert_eq!(agent.devices().await.unwrap().len(), 1);
}

#[tokio::test]
async fn fault_15_many_senders_leave_with_rising_counters_and_none_is_lost() {
    let (place, puppet, keys) = (Place::new(), Puppet::new().await, Keys::new(1));
    let (agent, _events, mut session) = with_device(&place, &puppet, &keys).await;
    let me = identity(&place.path("agent"));
    let mut senders = tokio::task::JoinSet::new();
    for n in 0..30 {
        let (agent, key) = (agent.clone(), keys.0.public_key());
        senders.spawn(async move {
            // Some callers lose patience half-way.
            let send = agent.send(&key, format!("{n}"), STORED);
            if n % 3 == 0 {
                tokio::time::timeout(Duration::from_micros(50), send).await.is_ok_and(|r| r.is_ok())
            } else {
                send.await.is_ok()
            }
        });
    }
    let taken = senders.join_all().await.into_iter().filter(|ok| *ok).count();
    let mut counters = Vec::new();
    let mut bodies = BTreeSet::new();
    // The connection breaks in the middle, with a message under way that was not proved.
    for _ in 0..taken / 2 {
        let (counter, body) = keys.open(&me, &session.message().await);
        counters.push(counter);
        bodies.insert(body);
    }
    session.cut();
    let mut session = puppet.session().await;
    session.authorized().await;
    while bodies.len() < taken {
        let (counter, body) = keys.open(&me, &session.message().await);
        if counters.last() == Some(&counter) {
            assert!(bodies.contains(&body), "one counter, one plaintext");
            continue;
        }
        counters.push(counter);
        bodies.insert(body);
    }
    assert!(counters.windows(2).all(|w| w[0] < w[1]), "{counters:?}");
}

#[tokio::test]
async fn a_refused_message_is_kept_or_reported_as_its_code_demands() {
    let (place, puppet, keys) = (Place::new(), Puppet::new().await, Keys::new(1));
    let (place, keys) = (place, keys);
    let options = skald_relay_client::AgentOptions {
        timings: skald_relay_client::Timings { queue_full_pause: Duration::from_millis(50), ..timings() },
        ..skald_relay_client::AgentOptions::new(puppet.url(), place.path("agent"))
    };
    let (agent, mut events) = RelayClient::start_agent(options).await.unwrap();
    let mut session = puppet.session().await;
    session.authorized().await;
    pair_in_window(&agent, &mut events, &mut session, &keys).await;
    agent.authorize(&keys.0.public_key()).await.unwrap();
    session.authorized().await;
    let me = identity(&place.path("agent"));
    let key = keys.0.public_key();

    agent.send(&key, "kept", STORED).await.unwrap();
    let (refused, _) = keys.open(&me, &session.message().await);
    session.send(FromRelay::Error(Refusal::new(ErrorCode::QueueFull, ""))).await;
    let (again, body) = keys.open(&me, &session.message().await);
    assert!(again > refused, "the earlier one is certain not to have gone on");
    assert_eq!(&body[2..], b"kept");

    for (code, body) in [(ErrorCode::NotFound, "nobody"), (ErrorCode::PayloadTooLarge, "large")] {
        agent.send(&key, body, STORED).await.unwrap();
        session.message().await;
        session.send(FromRelay::Error(Refusal::new(code, ""))).await;
        let event = next(&mut events).await.event;
        assert!(matches!(event, RelayEvent::SendFailed { peer, .. } if peer == key), "{event:?}");
    }
    agent.send(&key, "after", STORED).await.unwrap();
    assert_eq!(&keys.open(&me, &session.message().await).1[2..], b"after");
    assert_eq!(agent.status().borrow().state, LinkState::Connected);
}

#[tokio::test]
async fn the_relays_proof_of_delivery_is_answered_only_after_the_message_is_durable() {
    let (place, puppet, keys) = (Place::new(), Puppet::new().await, Keys::new(1));
    let (agent, events, mut session) = with_device(&place, &puppet, &keys).await;
    let me = identity(&place.path("agent"));
    for n in 1..=20u64 {
        session.send(keys.seal(&me, n, format!("{n}").as_bytes())).await;
    }
    // The Pong stands for all of them; what it promised is in the store, whatever became of the process.
    session.settle().await;
    drop(events);
    agent.shutdown().await;
    let (_agent, mut events) = common::agent(&puppet.url(), &place.path("agent")).await;
    for n in 1..=20 {
        assert_eq!(next_message(&mut events).await.1, format!("{n}"));
    }
}

#[tokio::test]
async fn fault_18_a_relay_that_never_speaks_is_given_up() {
    let (place, puppet) = (Place::new(), Puppet::new().await);
    let options = skald_relay_client::AgentOptions {
        timings: skald_relay_client::Timings { challenge: Duration::from_millis(50), ..timings() },
        ..skald_relay_client::AgentOptions::new(puppet.url(), place.path("agent"))
    };
    let (agent, _events) = RelayClient::start_agent(options).await.unwrap();
    let _mute = puppet.accept().await;
    let mut status = agent.status();
    soon("the deadline", async {
        status.wait_for(|s| matches!(s.last_error, Some(LinkProblem::TimedOut { .. }))).await.map(drop)
    })
    .await
    .unwrap();
    // And the next attempt comes by itself.
    let mut session = puppet.session().await;
    session.authorized().await;
    reaches(&agent, LinkState::Connected).await;
}

#[tokio::test]
async fn noise_from_a_relay_breaks_nothing() {
    let (place, puppet, keys) = (Place::new(), Puppet::new().await, Keys::new(1));
    let (agent, mut events, mut session) = with_device(&place, &puppet, &keys).await;
    let me = identity(&place.path("agent"));
    let FromRelay::Message(good) = keys.seal(&me, 1, b"good") else { unreachable!() };
    for spoiled in [
        skald_relay_common::frame::Message { peer: Keys::new(9).0.public_key(), ..good.clone() },
        skald_relay_common::frame::Message { ciphertext: good.ciphertext.slice(1..), ..good.clone() },
        skald_relay_common::frame::Message { ciphertext: good.ciphertext.slice(..4), ..good.clone() },
        skald_relay_common::frame::Message { nonce: [0; 12].into(), ..good.clone() },
    ] {
        session.send(FromRelay::Message(spoiled)).await;
    }
    session.send(FromRelay::PairingStopOk).await;
    session.send(FromRelay::AuthorizeOk(99)).await;
    session.send(FromRelay::PairingReady(1)).await;
    session
        .send(FromRelay::Error(Refusal { wire_code: "from the future".into(), message: "x".into() }))
        .await;
    session.send(FromRelay::Message(good)).await;
    assert_eq!(next_message(&mut events).await.1, "good");
    assert_eq!(agent.status().borrow().state, LinkState::Connected);
}

#[tokio::test]
async fn fault_13_a_window_lasts_no_longer_than_was_asked_whatever_the_relay_says() {
    let (place, puppet) = (Place::new(), Puppet::new().await);
    let (agent, _events) = agent(&puppet.url(), &place.path("agent")).await;
    let mut session = puppet.session().await;
    session.authorized().await;
    for (asked, longest) in [(60, 60_000), (0, 300_000)] {
        let open = tokio::spawn({
            let agent = agent.clone();
            async move { agent.open_pairing(Duration::from_secs(asked)).await.unwrap() }
        });
        session.find(|f| matches!(f, FromPeer::PairingStart { .. }).then_some(())).await;
        let before = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        session.send(FromRelay::PairingReady(u32::MAX)).await;
        let window = open.await.unwrap();
        let lasts = window.expires_at.saturating_sub(before.as_millis() as u64);
        assert!(lasts <= longest + 30_000, "asked for {asked} s, open for {lasts} ms");
    }
}

#[tokio::test]
async fn a_relay_that_names_members_without_end_fills_no_memory() {
    let (place, puppet, keys) = (Place::new(), Puppet::new().await, Keys::new(1));
    let (agent, _events, mut session) = with_device(&place, &puppet, &keys).await;
    let device = keys.0.public_key();
    let strangers = (10..60).map(|byte| Keys::new(byte).0.public_key());
    session.send(FromRelay::PresenceEvent { peer: device, online: true }).await;
    for peer in strangers.clone() {
        session.send(FromRelay::PresenceEvent { peer, online: true }).await;
    }
    session.settle().await;
    assert_eq!(**agent.online().borrow(), BTreeSet::from([device]));
    session.send(FromRelay::PresenceList(strangers.chain([device]).collect())).await;
    session.settle().await;
    assert_eq!(**agent.online().borrow(), BTreeSet::from([device]));
}

#[tokio::test]
async fn an_event_shows_nothing_of_a_message() {
    let (place, puppet, keys) = (Place::new(), Puppet::new().await, Keys::new(1));
    let (_agent, mut events, mut session) = with_device(&place, &puppet, &keys).await;
    session.send(keys.seal(&identity(&place.path("agent")), 1, b"ABAB")).await;
    let received = next(&mut events).await;
    let shown = format!("{received:?}");
    assert!(!shown.contains("ABAB") && !shown.contains("65, 66"), "{shown}");
    received.ack().await.unwrap();
}
