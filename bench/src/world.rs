//! A whole Skald for the page: relay with TLS, host, and devices at the far end of a delay line.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use skald_relay_client::{DeviceOptions, LinkState, Platform, RelayClient, device};
use skald_testkit::{Authority, Client, DelayLine, HostProcess, Phone, Program, RelayProcess, Scratch};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

const CONNECTOR: &str = "mobile-connector";
/// The host's pages.
const PAGES: &str = "http-local-proxy";

/// Relay and host.
pub struct World {
    /// The host.
    pub host: HostProcess,
    /// An API token of its.
    pub token: String,
    api: Client,
    relay: RelayProcess,
    authority: Authority,
    // Last, so that the processes are gone before it is.
    scratch: Scratch,
}

impl World {
    /// Both, connected, with one item in the inbox of which `shown` is the summary.
    pub fn start(shown: &str) -> Result<Self> {
        let scratch = Scratch::new()?;
        let authority = Authority::open(scratch.join("ca"))?;
        let limits = [
            ("RELAY_LIMIT_CONNECTIONS_PER_IP_PER_MINUTE", "1000000"),
            ("RELAY_LIMIT_CONNECTIONS_PER_NAMESPACE_PER_MINUTE", "1000000"),
            ("RELAY_LIMIT_MESSAGES_PER_MINUTE", "1000000"),
            ("RELAY_PIPE_MAX_PER_NS", "1000"),
        ];
        let relay = RelayProcess::start_with(&scratch.join("relay"), &authority, &limits)?;
        let host = HostProcess::start(&scratch.join("host"))?;
        let token = host.token("bench")?;
        let api = host.anonymous()?.with_token(&token);
        let path = format!("/api/v1/plugins/{CONNECTOR}");
        let config = json!({ "relay_url": relay.url(), "relay_ca": authority.certificate(),
            "notify_delay_secs": 0, "require_device_confirmation": false });
        api.put(&path, &json!({ "enabled": true, "config": config }))?.expect(200)?;
        let running = |plugin: &Value| (plugin["status"]["state"] == "running").then_some(());
        api.until(&path, "the connector reaches the relay", running)?;
        api.post("/api/v1/inbox/approvals", &json!({ "tool_name": "bench", "summary": shown }))?
            .expect(201)?;
        Ok(Self { host, token, api, relay, authority, scratch })
    }

    /// Where the relay listens.
    pub fn relay(&self) -> Result<SocketAddr> {
        self.relay.address().parse().context("the relay's address is no address")
    }

    /// Where the host listens.
    pub fn page(&self) -> Result<SocketAddr> {
        self.host.origin().trim_start_matches("http://").parse().context("the host's address is no address")
    }

    /// A pairing code in which the relay lies behind `line`.
    fn code(&self, line: &DelayLine) -> Result<String> {
        let call = |rest: &str| format!("/api/plugin/{CONNECTOR}/{rest}");
        let window = self.api.post(&call("pairing"), &json!({}))?.expect_any(&[200, 201])?;
        let code = window["code"].as_str().context("the window has no code")?;
        let picture = self.api.get(&call(&format!("pairingqrcode?code={code}")))?;
        let picture = image::load_from_memory(&picture.body).context("the code is no picture")?.into_luma8();
        let (width, height) = picture.dimensions();
        let mut grey =
            rqrr::PreparedImage::prepare_from_greyscale(width as usize, height as usize, |x, y| {
                picture.get_pixel(x as u32, y as u32).0[0]
            });
        let grids = grey.detect_grids();
        let (_, text) = grids.first().context("no code in the picture")?.decode()?;
        let mut payload: Value = serde_json::from_str(&text)?;
        let near = self.relay()?.port().to_string();
        let url = payload["relay_url"].as_str().context("no relay_url")?;
        payload["relay_url"] = url.replace(&near, &line.address().port().to_string()).into();
        Ok(payload.to_string())
    }

    /// A `skald-phone` of this name behind the line.
    pub fn phone(&self, line: &DelayLine, name: &str) -> Result<Phone> {
        let phone = Phone::new(self.scratch.join(name), self.authority.certificate());
        phone.run(&["pair", "--payload", &self.code(line)?, "--name", name])?.ok().context("pairing")?;
        Ok(phone)
    }

    /// Its `proxy`, and where it listens.
    pub fn proxy(&self, phone: &Phone) -> Result<(Program, SocketAddr)> {
        let program = phone.start(&["proxy", "--listen", "127.0.0.1:0"])?;
        let address = program.wait_for("its address", |line| {
            let rest = &line[line.find("http://")? + 7..];
            rest.split('/').next()?.parse().ok()
        })?;
        Ok((program, address))
    }

    /// What an existing app does: a pipe for each connection of the browser.
    pub fn plain(&self, runtime: &Runtime, line: &DelayLine, name: &str) -> Result<Plain> {
        let code = self.code(line)?;
        let mut options = DeviceOptions::new(self.scratch.join(name), Platform::DESKTOP);
        options.extra_ca = Some(self.authority.certificate());
        runtime.block_on(Plain::start(options, &code))
    }
}

/// A proxy that opens a pipe for each connection.
pub struct Plain {
    /// Where it listens.
    pub address: SocketAddr,
    client: RelayClient,
    serving: JoinHandle<()>,
    draining: JoinHandle<()>,
}

impl Plain {
    async fn start(options: DeviceOptions, code: &str) -> Result<Self> {
        device::pair(&options, &device::parse_qr(code)?).await?;
        let (client, mut events) = device::start(options).await?;
        client.status().wait_for(|status| status.state == LinkState::Connected).await?;
        let agent = client.agent().context("a device has an agent")?;
        client.online().wait_for(|online| online.contains(&agent)).await?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let draining = tokio::spawn(async move {
            while let Some(received) = events.next().await {
                let _ = received.ack().await;
            }
        });
        let opener = Arc::new(client.clone());
        let serving = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let opener = opener.clone();
                tokio::spawn(async move {
                    let _ = near.set_nodelay(true);
                    let opened = Box::pin(opener.open_pipe(&agent, PAGES, BTreeMap::new())).await;
                    if let Ok(mut pipe) = opened {
                        let _ = tokio::io::copy_bidirectional(&mut near, &mut pipe).await;
                    }
                });
            }
        });
        Ok(Self { address, client, serving, draining })
    }

    /// Ends it and its pipes.
    pub async fn stop(self) {
        self.serving.abort();
        self.client.shutdown().await;
        self.draining.abort();
    }
}
