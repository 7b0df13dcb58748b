//! What the end-to-end tests share: a relay with TLS, a host and devices, all of them the real binaries, in one scratch
//! folder.
#![deny(missing_docs)]

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use skald_testkit::{Authority, Client, HostProcess, Phone, Program, RelayProcess, Rng, Scratch};

pub mod fuzz;

/// The connector's id, and what its settings page and its calls are found under.
pub const CONNECTOR: &str = "mobile-connector";

/// One person's Skald: relay, host, and devices beside them.
#[derive(Debug)]
pub struct Home {
    /// The relay.
    pub relay: RelayProcess,
    /// The host.
    pub host: HostProcess,
    /// A client with an API token, as a script has.
    pub api: Client,
    /// Who signed the relay's certificate.
    pub authority: Authority,
    /// Where everything is. Last, so that the processes are gone before it is.
    pub scratch: Scratch,
}

impl Home {
    /// A relay and a host that has just been installed: nothing is enabled.
    pub fn fresh() -> Result<Self> {
        Self::with_relay_settings(&[])
    }

    /// The same with settings of the relay.
    pub fn with_relay_settings(settings: &[(&str, &str)]) -> Result<Self> {
        let scratch = Scratch::new()?;
        let authority = Authority::open(scratch.join("ca"))?;
        let relay = RelayProcess::start_with(&scratch.join("relay"), &authority, settings)?;
        let host = HostProcess::start(&scratch.join("host"))?;
        let api = host.client("script")?;
        Ok(Self { relay, host, api, authority, scratch })
    }

    /// A home whose connector is enabled and has reached the relay.
    pub fn connected() -> Result<Self> {
        let home = Self::fresh()?;
        home.connect()?;
        Ok(home)
    }

    /// A home with one device that is paired and admitted.
    pub fn paired() -> Result<(Self, Phone)> {
        let home = Self::connected()?;
        let phone = home.pair("phone")?;
        Ok((home, phone))
    }

    /// What the connector's settings are: this relay, and no delay before devices are told.
    pub fn settings(&self) -> Value {
        json!({
            "relay_url": self.relay.url(),
            "relay_ca": self.authority.certificate(),
            "notify_delay_secs": 0,
        })
    }

    /// Enables the connector over HTTP and waits until it has reached the relay.
    pub fn connect(&self) -> Result<()> {
        let wish = json!({ "enabled": true, "config": self.settings() });
        self.api.put(&format!("/api/v1/plugins/{CONNECTOR}"), &wish)?.expect(200)?;
        self.until_connected()
    }

    /// Waits until the connector says that it has reached the relay.
    pub fn until_connected(&self) -> Result<()> {
        let path = format!("/api/v1/plugins/{CONNECTOR}");
        let running = |plugin: &Value| (plugin["status"]["state"] == "running").then_some(());
        self.api.until(&path, "the connector reaches the relay", running)
    }

    /// A path of the connector's calls.
    pub fn connector(&self, rest: &str) -> String {
        format!("/api/plugin/{CONNECTOR}/{rest}")
    }

    /// A device that has not paired yet, with everything it keeps in a folder of this name.
    pub fn phone(&self, name: &str) -> Phone {
        Phone::new(self.scratch.join(name), self.authority.certificate())
    }

    /// The paired devices, as the host tells them.
    pub fn devices(&self) -> Result<Vec<Value>> {
        let devices = self.api.get(&self.connector("devices"))?.expect(200)?;
        devices.as_array().cloned().context("the devices are no list")
    }

    /// Opens a pairing window and saves the picture of its QR. Gives the window and the picture.
    pub fn qr(&self, name: &str) -> Result<(Value, PathBuf)> {
        let window = self.api.post(&self.connector("pairing"), &json!({}))?.expect_any(&[200, 201])?;
        let url = window["qr_url"].as_str().context("no qr_url")?;
        let path = url.strip_prefix(self.host.origin()).unwrap_or(url);
        let picture = self.api.get(path)?;
        ensure!(picture.status == 200, "the QR: {} {}", picture.status, picture.text());
        ensure!(picture.header("content-type") == Some("image/png"), "the QR is {:?}", picture.headers);
        let file = self.scratch.join(format!("{name}.png"));
        fs::write(&file, &picture.body)?;
        Ok((window, file))
    }

    /// Starts pairing `phone` by the picture of a fresh QR, until both sides show a verification code. Gives the
    /// waiting command and the device as the host shows it.
    pub fn begin_pairing(&self, phone: &Phone, name: &str) -> Result<(Program, Value)> {
        let (window, picture) = self.qr(name)?;
        let picture = picture.to_str().context("not a path for a command line")?;
        let pairing = phone.start(&["pair", "--qr", picture, "--name", name])?;
        let code = pairing.wait_for("the verification code", verification_code)?;
        let pending =
            self.api.until(&self.connector("devices"), "the device waits to be admitted", |devices| {
                let shown = |device: &&Value| device["state"] == "pending" && shows(device, &code);
                devices.as_array()?.iter().find(shown).cloned()
            })?;
        let opened = window["code"].as_str().context("the window has no code")?;
        let paired = |window: &Value| (window["state"] == "paired").then_some(());
        self.api.until(&self.connector(&format!("pairing/{opened}")), "the window is used", paired)?;
        Ok((pairing, pending))
    }

    /// Pairs a device, compares the codes, admits it, and waits until the device knows.
    pub fn pair(&self, name: &str) -> Result<Phone> {
        let phone = self.phone(name);
        let (mut pairing, device) = self.begin_pairing(&phone, name)?;
        let key = device["key"].as_str().context("the device has no key")?;
        self.api
            .post(&self.connector(&format!("devices/{key}/authorize")), &json!({}))?
            .expect_any(&[200, 204])?;
        pairing.finished()?.ok().context("pairing")?;
        Ok(phone)
    }

    /// Asks for an approval over HTTP. Gives the request's id.
    pub fn ask_approval(&self, tool: &str, summary: &str) -> Result<String> {
        self.ask("approvals", &json!({ "tool_name": tool, "summary": summary }))
    }

    /// Asks for anything over HTTP. Gives the request's id.
    pub fn ask(&self, kind: &str, body: &Value) -> Result<String> {
        let made = self.api.post(&format!("/api/v1/inbox/{kind}"), body)?.expect(201)?;
        made["request_id"].as_str().map(str::to_owned).context("no request_id")
    }

    /// How a request stands.
    pub fn request(&self, id: &str) -> Result<Value> {
        self.api.get(&format!("/api/v1/inbox/requests/{id}"))?.expect(200)
    }

    /// Waits for a request's end by the long poll that scripts use.
    pub fn outcome(&self, id: &str) -> Result<Value> {
        for _ in 0..3 {
            let request = self.api.get(&format!("/api/v1/inbox/requests/{id}?wait=30"))?.expect(200)?;
            if request["state"] != "pending" {
                return Ok(request);
            }
        }
        bail!("{id} stays pending")
    }

    /// Waits until exactly this many items are pending and gives the Inbox.
    pub fn until_pending(&self, number: u64) -> Result<Value> {
        let found = |inbox: &Value| (inbox["badge"] == number).then(|| inbox.clone());
        self.api.until("/api/v1/inbox", &format!("{number} items are pending"), found)
    }
}

/// The verification code in a line of the device, as both screens show it: `123 456`.
pub fn verification_code(line: &str) -> Option<String> {
    let shape = |window: &&[u8]| {
        window
            .iter()
            .enumerate()
            .all(|(at, byte)| if at == 3 { *byte == b' ' } else { byte.is_ascii_digit() })
    };
    let found = line.as_bytes().windows(7).find(shape)?;
    std::str::from_utf8(found).ok().map(str::to_owned)
}

/// Whether a device of the host's list bears this code, however it is spaced.
pub fn shows(device: &Value, code: &str) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    device["verification_code"].as_str().is_some_and(|shown| digits(shown) == digits(code))
}

/// A secret that occurs nowhere by chance.
pub fn canary(rng: &mut Rng) -> String {
    format!("canary{}", rng.word(24))
}
