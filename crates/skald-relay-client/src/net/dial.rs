//! DNS, TCP and TLS.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::RelayUrl;
use crate::error::StartError;
use crate::options::Timings;
use crate::status::LinkProblem;

/// Knows the relay's address and whom to trust.
pub(crate) struct Dialer {
    pub(crate) url: RelayUrl,
    tls: Option<TlsConnector>,
    pub(crate) timings: Timings,
}

impl Dialer {
    /// Reads the certificate authorities: the system's, and those of `extra_ca`.
    pub(crate) async fn new(
        url: RelayUrl,
        extra_ca: Option<&Path>,
        timings: Timings,
    ) -> Result<Self, StartError> {
        let tls = if url.is_tls() {
            let extra = extra_ca.map(Path::to_owned);
            // Reading the system's store touches many files.
            let config = tokio::task::spawn_blocking(move || client_config(extra))
                .await
                .unwrap_or_else(|e| std::panic::resume_unwind(e.into_panic()))?;
            Some(TlsConnector::from(Arc::new(config)))
        } else {
            None
        };
        Ok(Self { url, tls, timings })
    }

    /// A connection to the relay, TLS included, before any HTTP.
    pub(crate) async fn connect(&self) -> Result<Io, LinkProblem> {
        let host = self.url.host();
        let late = |step| LinkProblem::TimedOut { host: host.to_owned(), step };
        let lookup = tokio::net::lookup_host((host, self.url.port()));
        let addresses: Vec<_> = match timeout(self.timings.dns, lookup).await {
            Err(_) => return Err(late("finding its address")),
            Ok(Err(_)) => return Err(LinkProblem::NameNotFound(host.to_owned())),
            Ok(Ok(found)) => found.collect(),
        };
        let mut problem = LinkProblem::NameNotFound(host.to_owned());
        let mut tcp = None;
        for address in addresses {
            match timeout(self.timings.connect, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    tcp = Some(stream);
                    break;
                }
                Ok(Err(_)) => problem = LinkProblem::Unreachable(host.to_owned()),
                Err(_) => problem = late("connecting"),
            }
        }
        let Some(tcp) = tcp else { return Err(problem) };
        // Small frames must not wait for more; a socket that cannot be told so still works.
        let _ = tcp.set_nodelay(true);
        let Some(connector) = &self.tls else { return Ok(Io::Plain(tcp)) };
        let name = ServerName::try_from(host.to_owned()).map_err(|_| LinkProblem::Tls(host.to_owned()))?;
        match timeout(self.timings.tls, Box::pin(connector.connect(name, tcp))).await {
            Err(_) => Err(late("setting up TLS")),
            Ok(Err(error)) => Err(tls_problem(host, &error)),
            Ok(Ok(stream)) => Ok(Io::Tls(Box::new(stream))),
        }
    }
}

fn client_config(extra_ca: Option<PathBuf>) -> Result<ClientConfig, StartError> {
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(native.certs);
    if let Some(path) = extra_ca {
        let fail = |reason: String| StartError::Ca { path: path.clone(), reason };
        let mut found = 0;
        let certs = CertificateDer::pem_file_iter(&path).map_err(|e| fail(e.to_string()))?;
        for cert in certs {
            let cert = cert.map_err(|e| fail(e.to_string()))?;
            roots.add(cert).map_err(|e| fail(e.to_string()))?;
            found += 1;
        }
        if found == 0 {
            return Err(fail("it holds no certificate in PEM form".to_owned()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| StartError::Ca { path: PathBuf::new(), reason: e.to_string() })?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn tls_problem(host: &str, error: &io::Error) -> LinkProblem {
    let host = host.to_owned();
    match error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(cause)) => match cause {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => LinkProblem::CertificateTime(host),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                LinkProblem::CertificateName(host)
            }
            _ => LinkProblem::CertificateUntrusted(host),
        },
        _ => LinkProblem::Tls(host),
    }
}

/// A connection to the relay.
pub(crate) enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Io {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_read(cx, buf),
            Self::Tls(io) => Pin::new(io).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Io {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_write(cx, buf),
            Self::Tls(io) => Pin::new(io).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_write_vectored(cx, bufs),
            Self::Tls(io) => Pin::new(io).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(io) => io.is_write_vectored(),
            Self::Tls(io) => io.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_flush(cx),
            Self::Tls(io) => Pin::new(io).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_shutdown(cx),
            Self::Tls(io) => Pin::new(io).poll_shutdown(cx),
        }
    }
}
