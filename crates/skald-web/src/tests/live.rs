//! Real connections: the listener, the devices' streams, event streams and the end of all of them.

use std::time::Duration;

use serde_json::json;
use skald_core_api::{Event, Events, LocalWeb};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{Home, phone};

/// Bounds how long a test that has failed already hangs.
const PATIENCE: Duration = Duration::from_secs(30);

async fn read_until<S: AsyncRead + Unpin>(stream: &mut S, wanted: &str) -> String {
    let mut text = String::new();
    let reading = async {
        let mut chunk = [0; 4096];
        while !text.contains(wanted) {
            let n = stream.read(&mut chunk).await.unwrap();
            assert!(n > 0, "ended before {wanted:?}: {text}");
            text.push_str(&String::from_utf8_lossy(&chunk[..n]));
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, reading).await.is_ok();
    assert!(in_time, "no {wanted:?}: {text}");
    text
}

async fn read_to_end<S: AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut bytes = vec![];
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("it does not end").unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn ask<S: AsyncWrite + Unpin>(stream: &mut S, head: &str) {
    stream.write_all(format!("{}\r\n\r\n", head.replace('\n', "\r\n")).as_bytes()).await.unwrap();
}

#[tokio::test]
async fn a_devices_stream_speaks_for_the_device_and_stays_open_between_requests() {
    let home = Home::open().await;
    let mut stream = home.device_stream().await;
    ask(&mut stream, "GET /api/v1/session HTTP/1.1\nHost: 127.0.0.1:50001").await;
    assert!(read_until(&mut stream, "\"answer\"]").await.contains(r#""kind":"device""#));
    ask(&mut stream, "POST /api/v1/session/links HTTP/1.1\nHost: 127.0.0.1:50001\nContent-Length: 0").await;
    assert!(read_until(&mut stream, "not_from_a_device").await.starts_with("HTTP/1.1 403"));
    ask(&mut stream, "GET /api/v1/inbox HTTP/1.1\nHost: 127.0.0.1:8787\nConnection: close").await;
    assert!(read_to_end(&mut stream).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn the_listener_and_the_streams_share_one_router() {
    let home = Home::open().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    home.connections.listen(listener);
    let mut tcp = TcpStream::connect(address).await.unwrap();
    ask(&mut tcp, &format!("GET /api/v1/inbox HTTP/1.1\nHost: {address}\nConnection: close")).await;
    assert!(read_to_end(&mut tcp).await.starts_with("HTTP/1.1 401"), "the network is nobody's device");
    let mut tcp = TcpStream::connect(address).await.unwrap();
    ask(&mut tcp, "GET /healthz HTTP/1.1\nHost: 127.0.0.1:50001\nConnection: close").await;
    assert!(read_to_end(&mut tcp).await.starts_with("HTTP/1.1 421"));
    let mut tcp = TcpStream::connect(address).await.unwrap();
    ask(&mut tcp, "GET /healthz HTTP/1.0").await;
    assert!(read_to_end(&mut tcp).await.starts_with("HTTP/1.0 400"));
    let mut tcp = TcpStream::connect(address).await.unwrap();
    ask(&mut tcp, "nonsense").await;
    assert!(read_to_end(&mut tcp).await.starts_with("HTTP/1.1 400"));
}

#[tokio::test]
async fn events_greet_tell_what_changed_and_end_with_the_server() {
    let home = Home::open().await;
    let mut stream = home.device_stream().await;
    ask(&mut stream, "GET /api/v1/events HTTP/1.1\nHost: localhost").await;
    let head = read_until(&mut stream, "event: hello").await;
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    assert!(!head.contains("content-encoding"), "{head}");
    for (event, line) in [
        (Event::Inbox, "event: inbox"),
        (Event::Plugins, "event: plugins"),
        (Event::Devices, "event: devices"),
        (Event::Inbox, "event: inbox"),
    ] {
        home.host.events().publish(event);
        assert!(read_until(&mut stream, line).await.contains("data: {}"));
    }
    home.stop.cancel();
    read_to_end(&mut stream).await;
    tokio::time::timeout(PATIENCE, home.connections.closed()).await.expect("a connection stays open");
    assert!(home.connections.connect(phone()).await.is_err(), "no stream after the end");
}

#[tokio::test]
async fn events_end_with_the_token_that_asked_for_them() {
    let (home, token) = Home::with_token().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    home.connections.listen(listener);
    let mut tcp = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET /api/v1/events HTTP/1.1\nHost: {address}\nAuthorization: Bearer {token}\nConnection: close"
    );
    ask(&mut tcp, &head).await;
    read_until(&mut tcp, "event: hello").await;
    home.host.access().create_token("another").await.unwrap();
    home.host.access().revoke_token("another").await.unwrap();
    home.host.events().publish(Event::Devices);
    read_until(&mut tcp, "event: devices").await;
    home.host.access().revoke_token("script").await.unwrap();
    read_to_end(&mut tcp).await;
}

#[tokio::test]
async fn a_long_poll_over_a_stream_ends_with_the_answer() {
    let (home, token) = Home::with_token().await;
    let body = json!({"question": "q"});
    let made =
        home.send(super::Ask::post("/api/v1/inbox/clarifications", &body).token(&token)).await.expect(201);
    let id = made["request_id"].as_str().unwrap();
    let mut stream = home.device_stream().await;
    ask(&mut stream, &format!("GET /api/v1/inbox/requests/{id}?wait=60 HTTP/1.1\nHost: localhost:1")).await;
    let answer = super::Ask::post(format!("/api/v1/inbox/requests/{id}/answer"), &json!({"answer": "x"}));
    home.send(answer.token(&token)).await.expect(200);
    read_until(&mut stream, r#""resolved_by":"token:script""#).await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_nothing_is_dropped() {
    let (mut ours, theirs) = tokio::io::duplex(16);
    let mut slow = crate::serve::WriteDeadline::new(theirs);
    // Paused time moves on only when every task waits: the write waits for a reader that never reads.
    let error = slow.write_all(&[0; 64]).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    let mut taken = [0; 16];
    ours.read_exact(&mut taken).await.unwrap();
}
