//! When the next certificate is asked for.

use std::time::Duration;

use super::super::certificate::Facts;

/// How long after the first failure it is tried again, by how much longer after each further one, and at most.
/// Authorities allow a handful of failures an hour.
const FIRST_RETRY: Duration = Duration::from_secs(120);
const FACTOR: u32 = 3;
const LAST_RETRY: Duration = Duration::from_secs(3600);

/// Decides, without a clock of its own. Times are seconds since 1970.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    failures: u32,
    /// When it last failed, and how long the authority asked to be left alone then.
    failed: (i64, Duration),
}

impl Schedule {
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    pub(super) fn failed(&mut self, now: i64, asked: Option<Duration>) {
        self.failures = self.failures.saturating_add(1);
        self.failed = (now, asked.unwrap_or(Duration::ZERO));
    }

    /// How long to wait, seen from `now`. `luck` between 0 and 1 spreads relays that started together.
    pub(super) fn wait(&self, now: i64, kept: Option<&Facts>, luck: f64) -> Duration {
        let Some(failures) = self.failures.checked_sub(1) else {
            return kept.map_or(Duration::ZERO, |facts| until_renewal(now, facts, luck));
        };
        let (at, asked) = self.failed;
        let pause = FIRST_RETRY.saturating_mul(FACTOR.saturating_pow(failures.min(8))).min(LAST_RETRY);
        let pause = pause.mul_f64(0.8 + 0.4 * luck).max(asked);
        // A clock that was set back says nothing about how long ago that was.
        let passed = u64::try_from(now - at).map_or(Duration::MAX, Duration::from_secs);
        pause.saturating_sub(passed)
    }
}

/// A certificate is renewed once a third of its life is left, or up to a thirtieth of its life earlier.
fn until_renewal(now: i64, facts: &Facts, luck: f64) -> Duration {
    let life = (facts.not_after - facts.not_before).max(0);
    let early = (life as f64 / 30.0 * luck) as i64;
    let at = facts.not_before + life * 2 / 3 - early;
    Duration::from_secs(u64::try_from(at - now).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    #[test]
    fn a_certificate_is_renewed_when_a_third_of_its_life_is_left() {
        let facts = Facts { not_before: 0, not_after: 90 * DAY, names: Vec::new() };
        let schedule = Schedule::default();
        let wait = |now: i64, luck| schedule.wait(now, Some(&facts), luck).as_secs() as i64;
        assert_eq!(wait(0, 0.0), 60 * DAY);
        assert_eq!(wait(0, 1.0), 57 * DAY, "never later for being spread");
        assert_eq!(wait(59 * DAY, 0.0), DAY);
        assert_eq!(wait(61 * DAY, 0.0), 0);
        assert_eq!(wait(1000 * DAY, 0.5), 0);
        assert_eq!(schedule.wait(5, None, 0.5), Duration::ZERO, "without one it is asked for at once");
    }

    #[test]
    fn failures_are_retried_ever_later_but_within_the_hour_and_the_authority_may_ask_for_more() {
        let mut schedule = Schedule::default();
        let mut waits = Vec::new();
        for _ in 0..20 {
            schedule.failed(1000, None);
            waits.push(schedule.wait(1000, None, 0.5).as_secs());
        }
        assert_eq!(waits[..4], [120, 360, 1080, 3240]);
        assert!(waits[4..].iter().all(|&wait| wait == 3600), "{waits:?}");
        assert_eq!(schedule.wait(1600, None, 0.5).as_secs(), 3000, "time passes");
        assert_eq!(schedule.wait(9999, None, 0.5), Duration::ZERO);
        assert_eq!(schedule.wait(0, None, 0.5), Duration::ZERO, "the clock was set back");
        assert_eq!(schedule.wait(1000, None, 0.0).as_secs(), 2880);
        schedule.failed(1000, Some(Duration::from_secs(7200)));
        assert_eq!(schedule.wait(1000, None, 0.5).as_secs(), 7200);
        schedule.succeeded();
        assert_eq!(schedule.wait(1000, None, 0.5), Duration::ZERO);
    }
}
