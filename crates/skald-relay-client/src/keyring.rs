//! Who this client is, and the keys it shares with its peers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use skald_e2e::storage::StorageKey;
use skald_e2e::{Aad, Direction, Identity, SessionKey};
use skald_relay_common::ids::{NamespaceId, PublicKey, XPublicKey};

/// Private keys and derived session keys. Nothing of it is ever stored.
pub(crate) struct Keyring {
    pub(crate) identity: Identity,
    pub(crate) storage: StorageKey,
    pub(crate) namespace: NamespaceId,
    outgoing: Direction,
    /// A session key is two curve operations; it is kept for as long as the peer has that key.
    sessions: Mutex<HashMap<PublicKey, (XPublicKey, Arc<SessionKey>)>>,
}

impl Keyring {
    pub(crate) fn new(identity: Identity, namespace: NamespaceId, outgoing: Direction) -> Self {
        let storage = identity.storage_key();
        Self { identity, storage, namespace, outgoing, sessions: Mutex::default() }
    }

    pub(crate) fn me(&self) -> PublicKey {
        self.identity.public_key()
    }

    pub(crate) fn outgoing(&self) -> Direction {
        self.outgoing
    }

    pub(crate) fn incoming(&self) -> Direction {
        self.outgoing.reverse()
    }

    /// `None`: the peer's key is degenerate, and nothing can be shared with it.
    pub(crate) fn session(&self, ed: &PublicKey, x: &XPublicKey) -> Option<Arc<SessionKey>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, key)) = sessions.get(ed)
            && known == x
        {
            return Some(key.clone());
        }
        let key = Arc::new(self.identity.session(x).ok()?);
        sessions.insert(*ed, (*x, key.clone()));
        Some(key)
    }

    pub(crate) fn forget(&self, ed: &PublicKey) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(ed);
    }

    pub(crate) fn aad_to(&self, peer: &PublicKey) -> Aad {
        Aad::new(&self.namespace, &self.me(), peer)
    }

    pub(crate) fn aad_from(&self, peer: &PublicKey) -> Aad {
        Aad::new(&self.namespace, peer, &self.me())
    }
}
