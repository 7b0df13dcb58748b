//! A relay in this process, a host played by the relay client's agent, and the real `skald-phone`.
#![allow(dead_code)]

pub mod unmarked;

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use skald_payloads::Envelope;
use skald_relay_client::{AgentOptions, Class, RelayClient, RelayEvent};
use skald_relay_common::ids::PublicKey;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long a test that has failed already hangs; no assertion depends on it.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    since.as_millis() as i64
}

/// A relay on loopback that keeps its port through a restart.
pub struct Relay {
    settings: skald_relay::Settings,
    running: Option<skald_relay::Running>,
}

impl Relay {
    pub async fn start(dir: &Path) -> Self {
        let mut settings = skald_relay::Settings {
            listen: "127.0.0.1:0".parse().expect("address"),
            data: dir.join("relay"),
            insecure: true,
            ..Default::default()
        };
        settings.limits.connections_per_ip_per_minute = 10_000;
        let running = skald_relay::Relay::start(settings.clone()).await.expect("relay");
        settings.listen = running.local_addr();
        Self { settings, running: Some(running) }
    }

    pub fn url(&self) -> String {
        format!("ws://{}/v1/ws", self.settings.listen)
    }

    pub fn address(&self) -> std::net::SocketAddr {
        self.settings.listen
    }

    pub async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.shutdown().await;
        }
    }

    pub async fn restart(&mut self) {
        self.stop().await;
        self.running = Some(skald_relay::Relay::start(self.settings.clone()).await.expect("relay again"));
    }
}

#[derive(Default)]
pub struct HostState {
    /// What waits, by array.
    pub approvals: Vec<Value>,
    pub clarifications: Vec<Value>,
    pub elicitations: Vec<Value>,
    /// Every payload that came, whole.
    pub received: Vec<Value>,
    /// Whether an answer ends its item, as a host does.
    pub deaf: bool,
    /// Whether answers are read and found not to fit: acknowledged, and without effect.
    pub picky: bool,
    pub paired: Vec<(PublicKey, String)>,
    /// What `GET /api/v1/inbox/requests/…` says.
    pub resolved_by: Option<String>,
}

impl HostState {
    pub fn update(&self) -> Value {
        let badge = self.approvals.len() + self.clarifications.len() + self.elicitations.len();
        json!({"v": 1, "kind": "inbox_update", "id": uuid::Uuid::new_v4(), "ts": now(), "badge": badge,
            "approvals": self.approvals, "clarifications": self.clarifications, "elicitations": self.elicitations})
    }

    fn end(&mut self, id: &str) {
        for list in [&mut self.approvals, &mut self.clarifications, &mut self.elicitations] {
            list.retain(|item| item["request_id"] != id);
        }
    }

    pub fn of_kind(&self, kind: &str) -> Vec<Value> {
        self.received.iter().filter(|p| p["kind"] == kind).cloned().collect()
    }
}

/// The host's side, on the relay client's agent role.
pub struct Host {
    pub client: RelayClient,
    state: Arc<Mutex<HostState>>,
    changed: watch::Sender<u64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Host {
    pub async fn start(relay: &Relay, dir: &Path) -> Self {
        let (client, mut events) =
            RelayClient::start_agent(AgentOptions::new(relay.url(), dir.join("agent"))).await.expect("agent");
        let state = Arc::new(Mutex::new(HostState::default()));
        let changed = watch::Sender::new(0);
        let mut status = client.status();
        let connected =
            |s: &skald_relay_client::LinkStatus| s.state == skald_relay_client::LinkState::Connected;
        tokio::time::timeout(PATIENCE, status.wait_for(connected))
            .await
            .expect("in time")
            .expect("connected");
        let (sender, shared, tell) = (client.clone(), state.clone(), changed.clone());
        let listening = tokio::spawn(async move {
            while let Some(received) = events.next().await {
                on_event(&sender, &shared, &received.event).await;
                received.ack().await.expect("acknowledged");
                tell.send_modify(|n| *n += 1);
            }
        });
        let pages = tokio::spawn(pages(client.clone(), state.clone()));
        Self { client, state, changed, tasks: vec![listening, pages] }
    }

    pub fn state(&self) -> MutexGuard<'_, HostState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what waits, and tells every device.
    pub async fn set(&self, change: impl FnOnce(&mut HostState)) {
        let update = {
            let mut state = self.state();
            change(&mut state);
            state.update()
        };
        broadcast(&self.client, &update).await;
    }

    /// Waits until `find` finds something.
    pub async fn until<T>(&self, what: &str, mut find: impl FnMut(&HostState) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        let found = async {
            loop {
                changed.borrow_and_update();
                if let Some(found) = find(&self.state()) {
                    return found;
                }
                changed.changed().await.expect("the host lives");
            }
        };
        match tokio::time::timeout(PATIENCE, found).await {
            Ok(found) => found,
            Err(_) => panic!("waited in vain for {what}"),
        }
    }

    pub async fn stop(&self) {
        self.client.shutdown().await;
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn broadcast(client: &RelayClient, update: &Value) {
    for device in client.devices().await.expect("devices") {
        client.send_latest(&device.key, "inbox", update.to_string(), Class::Stored).await.expect("sent");
    }
}

async fn on_event(client: &RelayClient, state: &Mutex<HostState>, event: &RelayEvent) {
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    match event {
        RelayEvent::Paired { key, verification_code, .. } => {
            lock().paired.push((*key, verification_code.to_string()));
        }
        RelayEvent::Message { peer, body, .. } => {
            Envelope::parse(body, now()).expect("a payload of the protocol");
            let payload: Value = serde_json::from_slice(body).expect("json");
            let kind = payload["kind"].as_str().expect("kind").to_owned();
            let id = payload["id"].as_str().expect("id").to_owned();
            let (update, picky) = {
                let mut state = lock();
                if kind.ends_with("_response") && !state.deaf && !state.picky {
                    state.end(payload["request_id"].as_str().expect("id"));
                }
                state.received.push(payload);
                (state.update(), state.picky)
            };
            match kind.as_str() {
                // A device that is gone by now asks again when it is back.
                "inbox_request" => drop(client.send(peer, update.to_string(), Class::Live).await),
                "logout" => client.revoke(peer).await.expect("revoked"),
                _ if kind.ends_with("_response") && picky => {
                    let ack =
                        json!({"v": 1, "kind": "ack", "id": uuid::Uuid::new_v4(), "ts": now(), "ref_id": id});
                    client.send(peer, ack.to_string(), Class::Stored).await.expect("sent");
                }
                _ if kind.ends_with("_response") => broadcast(client, &update).await,
                _ => {}
            }
        }
        _ => {}
    }
}

/// Answers each pipe as a small web server does: one request at a time, `/echo` gives the body back, `/slow` an answer
/// after the client has finished speaking.
async fn pages(client: RelayClient, state: Arc<Mutex<HostState>>) {
    let mut incoming = client.incoming_pipes();
    while let Ok(invitation) = incoming.recv().await {
        let (client, state) = (client.clone(), state.clone());
        tokio::spawn(async move {
            let Ok(pipe) = client.accept_pipe(&invitation).await else { return };
            let (reader, mut writer) = tokio::io::split(pipe);
            let mut reader = BufReader::new(reader);
            loop {
                let mut head = String::new();
                loop {
                    match reader.read_line(&mut head).await {
                        Ok(n) if n > 0 => {}
                        _ => return,
                    }
                    if head.ends_with("\r\n\r\n") {
                        break;
                    }
                }
                let length = head
                    .lines()
                    .find_map(|l| l.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned))
                    .map_or(0, |l| l.parse().expect("length"));
                let mut body = vec![0; length];
                tokio::io::AsyncReadExt::read_exact(&mut reader, &mut body).await.expect("body");
                let path = head.split(' ').nth(1).expect("path").to_owned();
                let answer = match path.as_str() {
                    "/echo" => body,
                    "/api/v1/session" => {
                        json!({"principal": {"kind": "device", "name": "terminal"}}).to_string().into()
                    }
                    path if path.starts_with("/api/v1/inbox/requests/") => {
                        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
                        let by = state.resolved_by.as_deref().unwrap_or("device:terminal");
                        let ended = json!({"state": "resolved", "resolved_by": by, "outcome": {"decision": "rejected"}});
                        let how = if state.picky { json!({"state": "pending"}) } else { ended };
                        how.to_string().into()
                    }
                    path => format!("<h1>Skald</h1>{path}").into_bytes(),
                };
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
                if writer.write_all(head.as_bytes()).await.is_err()
                    || writer.write_all(&answer).await.is_err()
                {
                    return;
                }
                if writer.flush().await.is_err() {
                    return;
                }
            }
        });
    }
}

/// One device's home.
pub struct Phone {
    pub home: PathBuf,
}

impl Phone {
    pub fn new(dir: &Path) -> Self {
        Self { home: dir.join("phone") }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skald-phone"));
        command.arg("--home").arg(&self.home).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    pub async fn run_with(&self, args: &[&str], input: &str) -> Output {
        let mut child = self.command(args).spawn().expect("started");
        let mut stdin = child.stdin.take().expect("stdin");
        stdin.write_all(input.as_bytes()).await.expect("written");
        drop(stdin);
        tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("in time").expect("ended")
    }

    pub async fn run(&self, args: &[&str]) -> Output {
        self.run_with(args, "").await
    }

    /// Runs a command that must succeed; gives standard output.
    pub async fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args).await;
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs a command that must fail with `code`; gives standard error's last line.
    pub async fn refused(&self, args: &[&str], code: i32) -> String {
        let output = self.run(args).await;
        let error = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        error.lines().last().unwrap_or_default().to_owned()
    }

    pub fn start(&self, args: &[&str]) -> Running {
        let mut child = self.command(args).spawn().expect("started");
        let lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        Running { child, lines }
    }

    /// Pairs and is admitted.
    pub async fn pair(&self, host: &Host) {
        self.pair_at(host, None).await;
    }

    /// The same, over a relay at another address.
    pub async fn pair_at(&self, host: &Host, relay_url: Option<String>) {
        // A host that paired before must not be taken for having paired now.
        let before = host.until("the host tells", |s| Some(s.paired.len())).await;
        let window = host.client.open_pairing(Duration::from_secs(300)).await.expect("window");
        let mut qr = window.qr;
        qr.relay_url = relay_url.unwrap_or(qr.relay_url);
        let mut pairing = self.start(&["--json", "pair", "--payload", &qr.to_json(), "--name", "terminal"]);
        let shown = pairing.json().await;
        let (key, code) = host.until("the device pairs", |s| s.paired.get(before).cloned()).await;
        assert_eq!(shown["verification_code"].as_str().expect("code"), code.replace(' ', ""));
        host.client.authorize(&key).await.expect("authorised");
        assert_eq!(pairing.json().await, json!({"event": "admitted"}));
        assert!(pairing.ended().await.status.success());
    }
}

/// A command at work.
pub struct Running {
    pub child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub async fn line(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await.expect("in time");
        match line.expect("readable") {
            Some(line) => line,
            None => panic!("the output ended"),
        }
    }

    pub async fn json(&mut self) -> Value {
        serde_json::from_str(&self.line().await).expect("json")
    }

    /// Lines until one fits.
    pub async fn json_until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let value = self.json().await;
            if fits(&value) {
                return value;
            }
        }
    }

    pub async fn ended(self) -> Output {
        let Self { child, .. } = self;
        tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("in time").expect("ended")
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id().expect("running") as i32).expect("pid");
        rustix::process::kill_process(pid, signal).expect("signalled");
    }
}

/// A private authority's certificate; nothing is signed by it.
pub const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBiTCCAS+gAwIBAgIUU5W65Gqd/z2rV74CyUXXRF3rbmowCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHVGVzdCBDQTAeFw0yNjExMzAxODA0MTlaFw0yNjEyMzAxODA0
MTlaMBIxEDAOBgNVBAMMB1Rlc3QgQ0EwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AAQJ8VAaD/iC/qM/6ewjbmYg6+iqhJ3MJNkiOKtq6h62asvKXZ69WHj8YqywNwZi
H+xhzyOzGCTYPV+ROSEblBi5o2MwYTAdBgNVHQ4EFgQU01uPRaS6vE/267/8YT0e
DLSsCMEwHwYDVR0jBBgwFoAU01uPRaS6vE/267/8YT0eDLSsCMEwDwYDVR0TAQH/
BAUwAwEB/zAOBgNVHQ8BAf8EBAMCAgQwCgYIKoZIzj0EAwIDSAAwRQIgLzu2ewGr
L9Jk/7RLTfP2yL1lGiBgqES/rzwNmE/PgNkCIQDJPpr3bx7+91v5XqYMR2zDX6ae
2mw7sA1IcKYllQP4jw==
-----END CERTIFICATE-----
";

pub fn approval(id: &str, summary: &str) -> Value {
    json!({"request_id": id, "tool_name": "execute_cmd", "agent_label": "Skald", "summary": summary,
        "created_at": now(), "arguments": {"command": summary}})
}

pub fn password(id: &str) -> Value {
    json!({"request_id": id, "server_name": "vault", "message": "Password", "field_name": "password",
        "sensitive": true, "is_confirmation": false, "created_at": now()})
}

/// A relay, a host and an admitted device.
pub async fn everything(dir: &Path) -> (Relay, Host, Phone) {
    let relay = Relay::start(dir).await;
    let host = Host::start(&relay, dir).await;
    let phone = Phone::new(dir);
    phone.pair(&host).await;
    (relay, host, phone)
}

/// Whether a text is in any file below `dir`.
pub fn found_on_disk(dir: &Path, needle: &str) -> Option<PathBuf> {
    for entry in std::fs::read_dir(dir).expect("readable") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            if let Some(found) = found_on_disk(&path, needle) {
                return Some(found);
            }
        } else if path.is_file() {
            let bytes = std::fs::read(&path).unwrap_or_default();
            if bytes.windows(needle.len()).any(|w| w == needle.as_bytes()) {
                return Some(path);
            }
        }
    }
    None
}
