//! Who is connected, who may be, and what goes to whom: the relay's memory of the present.
//!
//! Membership is loaded once per namespace and then kept right by the store's writer, which tells of every commit in
//! order. A live message between connected members therefore costs no database read. The lock of a namespace is held
//! for lookups alone and never across an await.

mod namespace;
pub(crate) mod outbox;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use skald_relay_common::frame::ClientPaired;
use skald_relay_common::ids::{NamespaceId, PublicKey};

pub(crate) use namespace::{Attachment, Denied, Member, Namespace, Route};

use crate::metrics::Counts;
use crate::pipe::Pipes;
use crate::push::PushQueue;
use crate::store::{AfterCommit, Envelope, NamespaceRecord, Position};

/// How long a namespace without connections stays in memory. Longer than its connection quota takes to recover, so
/// that leaving does not refill it.
const LINGER: Duration = Duration::from_secs(120);

/// Locks, whatever a panic elsewhere may have left: every change under these locks is complete at each step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Every namespace that is in use.
pub(crate) struct Hub {
    namespaces: Mutex<HashMap<NamespaceId, Arc<Namespace>>>,
    connections_per_minute: u32,
    pipes: Arc<Pipes>,
    push: PushQueue,
    counts: Arc<Counts>,
}

impl Hub {
    pub(crate) fn new(
        connections_per_minute: u32,
        pipes: Arc<Pipes>,
        push: PushQueue,
        counts: Arc<Counts>,
    ) -> Self {
        Self { namespaces: Mutex::default(), connections_per_minute, pipes, push, counts }
    }

    /// A namespace that is in memory.
    pub(crate) fn find(&self, id: &NamespaceId) -> Option<Arc<Namespace>> {
        lock(&self.namespaces).get(id).cloned()
    }

    /// Ends every connection.
    pub(crate) fn evict_all(&self, why: outbox::Eviction) {
        let namespaces: Vec<_> = lock(&self.namespaces).values().cloned().collect();
        namespaces.iter().for_each(|ns| ns.evict_all(why));
    }

    /// Forgets namespaces that nobody has used for a while.
    pub(crate) fn forget_idle(&self, now: Instant) {
        // One count is the map's; any other is someone who is about to use it.
        let mut namespaces = lock(&self.namespaces);
        namespaces.retain(|_, ns| Arc::strong_count(ns) > 1 || !ns.is_forgettable(now, LINGER));
        self.counts.namespaces.set(namespaces.len() as i64);
    }

    /// Whether the device is connected and confirms what it gets.
    pub(crate) fn reaches(&self, namespace: &NamespaceId, key: &PublicKey) -> bool {
        self.find(namespace).is_some_and(|ns| ns.reaches(key))
    }

    /// What this device said of itself counts no more: it is written down when it connects next.
    pub(crate) fn forget_device(&self, namespace: &NamespaceId, key: &PublicKey) {
        if let Some(ns) = self.find(namespace) {
            ns.forget_device(key);
        }
    }

    /// A device is absent, or does not confirm: a push may wake it.
    pub(crate) fn absent(&self, namespace: &NamespaceId, key: &PublicKey) {
        let agent = self.find(namespace).is_some_and(|ns| ns.agent() == key);
        if !agent {
            self.push.absent(*namespace, *key);
        }
    }
}

impl AfterCommit for Hub {
    fn is_member(&self, namespace: &NamespaceId, key: &PublicKey) -> bool {
        self.find(namespace).is_some_and(|ns| ns.is_member(key))
    }

    fn is_alive(&self, namespace: &NamespaceId) -> bool {
        self.find(namespace).is_some()
    }

    fn queued(&self, position: Position, envelope: &Envelope) {
        let reached = self.find(&envelope.namespace).is_some_and(|ns| ns.offer(position, envelope));
        if !reached {
            self.absent(&envelope.namespace, &envelope.to);
        }
    }

    fn authorized(&self, namespace: &NamespaceId, list: &[PublicKey], revoked: &[PublicKey]) {
        if let Some(ns) = self.find(namespace) {
            ns.set_authorized(list, revoked);
        }
        for key in revoked {
            self.pipes.revoke(namespace, key);
        }
    }

    fn paired(&self, namespace: &NamespaceId, client: &ClientPaired) {
        if let Some(ns) = self.find(namespace) {
            ns.paired(client);
        }
    }

    fn opened(&self, record: &NamespaceRecord) {
        let mut namespaces = lock(&self.namespaces);
        namespaces.entry(record.id).or_insert_with(|| {
            let now = tokio::time::Instant::now().into_std();
            Arc::new(Namespace::new(record, self.connections_per_minute, now))
        });
        self.counts.namespaces.set(namespaces.len() as i64);
    }
}
