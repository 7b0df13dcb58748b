//! A token bucket that takes the time as an argument.

use std::time::{Duration, Instant};

/// Allows so many things in a period and a burst of as many.
#[derive(Debug, Clone)]
pub(crate) struct TokenBucket {
    most: f32,
    per_second: f32,
    tokens: f32,
    filled: Instant,
}

impl TokenBucket {
    /// A full bucket of so many a minute.
    pub(crate) fn new(per_minute: u32, now: Instant) -> Self {
        Self::every(Duration::from_secs(60), per_minute, now)
    }

    /// A full bucket of so many in each period.
    pub(crate) fn every(period: Duration, most: u32, now: Instant) -> Self {
        let most = most as f32;
        Self { most, per_second: most / period.as_secs_f32(), tokens: most, filled: now }
    }

    /// Takes one token, if there is one.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        self.refill(now);
        let allowed = self.tokens >= 1.0;
        if allowed {
            self.tokens -= 1.0;
        }
        allowed
    }

    /// Puts a token back that turned out not to be owed.
    pub(crate) fn give_back(&mut self) {
        self.tokens = (self.tokens + 1.0).min(self.most);
    }

    /// Whether nothing would be lost if the bucket were forgotten.
    pub(crate) fn is_full(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.tokens >= self.most
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.filled);
        // Single precision loses tiny steps, so time is let pass until a refill is worth something.
        if elapsed >= Duration::from_millis(10) {
            self.filled = now;
            let gained = elapsed.as_secs_f32() * self.per_second;
            self.tokens = (self.tokens + gained).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_one_a_second() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(60, start);
        assert_eq!((0..100).filter(|_| bucket.take(start)).count(), 60);
        assert!(!bucket.take(start + Duration::from_millis(900)));
        assert!(bucket.take(start + Duration::from_millis(1_010)));
        assert!(!bucket.take(start + Duration::from_millis(1_020)));
    }

    #[test]
    fn a_long_rest_fills_it_to_the_burst_and_no_further() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(30, start);
        assert!(bucket.take(start));
        assert!(!bucket.is_full(start));
        bucket.give_back();
        assert!(bucket.is_full(start));
        let later = start + Duration::from_secs(3600);
        assert_eq!((0..100).filter(|_| bucket.take(later)).count(), 30);
    }
}
