//! How often one address may come without a valid key.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Instant;

use crate::bucket::TokenBucket;
use crate::hub::lock;
use crate::quota::network_of;

/// How many addresses are remembered; beyond it all of them start anew.
const MANY: usize = 50_000;

/// The allowance of every address.
pub(super) struct Strangers {
    per_minute: u32,
    buckets: Mutex<HashMap<IpAddr, TokenBucket>>,
}

impl Strangers {
    pub(super) fn new(per_minute: u32) -> Self {
        Self { per_minute, buckets: Mutex::default() }
    }

    /// Takes one from an address, if there is one left.
    pub(super) fn enter(&self, address: IpAddr, now: Instant) -> bool {
        let mut buckets = lock(&self.buckets);
        if buckets.len() >= MANY {
            buckets.retain(|_, bucket| !bucket.is_full(now));
        }
        if buckets.len() >= MANY {
            buckets.clear();
        }
        buckets.entry(network_of(address)).or_insert_with(|| TokenBucket::new(self.per_minute, now)).take(now)
    }

    /// The caller has shown a key and is no stranger.
    pub(super) fn give_back(&self, address: IpAddr) {
        if let Some(bucket) = lock(&self.buckets).get_mut(&network_of(address)) {
            bucket.give_back();
        }
    }

    /// Forgets addresses that have their whole allowance again.
    pub(super) fn forget_idle(&self, now: Instant) {
        lock(&self.buckets).retain(|_, bucket| !bucket.is_full(now));
    }
}
