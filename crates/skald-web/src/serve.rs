//! Connections: the TCP listener and the devices' streams, served by one router.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use skald_core_api::{ByteStream, DevicePeer, LocalWeb};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::guard::Link;

/// What lies between a device's stream and the server, each way. A full one holds its writer back.
const STREAM_BUFFER: usize = 256 * 1024;
/// Connections at once, by TCP and by devices. Beyond it TCP connections wait in the listener's backlog and a device's
/// stream is refused.
const MAX_CONNECTIONS: usize = 512;
/// How long a request's head may take, and how long a connection may rest between requests.
const HEAD_DEADLINE: Duration = Duration::from_secs(90);
/// How long a peer may take nothing of what is written to it.
const WRITE_DEADLINE: Duration = Duration::from_secs(60);
/// How long running requests have at the end. Long polls and event streams end by themselves at once.
const GRACE: Duration = Duration::from_secs(3);

/// All that serves connections. One task owns each connection; all of them end with `stop`.
pub(crate) struct Connections {
    router: Router,
    stop: CancellationToken,
    tasks: TaskTracker,
    tcp_slots: Arc<Semaphore>,
    device_slots: Arc<Semaphore>,
}

impl Connections {
    pub(crate) fn new(router: Router, stop: CancellationToken) -> Self {
        Self {
            router,
            stop,
            tasks: TaskTracker::new(),
            tcp_slots: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            device_slots: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        }
    }

    /// Accepts until `stop`.
    pub(crate) fn listen(self: &Arc<Self>, listener: TcpListener) {
        let this = self.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = this.stop.cancelled() => {}
                () = this.accept(listener) => {}
            }
        });
    }

    async fn accept(self: &Arc<Self>, listener: TcpListener) {
        loop {
            let Ok(slot) = self.tcp_slots.clone().acquire_owned().await else { return };
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(e) => {
                    // Out of file handles, mostly. Accepting at once again would only burn the processor.
                    tracing::warn!(error = %e, "a connection could not be accepted");
                    sleep(Duration::from_millis(200)).await;
                    continue;
                }
            };
            let Ok(local) = stream.local_addr() else { continue };
            let _ = stream.set_nodelay(true);
            let link = Link::Tcp { local: canonical(local), peer: peer.ip().to_canonical() };
            let (router, stop) = (self.router.clone(), self.stop.clone());
            self.tasks.spawn(async move {
                serve(stream, link, router, stop).await;
                drop(slot);
            });
        }
    }

    /// Waits until every connection is closed. `stop` must be cancelled before.
    pub(crate) async fn closed(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[async_trait]
impl LocalWeb for Connections {
    async fn connect(&self, peer: DevicePeer) -> io::Result<Box<dyn ByteStream>> {
        if self.stop.is_cancelled() {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "the host is shutting down"));
        }
        let slot = self.device_slots.clone().try_acquire_owned().map_err(|_| {
            io::Error::new(io::ErrorKind::QuotaExceeded, "too many streams are open to the host")
        })?;
        let (theirs, ours) = tokio::io::duplex(STREAM_BUFFER);
        let (router, stop) = (self.router.clone(), self.stop.clone());
        self.tasks.spawn(async move {
            serve(ours, Link::Device(peer), router, stop).await;
            drop(slot);
        });
        Ok(Box::new(theirs))
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(IpAddr::to_canonical(&address.ip()), address.port())
}

async fn serve<I>(io: I, link: Link, router: Router, stop: CancellationToken)
where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(link.clone());
        router.clone().oneshot(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .serve_connection(TokioIo::new(WriteDeadline::new(io)), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match timeout(GRACE, connection.as_mut()).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(e) = ended {
        // Browsers drop connections all the time; this is of interest only when something is looked for.
        tracing::debug!(error = %e, "a connection ended early");
    }
}

/// Gives up on a peer that takes nothing for [`WRITE_DEADLINE`]: it would hold its buffers and its slot for ever.
pub(crate) struct WriteDeadline<I> {
    io: I,
    since: Option<Pin<Box<Sleep>>>,
}

impl<I> WriteDeadline<I> {
    pub(crate) fn new(io: I) -> Self {
        Self { io, since: None }
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.since = None;
            return polled;
        }
        let sleep = self
            .since
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + WRITE_DEADLINE)));
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes nothing")))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for WriteDeadline<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, buf);
        self.watch(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_flush(cx);
        // A socket's flush is always ready, so it says nothing on whether the peer takes anything.
        if polled.is_ready() { polled } else { self.watch(cx, polled) }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_shutdown(cx);
        self.watch(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.watch(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
