//! Slows down guessing: failed sign-ins are counted by address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Failures that one address may have within [`WINDOW`].
const FAILURES: u32 = 10;
/// How long failures count.
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses remembered at once. When the table is full the one that has waited longest is forgotten: tokens of 256
/// bits do not depend on this table, it only keeps noise away.
const ADDRESSES: usize = 1024;

/// Failed sign-ins by address.
#[derive(Default)]
pub(crate) struct Throttle(Mutex<HashMap<IpAddr, (Instant, u32)>>);

impl Throttle {
    /// Whether this address may try; otherwise the seconds it has to wait.
    pub(crate) fn check(&self, from: IpAddr) -> Result<(), u64> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match table.get(&from) {
            Some((since, failures)) if *failures >= FAILURES && since.elapsed() < WINDOW => {
                Err((WINDOW - since.elapsed()).as_secs().max(1))
            }
            _ => Ok(()),
        }
    }

    /// Counts a failure.
    pub(crate) fn failed(&self, from: IpAddr) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if table.len() >= ADDRESSES && !table.contains_key(&from) {
            table.retain(|_, (since, _)| since.elapsed() < WINDOW);
            if table.len() >= ADDRESSES
                && let Some(oldest) = table.iter().min_by_key(|(_, (since, _))| *since).map(|(ip, _)| *ip)
            {
                table.remove(&oldest);
            }
        }
        let entry = table.entry(from).or_insert_with(|| (Instant::now(), 0));
        if entry.0.elapsed() >= WINDOW {
            *entry = (Instant::now(), 0);
        }
        entry.1 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_eleventh_failure_within_a_minute_waits_and_the_next_minute_is_free() {
        let throttle = Throttle::default();
        let ip: IpAddr = [127, 0, 0, 1].into();
        for _ in 0..FAILURES {
            assert_eq!(throttle.check(ip), Ok(()));
            throttle.failed(ip);
        }
        assert!(throttle.check(ip).is_err());
        assert_eq!(throttle.check([127, 0, 0, 2].into()), Ok(()), "another address is not held up");
        tokio::time::advance(WINDOW).await;
        assert_eq!(throttle.check(ip), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_of_addresses_is_bounded() {
        let throttle = Throttle::default();
        for n in 0..3000u32 {
            throttle.failed(std::net::Ipv4Addr::from(n).into());
        }
        let table = throttle.0.lock().unwrap();
        assert_eq!(table.len(), ADDRESSES);
        assert!(table.contains_key(&IpAddr::from(std::net::Ipv4Addr::from(2999))));
    }
}
