//! HTTPS to the authority, with deadlines.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use super::super::TlsError;

const CONNECT_WITHIN: Duration = Duration::from_secs(15);
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// No answer of an authority is this large.
const LARGEST: u64 = 1024 * 1024;

/// A client that remembers how long the authority asked to be left alone.
#[derive(Clone)]
pub(super) struct Http {
    client: reqwest::Client,
    retry_after: Arc<AtomicU64>,
}

impl Http {
    /// Trusts the system's authorities, and the one in `root_ca`.
    pub(super) fn new(root_ca: Option<&Path>) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = root_ca {
            let pem = |cause| TlsError::Pem { path: path.to_owned(), cause };
            let mut found = false;
            for certificate in CertificateDer::pem_file_iter(path).map_err(pem)? {
                roots.add(certificate.map_err(pem)?).map_err(|_| TlsError::Malformed(path.to_owned()))?;
                found = true;
            }
            if !found {
                return Err(TlsError::Empty(path.to_owned()));
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(config)
            .https_only(true)
            .connect_timeout(CONNECT_WITHIN)
            .timeout(ANSWER_WITHIN)
            .build()
            .map_err(|error| TlsError::Setup(rustls::Error::General(error.to_string())))?;
        Ok(Self { client, retry_after: Arc::new(AtomicU64::new(0)) })
    }

    /// How long the authority asked to be left alone in its last refusal; forgotten when read.
    pub(super) fn take_retry_after(&self) -> Option<Duration> {
        match self.retry_after.swap(0, Ordering::Relaxed) {
            0 => None,
            // A day is the most that is believed.
            seconds => Some(Duration::from_secs(seconds.min(86_400))),
        }
    }

    async fn answer(self, request: http::Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        let other = |error: reqwest::Error| Error::Other(Box::new(error));
        let (parts, body) = request.into_parts();
        let Ok(body) = body.collect().await;
        let body = body.to_bytes();
        let request = reqwest::Request::try_from(http::Request::from_parts(parts, body)).map_err(other)?;
        let response = self.client.execute(request).await.map_err(other)?;
        if response.content_length().is_some_and(|length| length > LARGEST) {
            return Err(Error::Str("an answer of reasonable size"));
        }
        if response.status().is_client_error() || response.status().is_server_error() {
            let seconds = response.headers().get(http::header::RETRY_AFTER);
            let seconds = seconds.and_then(|value| value.to_str().ok()?.trim().parse().ok());
            self.retry_after.store(seconds.unwrap_or(0), Ordering::Relaxed);
        }
        let mut answer = http::Response::new(());
        *answer.status_mut() = response.status();
        *answer.headers_mut() = response.headers().clone();
        let body = response.bytes().await.map_err(other)?;
        Ok(BytesResponse { parts: answer.into_parts().0, body: Box::new(body) })
    }
}

impl HttpClient for Http {
    fn request(
        &self,
        request: http::Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        Box::pin(self.clone().answer(request))
    }
}
