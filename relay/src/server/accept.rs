//! Accepts connections and gives each a task, which this task cancels and joins.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use tracing::field::Empty;

use super::http::{self, Route};
use super::tls::Tls;
use crate::metrics::names::{Arrival, Limit};
use crate::quota::{Entry, Gate, Place};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::stream::Stream;

/// How long a TLS handshake may take.
const TLS_WITHIN: Duration = Duration::from_secs(10);
/// How long connections have to say goodbye once the relay stops.
const DRAIN: Duration = Duration::from_secs(6);
/// How long a connection may stay that does not become a WebSocket.
const STAY: Duration = Duration::from_secs(60);
/// How long such a connection may still ask, once the relay stops, and learn that it does.
const LAST_WORD: Duration = Duration::from_secs(1);
/// Numbers connections, so that a log tells them apart.
static NEXT: AtomicU64 = AtomicU64::new(1);
/// The first byte of every TLS connection: a handshake record.
const TLS_HANDSHAKE: u8 = 0x16;

/// What the listening side needs beyond what every connection needs.
pub(crate) struct Server {
    pub(crate) settings: Settings,
    pub(crate) shared: Arc<Shared>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) tls: Option<Tls>,
}

/// Accepts until stopped, then waits for the connections to end.
pub(crate) async fn run(server: Arc<Server>, listener: TcpListener, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let now = tokio::time::Instant::now().into_std();
                    let ip = peer.ip().to_canonical();
                    // Behind a proxy it takes the request to know who it is.
                    let proxied = server.settings.trusted_proxies.iter().any(|network| network.contains(ip));
                    match server.gate.arrive((!proxied).then_some(ip), now) {
                        Ok(entered) => {
                            let connection = connection(Arc::clone(&server), stream, peer, entered, stop.clone());
                            connections.spawn(connection);
                        }
                        // Closed without a word and without a task: this is what a flood must cost.
                        Err(limit) => server.shared.counts.arrivals.count(match limit {
                            Limit::ConnectionsPerIp => Arrival::OverQuota,
                            _ => Arrival::NoRoom,
                        }),
                    }
                }
                Err(error) => {
                    // Most often too many open files: it passes as connections end.
                    tracing::warn!(%error, "no connection could be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(ended) = connections.join_next(), if !connections.is_empty() => reap(ended),
        }
    }
    drop(listener);
    let drained = async {
        while let Some(ended) = connections.join_next().await {
            reap(ended);
        }
    };
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        tracing::warn!(left = connections.len(), "some connections did not end in time and are cut");
        connections.shutdown().await;
    }
}

fn reap(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection's task panicked");
    }
}

async fn connection(
    server: Arc<Server>,
    stream: TcpStream,
    peer: SocketAddr,
    (_entry, place): (Entry, Place),
    stop: CancellationToken,
) {
    // Small frames must not wait for one another.
    let _ = stream.set_nodelay(true);
    // Each stage is boxed, so that a connection at rest holds the memory of its last one alone.
    let begun = Box::pin(async {
        let Some(stream) = secure(server.tls.as_ref(), stream).await else {
            server.shared.counts.arrivals.count(Arrival::TlsFailed);
            return None;
        };
        http::serve(&server, stream, peer.ip().to_canonical(), place, &stop).await
    });
    let last_word = async {
        stop.cancelled().await;
        tokio::time::sleep(LAST_WORD).await;
    };
    let upgraded = tokio::select! {
        upgraded = tokio::time::timeout(STAY, begun) => upgraded.ok().flatten(),
        () = last_word => None,
    };
    let Some(upgraded) = upgraded else { return };
    let shared = Arc::clone(&server.shared);
    drop(server);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let span = tracing::info_span!("connection", id = number, role = Empty, namespace = Empty);
    match upgraded.route {
        Route::Control => {
            let run =
                crate::session::driver::run(shared, upgraded.stream, upgraded.early, upgraded.place, stop);
            Box::pin(run.instrument(span)).await;
        }
        Route::Pipe => {
            let run = crate::pipe::driver::run(shared, upgraded.stream, upgraded.early, upgraded.place, stop);
            Box::pin(run.instrument(span)).await;
        }
    }
}

/// Begins TLS where the relay serves it. A caller that speaks plain HTTP to it is let through to be told so.
pub(crate) async fn secure(tls: Option<&Tls>, stream: TcpStream) -> Option<Stream> {
    let Some(tls) = tls else { return Some(Stream::Plain(stream)) };
    let handshake = async {
        let mut first = [0];
        if stream.peek(&mut first).await.ok()? == 0 {
            return None;
        }
        if first[0] != TLS_HANDSHAKE {
            return Some(Stream::Plain(stream));
        }
        let stream = tls.accept(stream).await.ok()??;
        Some(Stream::Tls(Box::new(stream)))
    };
    tokio::time::timeout(TLS_WITHIN, handshake).await.ok().flatten()
}
