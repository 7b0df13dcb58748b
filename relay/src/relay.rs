//! Starting and stopping a relay.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use skald_relay_push::{Bridges, Provider, SetupError, UnixMillis, WallClock};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::hub::Hub;
use crate::hub::outbox::Eviction;
use crate::metrics::{self, Metrics};
use crate::pipe::Pipes;
use crate::push::{self, PushQueue};
use crate::quota::Gate;
use crate::server::accept::{self, Server};
use crate::server::tls::{Tls, TlsError};
use crate::settings::{Settings, SettingsError};
use crate::shared::Shared;
use crate::store::{Clock, OpenError, Store, WriterTask};

/// Starts relays.
#[derive(Debug, Clone, Copy)]
pub struct Relay;

/// What a relay may be given instead of its own.
pub struct Options {
    /// The ways to push providers, in place of those that the settings name.
    pub push: Option<Bridges>,
    /// The wall clock, which decides when queues, windows and namespaces expire.
    pub clock: Clock,
    /// What is counted, for who adds to it or reads it.
    pub metrics: Metrics,
}

impl Default for Options {
    fn default() -> Self {
        Self { push: None, clock: Clock::system(), metrics: Metrics::new() }
    }
}

/// Why a relay did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The settings make no sense.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A push provider cannot be set up.
    #[error(transparent)]
    Push(#[from] SetupError),
    /// The database cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The address of the metrics cannot be listened on.
    #[error(
        "cannot serve metrics at {address} ({cause}): stop what uses it, or choose another metrics_listen"
    )]
    MetricsListen {
        /// Which address.
        address: SocketAddr,
        /// Why not.
        cause: std::io::Error,
    },
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address} ({cause}): stop what uses it, or choose another address with --listen"
    )]
    Listen {
        /// Which address.
        address: SocketAddr,
        /// Why not.
        cause: std::io::Error,
    },
}

impl StartError {
    /// Whether the operator's configuration is to blame, rather than the machine.
    pub fn is_configuration(&self) -> bool {
        matches!(
            self,
            Self::Settings(_)
                | Self::Tls(_)
                | Self::Push(_)
                | Self::Listen { .. }
                | Self::MetricsListen { .. }
                | Self::Store(
                    OpenError::Folder { .. }
                        | OpenError::Locked(_)
                        | OpenError::Newer { .. }
                        | OpenError::Foreign(_)
                )
        )
    }
}

/// A relay that accepts connections. Dropping it stops it without ceremony; [`shutdown`](Self::shutdown) says goodbye.
pub struct Running {
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    scheme: &'static str,
    stop: CancellationToken,
    hub: Arc<Hub>,
    accepting: JoinHandle<()>,
    helpers: Vec<JoinHandle<()>>,
    certificate: Option<(Arc<Notify>, watch::Receiver<u64>)>,
    store: Store,
    writer: Option<WriterTask>,
}

impl Relay {
    /// Starts a relay; it accepts connections when this returns.
    pub async fn start(settings: Settings) -> Result<Running, StartError> {
        Self::start_with(settings, Options::default()).await
    }

    /// The same with parts of one's own.
    pub async fn start_with(settings: Settings, options: Options) -> Result<Running, StartError> {
        settings.validate()?;
        if !settings.serves_tls() && !settings.insecure && settings.trusted_proxies.is_empty() {
            tracing::warn!(
                "there is neither a certificate nor a trusted proxy: every connection will be refused until tls_cert \
                 and tls_key, acme.domains, or trusted_proxies, are set"
            );
        }
        let stop = CancellationToken::new();
        let tls = Tls::prepare(&settings, &stop)?;
        let address = settings.listen;
        let listen = |cause| StartError::Listen { address, cause };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let readers = listen_for_readers(&settings).await?;

        let pipes = Arc::new(Pipes::new(&settings.pipe));
        let bridges = bridges(&settings, options.push, &options.clock, &options.metrics)?;
        let vapid_key = bridges.vapid_key();
        let (push_queue, reports) = PushQueue::new(bridges.metrics().clone());
        let opens = settings.limits.connections_per_namespace_per_minute;
        let counts = options.metrics.counts();
        let hub = Arc::new(Hub::new(opens, Arc::clone(&pipes), push_queue, Arc::clone(&counts)));
        let (store, writer) = Store::open(
            &settings.data,
            &settings.limits,
            options.clock.clone(),
            Arc::clone(&hub) as _,
            Arc::clone(&counts),
        )
        .await?;
        let providers: Vec<_> = bridges.providers().into_iter().map(Provider::name).collect();
        if providers.is_empty() {
            tracing::warn!(
                "no push provider is set up, so absent devices are not woken: see the section [push]"
            );
        } else {
            tracing::info!(providers = providers.join(","), "absent devices are woken");
        }
        let source = push::Source {
            store: store.clone(),
            hub: Arc::clone(&hub),
            bridges,
            clock: options.clock,
            queue_ttl: Duration::from_secs(settings.limits.queue_ttl_secs.into()),
        };
        let window = Duration::from_millis(settings.push.window_ms.into());
        let shared =
            Arc::new(Shared::new(&settings, Arc::clone(&hub), store.clone(), pipes, counts, vapid_key));
        let gate = Gate::new(&settings.limits, options.metrics.counts());

        let sweep = Duration::from_secs(settings.sweep_interval_secs.into());
        let mut helpers = vec![
            tokio::spawn(push::run(reports, source, window, stop.clone())),
            tokio::spawn(maintain(Arc::clone(&shared), Arc::clone(&gate), sweep, stop.clone())),
        ];
        let metrics_address = readers.as_ref().map(|(address, _)| *address);
        if let Some((_, listener)) = readers {
            helpers.push(tokio::spawn(metrics::serve::run(options.metrics.clone(), listener, stop.clone())));
        }
        let scheme = if settings.serves_tls() { "wss" } else { "ws" };
        let (tls, certificate) = match tls {
            Some((tls, upkeep)) => {
                helpers.push(tokio::spawn(upkeep.work));
                (Some(tls), Some((upkeep.reload, upkeep.changes)))
            }
            None => (None, None),
        };
        let server = Arc::new(Server { settings, shared, gate, tls });
        let accepting = tokio::spawn(accept::run(server, listener, stop.clone()));
        Ok(Running {
            address,
            metrics_address,
            scheme,
            stop,
            hub,
            accepting,
            helpers,
            certificate,
            store,
            writer: Some(writer),
        })
    }
}

/// The ways to push providers, whose counters are the relay's.
fn bridges(
    settings: &Settings,
    given: Option<Bridges>,
    clock: &Clock,
    metrics: &Metrics,
) -> Result<Arc<Bridges>, SetupError> {
    let bridges = match given {
        Some(bridges) => bridges,
        None => {
            let clock = clock.clone();
            let clock = WallClock::from_fn(move || UnixMillis(clock.now()));
            Bridges::set_up(&settings.push, &settings.data, &clock)?
        }
    };
    metrics.register(|registry| bridges.metrics().register(registry));
    Ok(Arc::new(bridges))
}

/// Begins to listen for who reads the metrics, where that is wanted.
async fn listen_for_readers(settings: &Settings) -> Result<Option<(SocketAddr, TcpListener)>, StartError> {
    let Some(address) = settings.metrics_listen else { return Ok(None) };
    if settings.metrics_are_exposed() {
        tracing::warn!(
            %address,
            "metrics are served without encryption or sign-in where strangers may reach them: choose a loopback or \
             private address for metrics_listen, or let a firewall guard it"
        );
    }
    let fail = |cause| StartError::MetricsListen { address, cause };
    let listener = TcpListener::bind(address).await.map_err(fail)?;
    Ok(Some((listener.local_addr().map_err(fail)?, listener)))
}

impl Running {
    /// Where the relay listens: the port that was given, or the one that was found for 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Where metrics are served, if they are.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// The address for peers.
    pub fn url(&self) -> String {
        format!("{}://{}/v1/ws", self.scheme, self.address)
    }

    /// Looks for a changed certificate at once; without one, asks the authority again at once.
    pub fn reload(&self) {
        match &self.certificate {
            Some((reload, _)) => reload.notify_one(),
            None => tracing::info!("there is no certificate to read again"),
        }
    }

    /// How many certificates were put in use since the start, where the relay serves TLS itself: 0 while it waits for
    /// an authority to give the first.
    pub fn certificates(&self) -> Option<watch::Receiver<u64>> {
        self.certificate.as_ref().map(|(_, changes)| changes.clone())
    }

    /// Stops accepting, says goodbye to every peer, and writes down what was accepted. Takes less than 10 seconds.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        self.hub.evict_all(Eviction::Shutdown);
        for task in std::iter::once(&mut self.accepting).chain(&mut self.helpers) {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task ended badly");
            }
        }
        self.store.close().await;
        let Some(writer) = self.writer.take() else { return };
        // The writer ends with the last handle on the store, and this one is it.
        drop(self);
        if tokio::time::timeout(Duration::from_secs(3), writer.join()).await.is_err() {
            tracing::error!("the database could not be closed in time; what it has committed is safe");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        self.hub.evict_all(Eviction::Shutdown);
    }
}

/// Sweeps what is out of date, in short transactions (relay-protocol §10, §11).
async fn maintain(shared: Arc<Shared>, gate: Arc<Gate>, every: Duration, stop: CancellationToken) {
    loop {
        let now = tokio::time::Instant::now().into_std();
        gate.forget_idle(now);
        shared.hub.forget_idle(now);
        loop {
            match shared.store.sweep().await {
                // Others get their turn between two batches.
                Ok(true) if !stop.is_cancelled() => tokio::task::yield_now().await,
                Ok(_) => break,
                Err(error) => {
                    tracing::error!(%error, "expired data could not be swept; it is tried again");
                    break;
                }
            }
        }
        if let Err(error) = shared.store.sample().await {
            tracing::warn!(%error, "the age of the queue cannot be read");
        }
        // The sweep comes first, so even a relay that is stopped right away has swept one batch.
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
    }
}
