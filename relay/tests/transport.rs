//! TLS, proxies, and what is not a WebSocket.

mod common;

use std::sync::Arc;

use common::{Id, Peer, TestRelay};
use rustls::pki_types::{CertificateDer, ServerName};
use skald_relay::Options;
use skald_relay_common::frame::Role;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Sends a request head over plain TCP and gives the answer.
async fn http(relay: &TestRelay, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(relay.addr()).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

#[tokio::test]
async fn health_is_told_and_nothing_else_is_served() {
    let relay = TestRelay::start().await;
    assert!(http(&relay, "/healthz", "").await.starts_with("HTTP/1.1 200"));
    assert!(http(&relay, "/readyz", "").await.starts_with("HTTP/1.1 200"));
    assert!(http(&relay, "/", "").await.starts_with("HTTP/1.1 404"));
    assert!(http(&relay, "/v1/ws", "").await.starts_with("HTTP/1.1 426"));
    assert!(http(&relay, "/v2/ws", UPGRADE).await.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn a_plain_connection_is_refused_in_plain_words_and_a_trusted_proxy_is_believed() {
    let strict = TestRelay::with(|s| s.insecure = false, Options::default()).await;
    let answer = http(&strict, "/v1/ws", UPGRADE).await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("wss://"), "{answer}");
    let claimed = format!("{UPGRADE}X-Forwarded-Proto: https\r\n");
    assert!(http(&strict, "/v1/ws", &claimed).await.starts_with("HTTP/1.1 403"), "anyone could say so");

    let behind = |s: &mut skald_relay::Settings| {
        s.insecure = false;
        s.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    };
    let relay = TestRelay::with(behind, Options::default()).await;
    assert!(http(&relay, "/v1/ws", UPGRADE).await.starts_with("HTTP/1.1 403"));
    let mut stream = TcpStream::connect(relay.addr()).await.unwrap();
    let request = format!("GET /v1/ws HTTP/1.1\r\nHost: relay\r\n{claimed}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 101");
}

#[tokio::test]
async fn the_relay_serves_tls_itself() {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = tempfile::tempdir().unwrap();
    let (certificate, key) = (files.path().join("cert.pem"), files.path().join("key.pem"));
    std::fs::write(&certificate, certified.cert.pem()).unwrap();
    std::fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
    let relay = TestRelay::with(
        |s| {
            s.insecure = false;
            s.tls_cert = Some(certificate);
            s.tls_key = Some(key);
        },
        Options::default(),
    )
    .await;
    assert!(relay.running.url().starts_with("wss://"));
    assert!(http(&relay, "/v1/ws", UPGRADE).await.contains("wss://"), "a plain caller is told what is wrong");

    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(certified.cert)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connect = async || {
        let stream = TcpStream::connect(relay.addr()).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config.clone())).connect(name, stream).await.unwrap();
        Peer { ws: tokio_tungstenite::client_async("wss://localhost/v1/ws", stream).await.unwrap().0 }
    };
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = connect().await;
    home.login(&agent, Role::Agent(agent.public)).await;
    home.authorize(&[&phone]).await;
    home.message(&agent, vec![7; 60_000], 1, true).await;
    assert_eq!(home.recv_message().await.ciphertext.len(), 60_000);
}
