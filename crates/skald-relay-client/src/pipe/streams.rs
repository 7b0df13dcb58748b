//! Many streams in one pipe (docs/protocol/pipes.md, "`streams-yamux`").
//!
//! Opening a pipe costs several round trips and a part of the message quota; opening a stream in one costs neither. The
//! multiplexer is yamux: each stream has a window of its own, which grows with the path, and the streams take turns in
//! pieces of 16 KiB, so that a long download does not hold up a click.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufWriter, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt as _, TokioAsyncReadCompatExt as _};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use yamux::{Config, Connection, Mode};

use super::connection::PipeConnection;
use crate::error::PipeError;

/// Streams that one end opens in one pipe at a time; [`PipeStreams::open`] waits for one to end.
pub const MAX_STREAMS: usize = 48;
/// A peer that has more of them open than this has lost count, and its pipe ends.
const MAX_EVER: usize = 256;
/// What all streams of one pipe together may have unread at this end: a first window for each.
const UNREAD_BYTES: usize = MAX_EVER * 256 * 1_024;
/// Streams of the peer's that nobody has taken yet; one more is refused by dropping it.
const UNTAKEN: usize = MAX_STREAMS;
/// Openings that wait for the multiplexer, which answers them in its next turn.
const OPENINGS: usize = 16;
/// What may wait below the multiplexer: it must not have to promise what a later click would stand behind.
const SEND_BUFFER: usize = 256 << 10;
/// Headers and pieces of the multiplexer are gathered to frames of this size.
const GATHER: usize = 64 << 10;
/// The first byte of every stream, from its opener: yamux tells of a stream with its first bytes, and in some streams it is
/// the other end that speaks first.
const GREETING: u8 = 0;
/// How long the last words of a pipe may take.
const CLOSING: Duration = Duration::from_secs(5);

type Carrier = Connection<Compat<BufWriter<PipeConnection>>>;
type Opening = (OwnedSemaphorePermit, oneshot::Sender<Result<PipeStream, PipeError>>);

/// A pipe that carries many streams. Dropping it ends the pipe and all of them.
pub struct PipeStreams {
    opening: mpsc::Sender<Opening>,
    incoming: mpsc::Receiver<PipeStream>,
    places: Arc<Semaphore>,
    over: CancellationToken,
    _stop: DropGuard,
}

/// One stream of a pipe. Each direction ends by itself; a stream that the pipe's end cut short ends in an error.
pub struct PipeStream {
    inner: Compat<yamux::Stream>,
    broken: Arc<AtomicBool>,
    /// The opener's first byte has not been read yet.
    greeted: bool,
    _place: Option<OwnedSemaphorePermit>,
}

impl PipeStreams {
    pub(super) fn start(mut pipe: PipeConnection, initiator: bool, tasks: &TaskTracker) -> Self {
        pipe.limit_send_buffer(SEND_BUFFER);
        let mut config = Config::default();
        config.set_max_num_streams(MAX_EVER);
        config.set_max_connection_receive_window(Some(UNREAD_BYTES));
        let mode = if initiator { Mode::Client } else { Mode::Server };
        let carrier = Connection::new(BufWriter::with_capacity(GATHER, pipe).compat(), config, mode);
        let (opening, openings) = mpsc::channel(OPENINGS);
        let (taken, incoming) = mpsc::channel(UNTAKEN);
        let (stop, over) = (CancellationToken::new(), CancellationToken::new());
        let driver = Driver {
            carrier,
            openings,
            waiting: VecDeque::new(),
            taken,
            broken: Arc::new(AtomicBool::new(false)),
        };
        tasks.spawn(driver.run(stop.clone(), over.clone()));
        let places = Arc::new(Semaphore::new(MAX_STREAMS));
        Self { opening, incoming, places, over, _stop: stop.drop_guard() }
    }

    /// Opens a stream, without a round trip. Waits while [`MAX_STREAMS`] are
    /// open.
    pub async fn open(&self) -> Result<PipeStream, PipeError> {
        let place = tokio::select! {
            () = self.over.cancelled() => return Err(PipeError::Closed),
            place = self.places.clone().acquire_owned() => place.map_err(|_| PipeError::Closed)?,
        };
        let (reply, answer) = oneshot::channel();
        self.opening.send((place, reply)).await.map_err(|_| PipeError::Closed)?;
        let mut stream = answer.await.map_err(|_| PipeError::Closed)??;
        let greet = async {
            stream.write_all(&[GREETING]).await?;
            stream.flush().await
        };
        greet.await.map_err(|_| PipeError::Closed)?;
        Ok(stream)
    }

    /// The next stream that the peer opens; `None` when the pipe has ended. May be dropped without losing one.
    pub async fn accept(&mut self) -> Option<PipeStream> {
        self.incoming.recv().await
    }

    /// Whether the pipe has ended.
    pub fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Waits for the pipe's end.
    pub async fn over(&self) {
        self.over.cancelled().await;
    }
}

/// The one task that owns the pipe beneath.
struct Driver {
    carrier: Carrier,
    openings: mpsc::Receiver<Opening>,
    waiting: VecDeque<Opening>,
    taken: mpsc::Sender<PipeStream>,
    broken: Arc<AtomicBool>,
}

impl Driver {
    async fn run(mut self, stop: CancellationToken, over: CancellationToken) {
        let ended = stop.run_until_cancelled(poll_fn(|cx| self.poll(cx))).await;
        // What reads on from here was cut short, whatever it has read so far.
        self.broken.store(true, Ordering::Release);
        over.cancel();
        if ended.is_none() {
            let _ = tokio::time::timeout(CLOSING, poll_fn(|cx| self.carrier.poll_close(cx))).await;
        }
    }

    /// Ready when the pipe has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            while let Poll::Ready(Some(opening)) = self.openings.poll_recv(cx) {
                self.waiting.push_back(opening);
            }
            while let Some(opening) = self.waiting.pop_front() {
                match self.carrier.poll_new_outbound(cx) {
                    Poll::Ready(Ok(stream)) => {
                        let (place, reply) = opening;
                        let _ = reply.send(Ok(PipeStream::new(stream, &self.broken, Some(place))));
                    }
                    Poll::Ready(Err(_)) => {
                        let _ = opening.1.send(Err(PipeError::Closed));
                    }
                    Poll::Pending => {
                        self.waiting.push_front(opening);
                        break;
                    }
                }
            }
            match ready!(self.carrier.poll_next_inbound(cx)) {
                // Full, or nobody takes streams at this end: dropping it resets it.
                Some(Ok(stream)) => drop(self.taken.try_send(PipeStream::new(stream, &self.broken, None))),
                Some(Err(error)) => {
                    tracing::debug!(%error, "a pipe with many streams ended badly");
                    return Poll::Ready(());
                }
                None => return Poll::Ready(()),
            }
        }
    }
}

impl PipeStream {
    fn new(stream: yamux::Stream, broken: &Arc<AtomicBool>, place: Option<OwnedSemaphorePermit>) -> Self {
        let greeted = place.is_some();
        Self { inner: stream.compat(), broken: Arc::clone(broken), greeted, _place: place }
    }
}

impl AsyncRead for PipeStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.greeted {
            let mut byte = [0];
            let mut first = ReadBuf::new(&mut byte);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut first))?;
            match first.filled() {
                [GREETING] => this.greeted = true,
                // Ended, or cut short, before it began: told below.
                [] => {}
                _ => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
            }
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
        if buf.filled().len() == before && buf.remaining() > 0 && this.broken.load(Ordering::Acquire) {
            return Poll::Ready(Err(PipeError::Truncated.into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PipeStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    /// Ends this direction.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

impl std::fmt::Debug for PipeStreams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PipeStreams(..)")
    }
}

impl std::fmt::Debug for PipeStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PipeStream(..)")
    }
}
