//! Whether a transfer that broke is taken up again, and when.

use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(500);
const MOST: Duration = Duration::from_secs(20);

/// Decides by what has moved: a transfer that gets on is never given up, one that does not is given up after a while.
/// Knows no clock; whoever asks says what time it is.
#[derive(Debug)]
pub struct Retry {
    patience: Duration,
    pause: Duration,
    stuck_since: Option<Instant>,
}

impl Retry {
    /// Gives up after `patience` without any movement.
    pub fn new(patience: Duration) -> Self {
        Self { patience, pause: FIRST, stuck_since: None }
    }

    /// Something moved.
    pub fn moved(&mut self) {
        self.stuck_since = None;
        self.pause = FIRST;
    }

    /// The stream broke or did not open. Gives the pause before the next try; `None`: it is given up.
    pub fn broke(&mut self, now: Instant) -> Option<Duration> {
        let since = *self.stuck_since.get_or_insert(now);
        let left =
            self.patience.checked_sub(now.saturating_duration_since(since)).filter(|l| !l.is_zero())?;
        let pause = self.pause.min(left);
        self.pause = (self.pause * 2).min(MOST);
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_with_the_patience() {
        let mut now = Instant::now();
        let begun = now;
        let mut retry = Retry::new(Duration::from_secs(60));
        let mut pauses = Vec::new();
        while let Some(pause) = retry.broke(now) {
            pauses.push(pause);
            now += pause;
        }
        assert_eq!(now - begun, Duration::from_secs(60));
        assert!(pauses[..5].windows(2).all(|p| p[0] < p[1]) && pauses.iter().all(|p| *p <= MOST));
    }

    #[test]
    fn what_gets_on_is_never_given_up() {
        let mut now = Instant::now();
        let mut retry = Retry::new(Duration::from_secs(5));
        for _ in 0..100 {
            assert_eq!(retry.broke(now), Some(FIRST));
            now += Duration::from_secs(60);
            retry.moved();
        }
        assert!(retry.broke(now).is_some());
        assert_eq!(retry.broke(now + Duration::from_secs(5)), None);
    }
}
