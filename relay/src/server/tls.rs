//! The relay's own certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Why TLS cannot be served.
#[derive(Debug, thiserror::Error)]
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
    #[error("{0} holds no certificate")]
    Empty(PathBuf),
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
}

/// Reads a certificate chain and its key.
pub(crate) fn load(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let pem = |path: &Path| {
        let path = path.to_owned();
        move |cause| TlsError::Pem { path, cause }
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(pem(certificate))?;
    if chain.is_empty() {
        return Err(TlsError::Empty(certificate.to_owned()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(pem(key))?;
    let unusable =
        |cause| TlsError::Unusable { certificate: certificate.to_owned(), key: key.to_owned(), cause };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(unusable)?;
    // WebSocket upgrades live in HTTP/1.1.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
