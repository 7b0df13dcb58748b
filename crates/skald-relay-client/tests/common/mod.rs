//! A relay on loopback, an agent and a device, for the tests beside.
#![allow(dead_code)]

pub mod puppet;

use std::path::Path;
use std::time::Duration;

use skald_relay::{Relay, Running, Settings};
use skald_relay_client::{
    AgentOptions, Class, DeviceOptions, Events, LinkState, Platform, Received, RelayClient, RelayEvent,
    Timings, device,
};
use skald_relay_common::ids::PublicKey;
use tempfile::TempDir;

/// A test that hangs fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what}: it never happened"))
}

/// Pauses short enough for a test.
pub fn timings() -> Timings {
    Timings {
        backoff_min: Duration::from_millis(20),
        backoff_max: Duration::from_millis(200),
        admission_max: Duration::from_millis(50),
        pairing: Duration::from_secs(2),
        ..Timings::default()
    }
}

pub struct Place {
    pub dir: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }
}

pub async fn relay(data: &Path) -> Running {
    relay_on(data, 0, |_| {}).await
}

pub async fn relay_on(data: &Path, port: u16, edit: impl FnOnce(&mut Settings)) -> Running {
    let mut settings = Settings {
        listen: ([127, 0, 0, 1], port).into(),
        data: data.to_owned(),
        insecure: true,
        ..Settings::default()
    };
    edit(&mut settings);
    Relay::start(settings).await.unwrap()
}

pub async fn agent(url: &str, dir: &Path) -> (RelayClient, Events) {
    let options = AgentOptions { timings: timings(), ..AgentOptions::new(url, dir) };
    RelayClient::start_agent(options).await.unwrap()
}

pub fn device_options(dir: &Path) -> DeviceOptions {
    DeviceOptions { timings: timings(), ..DeviceOptions::new(dir, Platform::DESKTOP) }
}

pub async fn reaches(client: &RelayClient, state: LinkState) {
    let mut status = client.status();
    soon(state.as_str(), async {
        status.wait_for(|status| status.state == state).await.unwrap();
    })
    .await;
}

/// The next event that is neither presence nor a failure to send.
pub async fn next(events: &mut Events) -> Received {
    soon("an event", async {
        loop {
            let received = events.next().await.expect("the client runs");
            if !matches!(received.event, RelayEvent::PresenceChanged { .. }) {
                return received;
            }
        }
    })
    .await
}

pub async fn next_message(events: &mut Events) -> (PublicKey, String, bool) {
    let received = next(events).await;
    let RelayEvent::Message { peer, body, live, .. } = received.event.clone() else {
        panic!("a message was awaited, not {:?}", received.event);
    };
    received.ack().await.unwrap();
    (peer, String::from_utf8(body).unwrap(), live)
}

/// Pairs a new device and starts it. It is pending.
pub async fn pair(
    agent: &RelayClient,
    agent_events: &mut Events,
    dir: &Path,
) -> (RelayClient, Events, PublicKey) {
    let window = soon("a window", agent.open_pairing(Duration::ZERO)).await.unwrap();
    let qr = device::parse_qr(&window.qr.to_json()).unwrap();
    let paired = soon("pairing", device::pair(&device_options(dir), &qr)).await.unwrap();
    let received = next(agent_events).await;
    let RelayEvent::Paired { key, verification_code, window: used, authorized, .. } = received.event.clone()
    else {
        panic!("pairing was awaited, not {:?}", received.event);
    };
    received.ack().await.unwrap();
    assert_eq!((key, used, authorized), (paired.device, window.id, false));
    assert_eq!(verification_code, paired.verification_code, "both screens show the same");
    let (client, events) = device::start(device_options(dir)).await.unwrap();
    (client, events, key)
}

/// Waits until `client` sees `peer` connected.
pub async fn sees(client: &RelayClient, peer: &PublicKey) {
    let mut online = client.online();
    soon("presence", async {
        online.wait_for(|online| online.contains(peer)).await.unwrap();
    })
    .await;
}

pub struct Couple {
    pub place: Place,
    pub relay: Running,
    pub url: String,
    pub agent: RelayClient,
    pub agent_events: Events,
    pub device: RelayClient,
    pub device_events: Events,
    pub key: PublicKey,
}

/// An agent with one admitted, connected device.
pub async fn couple() -> Couple {
    couple_with(|_| {}).await
}

pub async fn couple_with(edit: impl FnOnce(&mut Settings)) -> Couple {
    let place = Place::new();
    let relay = relay_on(&place.path("relay"), 0, edit).await;
    let url = relay.url();
    let (agent, mut agent_events) = agent(&url, &place.path("agent")).await;
    let (device, device_events, key) = pair(&agent, &mut agent_events, &place.path("device")).await;
    agent.authorize(&key).await.unwrap();
    reaches(&device, LinkState::Connected).await;
    sees(&agent, &key).await;
    let owner = device.agent().unwrap();
    sees(&device, &owner).await;
    Couple { place, relay, url, agent, agent_events, device, device_events, key }
}

pub const STORED: Class = Class::Stored;
pub const LIVE: Class = Class::Live;

/// Noise that repeats with its salt and does not compress.
pub fn blob(len: usize, salt: u64) -> Vec<u8> {
    let mut x = salt | 1;
    (0..len)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as u8
        })
        .collect()
}
