//! The writing half of a pipe's socket: one task, fed by the sender and, past any backpressure, by the reader.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::frame::{self, Opcode};
use crate::util;

/// What the sender queues, in order.
pub(super) enum Data {
    Frame(Frame),
    /// The sealed mark that this direction ends; nothing but the goodbye comes after it.
    End(Frame),
    /// Nothing comes after it: say goodbye once everything before is written.
    Goodbye,
}

/// A sealed, masked frame, and the budget it holds until it is written.
pub(super) struct Frame {
    pub(super) bytes: Bytes,
    pub(super) _budget: OwnedSemaphorePermit,
}

/// Whether the relay answers: a Ping that was written and since when nothing was heard.
pub(super) struct Pulse {
    started: Instant,
    /// Milliseconds since `started`, 0 for none.
    asked: AtomicU64,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), asked: AtomicU64::new(0) }
    }

    fn asked(&self) {
        let now = self.started.elapsed().as_millis() as u64;
        // The oldest unanswered one counts.
        let _ = self.asked.compare_exchange(0, now.max(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn heard(&self) {
        self.asked.store(0, Ordering::Relaxed);
    }

    pub(super) fn unanswered(&self) -> Option<Duration> {
        match self.asked.load(Ordering::Relaxed) {
            0 => None,
            at => Some(self.started.elapsed().saturating_sub(Duration::from_millis(at))),
        }
    }
}

/// What must leave whatever waits.
pub(super) enum Control {
    Pong(Bytes),
    /// The other side said goodbye; say it back.
    Close,
}

/// How a writer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriterState {
    Running,
    /// Everything was written, and the mark of its end; the other direction may go on.
    Ended,
    /// Everything was written, and the goodbye.
    Done,
    /// The socket takes nothing any more.
    Broken,
}

/// Frames gathered into one write; beyond, they are written first.
const GATHER: usize = 64;
const GATHER_BYTES: usize = 512 * 1_024;
/// Silence from this side after which it pings, so that a path that broke is noticed at both ends.
const PING_AFTER: Duration = Duration::from_secs(25);

/// A peer that does not read holds its sender up, and may; a socket that takes nothing for so long is dead.
const STALLED_AFTER: Duration = Duration::from_secs(300);

/// Writes until its queues are gone, then says goodbye.
pub(super) async fn run<W: AsyncWrite + Unpin>(
    io: W,
    data: mpsc::UnboundedReceiver<Data>,
    control: mpsc::Receiver<Control>,
    pulse: Arc<Pulse>,
    peer_ended: CancellationToken,
    end: CancellationToken,
    state: watch::Sender<WriterState>,
) {
    let mut writer = Writer { io, gathered: VecDeque::new(), pulse };
    let outcome = tokio::select! {
        // Revoked, or shut down: at once.
        () = end.cancelled() => Err(Stalled),
        outcome = writer.pump(data, control, peer_ended, &state) => outcome,
    };
    let state_now = if outcome.is_ok() { WriterState::Done } else { WriterState::Broken };
    state.send_replace(state_now);
    if outcome.is_err() {
        // The reader, which may wait for bytes that will never come, hears of it.
        end.cancel();
    }
    let _ = timeout(Duration::from_secs(1), writer.io.shutdown()).await;
}

struct Stalled;

/// What ends a stream.
enum Last {
    End,
    Goodbye,
}

struct Writer<W> {
    io: W,
    gathered: VecDeque<Frame>,
    pulse: Arc<Pulse>,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    async fn pump(
        &mut self,
        mut data: mpsc::UnboundedReceiver<Data>,
        mut control: mpsc::Receiver<Control>,
        peer_ended: CancellationToken,
        state: &watch::Sender<WriterState>,
    ) -> Result<(), Stalled> {
        let (mut data_open, mut control_open) = (true, true);
        let mut ended = false;
        let mut ping_at = Instant::now() + PING_AFTER;
        while data_open || control_open {
            tokio::select! {
                biased;
                urgent = control.recv(), if control_open => match urgent {
                    Some(Control::Pong(payload)) => self.say(Opcode::Pong, &payload).await?,
                    Some(Control::Close) => return self.goodbye().await,
                    None => control_open = false,
                },
                first = data.recv(), if data_open => match first {
                    Some(first) => {
                        let last = self.gather(first, &mut data);
                        self.write_gathered(&mut control, last.is_some() || data.is_empty()).await?;
                        match last {
                            Some(Last::Goodbye) => return self.goodbye().await,
                            Some(Last::End) => {
                                ended = true;
                                state.send_replace(WriterState::Ended);
                            }
                            None => {}
                        }
                        ping_at = Instant::now() + PING_AFTER;
                    }
                    None => data_open = false,
                },
                // Both directions have ended: there is nothing to keep the connection for.
                () = peer_ended.cancelled(), if ended => return self.goodbye().await,
                () = tokio::time::sleep_until(ping_at) => {
                    self.say(Opcode::Ping, b"").await?;
                    self.pulse.asked();
                    ping_at = Instant::now() + PING_AFTER;
                }
            }
        }
        self.goodbye().await
    }

    /// Takes what waits already, for one write, up to what ends the stream.
    fn gather(&mut self, first: Data, data: &mut mpsc::UnboundedReceiver<Data>) -> Option<Last> {
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(taken) = next {
            match taken {
                Data::Goodbye => return Some(Last::Goodbye),
                Data::End(mark) => {
                    self.gathered.push_back(mark);
                    return Some(Last::End);
                }
                Data::Frame(frame) => {
                    bytes += frame.bytes.len();
                    self.gathered.push_back(frame);
                }
            }
            let room = self.gathered.len() < GATHER && bytes < GATHER_BYTES;
            next = if room { data.try_recv().ok() } else { None };
        }
        None
    }

    /// Writes what was gathered. Between two frames a waiting Pong goes first: a stalled stream must not make the relay
    /// think that this side is gone.
    async fn write_gathered(
        &mut self,
        control: &mut mpsc::Receiver<Control>,
        flush: bool,
    ) -> Result<(), Stalled> {
        while !self.gathered.is_empty() {
            if let Ok(Control::Pong(payload)) = control.try_recv() {
                self.say(Opcode::Pong, &payload).await?;
            }
            self.write_some().await?;
        }
        if flush { self.io_timeout_flush().await } else { Ok(()) }
    }

    /// Writes until the front frame is whole, so that something else may go between.
    async fn write_some(&mut self) -> Result<(), Stalled> {
        loop {
            let slices: Vec<IoSlice<'_>> = self.gathered.iter().map(|f| IoSlice::new(&f.bytes)).collect();
            let write = self.io.write_vectored(&slices);
            let mut written = match timeout(STALLED_AFTER, write).await {
                Ok(Ok(n)) if n > 0 => n,
                _ => return Err(Stalled),
            };
            while let Some(front) = self.gathered.front_mut() {
                if written < front.bytes.len() {
                    front.bytes.advance(written);
                    break;
                }
                written -= front.bytes.len();
                // Its budget is free again only now.
                self.gathered.pop_front();
            }
            // Done, or exactly between two frames.
            if written == 0 {
                return Ok(());
            }
        }
    }

    async fn io_timeout_flush(&mut self) -> Result<(), Stalled> {
        match timeout(STALLED_AFTER, self.io.flush()).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Stalled),
        }
    }

    async fn say(&mut self, opcode: Opcode, payload: &[u8]) -> Result<(), Stalled> {
        // The mask hides nothing here (RFC 6455 §10.3 is about proxies and scripts); without randomness it is zero.
        let frame = frame::control(opcode, payload, util::random().unwrap_or_default());
        match timeout(STALLED_AFTER, self.io.write_all(&frame)).await {
            Ok(Ok(())) => self.io_timeout_flush().await,
            _ => Err(Stalled),
        }
    }

    async fn goodbye(&mut self) -> Result<(), Stalled> {
        self.say(Opcode::Close, &1_000u16.to_be_bytes()).await
    }
}
