//! One person's agent and devices: who is authorised, who is connected, and the paths between them.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use skald_relay_common::frame::{AuthClient, ClientPaired, FromRelay, Platform};
use skald_relay_common::ids::{NamespaceId, PublicKey};

use tokio::sync::Semaphore;

use super::lock;
use super::outbox::{Eviction, Outbox};
use crate::bucket::TokenBucket;
use crate::store::{Envelope, NamespaceRecord, Position};
use crate::ws;

/// How many queues of one namespace are read at a time.
const READS: usize = 2;

/// A namespace in memory.
pub(crate) struct Namespace {
    id: NamespaceId,
    agent: PublicKey,
    /// How many of its members may read their queues at a time, so that the readers are left to others as well.
    pub(crate) reads: Semaphore,
    state: Mutex<State>,
}

struct State {
    authorized: HashSet<PublicKey>,
    pending: BTreeMap<PublicKey, ClientPaired>,
    online: HashMap<PublicKey, Member>,
    /// The last position that was offered in this namespace. What a member enters after was offered without it and
    /// must be read from the database; everything later reaches its outbox.
    announced: Position,
    opens: TokenBucket,
    used: Instant,
    touched: Option<Instant>,
    /// What devices last said of themselves: their platform and the hash of their push token. Saves a write for every
    /// connection that brings nothing new.
    devices: HashMap<PublicKey, (Platform, u64)>,
    hasher: RandomState,
}

/// A connected member. `number` tells a connection from the one that displaced it.
#[derive(Clone)]
pub(crate) struct Member {
    number: u64,
    outbox: Arc<Outbox>,
}

impl Member {
    pub(crate) fn new(outbox: Arc<Outbox>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed), outbox }
    }
}

/// Why someone may not enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// Not the agent, and not on its list.
    Unauthorized,
    /// The namespace opens too many connections.
    TooMany,
    /// The peer's address makes too many namespaces.
    TooManyNamespaces,
}

/// What became of a live message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// It is in the recipient's outbox.
    Taken,
    /// The recipient is not connected, or takes no more for now.
    Offline,
    /// Nobody of this namespace.
    NotFound,
}

/// A member's place among the connected. Dropping it tells the others that the member has gone.
pub(crate) struct Attachment {
    namespace: Arc<Namespace>,
    key: PublicKey,
    number: u64,
}

/// What a member learns when it enters.
pub(crate) struct Attached {
    pub(crate) attachment: Attachment,
    /// Devices that wait for the agent's decision; for others than the agent there are none.
    pub(crate) pending: Vec<ClientPaired>,
    /// Up to here messages were offered before it entered.
    pub(crate) announced: Position,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.namespace.detach(&self.key, self.number);
    }
}

impl Namespace {
    pub(crate) fn new(record: &NamespaceRecord, connections_per_minute: u32, now: Instant) -> Self {
        let state = State {
            authorized: record.authorized.iter().copied().collect(),
            pending: record.pending.iter().map(|client| (client.key, *client)).collect(),
            online: HashMap::new(),
            announced: record.announced,
            opens: TokenBucket::new(connections_per_minute, now),
            used: now,
            touched: None,
            devices: HashMap::new(),
            hasher: RandomState::new(),
        };
        Self { id: record.id, agent: record.agent, reads: Semaphore::new(READS), state: Mutex::new(state) }
    }

    pub(crate) fn id(&self) -> &NamespaceId {
        &self.id
    }

    pub(crate) fn agent(&self) -> &PublicKey {
        &self.agent
    }

    /// The agent, or a client on its list.
    pub(crate) fn is_member(&self, key: &PublicKey) -> bool {
        *key == self.agent || lock(&self.state).authorized.contains(key)
    }

    pub(super) fn is_forgettable(&self, now: Instant, linger: Duration) -> bool {
        let state = lock(&self.state);
        state.online.is_empty() && now.saturating_duration_since(state.used) > linger
    }

    /// Whether it is time to note in the database that the namespace is in use; true once per `every`.
    pub(crate) fn wants_touch(&self, now: Instant, every: Duration) -> bool {
        let mut state = lock(&self.state);
        let due = state.touched.is_none_or(|at| now.saturating_duration_since(at) >= every);
        if due {
            state.touched = Some(now);
        }
        due
    }

    /// Whether a device says anything that was not noted before. Notes it, so the caller must write it down or
    /// [forget](Self::forget_device) it.
    pub(crate) fn device_changed(&self, client: &AuthClient) -> bool {
        let mut state = lock(&self.state);
        let known = state.devices.get(&client.key).copied();
        let mut news = (client.platform, state.hasher.hash_one(&client.device_token));
        if client.device_token.is_empty() {
            // An empty token keeps the known one.
            news.1 = known.map_or(0, |(_, token)| token);
        }
        if known == Some(news) {
            return false;
        }
        state.devices.insert(client.key, news);
        true
    }

    pub(crate) fn forget_device(&self, key: &PublicKey) {
        lock(&self.state).devices.remove(key);
    }

    /// Counts a connection of an authenticated member against the namespace's quota.
    pub(crate) fn count_open(&self, now: Instant) -> Result<(), Denied> {
        let mut state = lock(&self.state);
        state.used = now;
        if state.opens.take(now) { Ok(()) } else { Err(Denied::TooMany) }
    }

    /// Lets a member in, in place of any connection it had, and tells the others (relay-protocol §7).
    ///
    /// Membership is checked under the same lock under which a revocation takes effect: whichever comes second sees
    /// the other.
    pub(crate) fn attach(self: &Arc<Self>, key: PublicKey, member: Member) -> Result<Attached, Denied> {
        let mut state = lock(&self.state);
        let is_agent = key == self.agent;
        if !is_agent && !state.authorized.contains(&key) {
            return Err(Denied::Unauthorized);
        }
        let number = member.number;
        if let Some(old) = state.online.insert(key, member) {
            old.outbox.evict(Eviction::Displaced);
        }
        state.tell_others(&key, true);
        let pending = if is_agent { state.pending.values().copied().collect() } else { Vec::new() };
        let attachment = Attachment { namespace: Arc::clone(self), key, number };
        Ok(Attached { attachment, pending, announced: state.announced })
    }

    fn detach(&self, key: &PublicKey, number: u64) {
        let mut state = lock(&self.state);
        state.used = tokio::time::Instant::now().into_std();
        // A displaced connection has no place to leave: its successor is online.
        if state.online.get(key).is_some_and(|member| member.number == number) {
            state.online.remove(key);
            state.tell_others(key, false);
        }
    }

    /// Hands a live message on, if its recipient takes it now (relay-protocol §6.4).
    pub(crate) fn route(&self, to: &PublicKey, frame: impl FnOnce() -> Bytes) -> Route {
        let outbox = {
            let state = lock(&self.state);
            if *to != self.agent && !state.authorized.contains(to) {
                return Route::NotFound;
            }
            state.online.get(to).map(|member| Arc::clone(&member.outbox))
        };
        match outbox {
            Some(outbox) if outbox.push_live(frame) => Route::Taken,
            _ => Route::Offline,
        }
    }

    /// Offers a durable message to its recipient. False: a push should wake it.
    pub(super) fn offer(&self, position: Position, envelope: &Envelope) -> bool {
        let outbox = {
            let mut state = lock(&self.state);
            state.announced = position;
            state.online.get(&envelope.to).map(|member| Arc::clone(&member.outbox))
        };
        let Some(outbox) = outbox else { return false };
        outbox.push_stored(position, || ws::binary(&FromRelay::Message(envelope.delivered()).encode()));
        !outbox.is_suspect()
    }

    /// Whether the member is connected and confirms what it gets.
    pub(super) fn reaches(&self, key: &PublicKey) -> bool {
        lock(&self.state).online.get(key).is_some_and(|member| !member.outbox.is_suspect())
    }

    /// Who is connected.
    pub(crate) fn present(&self) -> Vec<PublicKey> {
        lock(&self.state).online.keys().copied().collect()
    }

    pub(super) fn set_authorized(&self, list: &[PublicKey], revoked: &[PublicKey]) {
        let mut state = lock(&self.state);
        state.authorized = list.iter().copied().collect();
        for key in list {
            state.pending.remove(key);
        }
        for key in revoked {
            state.pending.remove(key);
            state.devices.remove(key);
            if let Some(member) = state.online.remove(key) {
                member.outbox.evict(Eviction::Revoked);
                state.tell_others(key, false);
            }
        }
    }

    /// Ends every connection of the namespace.
    pub(super) fn evict_all(&self, why: Eviction) {
        lock(&self.state).online.values().for_each(|member| member.outbox.evict(why));
    }

    pub(super) fn paired(&self, client: &ClientPaired) {
        let mut state = lock(&self.state);
        // It may have brought a new push token, which is compared anew when it connects.
        state.devices.remove(&client.key);
        if !state.authorized.contains(&client.key) {
            state.pending.insert(client.key, *client);
        }
        if let Some(agent) = state.online.get(&self.agent) {
            agent.outbox.push_notice(&FromRelay::ClientPaired(*client));
        }
    }
}

impl State {
    fn tell_others(&self, key: &PublicKey, online: bool) {
        let event = FromRelay::PresenceEvent { peer: *key, online };
        for (other, member) in &self.online {
            if other != key {
                member.outbox.push_notice(&event);
            }
        }
    }
}
