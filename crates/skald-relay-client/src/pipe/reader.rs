//! The reading half of a pipe's socket.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncRead;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep};
use tokio_util::io::poll_read_buf;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::frame::{self, Incoming, Opcode};
use super::writer::{Control, Pulse, WriterState};
use crate::error::PipeError;

/// The largest frame that is taken: the relay's limit, and a little.
pub(super) const MAX_FRAME: usize = (1 << 20) + 64;
/// What is read at once, if there is so much.
const READ: usize = 128 * 1_024;
/// How often a silent pipe is looked at.
const LOOK: Duration = Duration::from_secs(10);

const VIOLATION: PipeError = PipeError::Broken("the relay broke the protocol");

/// Reads frames off a socket. Everything a call has read is kept here, so dropping a call half-way loses nothing.
pub(super) struct FrameReader<R> {
    io: R,
    buffer: BytesMut,
    /// A message that comes in several frames.
    parts: Option<BytesMut>,
    control: mpsc::Sender<Control>,
    writer: watch::Receiver<WriterState>,
    pulse: Arc<Pulse>,
    dead_after: Duration,
    end: CancellationToken,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    look: Pin<Box<Sleep>>,
    done: bool,
}

enum Step {
    Message(BytesMut),
    Goodbye,
    More,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(super) fn new(
        io: R,
        buffer: BytesMut,
        control: mpsc::Sender<Control>,
        writer: watch::Receiver<WriterState>,
        pulse: Arc<Pulse>,
        dead_after: Duration,
        end: CancellationToken,
    ) -> Self {
        let cancelled = Box::pin(end.clone().cancelled_owned());
        let look = Box::pin(tokio::time::sleep(LOOK));
        Self {
            io,
            buffer,
            parts: None,
            control,
            writer,
            pulse,
            dead_after,
            end,
            cancelled,
            look,
            done: false,
        }
    }

    /// Nothing comes any more, and the other half need not wait for it.
    pub(super) fn give_up(&mut self) {
        self.done = true;
        self.end.cancel();
    }

    /// The next message, Pings answered on the way. `None`: the pipe was closed in an orderly way, by either end.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<BytesMut>, PipeError>> {
        if self.done {
            return Poll::Ready(Ok(None));
        }
        let outcome = ready!(self.poll_message(cx));
        if !matches!(outcome, Ok(Some(_))) {
            self.done = true;
        }
        Poll::Ready(outcome)
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<BytesMut>, PipeError>> {
        loop {
            match frame::take(&mut self.buffer, MAX_FRAME) {
                Err(frame::Violation) => return Poll::Ready(Err(VIOLATION)),
                Ok(Some(incoming)) => match self.message(incoming)? {
                    Step::Message(message) => return Poll::Ready(Ok(Some(message))),
                    Step::Goodbye => return Poll::Ready(Ok(None)),
                    Step::More => continue,
                },
                Ok(None) => {}
            }
            if self.buffer.capacity() - self.buffer.len() < READ / 4 {
                self.buffer.reserve(READ);
            }
            match poll_read_buf(Pin::new(&mut self.io), cx, &mut self.buffer) {
                Poll::Ready(Ok(0)) => return Poll::Ready(self.cut("the connection ended without a goodbye")),
                Poll::Ready(Ok(_)) => self.pulse.heard(),
                Poll::Ready(Err(error)) => return Poll::Ready(self.cut(cause(&error))),
                Poll::Pending => return self.poll_silence(cx),
            }
        }
    }

    /// Nothing to read: is there a reason not to wait for it?
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<BytesMut>, PipeError>> {
        if self.cancelled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(self.cut("it was ended from outside"));
        }
        while self.look.as_mut().poll(cx).is_ready() {
            if self.pulse.unanswered().is_some_and(|since| since >= self.dead_after) {
                self.end.cancel();
                return Poll::Ready(Err(PipeError::Broken("nothing was heard for too long")));
            }
            self.look.as_mut().reset(Instant::now() + LOOK);
        }
        Poll::Pending
    }

    /// The stream ended. After this end's own goodbye that is as it should be.
    fn cut(&self, why: &'static str) -> Result<Option<BytesMut>, PipeError> {
        match *self.writer.borrow() {
            WriterState::Done => Ok(None),
            _ if self.end.is_cancelled() => Err(PipeError::Closed),
            _ => Err(PipeError::Broken(why)),
        }
    }

    fn message(&mut self, incoming: Incoming) -> Result<Step, PipeError> {
        let Incoming { opcode, last, payload } = incoming;
        match opcode {
            Opcode::Ping => {
                // The queue is short; where a Pong does not fit, enough of them are on their way.
                let _ = self.control.try_send(Control::Pong(Bytes::copy_from_slice(&payload)));
                Ok(Step::More)
            }
            Opcode::Pong => Ok(Step::More),
            Opcode::Close => {
                let _ = self.control.try_send(Control::Close);
                Ok(Step::Goodbye)
            }
            Opcode::Binary if self.parts.is_some() => Err(VIOLATION),
            Opcode::Binary if last => Ok(Step::Message(payload)),
            Opcode::Binary => {
                self.parts = Some(payload);
                Ok(Step::More)
            }
            Opcode::Continuation => {
                let parts = self.parts.as_mut().ok_or(VIOLATION)?;
                if parts.len() + payload.len() > MAX_FRAME {
                    return Err(VIOLATION);
                }
                parts.extend_from_slice(&payload);
                if !last {
                    return Ok(Step::More);
                }
                Ok(self.parts.take().map_or(Step::More, Step::Message))
            }
        }
    }
}

fn cause(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
            "the connection was cut"
        }
        _ => "the network failed",
    }
}
