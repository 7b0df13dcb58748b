//! One WebSocket over one stream: writes what is due while it reads what comes, in a single task.
//!
//! Reading goes through a buffer that all connections of a thread share, so a connection at rest owns none. Writing
//! never waits for reading nor the other way round: a peer that writes to us while we write to it cannot make both
//! sides stand still.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::header::Opcode;
use super::{DecodeError, Decoder, Incoming, server_frame};
use crate::stream::Stream;

const SCRATCH: usize = 16 * 1024;
const MAX_SLICES: usize = 32;

thread_local! {
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH].into_boxed_slice());
}

/// What happened on the socket.
pub(crate) enum Io {
    /// The peer said something.
    Message(Incoming),
    /// A data frame is on its way, and the caller asked not to take it.
    Data,
    /// The peer said something that cannot be read.
    Broken(DecodeError),
    /// What waits to be written has fallen below the mark.
    Room,
    /// The connection is gone.
    Gone,
}

/// What [`Socket::next`] may read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Every message.
    All,
    /// Control frames, up to the first data frame.
    Control,
    /// Nothing: the peer has to wait.
    Paused,
}

/// A WebSocket, after its handshake.
pub(crate) struct Socket {
    stream: Stream,
    decoder: Decoder,
    out: VecDeque<Bytes>,
    out_bytes: usize,
    /// Something was written since the last flush.
    unflushed: bool,
    /// The answer to the peer's last ping. Only the last needs one (RFC 6455 §5.5.3).
    pong: Option<Bytes>,
    /// When bytes last came in.
    heard: Instant,
    /// Since when the peer has taken nothing, while there was something to take.
    stalled: Option<Instant>,
    /// Since when a message is on its way in that is not whole yet, the time not counted in which we did not read.
    begun: Option<Instant>,
    paused: bool,
}

impl Socket {
    pub(crate) fn new(stream: Stream, early: &[u8], limit: usize) -> Self {
        Self {
            stream,
            decoder: Decoder::new(limit, early),
            out: VecDeque::new(),
            out_bytes: 0,
            unflushed: false,
            pong: None,
            heard: now(),
            stalled: None,
            begun: None,
            paused: false,
        }
    }

    /// Changes how large a frame may be, from the next one on.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.decoder.set_limit(limit);
    }

    /// Queues a frame.
    pub(crate) fn push(&mut self, frame: Bytes) {
        self.out_bytes += frame.len();
        if self.stalled.is_none() {
            self.stalled = Some(now());
        }
        self.out.push_back(frame);
    }

    /// How many bytes wait to be written.
    pub(crate) fn unsent(&self) -> usize {
        self.out_bytes
    }

    pub(crate) fn heard(&self) -> Instant {
        self.heard
    }

    pub(crate) fn stalled_since(&self) -> Option<Instant> {
        self.stalled
    }

    /// Since when the peer owes us the rest of a message.
    pub(crate) fn begun_since(&self) -> Option<Instant> {
        self.begun.filter(|_| !self.paused)
    }

    /// The stream and the bytes that were read from it and not yet understood. Everything queued must have left.
    pub(crate) fn into_parts(self) -> (Stream, Vec<u8>) {
        (self.stream, self.decoder.into_rest())
    }

    /// Writes and reads until something happens. Cancelling it loses nothing.
    pub(crate) async fn next(&mut self, reading: Reading, mark: usize) -> Io {
        poll_fn(|cx| self.poll_next(cx, reading, mark)).await
    }

    /// Writes everything that is queued.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_write_out(cx)).await
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>, reading: Reading, mark: usize) -> Poll<Io> {
        loop {
            let full = self.out_bytes >= mark;
            match self.poll_write_out(cx) {
                Poll::Ready(Err(_)) => return Poll::Ready(Io::Gone),
                Poll::Ready(Ok(())) | Poll::Pending if full && self.out_bytes < mark => {
                    return Poll::Ready(Io::Room);
                }
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
            if reading == Reading::Paused {
                self.paused = true;
                return Poll::Pending;
            }
            if std::mem::take(&mut self.paused) && self.begun.is_some() {
                self.begun = Some(now());
            }
            if reading == Reading::Control {
                match self.decoder.upcoming() {
                    Ok(Some(h)) if !h.opcode.is_control() => return Poll::Ready(Io::Data),
                    Ok(_) => {}
                    Err(error) => return Poll::Ready(Io::Broken(error)),
                }
            }
            match self.decoder.next() {
                Ok(Some(Incoming::Ping(payload))) => {
                    self.pong = Some(server_frame(Opcode::Pong, &payload));
                    continue;
                }
                Ok(Some(message)) => {
                    if matches!(message, Incoming::Binary(_) | Incoming::Text) {
                        self.begun = None;
                    }
                    return Poll::Ready(Io::Message(message));
                }
                Ok(None) if self.decoder.is_amid() => self.begun = self.begun.or_else(|| Some(now())),
                Ok(None) => self.begun = None,
                Err(error) => return Poll::Ready(Io::Broken(error)),
            }
            match ready!(self.poll_read_in(cx)) {
                Ok(0) | Err(_) => return Poll::Ready(Io::Gone),
                Ok(_) => self.heard = now(),
            }
        }
    }

    fn poll_read_in(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        BUFFER.with_borrow_mut(|buffer| {
            let mut buffer = ReadBuf::new(buffer);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            self.decoder.extend(buffer.filled());
            Poll::Ready(Ok(buffer.filled().len()))
        })
    }

    fn poll_write_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(pong) = self.pong.take() {
            self.push(pong);
        }
        while !self.out.is_empty() {
            let written = {
                let mut slices = [IoSlice::new(&[]); MAX_SLICES];
                let mut count = 0;
                for (slice, frame) in slices.iter_mut().zip(&self.out) {
                    *slice = IoSlice::new(frame);
                    count += 1;
                }
                ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, &slices[..count]))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.wrote(written);
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn wrote(&mut self, mut written: usize) {
        self.out_bytes -= written;
        self.unflushed = true;
        while let Some(first) = self.out.front_mut() {
            if written < first.len() {
                first.advance(written);
                break;
            }
            written -= first.len();
            self.out.pop_front();
        }
        self.stalled = if self.out.is_empty() { None } else { Some(now()) };
        if self.out.is_empty() && self.out.capacity() > 8 {
            self.out = VecDeque::new();
        }
    }

    /// Writes what is due and then reads, throwing away, until the peer says goodbye too or `at_most` bytes have come.
    /// A connection that is closed while the peer still sends becomes a reset, which would swallow our last frame.
    pub(crate) async fn part(&mut self, at_most: usize) -> io::Result<()> {
        self.flush().await?;
        self.decoder.skip_oversize();
        let mut left = at_most;
        loop {
            match self.decoder.next() {
                Ok(Some(Incoming::Close)) => return Ok(()),
                Ok(Some(_)) => continue,
                Ok(None) => {}
                Err(_) => self.decoder = Decoder::new(0, &[]),
            }
            match poll_fn(|cx| self.poll_read_in(cx)).await? {
                0 => return Ok(()),
                read => left = left.saturating_sub(read),
            }
            if left == 0 {
                return Ok(());
            }
        }
    }

    /// Tells the peer that nothing more will be written.
    pub(crate) async fn shutdown(&mut self) -> io::Result<()> {
        poll_fn(|cx| Pin::new(&mut self.stream).poll_shutdown(cx)).await
    }
}

/// Tokio's clock, so that tests can pause it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
