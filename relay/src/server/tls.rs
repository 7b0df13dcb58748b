//! TLS as the relay serves it, with a certificate that may change while it runs.
//!
//! One configuration serves every connection: TLS 1.3, and 1.2 with ECDHE and AEAD alone (rustls knows no others),
//! HTTP/1.1, and tickets, so that a phone that comes back skips the certificate. What changes is [`Current`], the
//! certificate that a handshake is answered with.

pub(crate) mod acme;
pub(crate) mod certificate;
mod files;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rustls::ServerConfig;
use rustls::server::{Acceptor, ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};
use tokio_util::sync::CancellationToken;

use self::acme::challenge::Challenges;
use self::certificate::{Certificate, Facts};
use crate::hub::lock;
use crate::settings::Settings;

/// Why TLS cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A PEM file cannot be read.
    #[error("cannot read {path} as PEM: {cause}")]
    Pem {
        /// Which file.
        path: PathBuf,
        /// Why not.
        cause: rustls::pki_types::pem::Error,
    },
    /// The certificate file holds no certificate.
    #[error("{0} holds no certificate: it must hold the chain, the relay's own certificate first")]
    Empty(PathBuf),
    /// The first certificate is none.
    #[error("{0} holds a certificate that cannot be understood: ask its authority for another")]
    Malformed(PathBuf),
    /// The key does not belong to the certificate, or is of an unknown kind.
    #[error("the certificate {certificate} and the key {key} cannot be used: {cause}")]
    Unusable {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why not.
        cause: rustls::Error,
    },
    /// What is kept of the certificate authority cannot be read or written.
    #[error("cannot use {path} ({cause}): it must be readable and writable for the relay alone")]
    Kept {
        /// Which file or folder.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// TLS itself cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Setup(rustls::Error),
}

/// The certificate that handshakes are answered with; none before the first was obtained.
pub(crate) struct Current {
    certificate: Mutex<Option<Arc<Certificate>>>,
    /// How many were put in use, for those who wait for one.
    changes: watch::Sender<u64>,
}

impl Default for Current {
    fn default() -> Self {
        Self { certificate: Mutex::new(None), changes: watch::Sender::new(0) }
    }
}

impl Current {
    pub(crate) fn get(&self) -> Option<Arc<Certificate>> {
        lock(&self.certificate).clone()
    }

    fn set(&self, certificate: Certificate) {
        *lock(&self.certificate) = Some(Arc::new(certificate));
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// What is known of the certificate in use.
    pub(crate) fn facts(&self) -> Option<Facts> {
        self.get().map(|certificate| certificate.facts.clone())
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Current").field(&self.facts()).finish()
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.get().map(|certificate| Arc::clone(&certificate.key))
    }
}

/// Answers handshakes.
pub(crate) struct Tls {
    config: Arc<ServerConfig>,
    /// What a certificate authority asks, where certificates come from one.
    challenges: Option<Arc<Challenges>>,
}

/// What keeps the certificate fresh.
pub(crate) struct Upkeep {
    /// Looks for a new certificate at once when told.
    pub(crate) reload: Arc<Notify>,
    /// How many certificates were put in use.
    pub(crate) changes: watch::Receiver<u64>,
    /// Runs until the relay stops.
    pub(crate) work: BoxFuture<'static, ()>,
}

impl Tls {
    /// Sets TLS up as the settings say; `None` where the relay does not serve it.
    pub(crate) fn prepare(
        settings: &Settings,
        stop: &CancellationToken,
    ) -> Result<Option<(Self, Upkeep)>, TlsError> {
        let current = Arc::new(Current::default());
        let reload = Arc::new(Notify::new());
        let (challenges, work) =
            if let (Some(certificate), Some(key)) = (&settings.tls_cert, &settings.tls_key) {
                let files = files::Files::open(certificate, key, Arc::clone(&current))?;
                (None, files.watch(Arc::clone(&reload), stop.clone()).boxed())
            } else if settings.acme.is_on() {
                let challenges = Arc::new(Challenges::default());
                let (data, current) = (&settings.data, Arc::clone(&current));
                let renewer = acme::Renewer::open(&settings.acme, data, current, Arc::clone(&challenges))?;
                (Some(challenges), renewer.run(Arc::clone(&reload), stop.clone()).boxed())
            } else {
                return Ok(None);
            };
        let changes = current.changes.subscribe();
        let tls = Self { config: config(current)?, challenges };
        Ok(Some((tls, Upkeep { reload, changes, work })))
    }

    /// Does a handshake. `None` if it was a certificate authority's, which has its answer by then.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<Option<TlsStream<TcpStream>>> {
        let Some(challenges) = &self.challenges else {
            return TlsAcceptor::from(Arc::clone(&self.config)).accept(stream).await.map(Some);
        };
        let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        if challenges.is_asked(&start.client_hello()) {
            challenges.answer(start).await?;
            return Ok(None);
        }
        start.into_stream(Arc::clone(&self.config)).await.map(Some)
    }
}

/// How connections of peers are secured.
fn config(current: Arc<Current>) -> Result<Arc<ServerConfig>, TlsError> {
    let mut config = base()?.with_cert_resolver(current);
    // WebSocket upgrades live in HTTP/1.1.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Tickets are sealed with keys that change every few hours, so that resumption costs the relay no memory.
    config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(TlsError::Setup)?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

fn base() -> Result<rustls::ConfigBuilder<ServerConfig, rustls::server::WantsServerCert>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(TlsError::Setup)?;
    Ok(builder.with_no_client_auth())
}
