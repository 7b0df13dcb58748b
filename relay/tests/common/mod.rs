//! A relay on loopback and raw peers that speak to it.
#![allow(dead_code, clippy::unwrap_used)]

use std::net::SocketAddr;
use std::time::Duration;

use ed25519_dalek::SigningKey;
use futures_util::{SinkExt as _, StreamExt as _};
use skald_relay::{Options, Relay, Running, Settings};
use skald_relay_common::challenge::{peer_hash, sign_auth, sign_pipe};
use skald_relay_common::frame::{
    Auth, AuthClient, AuthPairing, FromPeer, FromRelay, Message, Platform, Refusal, Role,
};
use skald_relay_common::ids::{ConnectionId, NamespaceId, PairingToken, PublicKey, XPublicKey};
use skald_relay_common::pipe::{PipeAuth, PipeChallenge};
use skald_relay_common::{ErrorCode, namespace_id};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Ws;

/// Nothing in these tests takes so long; it only keeps a failure from hanging.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct TestRelay {
    pub dir: tempfile::TempDir,
    pub running: Running,
}

impl TestRelay {
    pub async fn start() -> Self {
        Self::with(|_| {}, Options::default()).await
    }

    pub async fn with(change: impl FnOnce(&mut Settings), options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let running = start_in(dir.path(), change, options).await;
        Self { dir, running }
    }

    pub fn addr(&self) -> SocketAddr {
        self.running.local_addr()
    }
}

pub async fn start_in(
    dir: &std::path::Path,
    change: impl FnOnce(&mut Settings),
    options: Options,
) -> Running {
    let mut settings = Settings {
        listen: "127.0.0.1:0".parse().unwrap(),
        data: dir.to_owned(),
        insecure: true,
        ..Settings::default()
    };
    change(&mut settings);
    Relay::start_with(settings, options).await.unwrap()
}

/// A key pair with what follows from it.
#[derive(Clone)]
pub struct Id {
    pub key: SigningKey,
    pub public: PublicKey,
}

impl Id {
    pub fn new(n: u8) -> Self {
        let key = SigningKey::from_bytes(&[n; 32]);
        let public = PublicKey::from_bytes(key.verifying_key().to_bytes());
        Self { key, public }
    }

    pub fn namespace(&self) -> NamespaceId {
        namespace_id(&self.public)
    }
}

/// A WebSocket on `/v1/ws`.
pub struct Peer<S = TcpStream> {
    pub ws: WebSocketStream<S>,
}

pub async fn ws(addr: SocketAddr, path: &str) -> WebSocketStream<TcpStream> {
    let stream = TcpStream::connect(addr).await.unwrap();
    stream.set_nodelay(true).unwrap();
    tokio_tungstenite::client_async(format!("ws://{addr}{path}"), stream).await.unwrap().0
}

impl Peer {
    pub async fn open(addr: SocketAddr) -> Self {
        Self { ws: ws(addr, "/v1/ws").await }
    }

    pub async fn agent(addr: SocketAddr, id: &Id) -> Self {
        let mut peer = Self::open(addr).await;
        peer.login(id, Role::Agent(id.public)).await;
        peer
    }

    pub async fn device(addr: SocketAddr, namespace: NamespaceId, id: &Id) -> Self {
        Self::try_device(addr, namespace, id, "").await.unwrap()
    }

    pub async fn try_device(
        addr: SocketAddr,
        namespace: NamespaceId,
        id: &Id,
        device_token: &str,
    ) -> Result<Self, ErrorCode> {
        let mut peer = Self::open(addr).await;
        let device_token = device_token.to_owned();
        let client = AuthClient { namespace, key: id.public, device_token, platform: Platform::IOS };
        match peer.auth(id, Role::Client(client)).await {
            FromRelay::AuthOk(_) => Ok(peer),
            other => Err(code(&other)),
        }
    }

    /// An agent with its authorised devices, none of them connected.
    pub async fn home(addr: SocketAddr, agent: &Id, devices: &[&Id]) -> Self {
        let mut peer = Self::agent(addr, agent).await;
        peer.authorize(devices).await;
        peer
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    pub async fn send(&mut self, frame: FromPeer) {
        self.ws.send(Ws::Binary(frame.encode().into())).await.unwrap();
    }

    /// The next frame; `None` when the relay has hung up.
    pub async fn try_recv(&mut self) -> Option<FromRelay> {
        let next = async {
            loop {
                match self.ws.next().await {
                    Some(Ok(Ws::Binary(bytes))) => return FromRelay::parse(bytes).unwrap(),
                    Some(Ok(Ws::Close(_)) | Err(_)) | None => return None,
                    Some(Ok(_)) => {}
                }
            }
        };
        tokio::time::timeout(PATIENCE, next).await.expect("the relay says something")
    }

    /// The next frame that is no presence event.
    pub async fn recv(&mut self) -> FromRelay {
        loop {
            match self.try_recv().await.expect("the relay has hung up") {
                FromRelay::PresenceEvent { .. } => {}
                frame => return frame,
            }
        }
    }

    pub async fn auth(&mut self, id: &Id, role: Role) -> FromRelay {
        let FromRelay::Challenge(nonce) = self.recv().await else { panic!("the relay speaks first") };
        self.send(FromPeer::Auth(Auth { role, signature: sign_auth(&id.key, &nonce) })).await;
        self.recv().await
    }

    pub async fn login(&mut self, id: &Id, role: Role) {
        let answer = self.auth(id, role).await;
        assert!(matches!(answer, FromRelay::AuthOk(_)), "{answer:?}");
    }

    pub async fn authorize(&mut self, devices: &[&Id]) {
        self.send(FromPeer::Authorize(devices.iter().map(|id| id.public).collect())).await;
        loop {
            match self.recv().await {
                FromRelay::AuthorizeOk(count) => return assert_eq!(count as usize, devices.len()),
                FromRelay::ClientPaired(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub async fn open_window(&mut self, token: PairingToken) {
        self.send(FromPeer::PairingStart { token, ttl: 0 }).await;
        loop {
            match self.recv().await {
                FromRelay::PairingReady(300) => return,
                FromRelay::ClientPaired(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub async fn message(&mut self, to: &Id, body: impl Into<Vec<u8>>, counter: u64, live: bool) {
        self.send(FromPeer::Message(message(to, body, counter, live))).await;
    }

    pub async fn recv_message(&mut self) -> Message {
        match self.recv().await {
            FromRelay::Message(message) => message,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until everything that was sent before has been dealt with: the answer comes in its turn.
    pub async fn settle(&mut self) {
        self.send(FromPeer::PresenceRequest).await;
        while !matches!(self.recv().await, FromRelay::PresenceList(_)) {}
    }

    pub async fn refusal(&mut self) -> ErrorCode {
        code(&self.recv().await)
    }

    /// Reads until the relay hangs up, and gives what came before.
    pub async fn rest(&mut self) -> Vec<FromRelay> {
        let mut seen = Vec::new();
        while let Some(frame) = self.try_recv().await {
            seen.push(frame);
        }
        seen
    }

    pub async fn presence(&mut self, of: &Id, online: bool) {
        let expected = FromRelay::PresenceEvent { peer: of.public, online };
        while self.try_recv().await.expect("the relay has hung up") != expected {}
    }
}

pub fn message(to: &Id, body: impl Into<Vec<u8>>, counter: u64, live: bool) -> Message {
    let mut nonce = [0; 12];
    nonce[3] = 1;
    nonce[4..].copy_from_slice(&counter.to_be_bytes());
    Message { peer: to.public, nonce: nonce.into(), ciphertext: body.into().into(), live }
}

pub fn counter(message: &Message) -> u64 {
    u64::from_be_bytes(message.nonce.as_bytes()[4..].try_into().unwrap())
}

pub fn code(frame: &FromRelay) -> ErrorCode {
    match frame {
        FromRelay::Error(refusal) | FromRelay::AuthError(refusal) => Refusal::code(refusal).unwrap(),
        other => panic!("no refusal: {other:?}"),
    }
}

/// One pairing connection; its answer.
pub async fn pair(
    addr: SocketAddr,
    namespace: NamespaceId,
    id: &Id,
    token: PairingToken,
    push: &str,
) -> FromRelay {
    let mut peer = Peer::open(addr).await;
    let claim = AuthPairing {
        namespace,
        key: id.public,
        x_key: XPublicKey::from_bytes([9; 32]),
        token,
        device_token: push.to_owned(),
        platform: Platform::IOS,
    };
    peer.auth(id, Role::Pairing(claim)).await
}

/// A side of a pipe, after its answer to the challenge.
pub async fn dial(
    addr: SocketAddr,
    me: &Id,
    other: &Id,
    namespace: NamespaceId,
    cid: ConnectionId,
) -> WebSocketStream<TcpStream> {
    let mut ws = ws(addr, "/v1/pipe").await;
    let Some(Ok(Ws::Binary(bytes))) = ws.next().await else { panic!("the relay speaks first") };
    let nonce = PipeChallenge::decode(&bytes).unwrap().nonce;
    let auth = PipeAuth {
        connection_id: cid,
        pubkey: me.public,
        dest: peer_hash(&other.public),
        namespace_id: namespace,
        signature: sign_pipe(&me.key, &nonce, &cid),
    };
    ws.send(Ws::Binary(auth.encode().into())).await.unwrap();
    ws
}

/// The next bytes of a pipe; `None` when it has ended.
pub async fn bytes(ws: &mut WebSocketStream<TcpStream>) -> Option<Vec<u8>> {
    let next = async {
        loop {
            match ws.next().await {
                Some(Ok(Ws::Binary(bytes))) => return Some(bytes.to_vec()),
                Some(Ok(Ws::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, next).await.expect("the pipe carries something or ends")
}
