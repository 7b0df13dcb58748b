//! Staying below the relay's quota of messages (relay-protocol §10; fault 19): the sender waits, the relay never has to
//! refuse.

use std::time::{Duration, Instant};

/// What the relay allows where it does not say: 60 a minute.
const RELAY_DEFAULT: u32 = 60;
/// Live messages, pipe signals among them, may use the last of the budget; stored ones leave so much for them.
const RESERVED_FOR_LIVE: f64 = 10.0;
/// The first pause after the relay complained all the same.
const PENALTY: Duration = Duration::from_secs(5);
const PENALTY_MAX: Duration = Duration::from_secs(60);

/// Whether a message can wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Live messages and pipe signals.
    Now,
    /// Stored messages.
    Later,
}

/// A token bucket a little smaller and a little slower than the relay's. A relay that does not say what it allows may count
/// otherwise than by a bucket: what leaves in any one minute then stays below the 60 that §10 names, with room for the few
/// frames that are no messages.
#[derive(Debug)]
pub(crate) struct Pacer {
    capacity: f64,
    per_second: f64,
    tokens: f64,
    at: Instant,
    /// Nothing leaves before.
    paused_until: Option<Instant>,
    penalty: Duration,
}

impl Pacer {
    /// For a relay that allows so many messages a minute (0: it did not say), with a fresh connection.
    pub(crate) fn new(now: Instant, relay_per_minute: u32) -> Self {
        let (allowed, burst, pace) = match relay_per_minute {
            0 => (f64::from(RELAY_DEFAULT), 25.0 / 60.0, 0.5),
            said => (f64::from(said), 5.0 / 6.0, 0.9),
        };
        let capacity = (allowed * burst).max(1.0);
        Self {
            capacity,
            per_second: (allowed * pace / 60.0).max(1.0 / 60.0),
            tokens: capacity,
            at: now,
            paused_until: None,
            penalty: PENALTY,
        }
    }

    fn refill(&mut self, now: Instant) {
        // Only what has passed is credited, and a clock that stands still credits nothing.
        let passed = now.saturating_duration_since(self.at);
        self.tokens = (self.tokens + passed.as_secs_f64() * self.per_second).min(self.capacity);
        self.at = self.at.max(now);
    }

    fn needed(&self, urgency: Urgency) -> f64 {
        match urgency {
            Urgency::Now => 1.0,
            // A relay with a tiny quota must still let stored messages through.
            Urgency::Later => 1.0 + RESERVED_FOR_LIVE.min(self.capacity / 5.0),
        }
    }

    /// When the next message of this urgency may leave; now, or later.
    pub(crate) fn next(&mut self, now: Instant, urgency: Urgency) -> Instant {
        self.refill(now);
        let missing = self.needed(urgency) - self.tokens;
        // Rounded up by a millisecond, so that waiting exactly so long is enough.
        let mut at = now;
        if missing > 0.0 {
            at += Duration::from_secs_f64(missing / self.per_second) + Duration::from_millis(1);
        }
        self.paused_until.map_or(at, |paused| at.max(paused))
    }

    /// Whether a message of this urgency may leave now.
    pub(crate) fn allows(&mut self, now: Instant, urgency: Urgency) -> bool {
        self.next(now, urgency) <= now
    }

    /// A message left.
    pub(crate) fn spend(&mut self, now: Instant) {
        self.refill(now);
        self.tokens -= 1.0;
    }

    /// The relay said `rate_limited` all the same: stop, and go on slowly.
    pub(crate) fn penalise(&mut self, now: Instant) {
        self.refill(now);
        self.tokens = self.tokens.min(0.0);
        self.paused_until = Some(now + self.penalty);
        self.penalty = (self.penalty * 2).min(PENALTY_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The relay's bucket as relay-server.md describes it.
    struct Relay {
        tokens: f64,
        at: Instant,
    }

    impl Relay {
        fn takes(&mut self, now: Instant) -> bool {
            self.tokens = (self.tokens + (now - self.at).as_secs_f64()).min(60.0);
            self.at = now;
            self.tokens -= 1.0;
            self.tokens >= 0.0
        }
    }

    #[test]
    fn fault_19_a_busy_sender_never_exceeds_the_relays_quota() {
        let start = Instant::now();
        let mut now = start;
        let mut pacer = Pacer::new(now, 60);
        let mut relay = Relay { tokens: 60.0, at: now };
        let mut sent = 0;
        while now - start < Duration::from_secs(600) {
            now = pacer.next(now, Urgency::Now);
            assert!(pacer.allows(now, Urgency::Now));
            pacer.spend(now);
            assert!(relay.takes(now), "message {sent} was one too many");
            sent += 1;
        }
        assert!(sent > 500, "only {sent} messages in ten minutes");
    }

    #[test]
    fn fault_19_a_relay_that_does_not_say_what_it_allows_gets_fewer_than_60_in_any_minute() {
        let start = Instant::now();
        let mut now = start;
        let mut pacer = Pacer::new(now, 0);
        let mut sent = std::collections::VecDeque::new();
        while now - start < Duration::from_secs(600) {
            // Busy for two minutes, idle for the third: the burst comes again.
            if (now - start).as_secs() % 180 >= 120 {
                now += Duration::from_secs(60);
            }
            now = pacer.next(now, Urgency::Now);
            pacer.spend(now);
            sent.push_back(now);
            sent.retain(|at| now - *at <= Duration::from_secs(60));
            assert!(sent.len() < 60, "{} messages in one minute", sent.len());
        }
    }

    #[test]
    fn fault_19_stored_messages_leave_room_for_opening_a_pipe() {
        let now = Instant::now();
        let mut pacer = Pacer::new(now, 60);
        while pacer.allows(now, Urgency::Later) {
            pacer.spend(now);
        }
        for _ in 0..10 {
            assert!(pacer.allows(now, Urgency::Now));
            pacer.spend(now);
        }
        assert!(!pacer.allows(now, Urgency::Now));
    }

    #[test]
    fn a_refusal_slows_down_and_pauses_grow() {
        let now = Instant::now();
        let mut pacer = Pacer::new(now, 60);
        pacer.penalise(now);
        assert_eq!(pacer.next(now, Urgency::Now), now + PENALTY);
        let later = now + PENALTY;
        pacer.penalise(later);
        assert_eq!(pacer.next(later, Urgency::Now), later + PENALTY * 2);
    }

    #[test]
    fn a_tiny_quota_still_lets_everything_through() {
        let now = Instant::now();
        let mut pacer = Pacer::new(now, 1);
        let at = pacer.next(now, Urgency::Later);
        assert!(at < now + Duration::from_secs(120), "stored messages would never leave");
    }
}
