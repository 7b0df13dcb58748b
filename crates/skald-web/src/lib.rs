//! The host's web server: pages, API, sign-in and embedded assets.
//!
//! ```text
//! bind → serve(host) → host.start(server.local_web()) → server.accept() → … → server.shutdown()
//! ```
//! One router serves the TCP listener and, through [`skald_core_api::LocalWeb`], the streams of paired devices. It
//! knows the host and nothing of relays or particular plugins.
#![deny(missing_docs)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod api;
mod assets;
mod auth;
mod extract;
mod guard;
mod headers;
mod openapi;
mod problem;
mod router;
mod serve;
mod state;
#[cfg(test)]
mod tests;
mod throttle;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use skald_core_api::LocalWeb;
use skald_host::Host;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use guard::{AllowedHost, NotAHost};
pub use problem::{FieldError, ProblemBody};
use serve::Connections;

/// Where and under which names to serve.
#[derive(Debug, Clone)]
pub struct WebConfig {
    /// The address to listen on. Port 0 takes any free one.
    pub listen: SocketAddr,
    /// Further names to answer to, beside the address itself and the loopback names.
    pub allowed_hosts: Vec<AllowedHost>,
}

/// Why the address could not be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Another program listens there.
    #[error(
        "The address {0} is in use already: stop the program that uses it, or choose another with --listen."
    )]
    InUse(SocketAddr),
    /// The system does not allow it.
    #[error("The address {0} may not be used by this user: choose a port above 1023 with --listen.")]
    Denied(SocketAddr),
    /// This machine has no such address.
    #[error("The address {0} is not one of this machine's: choose another with --listen.")]
    NotOurs(SocketAddr),
    /// Anything else.
    #[error("The address {0} could not be taken ({1}): choose another with --listen.")]
    Other(SocketAddr, io::Error),
}

/// An address that is taken; nobody is answered yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    allowed_hosts: Vec<AllowedHost>,
}

/// Takes the address, so that a port in use is known before anything else happens.
pub async fn bind(config: WebConfig) -> Result<Bound, BindError> {
    let asked = config.listen;
    let told = |e: io::Error| match e.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse(asked),
        io::ErrorKind::PermissionDenied => BindError::Denied(asked),
        io::ErrorKind::AddrNotAvailable => BindError::NotOurs(asked),
        _ => BindError::Other(asked, e),
    };
    let listener = TcpListener::bind(asked).await.map_err(told)?;
    let address = listener.local_addr().map_err(|e| BindError::Other(asked, e))?;
    Ok(Bound { listener, address, allowed_hosts: config.allowed_hosts })
}

impl Bound {
    /// The address it will be served at.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The server for this host. It answers devices from now on, and the network from [`WebServer::accept`] on.
    pub fn serve(self, host: &Host) -> Result<WebServer, serde_json::Error> {
        let stop = CancellationToken::new();
        let url = url_of(self.address);
        let router = router::build(host.clone(), url.clone(), self.allowed_hosts, stop.clone())?;
        let connections = Arc::new(Connections::new(router, stop.clone()));
        Ok(WebServer {
            url,
            address: self.address,
            listener: Mutex::new(Some(self.listener)),
            connections,
            stop,
        })
    }
}

/// A browser on this machine reaches a listener on all addresses by the loopback one.
fn url_of(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, address.port()))
}

/// The web server. Dropping it without [`WebServer::shutdown`] leaves its tasks to the runtime.
pub struct WebServer {
    url: String,
    address: SocketAddr,
    listener: Mutex<Option<TcpListener>>,
    connections: Arc<Connections>,
    stop: CancellationToken,
}

impl WebServer {
    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The address for a browser on this machine, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The link that signs a browser in with this token.
    pub fn sign_in_url(&self, token: &str) -> String {
        state::sign_in_url(&self.url, token)
    }

    /// The same server for the streams of paired devices.
    pub fn local_web(&self) -> Arc<dyn LocalWeb> {
        self.connections.clone()
    }

    /// Begins to answer on the network. Later calls change nothing.
    pub fn accept(&self) {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(listener) = listener {
            self.connections.listen(listener);
        }
    }

    /// Stops accepting, ends event streams and long polls at once, gives other requests a few seconds, and waits
    /// until every connection is closed.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        self.connections.closed().await;
    }
}
