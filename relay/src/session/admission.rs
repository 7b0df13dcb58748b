//! Who may enter: what is asked of hub and store once a signature has proved good.

use std::sync::Arc;
use std::time::Instant;

use skald_relay_common::ErrorCode;
use skald_relay_common::frame::{AuthClient, AuthPairing, Role};
use skald_relay_common::ids::PublicKey;

use super::machine::{Refused, Welcome};
use crate::hub::outbox::Outbox;
use crate::hub::{Attachment, Denied, Member, Namespace};
use crate::shared::Shared;
use crate::store::{Paired, StoreError};

/// A member's hold on its namespace.
pub(super) struct Membership {
    pub(super) namespace: Arc<Namespace>,
    pub(super) key: PublicKey,
    /// Its namespace did not exist before.
    pub(super) made: bool,
    _attachment: Attachment,
}

/// Lets an agent or a client in (relay-protocol §4.1, §4.3).
pub(super) async fn admit(
    shared: Arc<Shared>,
    role: Role,
    outbox: Arc<Outbox>,
    may_make: bool,
) -> Result<(Membership, Welcome), Refused> {
    let (key, (namespace, made)) = match &role {
        Role::Agent(key) => {
            let found = shared.namespace_of_agent(key, may_make).await.map_err(failed)?;
            (*key, found.ok_or(Refused::Denied(Denied::TooManyNamespaces))?)
        }
        Role::Client(client) => (client.key, (client_namespace(&shared, client).await?, false)),
        // A pairing device is registered, never admitted.
        Role::Pairing(_) => return Err(Refused::Failed),
    };
    namespace.count_open(now()).map_err(Refused::Denied)?;
    let attached = namespace.attach(key, Member::new(outbox)).map_err(Refused::Denied)?;
    let welcome =
        Welcome { namespace: *namespace.id(), pending: attached.pending, announced: attached.announced };
    Ok((Membership { namespace, key, made, _attachment: attached.attachment }, welcome))
}

async fn client_namespace(shared: &Shared, client: &AuthClient) -> Result<Arc<Namespace>, Refused> {
    let namespace = shared.namespace(&client.namespace).await.map_err(failed)?.ok_or(Refused::NoNamespace)?;
    if client.key == *namespace.agent() || !namespace.is_member(&client.key) {
        return Err(Refused::Denied(Denied::Unauthorized));
    }
    if namespace.wants_touch(now(), shared.touch_every) {
        shared.store.touch(client.namespace).await.map_err(failed)?;
    }
    if namespace.device_changed(client) {
        let (ns, key) = (client.namespace, client.key);
        let seen = shared.store.device_seen(ns, key, client.device_token.clone(), client.platform).await;
        if let Err(error) = seen {
            namespace.forget_device(&client.key);
            return Err(failed(error));
        }
    }
    Ok(namespace)
}

/// Registers a device that holds the token of an open window (relay-protocol §4.2).
pub(super) async fn pair(shared: Arc<Shared>, claim: AuthPairing) -> Result<Paired, Refused> {
    let namespace = shared.namespace(&claim.namespace).await.map_err(failed)?.ok_or(Refused::NoNamespace)?;
    if claim.key == *namespace.agent() {
        return Ok(Paired::Closed);
    }
    shared.store.pair(claim).await.map_err(failed)
}

fn failed(error: StoreError) -> Refused {
    // The writer has logged its own failures with their cause.
    tracing::debug!(%error, code = %ErrorCode::Internal, "a peer could not be let in");
    Refused::Failed
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
