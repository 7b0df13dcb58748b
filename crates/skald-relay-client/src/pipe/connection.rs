//! A pipe in hand.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use skald_e2e::features::Features;
use skald_e2e::pipe::{PIPE_TAG_LEN, PipeOpener, PipeSealer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_util::sync::{CancellationToken, PollSemaphore};
use tokio_util::task::TaskTracker;

use super::frame::{self, HEADER_ROOM, Opcode};
use super::reader::FrameReader;
use super::writer::{self, Data, Frame, Pulse, WriterState};
use crate::error::PipeError;
use crate::net::Io;
use crate::util;

/// How many bytes may wait to be written. Beyond, [`PipeSender::send`] waits.
const SEND_BUFFER_BYTES: usize = 10 << 20;
/// The plaintext of one frame. The relay takes frames of up to 1 MiB; small ones share a line better.
const CHUNK: usize = 64 * 1_024;
/// So many Pongs may wait; further ones are dropped, for one answer is as good as several.
const CONTROL: usize = 16;
/// How long a closing end waits for the other's goodbye.
const LINGER: Duration = Duration::from_secs(5);

/// An encrypted byte stream to a peer, in both directions at once. Also an [`AsyncRead`] and [`AsyncWrite`].
///
/// Where both ends can, they have agreed on **half-close** ([`Self::half_closes`]): each direction ends by itself, by a mark
/// inside the sealed stream, and the other goes on. An end without the mark, which a relay can make, is
/// [`PipeError::Truncated`]. The connection closes when both directions have ended, or either end is dropped.
///
/// With a peer that knows nothing of it, a pipe ends as a whole: closing either side closes both, and nothing proves that an
/// end was meant by the peer and not made by the relay; a protocol inside that must know says how long its content is.
#[derive(Debug)]
pub struct PipeConnection {
    sender: PipeSender,
    receiver: PipeReceiver,
}

/// The sending half.
pub struct PipeSender {
    sealer: PipeSealer,
    permits: Arc<Semaphore>,
    budget: PollSemaphore,
    queue: mpsc::UnboundedSender<Data>,
    closing: bool,
    half_close: bool,
    writer: watch::Receiver<WriterState>,
    /// Waits for the writer, for whoever shuts down by polling.
    closed: Option<Closed>,
    end: CancellationToken,
}

type Closed = Pin<Box<dyn Future<Output = bool> + Send + Sync>>;

/// The receiving half.
pub struct PipeReceiver {
    opener: PipeOpener,
    reader: FrameReader<ReadHalf<Io>>,
    /// Opened and not yet read.
    rest: Bytes,
    /// What must happen before the stream may end, where half-close was agreed.
    mark: Mark,
    /// Tells the writer that this direction has ended.
    peer_ended: CancellationToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// There is none: a goodbye is an end.
    Unknown,
    Awaited,
    /// It came, or its absence was told.
    Over,
}

impl PipeConnection {
    pub(super) fn start(
        io: Io,
        rest: BytesMut,
        (sealer, opener): (PipeSealer, PipeOpener),
        agreed: Features,
        end: CancellationToken,
        tasks: &TaskTracker,
        dead_after: Duration,
    ) -> Self {
        let (read, write) = tokio::io::split(io);
        let (queue, data) = mpsc::unbounded_channel();
        let (control, urgent) = mpsc::channel(CONTROL);
        let (state, writer) = watch::channel(WriterState::Running);
        let pulse = Arc::new(Pulse::new());
        let peer_ended = CancellationToken::new();
        let half_close = agreed.half_close;
        tasks.spawn(writer::run(write, data, urgent, pulse.clone(), peer_ended.clone(), end.clone(), state));
        let permits = Arc::new(Semaphore::new(SEND_BUFFER_BYTES));
        let budget = PollSemaphore::new(permits.clone());
        let reader = FrameReader::new(read, rest, control, writer.clone(), pulse, dead_after, end.clone());
        Self {
            sender: PipeSender {
                sealer,
                permits,
                budget,
                queue,
                closing: false,
                half_close,
                writer,
                closed: None,
                end,
            },
            receiver: PipeReceiver {
                opener,
                reader,
                rest: Bytes::new(),
                mark: if half_close { Mark::Awaited } else { Mark::Unknown },
                peer_ended,
            },
        }
    }

    /// Whether both ends can end one direction and go on with the other.
    pub fn half_closes(&self) -> bool {
        self.sender.half_close
    }

    /// Lets fewer bytes wait to be written, where something above must choose what is sent next: at least one frame's.
    pub(super) fn limit_send_buffer(&mut self, bytes: usize) {
        self.sender.limit_send_buffer(bytes);
    }

    /// See [`PipeSender::send`].
    pub async fn send(&mut self, data: &[u8]) -> Result<(), PipeError> {
        self.sender.send(data).await
    }

    /// See [`PipeReceiver::recv`].
    pub async fn recv(&mut self) -> Result<Option<Vec<u8>>, PipeError> {
        self.receiver.recv().await
    }

    /// Writes what waits, says goodbye, and waits for both. What the peer still sends is thrown away.
    pub async fn close(self) -> Result<(), PipeError> {
        let Self { mut sender, mut receiver } = self;
        let mut outcome = sender.finish().await;
        if sender.half_close && outcome.is_ok() {
            // The direction has ended; now the pipe does.
            outcome = sender.goodbye().await;
        }
        // Unread bytes in the socket would turn the goodbye into a reset, and could cost the peer what was sent last.
        let drain = async { while let Ok(Some(_)) = receiver.recv_bytes().await {} };
        let _ = tokio::time::timeout(LINGER, drain).await;
        sender.end.cancel();
        outcome
    }

    /// Two halves, each for a task of its own. The pipe ends when both are dropped, or the sending one is
    /// closed.
    pub fn split(self) -> (PipeSender, PipeReceiver) {
        (self.sender, self.receiver)
    }
}

impl PipeSender {
    fn limit_send_buffer(&mut self, bytes: usize) {
        let surplus = SEND_BUFFER_BYTES.saturating_sub(bytes.max(HEADER_ROOM + CHUNK + PIPE_TAG_LEN));
        self.permits.forget_permits(surplus);
    }

    /// Seals and queues `data`; waits only while ten megabytes wait to be written. Dropping the call half-way leaves the
    /// pipe whole: what was queued so far (a multiple of 64 KiB) is sent, the rest is not.
    pub async fn send(&mut self, data: &[u8]) -> Result<(), PipeError> {
        for chunk in data.chunks(CHUNK) {
            std::future::poll_fn(|cx| self.poll_queue(cx, chunk)).await?;
        }
        Ok(())
    }

    /// Queues one chunk. The counter moves only when the place in the queue is certain (fault 16).
    fn poll_queue(&mut self, cx: &mut Context<'_>, chunk: &[u8]) -> Poll<Result<(), PipeError>> {
        self.check()?;
        let len = HEADER_ROOM + chunk.len() + PIPE_TAG_LEN;
        let Some(budget) = ready!(self.budget.poll_acquire_many(cx, len as u32)) else {
            return Poll::Ready(Err(PipeError::Closed));
        };
        self.check()?;
        let frame = Data::Frame(self.seal(chunk, budget)?);
        if self.queue.send(frame).is_err() {
            return Poll::Ready(Err(self.why()));
        }
        Poll::Ready(Ok(()))
    }

    fn seal(&mut self, chunk: &[u8], budget: OwnedSemaphorePermit) -> Result<Frame, PipeError> {
        let mut buffer = Vec::with_capacity(HEADER_ROOM + chunk.len() + PIPE_TAG_LEN);
        buffer.resize(HEADER_ROOM, 0);
        buffer.extend_from_slice(chunk);
        let tag = self.sealer.seal_detached(&mut buffer[HEADER_ROOM..]).map_err(|_| PipeError::Cipher)?;
        buffer.extend_from_slice(&tag);
        let start = frame::finish(&mut buffer, Opcode::Binary, util::random().unwrap_or_default());
        let mut bytes = Bytes::from(buffer);
        bytes.advance(start);
        Ok(Frame { bytes, _budget: budget })
    }

    fn check(&self) -> Result<(), PipeError> {
        match *self.writer.borrow() {
            WriterState::Running if !self.end.is_cancelled() && !self.closing => Ok(()),
            _ => Err(self.why()),
        }
    }

    fn why(&self) -> PipeError {
        match *self.writer.borrow() {
            WriterState::Broken if !self.end.is_cancelled() => {
                PipeError::Broken("the connection takes nothing more")
            }
            _ => PipeError::Closed,
        }
    }

    /// Ends this direction: writes what waits and the mark of its end, and waits for that. Without half-close it says goodbye,
    /// and the whole pipe ends. The other half reads to the peer's end.
    pub async fn close(mut self) -> Result<(), PipeError> {
        self.finish().await
    }

    async fn finish(&mut self) -> Result<(), PipeError> {
        std::future::poll_fn(|cx| self.poll_finish(cx)).await
    }

    async fn goodbye(&mut self) -> Result<(), PipeError> {
        let _ = self.queue.send(Data::Goodbye);
        let over = |state: &WriterState| matches!(state, WriterState::Done | WriterState::Broken);
        match self.writer.wait_for(over).await.as_deref() {
            Ok(WriterState::Done) => Ok(()),
            _ => Err(PipeError::Closed),
        }
    }

    /// Ready when everything was written.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), PipeError>> {
        if !self.closing {
            if self.half_close {
                self.check()?;
                let len = (HEADER_ROOM + PIPE_TAG_LEN) as u32;
                let Some(budget) = ready!(self.budget.poll_acquire_many(cx, len)) else {
                    return Poll::Ready(Err(PipeError::Closed));
                };
                let mark = self.seal(&[], budget)?;
                let _ = self.queue.send(Data::End(mark));
            } else {
                let _ = self.queue.send(Data::Goodbye);
            }
            self.closing = true;
        }
        let mut writer = self.writer.clone();
        let closed = self.closed.get_or_insert_with(|| {
            Box::pin(async move {
                let state = writer.wait_for(|state| *state != WriterState::Running).await;
                matches!(state.as_deref(), Ok(WriterState::Ended | WriterState::Done))
            })
        });
        let done = ready!(closed.as_mut().poll(cx));
        // A finished future must not be polled again; the next call asks anew, and is answered at once.
        self.closed = None;
        Poll::Ready(if done { Ok(()) } else { Err(PipeError::Closed) })
    }
}

impl PipeReceiver {
    /// The next piece, of whatever length the peer sent it in. `None`: the peer's direction has ended, or without half-close
    /// the pipe was closed. May be dropped at any time without losing anything.
    pub async fn recv(&mut self) -> Result<Option<Vec<u8>>, PipeError> {
        Ok(self.recv_bytes().await?.map(Vec::from))
    }

    /// The same without a copy.
    pub async fn recv_bytes(&mut self) -> Result<Option<Bytes>, PipeError> {
        std::future::poll_fn(|cx| self.poll_bytes(cx)).await
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, PipeError>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.rest))));
        }
        loop {
            if self.mark == Mark::Over {
                return Poll::Ready(Ok(None));
            }
            let Some(mut frame) = ready!(self.reader.poll_next(cx))? else {
                return Poll::Ready(self.unmarked());
            };
            let Ok(len) = self.opener.open_in_place(&mut frame) else {
                self.reader.give_up();
                return Poll::Ready(Err(PipeError::Cipher));
            };
            frame.truncate(len);
            if len > 0 {
                return Poll::Ready(Ok(Some(frame.freeze())));
            }
            // Without half-close an empty piece says nothing.
            if self.mark == Mark::Awaited {
                self.mark = Mark::Over;
                self.peer_ended.cancel();
            }
        }
    }

    /// The connection ended. Where a mark is awaited, it should have come before.
    fn unmarked(&mut self) -> Result<Option<Bytes>, PipeError> {
        if self.mark == Mark::Unknown {
            return Ok(None);
        }
        self.mark = Mark::Over;
        Err(PipeError::Truncated)
    }
}

impl AsyncRead for PipeReceiver {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            match ready!(this.poll_bytes(cx)) {
                Ok(Some(bytes)) => this.rest = bytes,
                Ok(None) => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
        let n = this.rest.len().min(buf.remaining());
        buf.put_slice(&this.rest[..n]);
        this.rest.advance(n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PipeSender {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let chunk = &buf[..buf.len().min(CHUNK)];
        ready!(self.get_mut().poll_queue(cx, chunk))?;
        Poll::Ready(Ok(chunk.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The writer flushes whenever its queue runs empty.
        Poll::Ready(Ok(()))
    }

    /// Ends this direction, as [`PipeSender::close`] does.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_finish(cx).map_err(io::Error::from)
    }
}

impl AsyncRead for PipeConnection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().receiver).poll_read(cx, buf)
    }
}

impl AsyncWrite for PipeConnection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().sender).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().sender).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().sender).poll_shutdown(cx)
    }
}

impl std::fmt::Debug for PipeSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PipeSender(..)")
    }
}

impl std::fmt::Debug for PipeReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PipeReceiver(..)")
    }
}
