//! The relay under test, as a process, and sides that speak to it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use skald_e2e::{Identity, Seed};
use skald_relay_common::challenge::peer_hash;
use skald_relay_common::frame::{Auth, FromPeer, FromRelay, Role};
use skald_relay_common::ids::ConnectionId;
use skald_relay_common::pipe::{PipeAuth, PipeChallenge};
use skald_testkit::{Authority, Program, Scratch, ServerCertificate, binary};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// A connection, plain or TLS.
pub trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// A connection, plain or TLS.
pub type Side = Box<dyn Wire>;

/// Certificates and scratch space for one scenario.
pub struct Ground {
    /// Files.
    pub scratch: Scratch,
    authority: Authority,
    connector: TlsConnector,
}

impl Ground {
    /// A fresh one.
    pub fn new() -> Result<Self> {
        let scratch = Scratch::new()?;
        let authority = Authority::open(scratch.join("ca"))?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority.certificate()).context("no certificate")?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { scratch, authority, connector: TlsConnector::from(Arc::new(config)) })
    }

    /// A certificate for loopback.
    pub fn certificate(&self) -> Result<ServerCertificate> {
        self.authority.issue("server")
    }

    /// Whom to trust, PEM.
    pub fn trusted(&self) -> PathBuf {
        self.authority.certificate()
    }

    /// Connects, with TLS if asked.
    pub async fn connect(&self, address: SocketAddr, tls: bool) -> Result<Side> {
        let stream = TcpStream::connect(address).await.context("nobody listens")?;
        stream.set_nodelay(true)?;
        if !tls {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from("localhost").context("a name")?;
        Ok(Box::new(self.connector.connect(name, stream).await.context("TLS failed")?))
    }
}

/// A relay that runs.
pub struct Relay {
    program: Program,
    address: SocketAddr,
    tls: bool,
    /// What an agent or a device is told.
    pub url: String,
}

impl Relay {
    /// Starts the release binary on a free port, without quotas that a benchmark would meet.
    pub fn start(ground: &Ground, name: &str, tls: bool) -> Result<Self> {
        let mut command = Command::new(binary("skald-relay")?);
        command.args(["--listen", "127.0.0.1:0", "--data"]).arg(ground.scratch.join(name));
        if tls {
            let files = ground.certificate()?;
            command.arg("--tls-cert").arg(files.certificate).arg("--tls-key").arg(files.key);
        } else {
            command.arg("--insecure");
        }
        for (limit, value) in [
            ("RELAY_LIMIT_CONNECTIONS_PER_IP_PER_MINUTE", "1000000"),
            ("RELAY_LIMIT_CONNECTIONS_PER_NAMESPACE_PER_MINUTE", "1000000"),
            ("RELAY_LIMIT_MESSAGES_PER_MINUTE", "1000000"),
            ("RELAY_PIPE_MAX_PER_NS", "10000"),
        ] {
            command.env(limit, value);
        }
        let program = Program::start("skald-relay", command)?;
        let url = program.wait_for("its URL", |line| Some(line.split_once(" is ready at ")?.1.to_owned()))?;
        let address =
            url.split('/').nth(2).and_then(|host| host.parse().ok()).context("the relay has no address")?;
        Ok(Self { program, address, tls, url })
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.program.id()
    }

    async fn socket(&self, ground: &Ground, path: &str) -> Result<WebSocketStream<Side>> {
        let stream = ground.connect(self.address, self.tls).await?;
        let url = format!("ws://{}{path}", self.address);
        Ok(tokio_tungstenite::client_async(url, stream).await.context("no WebSocket")?.0)
    }

    /// An agent with one admitted device. The control connection stays open as long as this is kept.
    pub async fn home(&self, ground: &Ground, number: u8) -> Result<Home> {
        let identity = |number: u8| Identity::from_seed(&Seed::take(&mut [number; 32]));
        let (agent, device) = (identity(number), identity(!number));
        let mut control = self.socket(ground, "/v1/ws").await?;
        let FromRelay::Challenge(nonce) = frame(&mut control).await? else { bail!("the relay speaks first") };
        let role = Role::Agent(agent.public_key());
        let auth = Auth { role, signature: agent.sign_challenge(&nonce) };
        control.send(Message::Binary(FromPeer::Auth(auth).encode().into())).await?;
        while !matches!(frame(&mut control).await?, FromRelay::AuthOk(_)) {}
        let devices = FromPeer::Authorize(vec![device.public_key()]);
        control.send(Message::Binary(devices.encode().into())).await?;
        while !matches!(frame(&mut control).await?, FromRelay::AuthorizeOk(_)) {}
        Ok(Home { agent, device, _control: control })
    }

    /// Both sides of a new pipe, past their upgrade and challenge: from here on they carry WebSocket frames.
    pub async fn pipe(&self, ground: &Ground, home: &Home, id: [u8; 32]) -> Result<(Side, Side)> {
        let id = ConnectionId::from_bytes(id);
        let first = self.side(ground, home, (&home.agent, &home.device), &id).await?;
        let second = self.side(ground, home, (&home.device, &home.agent), &id).await?;
        Ok((first, second))
    }

    async fn side(
        &self,
        ground: &Ground,
        home: &Home,
        (me, other): (&Identity, &Identity),
        id: &ConnectionId,
    ) -> Result<Side> {
        let mut socket = self.socket(ground, "/v1/pipe").await?;
        let Some(Ok(Message::Binary(challenge))) = socket.next().await else {
            bail!("the relay speaks first")
        };
        let nonce = PipeChallenge::decode(&challenge)?.nonce;
        let auth = PipeAuth {
            connection_id: *id,
            pubkey: me.public_key(),
            dest: peer_hash(&other.public_key()),
            namespace_id: home.agent.namespace_id(),
            signature: me.sign_pipe_challenge(&nonce, id),
        };
        socket.send(Message::Binary(auth.encode().into())).await?;
        // Nothing has been read beyond the challenge: the relay says nothing more before the other side does.
        Ok(socket.into_inner())
    }
}

/// An agent with one device at a relay.
pub struct Home {
    agent: Identity,
    device: Identity,
    _control: WebSocketStream<Side>,
}

async fn frame(control: &mut WebSocketStream<Side>) -> Result<FromRelay> {
    loop {
        match control.next().await.context("the relay hung up")?? {
            Message::Binary(bytes) => return FromRelay::parse(bytes)?.context("a frame from the future"),
            Message::Close(_) => bail!("the relay hung up"),
            _ => {}
        }
    }
}
