//! One person's Skald in one process.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use image::GenericImageView;
use plugin_mobile_connector::{ID, MobileConnector};
use serde_json::{Value, json};
use skald_core_api::{
    ByteStream, DevicePeer, LocalWeb, PluginRequest, PluginResponse, PluginState, Principal,
};
use skald_e2e::QrPayload;
use skald_host::{Clock, Host, HostConfig, SystemClock};
use skald_payloads::{Envelope, InboxUpdate, Payload};
use skald_relay_client::{DeviceOptions, Events, Platform, RelayClient, RelayEvent, Timings, device};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;

/// Bounds how long a test that has already failed hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for `what`, and fails loudly instead of for ever.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it happens in time")
}

/// Pauses short enough for tests.
pub fn timings() -> Timings {
    let ms = Duration::from_millis;
    Timings { backoff_min: ms(20), backoff_max: ms(200), admission_max: ms(50), ..Timings::default() }
}

/// A web server that hands every connection to the test.
pub struct Web(mpsc::UnboundedSender<(DevicePeer, DuplexStream)>);

#[async_trait]
impl LocalWeb for Web {
    async fn connect(&self, peer: DevicePeer) -> std::io::Result<Box<dyn ByteStream>> {
        let (near, far) = tokio::io::duplex(4_096);
        self.0.send((peer, far)).map_err(|_| std::io::ErrorKind::ConnectionRefused)?;
        Ok(Box::new(near))
    }
}

pub struct Home {
    pub host: Host,
    pub web: Mutex<mpsc::UnboundedReceiver<(DevicePeer, DuplexStream)>>,
    pub dir: tempfile::TempDir,
}

impl Home {
    /// A host whose connector is connected to the relay at `url`.
    pub async fn connected(url: &str) -> Self {
        let home = Self::configured(json!({"relay_url": url, "notify_delay_secs": 0})).await;
        home.reaches(PluginState::Running).await;
        home
    }

    pub async fn configured(config: Value) -> Self {
        Self::timed(config, Arc::new(SystemClock::new())).await
    }

    /// A host whose questions lapse by this clock.
    pub async fn timed(config: Value, clock: Arc<dyn Clock>) -> Self {
        let home = Self::at(tempfile::tempdir().unwrap(), clock).await;
        home.host.plugins().update(ID, Some(true), Some(config)).await.unwrap();
        home
    }

    async fn at(dir: tempfile::TempDir, clock: Arc<dyn Clock>) -> Self {
        let plugin = Arc::new(MobileConnector::with_timings(timings()));
        let config = HostConfig { clock, ..HostConfig::new(dir.path().join("host"), vec![plugin]) };
        let host = Host::open(config).await.unwrap();
        let (connections, web) = mpsc::unbounded_channel();
        host.start(Arc::new(Web(connections))).await;
        Self { host, web: Mutex::new(web), dir }
    }

    /// The same home after a restart.
    pub async fn restarted(self) -> Self {
        self.host.shutdown().await;
        Self::at(self.dir, Arc::new(SystemClock::new())).await
    }

    /// Waits until the plugin stands so.
    pub async fn reaches(&self, state: PluginState) {
        let mut events = self.host.events().subscribe();
        soon(async {
            while self.host.plugins().get(ID).unwrap().status.state != state {
                events.next().await;
            }
        })
        .await;
    }

    pub async fn call(&self, method: &str, path: &str, body: Value) -> PluginResponse {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let request = PluginRequest {
            method: method.into(),
            path: path.split('/').map(Into::into).collect(),
            query: query
                .split('&')
                .filter_map(|q| q.split_once('='))
                .map(|(k, v)| (k.into(), v.into()))
                .collect(),
            body: body.to_string().into(),
            principal: Principal::Owner,
        };
        self.host.plugins().http(ID).expect("the plugin runs").handle(request).await
    }

    pub async fn json(&self, method: &str, path: &str, body: Value) -> Value {
        let response = self.call(method, path, body).await;
        serde_json::from_slice(&response.body)
            .unwrap_or_else(|_| panic!("{method} {path}: {}", response.status))
    }

    /// Opens a window and reads its QR as a camera would.
    pub async fn window(&self) -> (String, QrPayload) {
        let window = self.json("POST", "pairing", json!({})).await;
        let code = window["code"].as_str().unwrap_or_else(|| panic!("{window}")).to_owned();
        let picture = self.call("GET", &format!("pairingqrcode?code={code}"), json!({})).await;
        assert_eq!(picture.content_type, "image/png");
        (code, QrPayload::parse(&scan(&picture.body)).unwrap())
    }

    /// Pairs a device and admits it.
    pub async fn phone(&self, name: &str) -> Phone {
        let (code, qr) = self.window().await;
        let folder = self.dir.path().join(name);
        device::pair(&options(&folder), &qr).await.unwrap();
        let key = self.paired(&code).await["key"].as_str().unwrap().to_owned();
        self.json("POST", &format!("devices/{key}/authorize"), json!({})).await;
        Phone::start(&folder, key).await
    }

    /// Waits until the window was used, and gives the device.
    pub async fn paired(&self, code: &str) -> Value {
        let mut events = self.host.events().subscribe();
        soon(async {
            loop {
                let state = self.json("GET", &format!("pairing/{code}"), json!({})).await;
                if state["state"] == "paired" {
                    return state["device"].clone();
                }
                events.next().await;
            }
        })
        .await
    }

    /// The next connection to the web server.
    pub async fn connection(&self) -> (DevicePeer, DuplexStream) {
        soon(std::future::poll_fn(|cx| self.web.lock().unwrap().poll_recv(cx))).await.unwrap()
    }

    /// Stops the host; the folder goes when what this gives back does.
    pub async fn stop(self) -> tempfile::TempDir {
        self.host.shutdown().await;
        self.dir
    }
}

pub fn options(folder: &Path) -> DeviceOptions {
    DeviceOptions { timings: timings(), ..DeviceOptions::new(folder, Platform::DESKTOP) }
}

fn scan(png: &[u8]) -> String {
    let picture = image::load_from_memory(png).unwrap();
    let (width, height) = picture.dimensions();
    let picture = picture.into_luma8();
    let mut scan = rqrr::PreparedImage::prepare_from_greyscale(width as usize, height as usize, |x, y| {
        picture.get_pixel(x as u32, y as u32).0[0]
    });
    scan.detect_grids()[0].decode().unwrap().1
}

/// A device.
pub struct Phone {
    pub client: RelayClient,
    pub events: Events,
    pub key: String,
}

impl Phone {
    pub async fn start(folder: &Path, key: String) -> Self {
        let (client, events) = device::start(options(folder)).await.unwrap();
        Self { client, events, key }
    }

    pub fn says(&self, payload: Payload) -> Vec<u8> {
        Envelope::new(uuid::Uuid::new_v4(), now(), payload).encode()
    }

    pub async fn send(&self, payload: Payload) {
        let class = match payload {
            Payload::InboxRequest => skald_relay_client::Class::Live,
            _ => skald_relay_client::Class::Stored,
        };
        let agent = self.client.agent().unwrap();
        self.client.send(&agent, self.says(payload), class).await.unwrap();
    }

    /// The next payload, and whether it came live.
    pub async fn next(&mut self) -> (Payload, bool) {
        soon(async {
            loop {
                let received = self.events.next().await.expect("the client runs");
                let RelayEvent::Message { body, live, .. } = &received.event else {
                    received.ack().await.unwrap();
                    continue;
                };
                let found = (Envelope::parse(body, now()).unwrap().payload, *live);
                received.ack().await.unwrap();
                return found;
            }
        })
        .await
    }

    /// The next snapshot that has `badge` items.
    pub async fn shows(&mut self, badge: u64) -> (InboxUpdate, bool) {
        loop {
            if let (Payload::InboxUpdate(update), live) = self.next().await
                && update.badge == badge
            {
                return (update, live);
            }
        }
    }

    pub async fn is_connected(&self) {
        let mut status = self.client.status();
        soon(status.wait_for(|s| s.state == skald_relay_client::LinkState::Connected)).await.unwrap();
    }
}

pub fn now() -> i64 {
    skald_core_api::PluginStatus::now_ms()
}

/// A relay on loopback.
pub async fn relay() -> TestRelay {
    TestRelay::start().await
}

pub struct TestRelay {
    running: skald_relay::Running,
    _dir: tempfile::TempDir,
}

impl TestRelay {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings = skald_relay::Settings {
            listen: "127.0.0.1:0".parse().unwrap(),
            data: dir.path().join("relay"),
            insecure: true,
            ..Default::default()
        };
        Self { running: skald_relay::Relay::start(settings).await.unwrap(), _dir: dir }
    }

    pub fn url(&self) -> String {
        self.running.url()
    }

    pub async fn shutdown(self) {
        self.running.shutdown().await;
    }
}
