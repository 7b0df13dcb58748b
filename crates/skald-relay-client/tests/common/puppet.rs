//! A relay that does what the test says, for what a real one never does.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use skald_e2e::{Aad, Direction, Identity, Seed};
use skald_relay_client::{Events, RelayClient, RelayEvent};
use skald_relay_common::frame::{AuthOk, ClientPaired, FromPeer, FromRelay, Message, Platform, RelayInfo};
use skald_relay_common::ids::{ChallengeNonce, MessageNonce, PublicKey};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Ws;

use super::{Place, agent, next, soon};

pub struct Puppet {
    listener: TcpListener,
}

/// One connection of the agent's, authenticated.
pub struct Session {
    socket: WebSocketStream<TcpStream>,
    pub agent: PublicKey,
}

impl Puppet {
    pub async fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub fn url(&self) -> String {
        format!("ws://{}/v1/ws", self.listener.local_addr().unwrap())
    }

    pub async fn accept(&self) -> WebSocketStream<TcpStream> {
        let (tcp, _) = soon("a connection", self.listener.accept()).await.unwrap();
        tokio_tungstenite::accept_async(tcp).await.unwrap()
    }

    /// Takes a connection through the handshake.
    pub async fn session(&self) -> Session {
        let mut socket = self.accept().await;
        let challenge = FromRelay::Challenge(ChallengeNonce::from_bytes([7; 32]));
        socket.send(Ws::Binary(challenge.encode().into())).await.unwrap();
        let mut session = Session { socket, agent: PublicKey::from_bytes([0; 32]) };
        let FromPeer::Auth(auth) = session.frame().await else { panic!("an Auth was awaited") };
        session.agent = *auth.role.key();
        let namespace = skald_relay_common::namespace_id(&session.agent);
        session.send(FromRelay::AuthOk(AuthOk { namespace, info: RelayInfo::default() })).await;
        session
    }
}

impl Session {
    pub async fn send(&mut self, frame: FromRelay) {
        self.socket.send(Ws::Binary(frame.encode().into())).await.unwrap();
    }

    /// The next frame; Pings are answered by reading on.
    pub async fn frame(&mut self) -> FromPeer {
        self.next().await.expect("the agent stays")
    }

    /// The same; `None` where the agent hangs up.
    pub async fn next(&mut self) -> Option<FromPeer> {
        soon("a frame", async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Ws::Binary(bytes))) => return FromPeer::parse(bytes).unwrap(),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return None,
                }
            }
        })
        .await
    }

    /// Skips to the first frame that `pick` takes.
    pub async fn find<T>(&mut self, mut pick: impl FnMut(FromPeer) -> Option<T>) -> T {
        loop {
            if let Some(found) = pick(self.frame().await) {
                return found;
            }
        }
    }

    /// Confirms the list of devices, and gives it.
    pub async fn authorized(&mut self) -> Vec<PublicKey> {
        let list = self
            .find(|f| match f {
                FromPeer::Authorize(list) => Some(list),
                _ => None,
            })
            .await;
        self.send(FromRelay::AuthorizeOk(list.len() as u32)).await;
        list
    }

    pub async fn message(&mut self) -> Message {
        self.find(|f| match f {
            FromPeer::Message(message) => Some(message),
            _ => None,
        })
        .await
    }

    /// Everything that was sent before is dealt with once this returns.
    pub async fn settle(&mut self) {
        self.socket.send(Ws::Ping("settle".into())).await.unwrap();
        soon("a Pong", async {
            while let Some(Ok(read)) = self.socket.next().await {
                if matches!(&read, Ws::Pong(payload) if payload == "settle".as_bytes()) {
                    return;
                }
            }
        })
        .await;
    }

    /// Drops the connection with no goodbye.
    pub fn cut(self) {}
}

/// A puppet with an agent that has one authorised device of the given keys.
pub async fn with_device(place: &Place, puppet: &Puppet, keys: &Keys) -> (RelayClient, Events, Session) {
    let (agent, mut events) = agent(&puppet.url(), &place.path("agent")).await;
    let mut session = puppet.session().await;
    assert!(session.authorized().await.is_empty());
    pair_in_window(&agent, &mut events, &mut session, keys).await;
    agent.authorize(&keys.0.public_key()).await.unwrap();
    assert_eq!(session.authorized().await, [keys.0.public_key()]);
    (agent, events, session)
}

pub async fn pair_in_window(agent: &RelayClient, events: &mut Events, session: &mut Session, keys: &Keys) {
    let open = tokio::spawn({
        let agent = agent.clone();
        async move { agent.open_pairing(Duration::from_secs(60)).await.unwrap() }
    });
    session.find(|f| matches!(f, FromPeer::PairingStart { .. }).then_some(())).await;
    session.send(FromRelay::PairingReady(60)).await;
    open.await.unwrap();
    session.send(keys.paired()).await;
    let received = next(events).await;
    assert!(matches!(received.event, RelayEvent::Paired { .. }));
    received.ack().await.unwrap();
}

/// A device's keys, in the test's hands.
pub struct Keys(pub Identity);

impl Keys {
    pub fn new(byte: u8) -> Self {
        Self(Identity::from_seed(&Seed::take(&mut [byte; 32])))
    }

    pub fn paired(&self) -> FromRelay {
        FromRelay::ClientPaired(ClientPaired {
            key: self.0.public_key(),
            x_key: self.0.x_public_key(),
            platform: Platform::IOS,
        })
    }

    /// Opens a message of the agent's: its counter and its framed plaintext.
    pub fn open(&self, agent: &Identity, message: &Message) -> (u64, Vec<u8>) {
        let aad = Aad::new(&agent.namespace_id(), &agent.public_key(), &self.0.public_key());
        let key = self.0.session(&agent.x_public_key()).unwrap();
        key.open(Direction::AgentToClient, message.nonce.as_bytes(), &aad, &message.ciphertext).unwrap()
    }

    /// A message to the agent under `counter`.
    pub fn seal(&self, agent: &Identity, counter: u64, body: &[u8]) -> FromRelay {
        self.seal_framed(agent, counter, skald_e2e::framing::encode_json(body), false)
    }

    /// The same for whatever the plaintext is.
    pub fn seal_framed(&self, agent: &Identity, counter: u64, framed: Vec<u8>, live: bool) -> FromRelay {
        let aad = Aad::new(&agent.namespace_id(), &self.0.public_key(), &agent.public_key());
        let key = self.0.session(&agent.x_public_key()).unwrap();
        let sealed = key.seal(Direction::ClientToAgent, counter, &aad, framed).unwrap();
        FromRelay::Message(Message {
            peer: self.0.public_key(),
            nonce: MessageNonce::from_bytes(sealed.nonce),
            ciphertext: sealed.ciphertext.into(),
            live,
        })
    }
}

/// The agent's identity, from its folder.
pub fn identity(dir: &std::path::Path) -> Identity {
    let bytes = std::fs::read(dir.join("seed")).unwrap();
    Identity::from_seed(&Seed::try_from(bytes.as_slice()).unwrap())
}
