//! The way to the writer.
//!
//! What waits here is bounded: a connection asks one thing at a time and confirms one position at a time, and messages
//! of one namespace beyond its share are refused. The namespaces take turns, see [`FairQueue`].

use std::sync::{Arc, Mutex};

use skald_relay_common::ids::NamespaceId;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::fair::{FairQueue, Size};
use super::operation::Operation;
use crate::hub::lock;
use crate::metrics::Counts;
use crate::metrics::names::Limit;

/// What one commit gathers at most.
const BATCH: Size = Size { items: 128, bytes: 1024 * 1024 };

struct Mailbox {
    inner: Mutex<Inner>,
    wake: Notify,
    per_namespace: usize,
    counts: Arc<Counts>,
}

struct Inner {
    queue: FairQueue<Option<NamespaceId>, (Instant, Operation)>,
    /// Every sender, or the receiver, is gone.
    closed: bool,
}

/// The callers' end. The writer ends when the last clone is dropped.
#[derive(Clone)]
pub(super) struct Sender(Arc<Guard>);

struct Guard(Arc<Mailbox>);

/// The writer's end.
pub(super) struct Receiver(Arc<Mailbox>);

/// Makes a mailbox.
pub(super) fn mailbox(per_namespace: u32, counts: Arc<Counts>) -> (Sender, Receiver) {
    let mailbox = Arc::new(Mailbox {
        inner: Mutex::new(Inner { queue: FairQueue::new(), closed: false }),
        wake: Notify::new(),
        per_namespace: per_namespace as usize,
        counts,
    });
    (Sender(Arc::new(Guard(Arc::clone(&mailbox)))), Receiver(mailbox))
}

impl Sender {
    /// Puts an operation in. It is dropped, and who waits for its answer learns so, if the writer has ended.
    pub(super) fn send(&self, operation: Operation) {
        let mailbox = &*self.0.0;
        let lane = operation.namespace();
        let mut inner = lock(&mailbox.inner);
        if inner.closed {
            return;
        }
        if operation.may_be_refused() && inner.queue.depth(&lane) >= mailbox.per_namespace {
            drop(inner);
            mailbox.counts.limits.count(Limit::StoreBacklog);
            operation.refuse();
            return;
        }
        inner.queue.push(lane, (Instant::now(), operation));
        mailbox.counts.store.backlog.set(inner.queue.len() as i64);
        drop(inner);
        mailbox.wake.notify_one();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        lock(&self.0.inner).closed = true;
        self.0.wake.notify_one();
    }
}

impl Receiver {
    /// The next batch; `None` once every sender is gone and nothing waits.
    pub(super) async fn recv(&mut self) -> Option<Vec<Operation>> {
        loop {
            {
                let mut inner = lock(&self.0.inner);
                if inner.queue.len() > 0 {
                    let batch = inner.queue.take(BATCH, |(_, op)| op.bytes(), |(_, op)| op.then());
                    self.0.counts.store.backlog.set(inner.queue.len() as i64);
                    drop(inner);
                    return Some(self.measured(batch));
                }
                if inner.closed {
                    return None;
                }
            }
            self.0.wake.notified().await;
        }
    }

    fn measured(&self, batch: Vec<(Instant, Operation)>) -> Vec<Operation> {
        let now = Instant::now();
        let store = &self.0.counts.store;
        store.batch.observe(batch.len() as f64);
        let measured = |(since, operation): (Instant, Operation)| {
            store.wait.observe(now.saturating_duration_since(since).as_secs_f64());
            operation
        };
        batch.into_iter().map(measured).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut inner = lock(&self.0.inner);
        inner.closed = true;
        let left = inner.queue.drain();
        drop(inner);
        // Who waits for an answer learns that none will come.
        drop(left);
    }
}
