//! Accepts connections and gives each a task, which this task cancels and joins.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::http::{self, Route};
use super::tls::Tls;
use crate::quota::AddressQuota;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::stream::Stream;

/// How long a TLS handshake may take.
const TLS_WITHIN: Duration = Duration::from_secs(10);
/// How long connections have to say goodbye once the relay stops.
const DRAIN: Duration = Duration::from_secs(6);
/// The first byte of every TLS connection: a handshake record.
const TLS_HANDSHAKE: u8 = 0x16;

/// What the listening side needs beyond what every connection needs.
pub(crate) struct Server {
    pub(crate) settings: Settings,
    pub(crate) shared: Arc<Shared>,
    pub(crate) addresses: Arc<AddressQuota>,
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
                    connections.spawn(connection(Arc::clone(&server), stream, peer, stop.clone()));
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

async fn connection(server: Arc<Server>, stream: TcpStream, peer: SocketAddr, stop: CancellationToken) {
    // Small frames must not wait for one another.
    let _ = stream.set_nodelay(true);
    // Each stage is boxed, so that a connection at rest holds the memory of its last one alone.
    let begun = Box::pin(async {
        let stream = secure(&server, stream).await?;
        http::serve(&server, stream, peer.ip().to_canonical()).await
    });
    let upgraded = tokio::select! {
        upgraded = begun => upgraded,
        () = stop.cancelled() => None,
    };
    let Some(upgraded) = upgraded else { return };
    let shared = Arc::clone(&server.shared);
    drop(server);
    match upgraded.route {
        Route::Control => {
            let run =
                crate::session::driver::run(shared, upgraded.stream, upgraded.early, upgraded.place, stop);
            Box::pin(run).await;
        }
        Route::Pipe => {
            let run = crate::pipe::driver::run(shared, upgraded.stream, upgraded.early, upgraded.place, stop);
            Box::pin(run).await;
        }
    }
}

/// Begins TLS where the relay serves it. A caller that speaks plain HTTP to it is let through to be told so.
async fn secure(server: &Server, stream: TcpStream) -> Option<Stream> {
    let Some(tls) = &server.tls else { return Some(Stream::Plain(stream)) };
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
