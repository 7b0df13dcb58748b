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
    end: CancellationToken,
    state: watch::Sender<WriterState>,
) {
    let mut writer = Writer { io, gathered: VecDeque::new(), pulse };
    let outcome = tokio::select! {
        // Revoked, or shut down: at once.
        () = end.cancelled() => Err(Stalled),
        outcome = writer.pump(data, control) => outcome,
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
    ) -> Result<(), Stalled> {
        let (mut data_open, mut control_open) = (true, true);
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
                    Some(Data::Goodbye) => return self.goodbye().await,
                    Some(Data::Frame(first)) => {
                        let goodbye = self.gather(first, &mut data);
                        self.write_gathered(&mut control, goodbye || data.is_empty()).await?;
                        if goodbye {
                            return self.goodbye().await;
                        }
                        ping_at = Instant::now() + PING_AFTER;
                    }
                    None => data_open = false,
                },
                () = tokio::time::sleep_until(ping_at) => {
                    self.say(Opcode::Ping, b"").await?;
                    self.pulse.asked();
                    ping_at = Instant::now() + PING_AFTER;
                }
            }
        }
        self.goodbye().await
    }

    /// Takes what waits already, for one write. Whether a goodbye was among it.
    fn gather(&mut self, first: Frame, data: &mut mpsc::UnboundedReceiver<Data>) -> bool {
        let mut bytes = first.bytes.len();
        self.gathered.push_back(first);
        while self.gathered.len() < GATHER && bytes < GATHER_BYTES {
            match data.try_recv() {
                Ok(Data::Frame(more)) => {
                    bytes += more.bytes.len();
                    self.gathered.push_back(more);
                }
                Ok(Data::Goodbye) => return true,
                Err(_) => break,
            }
        }
        false
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
