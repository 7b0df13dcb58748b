//! Programs that do the same work as the relay without being one. Each runs as a process of its own and joins the sides
//! that connect to it two by two, as the relay does.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use futures_util::{SinkExt as _, StreamExt as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use skald_testkit::{Program, ServerCertificate};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::WebSocketStream;

/// The buffers of a copy.
const BUFFER: usize = 256 * 1024;

/// What kind of baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Copies bytes, with 256 KiB buffers; through TLS on both legs where there is a certificate.
    Copy,
    /// Receives and sends single messages with the WebSocket library.
    Messages,
}

/// A baseline that runs.
pub struct Baseline {
    program: Program,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Baseline {
    /// Starts one.
    pub fn start(kind: Kind, tls: Option<&ServerCertificate>) -> Result<Self> {
        let mut command =
            Command::new(std::env::current_exe().context("this program does not know its path")?);
        command.args([
            "--serve",
            match kind {
                Kind::Copy => "copy",
                Kind::Messages => "messages",
            },
        ]);
        if let Some(files) = tls {
            command.arg("--tls").arg(&files.certificate).arg(&files.key);
        }
        let program = Program::start("baseline", command)?;
        let address = program
            .wait_for("the baseline's address", |line| line.strip_prefix("listening on ")?.parse().ok())?;
        Ok(Self { program, address })
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.program.id()
    }
}

/// Serves until killed.
pub fn serve(kind: Kind, address: SocketAddr, tls: Option<(&Path, &Path)>) -> Result<()> {
    let acceptor = tls.map(|(certificate, key)| acceptor(certificate, key)).transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("no runtime")?.block_on(async move {
        let listener = TcpListener::bind(address).await.context("no free port on loopback")?;
        println!("listening on {}", listener.local_addr().context("the listener has no address")?);
        loop {
            let (first, second) = (side(&listener).await?, side(&listener).await?);
            match acceptor.clone() {
                None => tokio::spawn(Box::pin(join(kind, first, second))),
                Some(tls) => tokio::spawn(async move {
                    let (first, second) = tokio::try_join!(tls.accept(first), tls.accept(second))?;
                    Box::pin(join(kind, first, second)).await
                }),
            };
        }
    })
}

async fn side(listener: &TcpListener) -> Result<TcpStream> {
    let (stream, _) = listener.accept().await.context("no connection could be accepted")?;
    stream.set_nodelay(true).context("a connection went at once")?;
    Ok(stream)
}

async fn join<S: AsyncRead + AsyncWrite + Unpin>(kind: Kind, mut first: S, mut second: S) -> io::Result<()> {
    match kind {
        Kind::Copy => {
            tokio::io::copy_bidirectional_with_sizes(&mut first, &mut second, BUFFER, BUFFER).await?;
        }
        Kind::Messages => {
            let accepted = tokio::try_join!(
                tokio_tungstenite::accept_async(first),
                tokio_tungstenite::accept_async(second)
            );
            let (first, second) = accepted.map_err(io::Error::other)?;
            messages(first, second).await.map_err(io::Error::other)?;
        }
    }
    Ok(())
}

async fn messages<S: AsyncRead + AsyncWrite + Unpin>(
    first: WebSocketStream<S>,
    second: WebSocketStream<S>,
) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    let ((mut to_first, mut from_first), (mut to_second, mut from_second)) = (first.split(), second.split());
    let there = async {
        while let Some(message) = from_first.next().await {
            to_second.send(message?).await?;
        }
        Ok(())
    };
    let back = async {
        while let Some(message) = from_second.next().await {
            to_first.send(message?).await?;
        }
        Ok(())
    };
    tokio::try_join!(there, back).map(|_| ())
}

fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .context("the certificate cannot be read")?;
    let key = PrivateKeyDer::from_pem_file(key).context("the key cannot be read")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
