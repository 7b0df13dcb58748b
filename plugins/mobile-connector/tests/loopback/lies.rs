//! A relay that is not there, and one that lies.

use futures_util::{SinkExt, StreamExt};
use prost::Message as _;
use serde_json::json;
use skald_core_api::PluginState;
use skald_relay_common::pb;
use skald_relay_common::pb::relay_frame::Frame;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use crate::home::{Home, soon};

type Socket = WebSocketStream<TcpStream>;

async fn say(socket: &mut Socket, frame: Frame) {
    let bytes = pb::RelayFrame { frame: Some(frame) }.encode_to_vec();
    let _ = socket.send(Message::Binary(bytes.into())).await;
}

/// Takes one connection as a relay would, up to `AuthOk`.
async fn greet(listener: &TcpListener) -> Socket {
    let (stream, _) = listener.accept().await.unwrap();
    let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
    say(&mut socket, Frame::Challenge(pb::Challenge { nonce: vec![7; 32].into() })).await;
    let namespace_id = loop {
        let Some(Ok(message)) = socket.next().await else { panic!("it left") };
        let Message::Binary(bytes) = message else { continue };
        let Some(Frame::Auth(auth)) = pb::RelayFrame::decode(bytes).unwrap().frame else { continue };
        let Some(pb::auth::Role::Agent(agent)) = auth.role else { panic!("not an agent") };
        let mut key = [0; 32];
        key.copy_from_slice(&agent.agent_ed25519_pub);
        break skald_relay_common::namespace_id(&key.into());
    };
    let namespace_id = namespace_id.as_bytes().to_vec().into();
    say(&mut socket, Frame::AuthOk(pb::AuthOk { namespace_id, ..Default::default() })).await;
    socket
}

async fn home_at(listener: &TcpListener) -> Home {
    let url = format!("ws://{}", listener.local_addr().unwrap());
    Home::configured(json!({"relay_url": url, "notify_delay_secs": 0})).await
}

#[tokio::test]
async fn an_unreachable_relay_is_said_and_everything_else_works() {
    // A port that nobody listens on: taken, and given back.
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let home = Home::configured(json!({"relay_url": format!("ws://{address}")})).await;
    home.reaches(PluginState::Degraded).await;
    let status = home.json("GET", "status", json!({})).await;
    let told = status["last_error"].as_str().unwrap();
    assert!(told.ends_with('.') && told.contains("127.0.0.1"), "{told}");
    assert_eq!(home.json("GET", "devices", json!({})).await, json!([]));
    let problem = home.json("POST", "pairing", json!({})).await;
    assert_eq!(problem["status"], 503, "{problem}");
    soon(home.stop()).await;
}

#[tokio::test]
async fn fault_13_a_device_that_nobody_asked_for_and_payloads_from_nowhere_change_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let home = home_at(&listener).await;
    let mut socket = soon(greet(&listener)).await;
    let stranger = vec![1; 32];
    let message = |nonce: Vec<u8>, ciphertext: Vec<u8>| {
        let (nonce, ciphertext) = (nonce.into(), ciphertext.into());
        Frame::Message(pb::Message { ciphertext, nonce, peer: stranger.clone().into(), live: false })
    };
    for frame in [
        Frame::ClientPaired(pb::ClientPaired {
            client_ed25519_pub: stranger.clone().into(),
            client_x25519_pub: vec![2; 32].into(),
            platform: 1,
        }),
        message(vec![0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9], vec![3; 64]),
        message(vec![0; 12], vec![]),
        message(vec![], vec![3; 64]),
        Frame::PeerOffline(pb::PeerOffline { peer: stranger.clone().into() }),
        Frame::PresenceEvent(pb::PresenceEvent { pubkey: stranger.clone().into(), status: 1 }),
        Frame::Error(pb::Error { code: "not_found".into(), message: "x".into() }),
        Frame::PairingReady(pb::PairingReady { ttl: 300 }),
    ] {
        say(&mut socket, frame).await;
    }
    // It has read all of that once it echoes this.
    let _ = socket.send(Message::Ping(b"marker".to_vec().into())).await;
    let alive = soon(async {
        loop {
            match socket.next().await {
                Some(Ok(Message::Pong(marker))) if &marker[..] == b"marker" => break true,
                Some(Ok(_)) => {}
                // Cutting such a relay off is as good an answer.
                _ => break false,
            }
        }
    })
    .await;
    if !alive {
        soon(greet(&listener)).await;
    }
    assert_eq!(home.json("GET", "devices", json!({})).await, json!([]));
    assert_eq!(
        home.json("GET", "status", json!({})).await["relay_url"].as_str().unwrap().split(':').next(),
        Some("ws")
    );
    soon(home.stop()).await;
}

#[tokio::test]
async fn what_is_no_relay_is_said_plainly_and_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let home = home_at(&listener).await;
    for nonsense in [
        Message::Text("hello".into()),
        Message::Binary(vec![0xff; 40].into()),
        Message::Binary(vec![].into()),
    ] {
        let (stream, _) = soon(listener.accept()).await.unwrap();
        let mut socket = soon(tokio_tungstenite::accept_async(stream)).await.unwrap();
        let _ = socket.send(nonsense).await;
        // It hangs up by itself.
        soon(async { while let Some(Ok(_)) = socket.next().await {} }).await;
    }
    home.reaches(PluginState::Degraded).await;
    let mut socket = soon(greet(&listener)).await;
    // An honest one on the same address is taken at once.
    let answered = soon(async {
        loop {
            let Some(Ok(message)) = socket.next().await else { break false };
            let Message::Binary(bytes) = message else { continue };
            if let Some(Frame::Authorize(list)) = pb::RelayFrame::decode(bytes).unwrap().frame {
                break list.clients.is_empty();
            }
        }
    })
    .await;
    assert!(answered);
    say(&mut socket, Frame::AuthorizeOk(pb::AuthorizeOk { authorized: 0 })).await;
    home.reaches(PluginState::Running).await;
    soon(home.stop()).await;
}
