//! The program itself: its command line, kill -9, the goodbye, and what it writes down.
#![cfg(unix)]

mod common;

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{Id, Peer, pair};
use skald_relay_common::frame::FromRelay;
use skald_relay_common::ids::PairingToken;

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skald-relay"));
    command.env_clear();
    command
}

struct Process {
    child: Child,
    addr: SocketAddr,
}

impl Process {
    fn start(data: &Path) -> Self {
        let mut child = command()
            .args(["--listen", "127.0.0.1:0", "--insecure", "--data"])
            .arg(data)
            .env("RELAY_LOG", "trace")
            .env("RELAY_LOG_FORMAT", "json")
            .stdout(Stdio::piped())
            .stderr(std::fs::File::options().create(true).append(true).open(data.join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let addr = line.split("ws://").nth(1).and_then(|rest| rest.split('/').next());
        let addr = addr.unwrap_or_else(|| panic!("no URL in {line:?}")).parse().unwrap();
        Self { child, addr }
    }

    fn signal(&mut self, name: &str) -> std::process::ExitStatus {
        let kill = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn fault_01_what_was_accepted_survives_kill_9_for_absent_and_for_silent_devices() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, absent, silent) = (Id::new(1), Id::new(2), Id::new(3));
    let mut relay = Process::start(dir.path());
    let mut home = Peer::home(relay.addr, &agent, &[&absent, &silent]).await;
    let dead = Peer::device(relay.addr, agent.namespace(), &silent).await;
    for n in 1..=20 {
        let to = if n % 2 == 0 { &absent } else { &silent };
        home.message(to, format!("m{n}"), n, false).await;
    }
    home.settle().await;
    relay.signal("-KILL");
    drop(dead);

    let relay = Process::start(dir.path());
    for (first, to) in [(2, &absent), (1, &silent)] {
        let mut device = Peer::device(relay.addr, agent.namespace(), to).await;
        for n in (first..=20).step_by(2) {
            assert_eq!(device.recv_message().await.ciphertext, format!("m{n}"));
        }
    }
}

#[tokio::test]
async fn sigterm_ends_it_with_success_though_peers_are_connected() {
    let dir = tempfile::tempdir().unwrap();
    let mut relay = Process::start(dir.path());
    let mut home = Peer::agent(relay.addr, &Id::new(1)).await;
    let peer = tokio::spawn(async move { home.rest().await });
    let status = tokio::task::spawn_blocking(move || relay.signal("-TERM")).await.unwrap();
    assert!(status.success());
    peer.await.unwrap();
    assert!(!dir.path().join("relay.db-wal").exists(), "the journal is worked in");
}

fn refused(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn fault_20_a_value_that_cannot_be_read_stops_the_start_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let (code, error) = refused(command().env("RELAY_LIMIT_QUEUE_PER_CLIENT", "many").arg("--insecure"));
    assert_eq!(code, Some(2));
    assert!(error.contains("RELAY_LIMIT_QUEUE_PER_CLIENT"), "{error}");

    let file = dir.path().join("relay.toml");
    std::fs::write(&file, "[pipe]\nmax_pipes = 3\n").unwrap();
    let (code, error) = refused(command().arg("--config").arg(&file));
    assert_eq!(code, Some(2));
    assert!(error.contains("max_pipes"), "{error}");

    let (code, error) = refused(command().args(["--insecure", "--listen", "0.0.0.0:0"]));
    assert_eq!(code, Some(2));
    assert!(error.contains("loopback"), "{error}");

    let (code, error) = refused(command().args(["--tls-cert", "/nonexistent", "--tls-key", "/nonexistent"]));
    assert_eq!(code, Some(2));
    assert!(error.contains("/nonexistent"), "{error}");
}

#[test]
fn whatever_keeps_it_from_starting_is_one_sentence_and_exit_code_2() {
    let dir = tempfile::tempdir().unwrap();
    let (file, plain) = (dir.path().join("relay.toml"), dir.path().join("plain"));
    std::fs::write(&file, "insecure = true\n\nmax_pipes = 3\n").unwrap();
    std::fs::write(&plain, "a file").unwrap();
    let (file, plain) = (file.to_str().unwrap(), plain.to_str().unwrap());
    for (words, named) in [
        (&["--bogus"][..], "--bogus"),
        (&["--listen", "nonsense"], "--listen"),
        (&["--config", file], "line 3"),
        (&["--insecure", "--listen", "127.0.0.1:0", "--data", plain], plain),
    ] {
        let (code, error) = refused(command().args(words));
        assert_eq!(code, Some(2), "{words:?}: {error}");
        assert!(error.contains(named) && error.lines().count() == 1, "{words:?}: {error}");
    }
    assert!(command().arg("--help").output().unwrap().status.success());
}

#[tokio::test]
async fn the_relay_is_blind_and_its_files_tell_nothing() {
    const TOKEN: [u8; 32] = *b"CANARY-pairing-token-32-bytes-!!";
    let dir = tempfile::tempdir().unwrap();
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut relay = Process::start(dir.path());
    let mut home = Peer::agent(relay.addr, &agent).await;
    home.open_window(PairingToken::from_bytes(TOKEN)).await;
    let ok =
        pair(relay.addr, agent.namespace(), &phone, PairingToken::from_bytes(TOKEN), "CANARY-push-token")
            .await;
    assert!(matches!(ok, FromRelay::AuthOk(_)));
    home.authorize(&[&phone]).await;
    home.message(&phone, "CANARY-ciphertext", 0x0043_414e_4152_5921, false).await;
    home.message(&phone, vec![1; 64 * 1024], 2, false).await;
    home.rest().await;
    let device = Peer::try_device(relay.addr, agent.namespace(), &phone, "CANARY-second-token").await;
    assert_eq!(device.unwrap_or_else(|e| panic!("{e}")).recv_message().await.ciphertext, "CANARY-ciphertext");
    tokio::task::spawn_blocking(move || relay.signal("-TERM")).await.unwrap();

    let mut log = String::new();
    std::fs::File::open(dir.path().join("log")).unwrap().read_to_string(&mut log).unwrap();
    let events: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    let connected: Vec<_> = events.iter().filter(|event| event["fields"]["message"] == "connected").collect();
    assert!(
        connected.iter().any(|event| event["span"]["role"] == "client"),
        "the log must hold something to look through"
    );
    for event in connected {
        assert_eq!(event["span"]["namespace"], agent.namespace().to_hex()[..8], "{event}");
        assert!(event["span"]["id"].is_u64(), "{event}");
    }
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    for secret in [
        "CANARY".to_owned(),
        hex(b"CANARY"),
        agent.public.to_hex(),
        phone.public.to_hex(),
        agent.namespace().to_hex(),
    ] {
        assert!(!log.contains(&secret), "{secret} is in the log");
    }
    let database = std::fs::read(dir.path().join("relay.db")).unwrap();
    let holds = |what: &[u8]| database.windows(what.len()).any(|part| part == what);
    assert!(!holds(&TOKEN), "the pairing token is in the database");
    assert!(!holds(hex(&TOKEN).as_bytes()));
}
