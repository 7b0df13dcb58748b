//! Who waits for an item's end, and the content that waits for its source.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skald_core_api::RequestId;
use tokio::sync::watch;

use crate::Content;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One signal per item that is waited for: a hundred waiters do not wake each other.
#[derive(Clone, Default)]
pub(super) struct Waiters(Arc<Mutex<HashMap<RequestId, watch::Sender<()>>>>);

impl Waiters {
    /// Enter before reading the state, so that an end between reading and waiting is not missed.
    pub(super) fn enter(&self, id: RequestId) -> Waiting {
        let rx = locked(&self.0).entry(id).or_insert_with(|| watch::Sender::new(())).subscribe();
        Waiting { id, rx, waiters: self.clone() }
    }

    pub(super) fn wake(&self, id: RequestId) {
        // Dropping the sender is the signal.
        drop(locked(&self.0).remove(&id));
    }

    pub(super) fn len(&self) -> usize {
        locked(&self.0).len()
    }
}

pub(super) struct Waiting {
    id: RequestId,
    rx: watch::Receiver<()>,
    waiters: Waiters,
}

impl Waiting {
    pub(super) async fn woken(&mut self) {
        while self.rx.changed().await.is_ok() {}
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut map = locked(&self.waiters.0);
        // The last one out takes the signal away; a newer signal of the same item is not this one's to take.
        if map.get(&self.id).is_some_and(|tx| tx.receiver_count() == 1 && self.rx.has_changed().is_ok()) {
            map.remove(&self.id);
        }
    }
}

/// Elicitation content, in memory alone, until its source takes it or two minutes passed.
#[derive(Clone, Default)]
pub(super) struct Vault(Arc<Mutex<HashMap<RequestId, Content>>>);

impl Vault {
    pub(super) fn put(&self, id: RequestId, content: Content) {
        locked(&self.0).insert(id, content);
    }

    pub(super) fn take(&self, id: RequestId) -> Option<Content> {
        locked(&self.0).remove(&id)
    }

    pub(super) fn len(&self) -> usize {
        locked(&self.0).len()
    }

    pub(super) fn clear(&self) {
        locked(&self.0).clear();
    }
}
