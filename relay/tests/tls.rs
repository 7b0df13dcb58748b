//! TLS as clients see it: certificates that change, tickets, and what is not spoken.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{PATIENCE, TestRelay};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, HandshakeKind, RootCertStore};
use skald_relay::Options;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Writes a certificate by an authority of its own and gives that one's root.
fn certify(folder: &Path) -> CertificateDer<'static> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("cert.pem"), certified.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), certified.signing_key.serialize_pem()).unwrap();
    certified.cert.into()
}

async fn relay(files: &Path) -> TestRelay {
    let (certificate, key) = (files.join("cert.pem"), files.join("key.pem"));
    let change = |s: &mut skald_relay::Settings| {
        s.insecure = false;
        s.tls_cert = Some(certificate);
        s.tls_key = Some(key);
    };
    TestRelay::with(change, Options::default()).await
}

fn client(root: &CertificateDer<'static>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

async fn connect(relay: &TestRelay, config: &Arc<ClientConfig>) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(relay.addr()).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::clone(config)).connect(name, stream).await
}

/// Asks for health, which also takes in the tickets that come first.
async fn healthy(mut stream: TlsStream<TcpStream>) -> TlsStream<TcpStream> {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = [0; 12];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    stream
}

#[tokio::test]
async fn who_comes_back_resumes_by_ticket_even_after_the_certificate_changed() {
    let files = tempfile::tempdir().unwrap();
    let root = certify(files.path());
    let relay = relay(files.path()).await;
    for versions in [&[&rustls::version::TLS13][..], &[&rustls::version::TLS12]] {
        let mut roots = RootCertStore::empty();
        roots.add(root.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = Arc::new(config);
        let kind = async || {
            let stream = healthy(connect(&relay, &config).await.unwrap()).await;
            stream.get_ref().1.handshake_kind().unwrap()
        };
        assert_eq!(kind().await, HandshakeKind::Full, "{versions:?}");
        assert_eq!(kind().await, HandshakeKind::Resumed, "{versions:?}");
        assert_eq!(kind().await, HandshakeKind::Resumed, "{versions:?}");
    }
}

#[tokio::test]
async fn a_changed_certificate_is_served_without_a_restart_and_old_connections_live_on() {
    let files = tempfile::tempdir().unwrap();
    let root = certify(files.path());
    let relay = relay(files.path()).await;
    let mut changes = relay.running.certificates().unwrap();
    let old = connect(&relay, &Arc::new(client(&root))).await.unwrap();

    let renewed = certify(files.path());
    relay.running.reload();
    tokio::time::timeout(PATIENCE, changes.wait_for(|&count| count == 2)).await.unwrap().unwrap();
    healthy(connect(&relay, &Arc::new(client(&renewed))).await.unwrap()).await;
    assert!(connect(&relay, &Arc::new(client(&root))).await.is_err(), "the old certificate is gone");
    healthy(old).await;
}

#[tokio::test]
async fn only_what_is_modern_is_spoken() {
    let files = tempfile::tempdir().unwrap();
    let root = certify(files.path());
    let relay = relay(files.path()).await;
    let mut http2 = client(&root);
    http2.alpn_protocols = vec![b"h2".to_vec()];
    assert!(connect(&relay, &Arc::new(http2)).await.is_err());
    let mut either = client(&root);
    either.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = connect(&relay, &Arc::new(either)).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));

    // A greeting of TLS 1.1 and of nothing newer, with suites of its time.
    let mut stream = TcpStream::connect(relay.addr()).await.unwrap();
    let mut hello = vec![0x16, 3, 1, 0, 0, 1, 0, 0, 0, 3, 2];
    hello.extend([7; 32]);
    hello.extend([0, 0, 4, 0xc0, 0x13, 0x00, 0x2f, 1, 0]);
    let body = u8::try_from(hello.len() - 9).unwrap();
    (hello[4], hello[8]) = (body + 4, body);
    stream.write_all(&hello).await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
    let alert = (answer[0], answer[5], answer.len());
    assert_eq!(alert, (0x15, 2, 7), "one fatal alert and nothing else: {answer:?}");
}

#[tokio::test]
async fn a_certificate_authority_is_answered_only_where_one_is_set_up() {
    let files = tempfile::tempdir().unwrap();
    let root = certify(files.path());
    let relay = relay(files.path()).await;
    let mut config = client(&root);
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    assert!(connect(&relay, &Arc::new(config)).await.is_err());
}
