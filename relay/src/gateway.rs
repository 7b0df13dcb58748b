//! `skald-relay gateway`: runs the bridges to Apple and Google for relays that have no keys with them.
//!
//! What a gateway does with a request is in `skald_relay_push::gateway`; here are its settings and its sockets.

mod serve;
mod settings;
mod strangers;

use std::net::SocketAddr;
use std::sync::Arc;

use skald_relay_push::gateway::{Gateway, GatewayMetrics};
use skald_relay_push::{Bridges, PushMetrics, SetupError, WallClock};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::metrics::{self, Metrics};
use crate::relay::StartError;
use crate::server::tls::Tls;

pub use settings::GatewaySettings;

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// For a reason that a relay may have as well.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A provider cannot be set up.
    #[error(transparent)]
    Push(#[from] SetupError),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    Random,
}

impl GatewayError {
    /// Whether the operator's configuration is to blame, rather than the machine.
    pub fn is_configuration(&self) -> bool {
        match self {
            Self::Start(error) => error.is_configuration(),
            Self::Push(_) => true,
            Self::Random => false,
        }
    }
}

/// A gateway that accepts connections. Dropping it stops it without ceremony.
pub struct RunningGateway {
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    scheme: &'static str,
    stop: CancellationToken,
    reload: Option<Arc<Notify>>,
    tasks: Vec<JoinHandle<()>>,
}

impl RunningGateway {
    /// Starts a gateway; it accepts connections when this returns.
    pub async fn start(settings: GatewaySettings) -> Result<Self, GatewayError> {
        settings.validate().map_err(StartError::from)?;
        let bridges = Bridges::set_up(&settings.push, &settings.data, &WallClock::system())?;
        Self::start_with(settings, bridges).await
    }

    /// The same with bridges of one's own.
    pub async fn start_with(settings: GatewaySettings, bridges: Bridges) -> Result<Self, GatewayError> {
        settings.validate().map_err(StartError::from)?;
        let relay = settings.as_relay();
        let stop = CancellationToken::new();
        let tls = Tls::prepare(&relay, &stop).map_err(StartError::from)?;
        let (address, listener) =
            bind(relay.listen, |address, cause| StartError::Listen { address, cause }).await?;
        let readers = match relay.metrics_listen {
            Some(at) => Some(bind(at, |address, cause| StartError::MetricsListen { address, cause }).await?),
            None => None,
        };

        let all = Metrics::new();
        let (counted, pushed) = (GatewayMetrics::default(), PushMetrics::default());
        all.register(|registry| {
            counted.register(registry);
            pushed.register(registry);
        });
        let gateway = Gateway::new(bridges.counted_by(pushed), &settings.relays, &settings.tokens, counted)
            .map_err(|_| GatewayError::Random)?;

        let mut tasks = Vec::new();
        let metrics_address = readers.as_ref().map(|(address, _)| *address);
        if let Some((_, listener)) = readers {
            tasks.push(tokio::spawn(metrics::serve::run(all, listener, stop.clone())));
        }
        let (tls, reload) = match tls {
            Some((tls, upkeep)) => {
                tasks.push(tokio::spawn(upkeep.work));
                (Some(tls), Some(upkeep.reload))
            }
            None => (None, None),
        };
        let scheme = if relay.serves_tls() { "https" } else { "http" };
        let strangers = strangers::Strangers::new(settings.strangers_per_ip_per_minute);
        let server = Arc::new(serve::Server { gateway, relay, tls, strangers });
        tasks.push(tokio::spawn(serve::run(server, listener, stop.clone())));
        Ok(Self { address, metrics_address, scheme, stop, reload, tasks })
    }

    /// Where it listens: the port that was given, or the one that was found for 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Where metrics are served, if they are.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// The address for relays.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Reads certificate files again.
    pub fn reload(&self) {
        if let Some(reload) = &self.reload {
            reload.notify_one();
        }
    }

    /// Stops accepting and lets the requests that are under way end.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        for task in std::mem::take(&mut self.tasks) {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task ended badly");
            }
        }
    }
}

impl Drop for RunningGateway {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn bind(
    address: SocketAddr,
    failed: impl Fn(SocketAddr, std::io::Error) -> StartError,
) -> Result<(SocketAddr, TcpListener), StartError> {
    let listener = TcpListener::bind(address).await.map_err(|cause| failed(address, cause))?;
    let address = listener.local_addr().map_err(|cause| failed(address, cause))?;
    Ok((address, listener))
}
