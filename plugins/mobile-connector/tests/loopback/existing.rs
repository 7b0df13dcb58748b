//! An app as the seeds describe it, frame by frame, which knows of nothing that was added since: it counts from 1, signs
//! no decision, writes its ids in uppercase, and its JSON has white space and members that nobody else knows.

use std::collections::BTreeMap;

use futures_util::{SinkExt, StreamExt};
use prost::Message as _;
use serde_json::{Value, json};
use skald_core_api::Actor;
use skald_e2e::framing::{self, Framed};
use skald_e2e::pipe::{EphemeralKey, PipeRole};
use skald_e2e::signal::{Handshake, Invite, PipeSignal};
use skald_e2e::{Aad, Direction, Identity, QrPayload, Seed};
use skald_host::NewApproval;
use skald_relay_common::ids::{ChallengeNonce, ConnectionId};
use skald_relay_common::pb;
use skald_relay_common::pb::relay_frame::Frame;
use skald_relay_common::pipe::{PipeAuth, PipeChallenge};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use crate::home::{Home, now, relay, soon};

type Socket = WebSocketStream<TcpStream>;

struct App {
    identity: Identity,
    qr: QrPayload,
    sent: u64,
    heard: u64,
}

async fn opened(url: &str) -> Socket {
    let address = url.trim_start_matches("ws://").split('/').next().unwrap();
    let stream = soon(TcpStream::connect(address)).await.unwrap();
    soon(tokio_tungstenite::client_async(url, stream)).await.unwrap().0
}

async fn say(socket: &mut Socket, frame: Frame) {
    let bytes = pb::RelayFrame { frame: Some(frame) }.encode_to_vec();
    soon(socket.send(Message::Binary(bytes.into()))).await.unwrap();
}

/// The next frame; the library echoes Pings, as every one does.
async fn hear(socket: &mut Socket) -> Frame {
    loop {
        if let Message::Binary(bytes) = soon(socket.next()).await.expect("open").unwrap() {
            return pb::RelayFrame::decode(bytes).unwrap().frame.unwrap();
        }
    }
}

impl App {
    fn new(qr: QrPayload) -> Self {
        Self { identity: Identity::from_seed(&Seed::take(&mut [0x11; 32])), qr, sent: 0, heard: 0 }
    }

    fn namespace(&self) -> Vec<u8> {
        self.qr.namespace_id.as_bytes().to_vec()
    }

    async fn authenticates(&self, role: pb::auth::Role) -> (Socket, Frame) {
        let mut socket = opened(&self.qr.relay_url).await;
        let Frame::Challenge(challenge) = hear(&mut socket).await else { panic!("the relay speaks first") };
        let nonce = ChallengeNonce::try_from(&challenge.nonce[..]).unwrap();
        let signature = self.identity.sign_challenge(&nonce).as_bytes().to_vec().into();
        say(&mut socket, Frame::Auth(pb::Auth { role: Some(role), signature })).await;
        let verdict = hear(&mut socket).await;
        (socket, verdict)
    }

    /// Pairs and closes the socket.
    async fn pairs(&self) {
        let role = pb::auth::Role::Pairing(pb::AuthPairing {
            namespace_id: self.namespace().into(),
            client_ed25519_pub: self.identity.public_key().as_bytes().to_vec().into(),
            client_x25519_pub: self.identity.x_public_key().as_bytes().to_vec().into(),
            pairing_token: self.qr.pairing_token.as_bytes().to_vec().into(),
            device_token: String::new(),
            platform: 1,
        });
        let (mut socket, verdict) = self.authenticates(role).await;
        assert!(matches!(verdict, Frame::AuthOk(_)), "{verdict:?}");
        let _ = socket.close(None).await;
    }

    /// Comes back until it is let in.
    async fn connects(&self) -> Socket {
        // Its own back-off (relay-protocol §4.2): who comes back too fast is turned away before the upgrade.
        let mut pace = tokio::time::interval(std::time::Duration::from_millis(200));
        loop {
            pace.tick().await;
            let role = pb::auth::Role::Client(pb::AuthClient {
                namespace_id: self.namespace().into(),
                client_ed25519_pub: self.identity.public_key().as_bytes().to_vec().into(),
                device_token: String::new(),
                platform: 1,
            });
            match self.authenticates(role).await {
                (socket, Frame::AuthOk(_)) => return socket,
                (_, Frame::AuthError(error)) => assert_eq!(error.code, "unauthorized"),
                (_, other) => panic!("{other:?}"),
            }
        }
    }

    async fn seals(&mut self, socket: &mut Socket, framed: Vec<u8>, live: bool) {
        self.sent += 1;
        let aad = Aad::new(&self.qr.namespace_id, &self.identity.public_key(), &self.qr.agent_ed25519_pub);
        let key = self.identity.session(&self.qr.agent_x25519_pub).unwrap();
        let sealed = key.seal(Direction::ClientToAgent, self.sent, &aad, framed).unwrap();
        let message = pb::Message {
            ciphertext: sealed.ciphertext.into(),
            nonce: sealed.nonce.to_vec().into(),
            peer: self.qr.agent_ed25519_pub.as_bytes().to_vec().into(),
            live,
        };
        say(socket, Frame::Message(message)).await;
    }

    async fn says(&mut self, socket: &mut Socket, kind: &str, members: Value, live: bool) -> String {
        let id = uuid::Uuid::new_v4().to_string().to_uppercase();
        let mut payload = json!({"v": 1, "kind": kind, "id": id, "ts": now(), "app_build": {"n": [1, null]}});
        for (name, member) in members.as_object().unwrap() {
            payload[name] = member.clone();
        }
        let framed = framing::encode_json(serde_json::to_string_pretty(&payload).unwrap().as_bytes());
        self.seals(socket, framed, live).await;
        id
    }

    /// The next message: what is in it, and whether it came live.
    async fn opens(&mut self, socket: &mut Socket) -> (Framed, bool) {
        let message = loop {
            match hear(socket).await {
                Frame::Message(message) => break message,
                Frame::PresenceEvent(_) => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(&message.peer[..], self.qr.agent_ed25519_pub.as_bytes());
        let aad = Aad::new(&self.qr.namespace_id, &self.qr.agent_ed25519_pub, &self.identity.public_key());
        let key = self.identity.session(&self.qr.agent_x25519_pub).unwrap();
        let nonce: [u8; 12] = message.nonce[..].try_into().unwrap();
        let (counter, plain) = key.open(Direction::AgentToClient, &nonce, &aad, &message.ciphertext).unwrap();
        assert!(counter > self.heard, "it would be thrown away as a repetition");
        self.heard = counter;
        (framing::decode(plain).unwrap(), message.live)
    }

    /// The next payload of a kind.
    async fn reads(&mut self, socket: &mut Socket, kind: &str) -> (Value, bool) {
        loop {
            let (Framed::Json(body), live) = self.opens(socket).await else { panic!("a signal") };
            let payload: Value = serde_json::from_slice(&body).unwrap();
            if payload["kind"] == kind {
                return (payload, live);
            }
        }
    }
}

async fn paired(home: &Home) -> (App, Socket) {
    let (code, qr) = home.window().await;
    let app = App::new(qr);
    app.pairs().await;
    let device = home.paired(&code).await;
    assert_eq!((&device["platform"], &device["state"]), (&json!("ios"), &json!("pending")));
    let key = device["key"].as_str().unwrap();
    home.json("POST", &format!("devices/{key}/authorize"), json!({})).await;
    let socket = app.connects().await;
    (app, socket)
}

#[tokio::test]
async fn an_existing_app_pairs_introduces_itself_asks_and_answers() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let asked = NewApproval { tool_name: "t".into(), summary: "s".into(), ..NewApproval::default() };
    home.host.inbox().create_approval(&Actor::Owner, asked).await.unwrap();
    let (mut app, mut socket) = paired(&home).await;
    let info = json!({"platform": "ios", "model": "iPhone", "device_name": "Anna's iPhone", "locale": "de"});
    app.says(&mut socket, "hello", json!({"device_info": info}), false).await;
    app.says(&mut socket, "inbox_request", json!({}), true).await;
    let (update, live) = loop {
        let (update, live) = app.reads(&mut socket, "inbox_update").await;
        if live {
            break (update, live);
        }
    };
    assert!(live);
    assert_eq!((&update["v"], &update["badge"]), (&json!(1), &json!(1)));
    assert!(update["clarifications"].is_array() && update["elicitations"].is_array());
    let item = &update["approvals"][0];
    assert!(item["created_at"].is_i64() && item["agent_label"].is_string());

    // The host's name for an item goes back as it came, whatever that is.
    let members = json!({"request_id": item["request_id"], "decision": "approved", "reason": null,
        "bypass_secs": null});
    let id = app.says(&mut socket, "approval_response", members, false).await;
    let (mut cleared, mut receipt) = (false, false);
    while !(cleared && receipt) {
        let (Framed::Json(body), _) = app.opens(&mut socket).await else { panic!("a signal") };
        let payload: Value = serde_json::from_slice(&body).unwrap();
        cleared |= payload["kind"] == "inbox_update" && payload["badge"] == 0;
        // A text is compared with a text.
        receipt |= payload["kind"] == "ack" && payload["ref_id"] == id.as_str();
    }
    let request = item["request_id"].as_str().unwrap().parse().unwrap();
    let entry = home.host.inbox().get(request).await.unwrap();
    assert_eq!(entry.resolved_by.as_deref(), Some("device:Anna's iPhone"));
    app.says(&mut socket, "logout", json!({}), false).await;
    let mut events = home.host.events().subscribe();
    soon(async {
        while home.json("GET", "devices", json!({})).await != json!([]) {
            events.next().await;
        }
    })
    .await;
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn an_existing_apps_pipe_reaches_the_page() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let (mut app, mut socket) = paired(&home).await;
    let ephemeral = EphemeralKey::take(&mut [0x22; 32]);
    let connection_id = ConnectionId::from_bytes([0x33; 32]);
    let invite = PipeSignal::Invite(Invite {
        connection_id,
        suite: "x25519-sealed".into(),
        handshake: Handshake::from_key(ephemeral.public()),
        stream_type: "http-local-proxy".into(),
        compress: vec!["none".into(), "zlib".into()],
        headers: BTreeMap::from([("app".into(), "webview".into())]),
    });
    app.seals(&mut socket, framing::encode_signal(&invite), true).await;
    let accept = loop {
        if let (Framed::Signal(PipeSignal::Accept(accept)), live) = app.opens(&mut socket).await {
            assert!(live);
            break accept;
        }
    };
    assert_eq!((accept.connection_id, accept.compress.as_str()), (connection_id, "none"));
    assert_eq!(accept.headers, None, "it is answered in the form it knows");
    let key = ephemeral.agree(&accept.handshake.as_key().unwrap()).unwrap();
    let (mut sealer, mut opener) = key.into_ciphers(PipeRole::Initiator, connection_id);

    let url = app.qr.relay_url.replace("/v1/ws", "/v1/pipe");
    let mut pipe = opened(&url).await;
    let Message::Binary(challenge) = soon(pipe.next()).await.unwrap().unwrap() else { panic!("a challenge") };
    let challenge = PipeChallenge::decode(&challenge).unwrap();
    let auth = PipeAuth {
        connection_id,
        pubkey: app.identity.public_key(),
        dest: skald_relay_common::challenge::peer_hash(&app.qr.agent_ed25519_pub),
        namespace_id: app.qr.namespace_id,
        signature: app.identity.sign_pipe_challenge(&challenge.nonce, &connection_id),
    };
    pipe.send(Message::Binary(auth.encode().into())).await.unwrap();
    let mut frame = b"GET / HTTP/1.1\r\n\r\n".to_vec();
    sealer.seal_in_place(&mut frame).unwrap();
    pipe.send(Message::Binary(frame.into())).await.unwrap();

    let (_, mut server) = home.connection().await;
    let mut head = [0; 18];
    soon(server.read_exact(&mut head)).await.unwrap();
    assert_eq!(&head, b"GET / HTTP/1.1\r\n\r\n");
    server.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let Message::Binary(frame) = soon(pipe.next()).await.unwrap().unwrap() else { continue };
        let mut frame = frame.to_vec();
        let len = opener.open_in_place(&mut frame).unwrap();
        answer.extend_from_slice(&frame[..len]);
    }
    assert_eq!(answer, b"HTTP/1.1 204 No Content\r\n\r\n");
    home.stop().await;
    relay.shutdown().await;
}
