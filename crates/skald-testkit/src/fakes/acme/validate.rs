//! Meeting a `tls-alpn-01` challenge as an authority does (RFC 8737 §3).

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// id-pe-acmeIdentifier.
const ACME_IDENTIFIER: &str = "1.3.6.1.5.5.7.1.31";

/// Connects and looks; the error says what was seen instead.
pub(super) async fn tls_alpn(
    target: Option<SocketAddr>,
    name: &str,
    authorization: &str,
) -> Result<(), String> {
    let Some(target) = target else { return Err(format!("{name} has no address")) };
    let stream = TcpStream::connect(target).await.map_err(|error| format!("connecting: {error}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let server = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(Arc::new(config))
        .connect(server, stream)
        .await
        .map_err(|error| format!("TLS: {error}"))?;
    let connection = stream.get_ref().1;
    if connection.alpn_protocol() != Some(b"acme-tls/1") {
        return Err("acme-tls/1 was not agreed on".to_owned());
    }
    let leaf =
        connection.peer_certificates().and_then(|chain| chain.first()).ok_or("there is no certificate")?;
    looks_right(leaf, name, &Sha256::digest(authorization))
}

fn looks_right(leaf: &CertificateDer<'_>, name: &str, digest: &[u8]) -> Result<(), String> {
    let (_, leaf) = X509Certificate::from_der(leaf).map_err(|error| error.to_string())?;
    let names = leaf.subject_alternative_name().ok().flatten().ok_or("the certificate has no names")?;
    match &names.value.general_names[..] {
        [GeneralName::DNSName(only)] if only.eq_ignore_ascii_case(name) => {}
        _ => return Err("the certificate is not for this name alone".to_owned()),
    }
    let proof = leaf.extensions().iter().find(|extension| extension.oid.to_id_string() == ACME_IDENTIFIER);
    let proof = proof.ok_or("the certificate has no acmeIdentifier")?;
    if !proof.critical {
        return Err("acmeIdentifier is not critical".to_owned());
    }
    // An OCTET STRING of 32 bytes.
    match proof.value.strip_prefix(&[4, 32]) {
        Some(shown) if shown == digest => Ok(()),
        _ => Err("acmeIdentifier holds something else".to_owned()),
    }
}

/// Such certificates are signed by themselves; what they say is looked at afterwards.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is spoken here".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        // By the bare key: an ordinary check stops at the critical extension that such certificates are made for.
        let (_, parsed) = X509Certificate::from_der(certificate)
            .map_err(|_| rustls::Error::from(rustls::CertificateError::BadEncoding))?;
        let key = SubjectPublicKeyInfoDer::from(parsed.public_key().raw);
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature_with_raw_key(message, &key, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
