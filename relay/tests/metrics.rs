//! The metrics as a monitoring system reads them.

mod common;

use common::{Id, Peer, TestRelay};
use skald_relay::Options;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn http(relay: &TestRelay, request: &str) -> String {
    let mut stream = TcpStream::connect(relay.running.metrics_addr().unwrap()).await.unwrap();
    let request = format!("{request} HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn with_metrics() -> TestRelay {
    TestRelay::with(|s| s.metrics_listen = Some("127.0.0.1:0".parse().unwrap()), Options::default()).await
}

#[tokio::test]
async fn metrics_are_served_on_an_address_of_their_own_and_nothing_else_is() {
    let relay = with_metrics().await;
    let answer = http(&relay, "GET /metrics").await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("application/openmetrics-text"),
        "{answer}"
    );
    assert!(answer.ends_with("# EOF\n"));
    assert!(http(&relay, "GET /").await.starts_with("HTTP/1.1 404"));
    assert!(http(&relay, "GET /healthz").await.starts_with("HTTP/1.1 404"));
    assert!(http(&relay, "POST /metrics").await.starts_with("HTTP/1.1 405"));
    let plain = TestRelay::start().await;
    assert_eq!(plain.running.metrics_addr(), None, "nothing is served unless it is asked for");
    drop(Peer::agent(plain.addr(), &Id::new(1)).await);
}
