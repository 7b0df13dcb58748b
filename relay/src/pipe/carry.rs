//! One direction of a pipe: reads from one side, turns what came, and writes it to the other.
//!
//! Bytes are read into a buffer that all directions of a thread share, turned there, and written from there in the same
//! breath, so that a direction whose receiver keeps up owns no memory at all. What the receiver does not take at once is
//! kept, and nothing more is read until it has left. How much may be read is agreed between the two directions, which
//! bounds what both can keep together.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;
use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::time::Sleep;

use super::limiter::Limiter;
use super::splice::Outcome;
use super::transfer::{End, Transfer};
use crate::hub::lock;
use crate::metrics::Counts;
use crate::metrics::names::{Direction as Way, Kind};
use crate::stream::{Reading, Writing};
use crate::ws;
use crate::ws::header::Opcode;

/// What a direction reads at once where it is alone: few calls into the kernel, and yet within a core's own cache.
pub(super) const ALONE: usize = 448 * 1024;
/// What it reads while the other direction flows as well.
const SHARED: usize = 224 * 1024;
/// What it may always read, whatever the other one keeps.
const LEAST: usize = 32 * 1024;

thread_local! {
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; ALONE].into_boxed_slice());
}

/// What both directions and their parent share.
pub(super) struct Common {
    /// When anything last passed, in milliseconds since `start`.
    active: AtomicU64,
    start: tokio::time::Instant,
    /// How many bytes both directions may have in hand.
    most: usize,
    /// How many they have.
    held: AtomicUsize,
    /// Bytes of every pipe of the relay, in and out.
    carried: [Counter; 2],
}

impl Common {
    pub(super) fn new(most: usize, counts: &Counts) -> Self {
        let carried = [Way::In, Way::Out].map(|way| counts.bytes.of(way, Kind::Pipe).clone());
        let start = tokio::time::Instant::now();
        Self { active: AtomicU64::new(0), start, most, held: AtomicUsize::new(0), carried }
    }

    fn mark(&self) {
        let since = self.start.elapsed().as_millis();
        self.active.store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn idle_until(&self, timeout: Duration) -> tokio::time::Instant {
        self.start + Duration::from_millis(self.active.load(Ordering::Relaxed)) + timeout
    }

    /// Allots up to `want` bytes.
    fn claim(&self, want: usize) -> usize {
        // Both may find the same free at the same moment; the exchange lets one of them ask again.
        let mut held = self.held.load(Ordering::Relaxed);
        loop {
            let allotted = self.most.saturating_sub(held).min(want).max(LEAST.min(want));
            match self.held.compare_exchange_weak(held, held + allotted, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return allotted,
                Err(now) => held = now,
            }
        }
    }

    fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What one side's two directions have to tell each other.
#[derive(Default)]
pub(super) struct Leg {
    /// The answer that the side is owed to its last ping. Whoever writes to the side sends it, between two frames.
    pong: Mutex<Option<Vec<u8>>>,
    wake: AtomicWaker,
    /// How often something was read from the side.
    reads: AtomicU32,
}

impl Leg {
    fn owe(&self, payload: Vec<u8>) {
        *lock(&self.pong) = Some(payload);
        self.wake.wake();
    }

    fn take(&self) -> Option<Vec<u8>> {
        lock(&self.pong).take().map(|payload| ws::server_frame(Opcode::Pong, &payload).into())
    }
}

/// One direction.
pub(super) struct Direction {
    from: Reading,
    to: Writing,
    transfer: Transfer,
    limiter: Option<Limiter>,
    common: Arc<Common>,
    /// The leg that is read, and the leg that is written.
    legs: [Arc<Leg>; 2],
    /// The other leg's reads when they were last looked at.
    seen: u32,
    /// Bytes that are turned and not yet taken by the receiver, which has taken so many of them.
    kept: Vec<u8>,
    taken: usize,
    /// Of the common allotment, so much is ours.
    allotted: usize,
    /// Read and not yet understood: an incomplete header or control frame.
    rest: Vec<u8>,
    /// What was written may still be in the stream's own buffer.
    unflushed: bool,
    /// How the pipe ends once what is kept has left.
    end: Option<Outcome>,
    /// The bandwidth limit says to wait.
    pause: Option<Pin<Box<Sleep>>>,
}

impl Direction {
    pub(super) fn new(
        (from, to): (Reading, Writing),
        early: Vec<u8>,
        transfer: Transfer,
        limiter: Option<Limiter>,
        common: &Arc<Common>,
        legs: [&Arc<Leg>; 2],
    ) -> Self {
        let mut direction = Self {
            from,
            to,
            transfer,
            limiter,
            common: Arc::clone(common),
            legs: legs.map(Arc::clone),
            seen: 0,
            kept: Vec::new(),
            taken: 0,
            allotted: 0,
            rest: Vec::new(),
            unflushed: false,
            end: None,
            pause: None,
        };
        direction.begin(early);
        direction
    }

    /// What was read before the two sides met is the first to leave.
    fn begin(&mut self, mut early: Vec<u8>) {
        let (ready, rest) = self.turn(&mut early);
        self.rest = early.split_off(rest);
        early.truncate(ready);
        self.kept = early;
        self.pay(ready);
    }

    /// Carries until the pipe ends. Dropping the call half-way keeps everything that was read.
    pub(super) async fn carry(&mut self) -> io::Result<Outcome> {
        std::future::poll_fn(|cx| self.poll_carry(cx)).await
    }

    /// The half to say goodbye on, if it can be said: inside a frame it would be taken for payload.
    pub(super) fn into_writing(self) -> (Writing, bool) {
        let at_boundary = self.is_at_boundary();
        (self.to, at_boundary)
    }

    /// Whether what was written so far ends with a frame, so that something of our own may follow.
    fn is_at_boundary(&self) -> bool {
        self.kept.is_empty() && !self.transfer.is_mid_frame()
    }

    fn poll_carry(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Outcome>> {
        loop {
            ready!(self.poll_leave(cx))?;
            if let Some(outcome) = self.end {
                return Poll::Ready(Ok(outcome));
            }
            if self.is_at_boundary() {
                self.legs[1].wake.register(cx.waker());
                if let Some(pong) = self.legs[1].take() {
                    self.kept = pong;
                    continue;
                }
            }
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
                self.common.mark();
            }
            if !ready!(BUFFER.with_borrow_mut(|buffer| self.poll_pass(cx, buffer)))? {
                return Poll::Ready(Ok(Outcome::Closed));
            }
        }
    }

    /// Writes what was kept.
    fn poll_leave(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.kept.is_empty() {
            while self.taken < self.kept.len() {
                let written = ready!(Pin::new(&mut self.to).poll_write(cx, &self.kept[self.taken..]))?;
                self.wrote(written)?;
                self.taken += written;
            }
            self.kept = Vec::new();
            self.taken = 0;
            self.give_back(0);
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.to).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once into `buffer` and writes what that gave, as far as it goes. `false` at the end of the stream.
    fn poll_pass(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<bool>> {
        let before = self.rest.len();
        buffer[..before].copy_from_slice(&self.rest);
        let appetite = self.appetite();
        self.allotted = self.common.claim(appetite);
        let mut free = ReadBuf::new(&mut buffer[before..before.max(self.allotted)]);
        let outcome = match Pin::new(&mut self.from).poll_read(cx, &mut free) {
            Poll::Ready(Ok(())) => match free.filled().len() {
                0 => Poll::Ready(Ok(false)),
                read => Poll::Ready(self.pass(cx, &mut buffer[..before + read]).map(|()| true)),
            },
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        };
        self.give_back(self.kept.len());
        outcome
    }

    /// Turns what came and writes it.
    fn pass(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> io::Result<()> {
        self.common.mark();
        self.legs[0].reads.fetch_add(1, Ordering::Relaxed);
        let (ready, rest) = self.turn(buffer);
        self.common.carried.iter().for_each(|bytes| _ = bytes.inc_by(ready as u64));
        self.rest.clear();
        self.rest.extend_from_slice(&buffer[rest..]);
        self.pay(ready);
        self.write_on(cx, &buffer[..ready])
    }

    /// Writes as much as goes at once and keeps the rest.
    fn write_on(&mut self, cx: &mut Context<'_>, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match Pin::new(&mut self.to).poll_write(cx, bytes) {
                Poll::Ready(written) => {
                    let written = written?;
                    self.wrote(written)?;
                    bytes = &bytes[written..];
                }
                Poll::Pending => {
                    self.kept = bytes.to_vec();
                    break;
                }
            }
        }
        Ok(())
    }

    /// Turns what came, and gives how much of it is ready and where the rest begins.
    fn turn(&mut self, buf: &mut [u8]) -> (usize, usize) {
        let pass = self.transfer.pass(buf);
        if let Some(payload) = pass.ping {
            self.legs[0].owe(payload);
        }
        self.end = pass.end.map(|end| match end {
            End::Close => Outcome::Closed,
            end => Outcome::Refused(end),
        });
        (pass.ready, pass.rest)
    }

    fn wrote(&mut self, bytes: usize) -> io::Result<()> {
        if bytes == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.unflushed = true;
        self.common.mark();
        Ok(())
    }

    /// Keeps so much of the allotment.
    fn give_back(&mut self, keep: usize) {
        self.common.release(self.allotted.saturating_sub(keep));
        self.allotted = self.allotted.min(keep);
    }

    /// How much to read at once.
    fn appetite(&mut self) -> usize {
        let reads = self.legs[1].reads.load(Ordering::Relaxed);
        let alone = reads == self.seen;
        self.seen = reads;
        let most = if alone { ALONE } else { SHARED }.min(self.common.most);
        // A limited direction reads no more than a fraction of a second carries, or it would pause for long.
        self.limiter.as_ref().map_or(most, |limiter| limiter.stride(most))
    }

    /// Accounts for bytes that pass under the bandwidth limit.
    fn pay(&mut self, bytes: usize) {
        if let Some(limiter) = &mut self.limiter
            && bytes > 0
        {
            let wait = limiter.pass(now(), bytes as u64);
            self.pause = (!wait.is_zero()).then(|| Box::pin(tokio::time::sleep(wait)));
        }
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
