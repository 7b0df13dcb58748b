//! A token bucket that takes the time as an argument.

use std::time::{Duration, Instant};

/// Allows `per_minute` things a minute and a burst of as many.
#[derive(Debug, Clone)]
pub(crate) struct TokenBucket {
    per_minute: f32,
    tokens: f32,
    filled: Instant,
}

impl TokenBucket {
    /// A full bucket.
    pub(crate) fn new(per_minute: u32, now: Instant) -> Self {
        let per_minute = per_minute as f32;
        Self { per_minute, tokens: per_minute, filled: now }
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
        self.tokens = (self.tokens + 1.0).min(self.per_minute);
    }

    /// Whether nothing would be lost if the bucket were forgotten.
    pub(crate) fn is_full(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.tokens >= self.per_minute
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.filled);
        // Single precision loses tiny steps, so time is let pass until a refill is worth something.
        if elapsed >= Duration::from_millis(10) {
            self.filled = now;
            let gained = elapsed.as_secs_f32() * self.per_minute / 60.0;
            self.tokens = (self.tokens + gained).min(self.per_minute);
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
