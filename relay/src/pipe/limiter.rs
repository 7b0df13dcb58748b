//! A bandwidth limit for one direction of a pipe.

use std::time::{Duration, Instant};

/// How much a direction may be ahead of its rate.
const BURST: Duration = Duration::from_millis(250);

/// Says how long to wait so that a direction keeps to its rate. The time is an argument.
///
/// It remembers one thing: until when the bytes that have passed are paid for. Waiting pays a debt and earns nothing,
/// and a direction at rest saves up no more than the burst.
#[derive(Debug)]
pub(super) struct Limiter {
    bytes_per_second: u64,
    paid_until: Instant,
}

impl Limiter {
    /// `None` where there is no limit.
    pub(super) fn new(bytes_per_second: u64, now: Instant) -> Option<Self> {
        (bytes_per_second > 0).then_some(Self { bytes_per_second, paid_until: now })
    }

    /// How many bytes to pass at a time, `most` at the most: about an eighth of a second's.
    pub(super) fn stride(&self, most: usize) -> usize {
        usize::try_from(self.bytes_per_second / 8).unwrap_or(most).clamp(1024, most)
    }

    /// Accounts for bytes that pass now, and says how long the next ones must wait.
    pub(super) fn pass(&mut self, now: Instant, bytes: u64) -> Duration {
        let cost = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        self.paid_until = self.paid_until.max(now) + cost;
        self.paid_until.saturating_duration_since(now).saturating_sub(BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes chunks for a while in virtual time, oversleeping by `late`, and gives bytes a second.
    fn rate(limit: u64, chunk: u64, seconds: u64, late: Duration) -> f64 {
        let start = Instant::now();
        let (mut now, mut passed) = (start, 0);
        let mut limiter = Limiter::new(limit, now).unwrap();
        while now < start + Duration::from_secs(seconds) {
            let wait = limiter.pass(now, chunk);
            passed += chunk;
            if wait > Duration::ZERO {
                now += wait + late;
            }
        }
        passed as f64 / (now - start).as_secs_f64()
    }

    #[test]
    fn fault_10_time_that_was_slept_is_not_credited() {
        for chunk in [100, 16_384, 1 << 20] {
            let rate = rate(1_000_000, chunk, 60, Duration::ZERO);
            assert!(rate <= 1_020_000.0, "{rate} with chunks of {chunk}");
            assert!(rate >= 980_000.0, "{rate} with chunks of {chunk}");
        }
    }

    #[test]
    fn oversleeping_earns_nothing() {
        let rate = rate(1_000_000, 100_000, 60, Duration::from_millis(50));
        assert!(rate <= 1_020_000.0, "{rate}");
    }

    #[test]
    fn a_rest_earns_the_burst_at_most() {
        let start = Instant::now();
        let mut limiter = Limiter::new(1000, start).unwrap();
        let later = start + Duration::from_secs(3600);
        assert_eq!(limiter.pass(later, 250), Duration::ZERO);
        assert!(limiter.pass(later, 250) > Duration::ZERO);
    }

    #[test]
    fn no_limit_is_no_limiter() {
        assert!(Limiter::new(0, Instant::now()).is_none());
    }
}
