//! Carries bytes between two sides that have met (pipe §3.2, streaming).
//!
//! Each direction is a task of its own with one buffer, so one that stands still does not hold up the other. Nothing
//! is queued: a side that does not read makes its partner wait, through the sockets alone.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use skald_relay_common::limits::PipeLimits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::limiter::Limiter;
use super::transfer::{End, Transfer};
use crate::hub::lock;
use crate::stream::Stream;
use crate::ws::header::Opcode;
use crate::ws::{self, CloseCode};

/// A direction begins with a small buffer, doubles it whenever a read fills it, and gives it back when it rests.
const SMALL: usize = 16 * 1024;
const LARGE: usize = 512 * 1024;
/// How long a direction must rest before it gives its buffer back.
const REST: Duration = Duration::from_secs(2);
/// How long the goodbye to a side may take.
const PART: Duration = Duration::from_secs(2);

/// Why a pipe ended, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A side ended it.
    Closed,
    /// A side broke the rules.
    Refused(End),
    /// Nothing passed for too long.
    Idle,
    /// The relay ended it.
    Stopped,
}

/// What both directions and their parent share.
struct Common {
    /// When anything last came from either side, in milliseconds since `start`.
    active: AtomicU64,
    start: tokio::time::Instant,
}

impl Common {
    fn mark(&self) {
        let since = self.start.elapsed().as_millis();
        self.active.store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn idle_until(&self, timeout: Duration) -> tokio::time::Instant {
        self.start + Duration::from_millis(self.active.load(Ordering::Relaxed)) + timeout
    }
}

/// Pongs that one side is owed. Whoever writes to that side sends them, between two frames.
#[derive(Default)]
struct Owed {
    pong: Mutex<Option<Vec<u8>>>,
    wake: Notify,
}

impl Owed {
    fn owe(&self, payload: Vec<u8>) {
        *lock(&self.pong) = Some(payload);
        self.wake.notify_one();
    }

    fn take(&self) -> Option<Bytes> {
        lock(&self.pong).take().map(|payload| ws::server_frame(Opcode::Pong, &payload))
    }
}

struct Direction {
    from: ReadHalf<Stream>,
    to: WriteHalf<Stream>,
    /// Read from `from` before the two met.
    early: Vec<u8>,
    transfer: Transfer,
    limiter: Option<Limiter>,
    common: Arc<Common>,
    /// What `from` is owed, sent by the opposite direction.
    owe: Arc<Owed>,
    /// What `to` is owed, sent by this direction.
    owed: Arc<Owed>,
    /// The bytes written so far end with a frame: a Pong or a goodbye may follow.
    at_boundary: bool,
}

/// How a direction ended, with the half on which the goodbye is said.
struct Finished {
    outcome: io::Result<Outcome>,
    to: WriteHalf<Stream>,
    at_boundary: bool,
}

/// Carries bytes both ways until a side ends it or `stop` completes, and says goodbye to both.
pub(super) async fn splice(
    first: (Stream, Vec<u8>),
    second: (Stream, Vec<u8>),
    limits: &PipeLimits,
    stop: impl Future<Output = ()>,
) -> Outcome {
    let common = Arc::new(Common { active: AtomicU64::new(0), start: tokio::time::Instant::now() });
    let (first_read, first_write) = tokio::io::split(first.0);
    let (second_read, second_write) = tokio::io::split(second.0);
    let (to_first, to_second) = (Arc::new(Owed::default()), Arc::new(Owed::default()));
    let direction = |from, to, early, owe: &Arc<Owed>, owed: &Arc<Owed>| Direction {
        from,
        to,
        early,
        transfer: Transfer::new(limits.max_frame_bytes.into()),
        limiter: Limiter::new(limits.max_bps, now()),
        common: Arc::clone(&common),
        owe: Arc::clone(owe),
        owed: Arc::clone(owed),
        at_boundary: true,
    };
    let halt = tokio_util::sync::CancellationToken::new();
    let mut tasks = JoinSet::new();
    for d in [
        direction(first_read, second_write, first.1, &to_first, &to_second),
        direction(second_read, first_write, second.1, &to_second, &to_first),
    ] {
        tasks.spawn(d.run(halt.clone()));
    }
    let idle = Duration::from_secs(limits.idle_timeout_secs.into());
    let mut halves = Vec::with_capacity(2);
    let mut outcome = None;
    tokio::pin!(stop);
    while outcome.is_none() {
        tokio::select! {
            done = tasks.join_next() => match done {
                Some(Ok(finished)) => {
                    outcome = Some(finished.outcome.unwrap_or(Outcome::Closed));
                    halves.push((finished.to, finished.at_boundary));
                }
                Some(Err(_)) | None => outcome = Some(Outcome::Closed),
            },
            () = tokio::time::sleep_until(common.idle_until(idle)) => {
                if common.idle_until(idle) <= tokio::time::Instant::now() {
                    outcome = Some(Outcome::Idle);
                }
            }
            () = &mut stop => outcome = Some(Outcome::Stopped),
        }
    }
    let outcome = outcome.unwrap_or(Outcome::Closed);
    // The other direction stops at once: what it has not carried belongs to a pipe that is over.
    halt.cancel();
    while let Some(done) = tasks.join_next().await {
        halves.extend(done.ok().map(|finished| (finished.to, finished.at_boundary)));
    }
    let (code, reason) = match outcome {
        Outcome::Closed => (CloseCode::Normal, ""),
        Outcome::Refused(End::TooLarge) => (CloseCode::TooBig, "payload_too_large"),
        Outcome::Refused(End::Broken | End::Close) => (CloseCode::Protocol, "bad_request"),
        Outcome::Idle => (CloseCode::Normal, "idle"),
        Outcome::Stopped => (CloseCode::GoingAway, "ended by the relay"),
    };
    let goodbye = ws::close(code, reason);
    let partings = halves.into_iter().map(|(mut half, at_boundary)| {
        let goodbye = goodbye.clone();
        async move {
            let part = async {
                // Inside a frame a goodbye would be taken for payload; there the end of the connection has to do.
                if at_boundary {
                    half.write_all(&goodbye).await?;
                }
                half.shutdown().await
            };
            let _ = tokio::time::timeout(PART, part).await;
        }
    });
    futures_util::future::join_all(partings).await;
    outcome
}

impl Direction {
    async fn run(mut self, halt: tokio_util::sync::CancellationToken) -> Finished {
        let outcome = tokio::select! {
            outcome = carry(&mut self) => outcome,
            () = halt.cancelled() => Ok(Outcome::Stopped),
        };
        Finished { outcome, to: self.to, at_boundary: self.at_boundary }
    }
}

async fn carry(d: &mut Direction) -> io::Result<Outcome> {
    let mut buf = std::mem::take(&mut d.early);
    let mut filled = buf.len();
    // A limited direction reads no more at a time than a fraction of a second carries, or it would sleep for long.
    let large = d.limiter.as_ref().map_or(LARGE, |limiter| limiter.stride(LARGE));
    let small = SMALL.min(large);
    loop {
        if filled > 0 {
            let pass = d.transfer.pass(&mut buf[..filled]);
            if let Some(payload) = pass.ping {
                d.owe.owe(payload);
            }
            if pass.ready > 0 {
                d.at_boundary = false;
                d.to.write_all(&buf[..pass.ready]).await?;
                d.to.flush().await?;
                d.at_boundary = !d.transfer.is_mid_frame();
                d.common.mark();
                if let Some(limiter) = &mut d.limiter {
                    let wait = limiter.pass(now(), pass.ready as u64);
                    if !wait.is_zero() {
                        tokio::time::sleep(wait).await;
                        d.common.mark();
                    }
                }
            }
            match pass.end {
                Some(End::Close) => return Ok(Outcome::Closed),
                Some(end) => return Ok(Outcome::Refused(end)),
                None => {}
            }
            buf.copy_within(pass.rest..filled, 0);
            filled -= pass.rest;
        }
        if buf.len() < small {
            buf.resize(small, 0);
        }
        let read = loop {
            tokio::select! {
                biased;
                read = d.from.read(&mut buf[filled..]) => break read?,
                () = d.owed.wake.notified(), if d.at_boundary => {
                    if let Some(pong) = d.owed.take() {
                        d.to.write_all(&pong).await?;
                        d.to.flush().await?;
                    }
                }
                () = tokio::time::sleep(REST), if buf.len() > small => {
                    buf.truncate(small.max(filled + 1));
                    buf.shrink_to_fit();
                }
            }
        };
        if read == 0 {
            return Ok(Outcome::Closed);
        }
        d.common.mark();
        filled += read;
        if filled == buf.len() && buf.len() < large {
            buf.resize(buf.len() * 2, 0);
        }
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
