//! How much a relay and a token may, with the time as an argument.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ring::hmac;
use serde::{Deserialize, Serialize};

/// What one device's token may. A relay sends one push for several messages, so a token that gets more than this is
/// being flooded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenLimits {
    /// Pushes a minute in the long run.
    pub per_minute: u32,
    /// Pushes at once.
    pub burst: u32,
    /// Tokens that are remembered at a time. Beyond it the limits of tokens start anew; those of relays hold.
    pub remembered: u32,
}

impl Default for TokenLimits {
    fn default() -> Self {
        Self { per_minute: 30, burst: 30, remembered: 200_000 }
    }
}

/// A rate with a burst, as one moment: when everything that was allowed so far will have been paid for (GCRA).
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    interval: Duration,
    ahead: Duration,
}

impl Rate {
    pub(super) fn new(per_minute: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(60) / per_minute.max(1);
        Self { interval, ahead: interval * (burst.max(1) - 1) }
    }

    /// Takes one from `paid`, or says how long it will be until there is one.
    pub(super) fn take(self, paid: &mut Instant, now: Instant) -> Result<(), Duration> {
        let from = (*paid).max(now);
        let wait = from.saturating_duration_since(now + self.ahead);
        if wait.is_zero() {
            *paid = from + self.interval;
            Ok(())
        } else {
            Err(wait)
        }
    }
}

/// The tokens of late, by a hash with a key that nobody has.
pub(super) struct Tokens {
    key: hmac::Key,
    rate: Rate,
    remembered: usize,
    paid: HashMap<[u8; 16], Instant>,
}

impl Tokens {
    pub(super) fn new(limits: &TokenLimits, secret: &[u8; 32]) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
            rate: Rate::new(limits.per_minute, limits.burst),
            remembered: limits.remembered.max(1) as usize,
            paid: HashMap::new(),
        }
    }

    pub(super) fn take(&mut self, token: &str, now: Instant) -> Result<(), Duration> {
        if self.paid.len() >= self.remembered {
            self.forget_idle(now);
        }
        if self.paid.len() >= self.remembered {
            self.paid.clear();
        }
        let tag = hmac::sign(&self.key, token.as_bytes());
        let mut name = [0; 16];
        name.copy_from_slice(&tag.as_ref()[..16]);
        self.rate.take(self.paid.entry(name).or_insert(now), now)
    }

    /// Forgets tokens that have their whole allowance again.
    pub(super) fn forget_idle(&mut self, now: Instant) {
        self.paid.retain(|_, paid| *paid > now);
    }

    pub(super) fn len(&self) -> usize {
        self.paid.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(remembered: u32) -> Tokens {
        Tokens::new(&TokenLimits { per_minute: 6, burst: 3, remembered }, &[7; 32])
    }

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let (mut tokens, start) = (tokens(10), Instant::now());
        for _ in 0..3 {
            assert_eq!(tokens.take("a", start), Ok(()));
        }
        assert_eq!(tokens.take("a", start), Err(Duration::from_secs(10)));
        let later = start + Duration::from_secs(4);
        assert_eq!(tokens.take("a", later), Err(Duration::from_secs(6)), "a refusal costs nothing");
        assert_eq!(tokens.take("b", later), Ok(()), "another token is not affected");
        assert_eq!(tokens.take("a", start + Duration::from_secs(10)), Ok(()));
        let minute =
            (0..600).filter(|n| tokens.take("c", start + Duration::from_millis(n * 100)).is_ok()).count();
        assert_eq!(minute, 3 + 5);
    }

    #[test]
    fn no_more_tokens_are_remembered_than_allowed() {
        let (mut tokens, start) = (tokens(100), Instant::now());
        for n in 0..1000 {
            tokens.take(&n.to_string(), start).unwrap();
            assert!(tokens.len() <= 100);
        }
        tokens.forget_idle(start + Duration::from_secs(11));
        assert_eq!(tokens.len(), 0);
    }
}
