//! Carries bytes between two sides that have met (pipe §3.2, streaming).
//!
//! Each direction is a task of its own ([`Direction`]), so one that stands still does not hold up the other. Nothing is
//! queued: a side that does not read makes its partner wait, through the sockets alone.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use skald_relay_common::limits::PipeLimits;
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::carry::{Common, Direction, Leg};
use super::limiter::Limiter;
use super::transfer::{End, Transfer};
use crate::metrics::Counts;
use crate::stream::{Stream, Writing};
use crate::ws::{self, CloseCode};

/// What both directions may have in hand together.
const PLAIN: usize = 480 * 1024;
/// The same where a leg is encrypted, for TLS has buffers of its own.
const ENCRYPTED: usize = 288 * 1024;
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

/// How a direction ended, with the half on which the goodbye is said, if it can be said there.
struct Finished {
    outcome: io::Result<Outcome>,
    to: Writing,
    at_boundary: bool,
}

/// Carries bytes both ways until a side ends it or `stop` completes, and says goodbye to both.
pub(super) async fn splice(
    first: (Stream, Vec<u8>),
    second: (Stream, Vec<u8>),
    limits: &PipeLimits,
    counts: &Counts,
    stop: impl Future<Output = ()>,
) -> Outcome {
    let encrypted = first.0.is_tls() || second.0.is_tls();
    let common = Arc::new(Common::new(if encrypted { ENCRYPTED } else { PLAIN }, counts));
    let (first_leg, second_leg) = (Arc::new(Leg::default()), Arc::new(Leg::default()));
    let ((first_in, first_out), (second_in, second_out)) = (first.0.split(), second.0.split());
    let direction = |halves, early, legs| {
        let limiter = Limiter::new(limits.max_bps, tokio::time::Instant::now().into_std());
        Direction::new(halves, early, Transfer::new(limits.max_frame_bytes.into()), limiter, &common, legs)
    };
    let halt = CancellationToken::new();
    let mut tasks = JoinSet::new();
    for direction in [
        direction((first_in, second_out), first.1, [&first_leg, &second_leg]),
        direction((second_in, first_out), second.1, [&second_leg, &first_leg]),
    ] {
        tasks.spawn(run(direction, halt.clone()));
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

async fn run(mut direction: Direction, halt: CancellationToken) -> Finished {
    let outcome = tokio::select! {
        outcome = direction.carry() => outcome,
        () = halt.cancelled() => Ok(Outcome::Stopped),
    };
    let (to, at_boundary) = direction.into_writing();
    Finished { outcome, to, at_boundary }
}
