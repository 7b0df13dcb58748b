//! What every handler shares.

use std::sync::Arc;

use bytes::Bytes;
use skald_host::Host;
use tokio_util::sync::CancellationToken;

use crate::guard::AllowedHost;
use crate::throttle::Throttle;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct AppState(Arc<Inner>);

struct Inner {
    host: Host,
    url: String,
    allowed_hosts: Vec<AllowedHost>,
    throttle: Throttle,
    stop: CancellationToken,
    openapi: Bytes,
}

impl AppState {
    pub(crate) fn new(
        host: Host,
        url: String,
        allowed_hosts: Vec<AllowedHost>,
        stop: CancellationToken,
        openapi: Bytes,
    ) -> Self {
        Self(Arc::new(Inner { host, url, allowed_hosts, throttle: Throttle::default(), stop, openapi }))
    }

    pub(crate) fn host(&self) -> &Host {
        &self.0.host
    }

    pub(crate) fn allowed_hosts(&self) -> &[AllowedHost] {
        &self.0.allowed_hosts
    }

    pub(crate) fn throttle(&self) -> &Throttle {
        &self.0.throttle
    }

    /// Cancelled when the server goes down: whatever waits ends at once.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.0.stop
    }

    /// The API's description.
    pub(crate) fn openapi(&self) -> Bytes {
        self.0.openapi.clone()
    }

    /// A sign-in link. The token stands in the fragment, which browsers keep to themselves.
    pub(crate) fn sign_in_url(&self, token: &str) -> String {
        sign_in_url(&self.0.url, token)
    }
}

pub(crate) fn sign_in_url(base: &str, token: &str) -> String {
    format!("{base}/#signin={token}")
}
