//! The clock as an argument.
//!
//! What people see as a time of day (an item's `expires_at`, a link's ten minutes) follows the wall clock, whatever
//! it does: an item lapses when the wall clock says so, at the latest half a minute after a jump, and never comes back.
//! What is a pure duration (how long an elicitation's content is held, a plugin's back-off) follows the monotonic
//! clock, so that a jump neither drops nor keeps anything.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use tokio::sync::watch;

/// Wall time, monotonic time and waiting.
pub trait Clock: Send + Sync + 'static {
    /// Unix milliseconds by the wall clock.
    fn now_ms(&self) -> i64;
    /// Time since some fixed moment, never going back.
    fn monotonic(&self) -> Duration;
    /// Ready when [`Clock::monotonic`] has reached `moment`.
    fn sleep_until(&self, moment: Duration) -> BoxFuture<'static, ()>;
    /// Ready so long after this call (not after the first poll).
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.sleep_until(self.monotonic().saturating_add(duration))
    }
}

/// The system's clocks.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl SystemClock {
    /// The system's clocks.
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
    }
    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
    fn sleep_until(&self, moment: Duration) -> BoxFuture<'static, ()> {
        // Beyond what an `Instant` can hold is for ever.
        match self.0.checked_add(moment) {
            Some(at) => Box::pin(tokio::time::sleep_until(at.into())),
            None => Box::pin(std::future::pending()),
        }
    }
}

/// A clock that moves only when told to. For tests; cheap to clone, clones share the time.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<watch::Sender<Moment>>);

#[derive(Debug, Clone, Copy)]
struct Moment {
    wall: i64,
    mono: Duration,
}

impl ManualClock {
    /// Starts at this wall time.
    pub fn new(wall_ms: i64) -> Self {
        Self(Arc::new(watch::Sender::new(Moment { wall: wall_ms, mono: Duration::ZERO })))
    }
    /// Lets time pass on both clocks.
    pub fn advance(&self, by: Duration) {
        self.0.send_modify(|m| {
            m.wall += i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
            m.mono += by;
        });
    }
    /// Sets the wall clock alone, as a person or a time server does.
    pub fn set_wall(&self, wall_ms: i64) {
        self.0.send_modify(|m| m.wall = wall_ms);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.0.borrow().wall
    }
    fn monotonic(&self) -> Duration {
        self.0.borrow().mono
    }
    fn sleep_until(&self, moment: Duration) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        Box::pin(async move {
            // The sender lives in `clock`, so the wait ends by time alone.
            let _ = clock.0.subscribe().wait_for(|m| m.mono >= moment).await;
        })
    }
}
