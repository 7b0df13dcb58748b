//! How many connections one address may open before they authenticate (relay-protocol §10).
//!
//! The quota holds off floods of strangers. A connection that authenticates gives its place back, for a home and its
//! phones share one address and every pipe is two connections (relay-server "Details").

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::bucket::TokenBucket;
use crate::hub::lock;

/// How many addresses are remembered before those with a full quota are forgotten at once.
const MANY: usize = 50_000;

/// The quota of every address.
pub(crate) struct AddressQuota {
    per_minute: u32,
    buckets: Mutex<HashMap<IpAddr, TokenBucket>>,
}

/// A place that a connection has taken.
pub(crate) struct Place {
    quota: Arc<AddressQuota>,
    address: IpAddr,
}

impl AddressQuota {
    pub(crate) fn new(per_minute: u32) -> Arc<Self> {
        Arc::new(Self { per_minute, buckets: Mutex::default() })
    }

    /// Takes a place, if there is one.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr, now: Instant) -> Option<Place> {
        let address = network_of(address);
        let mut buckets = lock(&self.buckets);
        if buckets.len() >= MANY {
            buckets.retain(|_, bucket| !bucket.is_full(now));
        }
        let bucket = buckets.entry(address).or_insert_with(|| TokenBucket::new(self.per_minute, now));
        bucket.take(now).then(|| Place { quota: Arc::clone(self), address })
    }

    /// Forgets addresses that have their whole quota again.
    pub(crate) fn forget_idle(&self, now: Instant) {
        let mut buckets = lock(&self.buckets);
        buckets.retain(|_, bucket| !bucket.is_full(now));
        buckets.shrink_to_fit();
    }
}

impl Place {
    /// The connection has authenticated.
    pub(crate) fn give_back(self) {
        if let Some(bucket) = lock(&self.quota.buckets).get_mut(&self.address) {
            bucket.give_back();
        }
    }
}

/// What counts as one address: with IPv6 that is a /64, of which a single host has all.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn strangers_run_out_and_members_do_not() {
        let (quota, now) = (AddressQuota::new(30), Instant::now());
        let home: IpAddr = "203.0.113.1".parse().unwrap();
        assert_eq!((0..45).filter(|_| quota.enter(home, now).is_some()).count(), 30);
        let other: IpAddr = "203.0.113.2".parse().unwrap();
        for _ in 0..100 {
            quota.enter(other, now).unwrap().give_back();
        }
    }

    #[test]
    fn one_ipv6_host_cannot_use_its_whole_network() {
        let (quota, now) = (AddressQuota::new(2), Instant::now());
        let entered =
            (1..10).filter(|n| quota.enter(format!("2001:db8::{n}").parse().unwrap(), now).is_some());
        assert_eq!(entered.count(), 2);
        assert!(quota.enter("2001:db8:0:1::1".parse().unwrap(), now).is_some());
    }

    #[test]
    fn addresses_with_a_full_quota_are_forgotten() {
        let (quota, now) = (AddressQuota::new(30), Instant::now());
        quota.enter("203.0.113.1".parse().unwrap(), now).unwrap();
        quota.forget_idle(now);
        assert_eq!(lock(&quota.buckets).len(), 1);
        quota.forget_idle(now + Duration::from_secs(10));
        assert_eq!(lock(&quota.buckets).len(), 0);
    }
}
