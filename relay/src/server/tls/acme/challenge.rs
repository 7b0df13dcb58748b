//! Answering `tls-alpn-01` (RFC 8737): a handshake that asks for `acme-tls/1` and nothing else gets a certificate that
//! proves who controls the name, and the connection ends.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::StartHandshake;

use super::super::base;
use crate::hub::lock;

const PROTOCOL: &[u8] = b"acme-tls/1";

/// The proofs that may be asked for now, by name in lower case.
#[derive(Default)]
pub(crate) struct Challenges(Mutex<HashMap<String, Arc<CertifiedKey>>>);

/// A proof that can be asked for until this is dropped.
pub(super) struct Offered {
    challenges: Arc<Challenges>,
    name: String,
}

impl Drop for Offered {
    fn drop(&mut self) {
        lock(&self.challenges.0).remove(&self.name);
    }
}

impl Challenges {
    /// Makes the proof for a name: `digest` is the SHA-256 of the key authorisation.
    pub(super) fn offer(self: &Arc<Self>, name: &str, digest: &[u8]) -> Result<Offered, rcgen::Error> {
        let name = name.to_ascii_lowercase();
        let mut params = CertificateParams::new([name.clone()])?;
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        // Not checked against each other: the critical extension is one that no ordinary check lets pass.
        let signing = rustls::crypto::ring::default_provider().key_provider.load_private_key(private);
        let signing = signing.map_err(|_| rcgen::Error::CouldNotParseKeyPair)?;
        let proof = CertifiedKey::new(vec![certificate.der().clone()], signing);
        lock(&self.0).insert(name.clone(), Arc::new(proof));
        Ok(Offered { challenges: Arc::clone(self), name })
    }

    /// Whether a handshake is a certificate authority's.
    pub(crate) fn is_asked(&self, hello: &ClientHello<'_>) -> bool {
        hello.alpn().is_some_and(|offered| offered.eq([PROTOCOL]))
    }

    /// Does that handshake, which is all that is wanted.
    pub(crate) async fn answer(self: &Arc<Self>, start: StartHandshake<TcpStream>) -> std::io::Result<()> {
        let mut config: ServerConfig =
            base().map_err(std::io::Error::other)?.with_cert_resolver(Arc::clone(self) as _);
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        start.into_stream(Arc::new(config)).await?.shutdown().await
    }
}

impl ResolvesServerCert for Challenges {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name()?.to_ascii_lowercase();
        lock(&self.0).get(&name).cloned()
    }
}

impl fmt::Debug for Challenges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(lock(&self.0).keys()).finish()
    }
}
