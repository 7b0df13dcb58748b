//! How many connections there may be, and how many of strangers (relay-protocol §10).
//!
//! A connection counts as a stranger's until it authenticates. Strangers are held off by number: so many in all, so
//! many at a time and so many a minute of one address. One that authenticates gives its place back, for a home and its
//! phones share one address and every pipe is two connections (relay-server "Details").
//!
//! An address over its quota is told so, with 429, as long as that costs little. One that goes on all the same has its
//! connections closed unanswered, before TLS and before a task is made for them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use skald_relay_common::limits::Limits;

use crate::bucket::TokenBucket;
use crate::hub::lock;
use crate::metrics::Counts;
use crate::metrics::labels::Held;
use crate::metrics::names::{Limit, Role};

/// How many addresses are remembered before those that owe nothing are forgotten at once.
const MANY: usize = 50_000;
/// How many refusals an address is told of a minute, for each connection that it may open.
const TOLD: u32 = 4;
const HOUR: Duration = Duration::from_secs(3600);

/// What stands before every connection.
pub(crate) struct Gate {
    max_connections: u32,
    max_unauthenticated: u32,
    unauthenticated_per_ip: u32,
    per_minute: u32,
    namespaces_per_hour: u32,
    connections: AtomicU32,
    unauthenticated: AtomicU32,
    addresses: Mutex<Addresses>,
    counts: Arc<Counts>,
}

struct Addresses {
    known: HashMap<IpAddr, Address>,
    /// When those that owe nothing were last forgotten.
    swept: Option<Instant>,
}

/// What is remembered of an address.
struct Address {
    opens: TokenBucket,
    /// Refusals that it is told of.
    told: TokenBucket,
    /// Namespaces that it may make; there is none until it has made one.
    namespaces: Option<TokenBucket>,
    /// Connections of it that have not authenticated.
    waiting: u32,
}

/// A connection among all.
pub(crate) struct Entry(Arc<Gate>);

/// A stranger's place.
pub(crate) struct Place {
    gate: Arc<Gate>,
    /// Where the stranger is, once that is known.
    address: Option<IpAddr>,
    /// The address's quota was used up when this connection came.
    over: bool,
    _role: Held,
}

impl Gate {
    pub(crate) fn new(limits: &Limits, counts: Arc<Counts>) -> Arc<Self> {
        Arc::new(Self {
            max_connections: limits.max_connections,
            max_unauthenticated: limits.max_unauthenticated,
            unauthenticated_per_ip: limits.unauthenticated_per_ip,
            per_minute: limits.connections_per_ip_per_minute,
            namespaces_per_hour: limits.new_namespaces_per_ip_per_hour,
            connections: AtomicU32::new(0),
            unauthenticated: AtomicU32::new(0),
            addresses: Mutex::new(Addresses { known: HashMap::new(), swept: None }),
            counts,
        })
    }

    /// A connection was accepted, from this address unless it is a proxy's. `Err`: it is to be closed unanswered.
    pub(crate) fn arrive(
        self: &Arc<Self>,
        address: Option<IpAddr>,
        now: Instant,
    ) -> Result<(Entry, Place), Limit> {
        let refuse = |limit| {
            self.counts.limits.count(limit);
            limit
        };
        let entry = Entry(Arc::clone(self));
        if self.connections.fetch_add(1, Ordering::Relaxed) >= self.max_connections {
            return Err(refuse(Limit::MaxConnections));
        }
        let before = self.unauthenticated.fetch_add(1, Ordering::Relaxed);
        let role = self.counts.connections.hold(Role::Unauthenticated);
        let mut place = Place { gate: Arc::clone(self), address: None, over: false, _role: role };
        if before >= self.max_unauthenticated {
            return Err(refuse(Limit::MaxUnauthenticated));
        }
        if let Some(address) = address {
            place.stands(address, now).map_err(refuse)?;
        }
        Ok((entry, place))
    }

    /// Forgets addresses that owe nothing.
    pub(crate) fn forget_idle(&self, now: Instant) {
        let mut addresses = lock(&self.addresses);
        addresses.forget(now);
        addresses.known.shrink_to_fit();
    }
}

impl Addresses {
    fn forget(&mut self, now: Instant) {
        self.swept = Some(now);
        self.known.retain(|_, address| !address.owes_nothing(now));
    }
}

impl Address {
    fn owes_nothing(&mut self, now: Instant) -> bool {
        self.waiting == 0
            && self.opens.is_full(now)
            && self.told.is_full(now)
            && self.namespaces.as_mut().is_none_or(|bucket| bucket.is_full(now))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Place {
    /// Notes where the stranger is and counts it there. `Err`: it is to be closed unanswered.
    fn stands(&mut self, address: IpAddr, now: Instant) -> Result<(), Limit> {
        let address = network_of(address);
        let gate = &self.gate;
        let mut addresses = lock(&gate.addresses);
        let long_ago = addresses.swept.is_none_or(|at| now.saturating_duration_since(at).as_secs() >= 1);
        if addresses.known.len() >= MANY && long_ago {
            addresses.forget(now);
        }
        let known = addresses.known.entry(address).or_insert_with(|| Address {
            opens: TokenBucket::new(gate.per_minute, now),
            told: TokenBucket::new(gate.per_minute.saturating_mul(TOLD), now),
            namespaces: None,
            waiting: 0,
        });
        if known.waiting >= gate.unauthenticated_per_ip {
            return Err(Limit::UnauthenticatedPerIp);
        }
        self.over = !known.opens.take(now);
        if self.over && !known.told.take(now) {
            return Err(Limit::ConnectionsPerIp);
        }
        known.waiting += 1;
        drop(addresses);
        self.address = Some(address);
        Ok(())
    }

    /// The stranger asks for a WebSocket, from this address. Whether its quota allows one.
    pub(crate) fn may_open(&mut self, address: IpAddr, now: Instant) -> bool {
        if self.address.is_none()
            && let Err(limit) = self.stands(address, now)
        {
            self.gate.counts.limits.count(limit);
            return false;
        }
        if self.over {
            self.gate.counts.limits.count(Limit::ConnectionsPerIp);
        }
        !self.over
    }

    /// The connection has authenticated, or was none that the quota is meant for.
    pub(crate) fn give_back(self) {
        if !self.over {
            self.with_address(|address, _| address.opens.give_back());
        }
    }

    /// Takes one of the namespaces that the address may still make. If none is made it must be
    /// [given back](Self::made_none).
    pub(crate) fn may_make_namespace(&self, now: Instant) -> bool {
        let may = self.with_address(|address, gate| {
            let bucket = || TokenBucket::every(HOUR, gate.namespaces_per_hour, now);
            address.namespaces.get_or_insert_with(bucket).take(now)
        });
        may.unwrap_or(false)
    }

    pub(crate) fn made_none(&self, now: Instant) {
        self.with_address(|address, _| {
            if let Some(bucket) = &mut address.namespaces {
                bucket.give_back();
                if bucket.is_full(now) {
                    address.namespaces = None;
                }
            }
        });
    }

    fn with_address<T>(&self, change: impl FnOnce(&mut Address, &Gate) -> T) -> Option<T> {
        let mut addresses = lock(&self.gate.addresses);
        let address = addresses.known.get_mut(&self.address?)?;
        Some(change(address, &self.gate))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gate.unauthenticated.fetch_sub(1, Ordering::Relaxed);
        self.with_address(|address, _| address.waiting = address.waiting.saturating_sub(1));
    }
}

/// What counts as one address: with IPv6 that is a /64, of which a single host has all.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 => v4,
    }
}

#[cfg(test)]
#[path = "quota/tests.rs"]
mod tests;
