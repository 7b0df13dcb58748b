//! Agent and device over a real relay: pairing, admission, messages, restarts.

mod common;

use std::time::Duration;

use common::*;
use skald_relay_client::{
    AgentOptions, DeviceError, DeviceState, LinkState, RelayClient, RelayEvent, SendError, StartError, device,
};

#[tokio::test]
async fn a_device_pairs_waits_is_admitted_and_talks() {
    let place = Place::new();
    let relay = relay(&place.path("relay")).await;
    let (agent, mut agent_events) = agent(&relay.url(), &place.path("agent")).await;
    let (phone, mut phone_events, key) = pair(&agent, &mut agent_events, &place.path("phone")).await;

    reaches(&phone, LinkState::AwaitingAdmission).await;
    let devices = agent.devices().await.unwrap();
    assert_eq!((devices.len(), devices[0].key, devices[0].state), (1, key, DeviceState::Pending));
    assert_eq!(Some(devices[0].verification_code), phone.verification_code().await.unwrap());
    assert!(matches!(agent.send(&key, "{}", STORED).await, Err(SendError::UnknownPeer)));
    // What it has to say waits with it.
    phone.outbox_put("hello", r#"{"kind":"hello"}"#).await.unwrap();

    agent.authorize(&key).await.unwrap();
    reaches(&phone, LinkState::Connected).await;
    assert_eq!(next_message(&mut agent_events).await, (key, r#"{"kind":"hello"}"#.into(), false));
    agent.send(&key, r#"{"kind":"inbox_update"}"#, STORED).await.unwrap();
    let owner = agent.identity().ed25519_pub;
    assert_eq!(next_message(&mut phone_events).await, (owner, r#"{"kind":"inbox_update"}"#.into(), false));
    sees(&agent, &key).await;
    agent.send(&key, r#"{"live":1}"#, LIVE).await.unwrap();
    assert_eq!(next_message(&mut phone_events).await, (owner, r#"{"live":1}"#.into(), true));

    assert!(phone.outbox_confirm("hello").await.unwrap());
    assert!(phone.outbox().await.unwrap().is_empty());
    phone.shutdown().await;
    agent.shutdown().await;
    assert_eq!(agent.status().borrow().state, LinkState::Stopped);
    assert!(agent_events.next().await.is_none());
    relay.shutdown().await;
}

#[tokio::test]
async fn messages_to_an_absent_device_arrive_once_and_in_order_after_both_ends_restarted() {
    let mut c = couple().await;
    c.device.shutdown().await;
    for n in 0..5 {
        c.agent.send(&c.key, format!("{{\"n\":{n}}}"), STORED).await.unwrap();
    }
    assert!(c.agent.flush(PATIENCE).await);
    c.agent.shutdown().await;
    let (agent, _events) = agent(&c.url, &c.place.path("agent")).await;
    agent.send(&c.key, r#"{"n":5}"#, STORED).await.unwrap();
    let (device, mut events) = device::start(device_options(&c.place.path("device"))).await.unwrap();
    for n in 0..6 {
        assert_eq!(next_message(&mut events).await.1, format!("{{\"n\":{n}}}"));
    }
    // And back.
    device.send(&device.agent().unwrap(), "{}", STORED).await.unwrap();
    c.agent_events = _events;
    assert_eq!(next_message(&mut c.agent_events).await.1, "{}");
}

#[tokio::test]
async fn fault_14_an_event_that_was_not_acknowledged_comes_again_and_an_acknowledged_one_does_not() {
    let mut c = couple().await;
    let owner = c.device.agent().unwrap();
    for n in 0..3 {
        c.device.send(&owner, format!("{n}"), STORED).await.unwrap();
    }
    let first = next(&mut c.agent_events).await;
    assert!(first.is_durable());
    first.ack().await.unwrap();
    let second = next(&mut c.agent_events).await;
    let third = next(&mut c.agent_events).await;
    third.ack().await.unwrap();
    drop(second);
    c.agent.shutdown().await;

    let (_agent, mut events) = agent(&c.url, &c.place.path("agent")).await;
    assert_eq!(next_message(&mut events).await.1, "1");
    c.device.send(&owner, "3", STORED).await.unwrap();
    assert_eq!(next_message(&mut events).await.1, "3");
}

#[tokio::test]
async fn only_the_newest_of_a_slot_leaves() {
    let mut c = couple().await;
    c.relay.shutdown().await;
    reaches(&c.agent, LinkState::Waiting).await;
    for n in 0..20 {
        c.agent.send_latest(&c.key, "inbox", format!("{n}"), STORED).await.unwrap();
    }
    c.agent.send(&c.key, "last", STORED).await.unwrap();
    let port = c.url.rsplit(':').next().unwrap().split('/').next().unwrap().parse().unwrap();
    let _relay = relay_on(&c.place.path("relay"), port, |_| {}).await;
    assert_eq!(next_message(&mut c.device_events).await.1, "19");
    assert_eq!(next_message(&mut c.device_events).await.1, "last");
}

#[tokio::test]
async fn the_outbox_survives_and_repeats_until_it_is_confirmed() {
    let mut c = couple().await;
    c.device.outbox_put("answer-1", "first").await.unwrap();
    c.device.outbox_put("answer-1", "better").await.unwrap();
    loop {
        let (_, body, _) = next_message(&mut c.agent_events).await;
        if body == "better" {
            break;
        }
    }
    assert!(c.device.flush(PATIENCE).await);
    c.device.shutdown().await;
    // As if some time had passed: the shortest pause between two sendings of one message.
    let db = format!("sqlite://{}", c.place.path("device/peers.db").display());
    let store = sqlx::SqlitePool::connect(&db).await.unwrap();
    sqlx::query("UPDATE outbound SET handed_at = handed_at - 60000").execute(&store).await.unwrap();
    store.close().await;
    let (device, _events) = device::start(device_options(&c.place.path("device"))).await.unwrap();
    assert_eq!(device.outbox().await.unwrap(), ["answer-1"]);
    assert_eq!(next_message(&mut c.agent_events).await.1, "better");
    assert!(device.outbox_confirm("answer-1").await.unwrap());
    assert!(!device.outbox_confirm("answer-1").await.unwrap());
    assert!(device.outbox().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_revoked_device_learns_it_and_may_pair_again_without_repeating_a_nonce() {
    let mut c = couple().await;
    c.agent.revoke(&c.key).await.unwrap();
    reaches(&c.device, LinkState::Revoked).await;
    assert!(matches!(c.agent.revoke(&c.key).await, Err(DeviceError::Unknown)));
    assert!(matches!(c.agent.authorize(&c.key).await, Err(DeviceError::Unknown)));
    assert!(c.agent.devices().await.unwrap().is_empty());
    assert!(matches!(next(&mut c.agent_events).await.event, RelayEvent::Revoked { key } if key == c.key));
    c.device.shutdown().await;

    // The same folder, the same keys.
    let (again, mut events, key) = pair(&c.agent, &mut c.agent_events, &c.place.path("device")).await;
    assert_eq!(key, c.key);
    reaches(&again, LinkState::AwaitingAdmission).await;
    c.agent.authorize(&key).await.unwrap();
    reaches(&again, LinkState::Connected).await;
    c.agent.send(&key, "again", STORED).await.unwrap();
    assert_eq!(
        next_message(&mut events).await.1,
        "again",
        "its counter is above all that the device has seen"
    );
    again.send(&again.agent().unwrap(), "back", STORED).await.unwrap();
    assert_eq!(next_message(&mut c.agent_events).await.1, "back");
}

#[tokio::test]
async fn a_live_message_to_an_absent_device_fails_at_once() {
    let mut c = couple().await;
    c.device.shutdown().await;
    let mut online = c.agent.online();
    soon("absence", async { online.wait_for(|o| !o.contains(&c.key)).await.map(drop) }).await.unwrap();
    assert!(matches!(c.agent.send(&c.key, "{}", LIVE).await, Err(SendError::PeerOffline)));
    c.relay.shutdown().await;
    reaches(&c.agent, LinkState::Waiting).await;
    assert!(matches!(c.agent.send(&c.key, "{}", LIVE).await, Err(SendError::NotConnected)));
    c.agent_events.next().await;
}

#[tokio::test]
async fn what_does_not_fit_is_refused_before_it_is_taken_over() {
    let c = couple().await;
    let text: String = blob(90_000, 1).iter().map(|b| format!("{b:02x}")).collect();
    assert!(matches!(
        c.agent.send(&c.key, &text, STORED).await,
        Err(SendError::TooLarge { max: 65_000, .. })
    ));
    assert!(c.agent.send(&c.key, "x".repeat(1_000_000), STORED).await.is_ok(), "it is compressed first");
}

#[tokio::test]
async fn one_folder_has_one_client_and_one_role() {
    let c = couple().await;
    let options = AgentOptions::new(&c.url, c.place.path("agent"));
    assert!(matches!(RelayClient::start_agent(options).await, Err(StartError::InUse(_))));
    c.device.shutdown().await;
    let options = AgentOptions::new(&c.url, c.place.path("device"));
    assert!(matches!(RelayClient::start_agent(options).await, Err(StartError::OtherRole(_))));
    let nobody = device::start(device_options(&c.place.path("nobody"))).await;
    assert!(matches!(nobody, Err(StartError::NotPaired)));
    device::forget_at(&c.place.path("device")).unwrap();
    assert_eq!(std::fs::read_dir(c.place.path("device")).unwrap().count(), 0, "no key is left");
}

#[tokio::test]
async fn a_code_that_was_used_is_refused_with_a_plain_sentence() {
    let place = Place::new();
    let relay = relay(&place.path("relay")).await;
    let (agent, mut events) = agent(&relay.url(), &place.path("agent")).await;
    let window = agent.open_pairing(Duration::from_secs(60)).await.unwrap();
    device::pair(&device_options(&place.path("one")), &window.qr).await.unwrap();
    next(&mut events).await.ack().await.unwrap();
    let second = device::pair(&device_options(&place.path("two")), &window.qr).await.unwrap_err();
    assert!(matches!(second, device::PairError::Closed), "{second}");
    agent.open_pairing(Duration::from_secs(60)).await.unwrap();
    agent.close_pairing().await.unwrap();
    assert_eq!(agent.devices().await.unwrap().len(), 1);
}
