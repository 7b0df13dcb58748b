//! The goodbye of the program itself: with peers that do not listen, and what it tells the service manager.
#![cfg(unix)]

mod common;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Id, PATIENCE, Peer};
use futures_util::StreamExt as _;
use tokio_tungstenite::tungstenite::Message as Ws;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

fn start(data: &Path, prepare: impl FnOnce(&mut Command)) -> (Child, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skald-relay"));
    command.env_clear().args(["--listen", "127.0.0.1:0", "--insecure", "--data"]).arg(data);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    prepare(&mut command);
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let addr = line.split("ws://").nth(1).and_then(|rest| rest.split('/').next()).unwrap().parse().unwrap();
    (child, addr)
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

async fn ended(mut child: Child) -> std::process::ExitStatus {
    let waited = tokio::task::spawn_blocking(move || child.wait().unwrap());
    tokio::time::timeout(PATIENCE, waited).await.expect("the relay ends though peers are stuck").unwrap()
}

#[tokio::test]
async fn sigterm_says_1001_to_who_listens_and_ends_though_others_read_nothing_and_some_never_spoke() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, stuck) = (Id::new(1), Id::new(2));
    let (child, addr) = start(dir.path(), |_| {});
    let mut home = Peer::home(addr, &agent, &[&stuck]).await;
    let silent = tokio::net::TcpStream::connect(addr).await.unwrap();
    let deaf = Peer::device(addr, agent.namespace(), &stuck).await;
    // Neither these nor the goodbye are ever read, and so never answered.
    for counter in 1..=20 {
        home.message(&stuck, vec![7; 60_000], counter, false).await;
    }
    home.settle().await;
    signal(&child, "-TERM");
    let farewell = async {
        loop {
            match home.ws.next().await {
                Some(Ok(Ws::Close(Some(frame)))) => return Some(frame.code),
                Some(Ok(_)) => {}
                _ => return None,
            }
        }
    };
    let farewell = tokio::time::timeout(PATIENCE, farewell).await.unwrap();
    assert_eq!(farewell, Some(CloseCode::Away));
    assert!(ended(child).await.success());
    drop((deaf, silent));

    // What was accepted is there after the restart.
    let (mut child, addr) = start(dir.path(), |_| {});
    let mut device = Peer::device(addr, agent.namespace(), &stuck).await;
    for _ in 0..20 {
        assert_eq!(device.recv_message().await.ciphertext.len(), 60_000);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_service_manager_is_told_when_the_relay_serves_and_when_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let told = || {
        let mut text = [0; 64];
        let length = manager.recv(&mut text).unwrap();
        String::from_utf8(text[..length].to_vec()).unwrap()
    };
    let (child, addr) = start(&dir.path().join("data"), |command| {
        command.env("NOTIFY_SOCKET", &path);
    });
    assert_eq!(told(), "READY=1");
    let health = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skald-relay"));
        command.env_clear().args(["health", "--insecure", "--listen"]).arg(addr.to_string()).output().unwrap()
    };
    assert!(health().status.success());
    signal(&child, "-TERM");
    assert_eq!(told(), "STOPPING=1");
    assert!(ended(child).await.success());
    let gone = health();
    assert_eq!(gone.status.code(), Some(1));
    assert!(String::from_utf8(gone.stderr).unwrap().contains("is not ready"));
}
