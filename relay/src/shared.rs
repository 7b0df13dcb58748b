//! What every connection needs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use skald_relay_common::ids::{ChallengeNonce, NamespaceId, PublicKey};
use skald_relay_common::namespace_id;

use crate::hub::outbox::Budget;
use crate::hub::{Hub, Namespace};
use crate::metrics::Counts;
use crate::pipe::Pipes;
use crate::session::rules::Rules;
use crate::settings::Settings;
use crate::store::{Opened, Store, StoreError};

/// What every connection needs.
pub(crate) struct Shared {
    pub(crate) hub: Arc<Hub>,
    pub(crate) store: Store,
    pub(crate) pipes: Arc<Pipes>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) outbox_bytes: usize,
    pub(crate) budget: Arc<Budget>,
    pub(crate) write_timeout: Duration,
    pub(crate) frame_timeout: Duration,
    /// How often a namespace in use is marked so in the database.
    pub(crate) touch_every: Duration,
}

/// What a frame adds around the largest message: keys, nonce and lengths.
const FRAME_OVERHEAD: usize = 1024;

impl Shared {
    pub(crate) fn new(
        settings: &Settings,
        hub: Arc<Hub>,
        store: Store,
        pipes: Arc<Pipes>,
        counts: Arc<Counts>,
        vapid_key: Bytes,
    ) -> Self {
        let limits = &settings.limits;
        let mut rules = Rules::new(limits, &settings.pipe);
        rules.info.vapid_public_key = vapid_key;
        // One message of the largest kind must fit, or it could never be delivered.
        let outbox_bytes = (limits.outbox_bytes as usize).max(rules.max_live_frame + FRAME_OVERHEAD);
        let ttl = Duration::from_secs(limits.namespace_ttl_secs.into());
        Self {
            hub,
            store,
            pipes,
            rules: Arc::new(rules),
            outbox_bytes,
            budget: Budget::new(limits.outbox_total_bytes, Arc::clone(&counts)),
            frame_timeout: Duration::from_secs(limits.frame_timeout_secs.into()),
            write_timeout: Duration::from_secs(limits.write_timeout_secs.into()),
            counts,
            touch_every: (ttl / 8).min(Duration::from_secs(60)),
        }
    }

    /// A namespace that exists.
    pub(crate) async fn namespace(&self, id: &NamespaceId) -> Result<Option<Arc<Namespace>>, StoreError> {
        loop {
            if let Some(namespace) = self.hub.find(id) {
                return Ok(Some(namespace));
            }
            if !self.store.open_namespace(*id).await? {
                return Ok(None);
            }
            // Should it have been forgotten again already, it is opened once more.
        }
    }

    /// The namespace of this agent, made if that is allowed and it does not exist (relay-protocol §4.1), and whether
    /// it was.
    pub(crate) async fn namespace_of_agent(
        &self,
        agent: &PublicKey,
        may_make: bool,
    ) -> Result<Option<(Arc<Namespace>, bool)>, StoreError> {
        let id = namespace_id(agent);
        let mut made = false;
        loop {
            if let Some(namespace) = self.hub.find(&id) {
                let now = tokio::time::Instant::now().into_std();
                if namespace.wants_touch(now, self.touch_every) {
                    self.store.open_for_agent(id, *agent, may_make).await?;
                }
                return Ok(Some((namespace, made)));
            }
            match self.store.open_for_agent(id, *agent, may_make).await? {
                Opened::Missing => return Ok(None),
                Opened::Made => made = true,
                Opened::Known => {}
            }
        }
    }
}

/// A fresh challenge.
pub(crate) fn challenge_nonce() -> Result<ChallengeNonce, getrandom::Error> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce)?;
    Ok(ChallengeNonce::from_bytes(nonce))
}
